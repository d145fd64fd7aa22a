"""Checks every socket that a request opens. The check sees the address that is connected to, so neither the form of a
URL nor a name that now resolves to another address (DNS rebinding) can bypass it."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from functools import cached_property
from time import monotonic
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from duly.channels.python.threads import Threads
from duly.decide.exhaustion import unreachable
from duly.decide.targets.addresses import Network, refusal
from duly.records.event import Unreachable

AddressInfo = tuple[Any, ...]

UNACKNOWLEDGED_MS = 60_000
"""Milliseconds after which the system gives up on bytes that the receiver does not acknowledge. A connection is closed
only when all written bytes are sent, so a connection whose receiver never reads would otherwise stay open for ever."""


SPARE_DESCRIPTORS = 4
"""File descriptors that must at least be free: looking up a name or a certificate takes some."""


class AddressRefused(OSError):
    """Nothing may be sent to this address."""


class Dial:
    """The attempts of one request to open connections; there are none if it reused an open connection."""

    __slots__ = ("began", "exhausted", "opened", "refused", "since")

    def __init__(self) -> None:
        self.began = self.since = monotonic()  # since: when the last attempt to connect began
        self.opened = 0
        self.refused: list[str] = []
        self.exhausted: Unreachable | None = None  # set if this machine had no socket left


dialling: ContextVar[Dial] = ContextVar("dialling")


class Guard:
    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed

    def open(self, address_info: AddressInfo) -> socket.socket:
        """Opens a socket for an allowed address; raises `AddressRefused` for any other. It is the connector's
        ``socket_factory``."""
        family, kind, protocol, _, address = address_info
        dial = dialling.get()
        if (reason := refusal(address[0], self._allowed)) is not None:
            dial.refused.append(reason)
            raise AddressRefused(reason)
        dial.opened += 1
        dial.since = monotonic()
        try:
            opened = socket.socket(family=family, type=kind, proto=protocol)
        except OSError as error:  # noted here: for a name with several addresses, the caller's error has no errno
            dial.exhausted = unreachable(error)
            raise
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only; other systems use their own timeout
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        return opened


class Resolver(AbstractResolver):
    """Resolves names with the system's resolver, each in a thread of its own: a name whose servers do not answer delays
    only its own requests. (The loop's executor has few threads, and would soon be full of unanswered names.)"""

    @cached_property
    def _threads(self) -> Threads:
        return Threads()

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
    except UnicodeError as error:
        return OSError(str(error))
    except OSError as error:
        return why_none_is_free() or error
    return [
        ResolveResult(hostname=host, host=str(sockaddr[0]), port=port, family=family, proto=protocol, flags=_NUMERIC)
        for family, _, protocol, _, sockaddr in found
    ]


def why_none_is_free() -> OSError | None:
    """The system's error if a few sockets cannot be opened, else None. The resolver and the TLS library do not report
    a missing file descriptor: they report an unknown name, or a certificate without a known issuer."""
    with ExitStack() as opened:
        try:
            for _ in range(SPARE_DESCRIPTORS):
                opened.enter_context(socket.socket())
        except OSError as error:
            return error
    return None


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
