"""A client that shows the bytes, and how a connection ended."""

import socket
import time
from collections.abc import Callable
from typing import Self

from tests.receivers.own_process import HERE

A_MOMENT = 0.05
"""Seconds of silence after which nothing more is expected."""


class Wire:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HERE, port), timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, target: str, body: bytes = b"", **headers: str) -> Self:
        """A whole request; headers are written with underscores."""
        named = {"host": HERE, "content-length": str(len(body))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode() + body)
        return self

    def hear(self, length: int) -> bytes:
        """So many bytes, or fewer where the connection ends."""
        heard = bytearray()
        while len(heard) < length and (piece := self.socket.recv(length - len(heard))):
            heard += piece
        return bytes(heard)

    def hear_answer(self) -> tuple[int, bytes]:
        """The status and the body of an answer that has a Content-Length."""
        head = self.hear_head()
        return int(head.split(b" ")[1]), self.hear(int(head.lower().partition(b"content-length: ")[2].split()[0]))

    def hear_head(self) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n") and (byte := self.socket.recv(1)):
            head += byte
        return head

    def hear_all(self) -> bytes:
        """Until FIN; ConnectionResetError where it is RST."""
        heard = bytearray()
        while piece := self.socket.recv(2**20):
            heard += piece
        return bytes(heard)

    def hears_nothing(self, seconds: float = A_MOMENT) -> bool:
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self.socket.settimeout(5)


def ends_with_reset(wire: Wire) -> bool:
    try:
        wire.hear_all()
    except ConnectionResetError:
        return True
    return False


def eventually(condition: Callable[[], bool], patience: float = 5) -> bool:
    """What another process is about to notice."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
