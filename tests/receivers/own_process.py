"""A receiver in a process of its own, so that its work does not disturb the loop that is tested or measured.

The child tells its ports on stdout, answers questions on a port for that, and ends when its stdin is closed:
by its owner, or by its owner's death.
"""

import asyncio
import inspect
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

ROOT = Path(__file__).parents[2]
HERE = "127.0.0.1"
CONTROL = "control"

Answer = TypeVar("Answer")


# -- the owner's side


class OwnProcess:
    """Runs a module; ``with`` ends it, however that goes."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout
        told = self._process.stdout.readline()
        if not told:
            self.close()
            raise RuntimeError(f"{module} ended with {self._process.returncode} before it listened; see its stderr")
        self.ports: dict[str, int] = msgspec.json.decode(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: str, answer: type[Answer], *, patience: float = 10, **given: Any) -> Answer:
        """Blocks until it is answered. Each question has a connection of its own, so threads may ask at once."""
        with socket.create_connection((HERE, self.ports[CONTROL]), timeout=patience) as connection:
            connection.sendall(msgspec.json.encode([question, given]) + b"\n")
            told = b"".join(iter(partial(connection.recv, 2**20), b""))
        if not told:
            raise RuntimeError(f"{question!r} was not answered: see the receiver's stderr")
        return msgspec.json.decode(told, type=answer)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()


# -- the child's side


async def live(ports: Mapping[str, int], questions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer questions, each with what its function returns or awaits, until the owner is gone."""
    control = await asyncio.start_server(partial(_answer, questions), HERE, 0)
    told = dict(ports) | {CONTROL: port_of(control)}
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def _answer(
    questions: Mapping[str, Callable[..., Any]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        question, given = msgspec.json.decode(await reader.readline())
        answer = questions[question](**given)
        writer.write(msgspec.json.encode(await answer if inspect.isawaitable(answer) else answer))
        await writer.drain()
    finally:
        writer.close()
