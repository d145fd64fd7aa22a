"""Watches over every socket that a request opens: the very address that is about to be connected to, whatever the URL
said and whatever a name meant a moment ago."""

import socket
from collections.abc import Sequence
from contextvars import ContextVar
from time import monotonic
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from duly.channels.threads import Threads
from duly.core.addresses import Network, refusal

AddressInfo = tuple[Any, ...]

UNSENT = 60_000
"""Milliseconds after which the system gives up on what the other side does not take. A connection is closed only when
all that was written to it is sent, so one whose receiver never reads would otherwise stay open for ever."""


class Refused(OSError):
    """Nothing may be sent to this address."""


class Dial:
    """What became of the connections that one request tried to open; none where it found one open."""

    __slots__ = ("began", "opened", "refused", "since")

    def __init__(self) -> None:
        self.began = self.since = monotonic()  # since when: there has been a connection
        self.opened = 0
        self.refused: list[str] = []


dialling: ContextVar[Dial] = ContextVar("dialling")


class Guard:
    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed

    def open(self, address_info: AddressInfo) -> socket.socket:
        """The ``socket_factory`` of the connector."""
        family, kind, protocol, _, address = address_info
        dial = dialling.get()
        if (reason := refusal(address[0], self._allowed)) is not None:
            dial.refused.append(reason)
            raise Refused(reason)
        dial.opened += 1
        dial.since = monotonic()
        opened = socket.socket(family=family, type=kind, proto=protocol)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # elsewhere than on Linux, it takes the system's own patience
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT)
        return opened


class Resolver(AbstractResolver):
    """Asks the system, in a thread for each question: a name whose servers do not answer keeps only its own waiting.
    (The loop's executor has few threads, and would soon be full of such names.)"""

    def __init__(self) -> None:
        self._threads = Threads()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._threads.call(_look_up, host, port, family)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None: ...


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult] | Exception:
    try:
        found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, UnicodeError) as error:
        return error if isinstance(error, OSError) else OSError(str(error))
    return [
        ResolveResult(hostname=host, host=str(sockaddr[0]), port=port, family=family, proto=protocol, flags=_NUMERIC)
        for family, _, protocol, _, sockaddr in found
    ]


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
