"""Where the hostile receiver listens: one port for what a path chooses, and others for what happens before that."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.receivers.caller import Caller
from tests.receivers.own_process import HERE

Greeting = Callable[[Caller], Awaitable[None]]

OPEN = "open"
"""The door behind which paths choose, without TLS."""

TLS = ("trusted", "self-signed", "expired", "wrong-host")
"""The same with a certificate: only the first is good, for a client that trusts the authority."""


async def resets(caller: Caller) -> None:
    caller.reset()


async def closes(caller: Caller) -> None:
    await caller.close()


async def silent(caller: Caller) -> None:
    """Accepts, and neither reads nor writes."""
    caller.stop_reading()
    await asyncio.Event().wait()


async def plain_text(caller: Caller) -> None:
    """Answers a client's TLS in HTTP."""
    await caller.first_bytes()
    await caller.answer("400", b"plain text only")
    await caller.close()


async def stalled(caller: Caller) -> None:
    """Hears the client's first words of TLS, and says nothing."""
    await caller.outlast()


async def broken_off(caller: Caller) -> None:
    """Hears the client's first words of TLS, and resets."""
    await caller.first_bytes()
    caller.reset()


AT_ONCE: dict[str, Greeting] = {
    "resets": resets,
    "closes": closes,
    "silent": silent,
    "plain-text": plain_text,
    "stalled": stalled,
    "broken-off": broken_off,
}
UNHEARD = ("refused", "unanswered")
"""Nobody listens at the one; at the other, nobody accepts, and whoever connects waits."""

SPEAKS_TLS = (*TLS, "plain-text", "stalled", "broken-off")


def certified(door: str, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{door}.pem")
    return context


class Unheard:
    """The sockets of the doors that no server has."""

    def __init__(self) -> None:
        self._refused, self._unanswered, self._queued = socket.socket(), socket.socket(), socket.socket()
        self._refused.bind((HERE, 0))
        self._unanswered.bind((HERE, 0))
        self._unanswered.listen(0)
        self._queued.connect(self._unanswered.getsockname())  # fills the queue; the system ignores whoever comes next

    def ports(self) -> dict[str, int]:
        return {
            door: sock.getsockname()[1] for door, sock in zip(UNHEARD, (self._refused, self._unanswered), strict=True)
        }
