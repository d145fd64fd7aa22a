"""Limits on open connections, in all and per address, and the choice of the connection to close for a new one."""

import logging
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from typing import Protocol

from duly.api.server.proxies import is_trusted, network_of
from duly.decide.targets.addresses import Network
from duly.observers.logs import Line

log = logging.getLogger("duly.http")

MOST_CONNECTIONS = 10_000
"""Connections, if the limit of open files allows that many: an idle one takes some 6 KB of memory."""

FILES_PER_CONNECTION = 2
"""One in this many open files may be a connection: the database, deliveries and connections being closed need the
others."""

ADDRESS_SHARE_DIVISOR = 2
"""One in this many connections may come from the same address."""

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines about the same kind of trouble, however often it happens."""


class OpenConnection(Hashable, Protocol):
    def end(self) -> None:
        """Closes the connection immediately, without an answer."""


class Connections:
    """The open connections. A connection is idle while no request on it is under way: before its first, between two,
    and while the head of one arrives. At the limit, the connection that has been idle longest is closed, so that
    clients that open connections and send nothing lock nobody out. If none is idle, the new one is refused."""

    def __init__(self, most: int | None = None, trusted: Sequence[Network] = ()) -> None:
        self.most = most or default_limit()
        self._most_of_one = max(1, self.most // ADDRESS_SHARE_DIVISOR)
        self._trusted = trusted
        self._from: dict[OpenConnection, str] = {}
        self._open: Counter[str] = Counter()  # by address
        self._idle: OrderedDict[OpenConnection, None] = OrderedDict()  # the longest idle first
        self._idle_of: dict[str, OrderedDict[OpenConnection, None]] = {}
        self._ended = self._refused = 0
        self._told = RateLimitedLog()

    def __len__(self) -> int:
        return len(self._from)

    def room_for(self, peer: str) -> bool:
        """Whether an address may open another connection; closes an idle one for it if necessary."""
        if self._open[network_of(peer)] >= self._most_of_one and not is_trusted(peer, self._trusted):
            room = self._end_oldest(self._idle_of.get(network_of(peer), OrderedDict()))
        elif len(self._from) >= self.most:
            room = self._end_oldest(self._idle)
        else:
            return True
        self._ended += room
        self._refused += not room
        if self._told.may_tell():
            facts = {"open": len(self._from), "most": self.most, "ended": self._ended, "refused": self._refused}
            log.warning(Line("connections.full", facts))
            self._ended = self._refused = 0
        return room

    def end_some(self, count: int) -> None:
        """Closes the connections that have been idle longest, when the operating system refuses more."""
        for _ in range(count):
            if not self._end_oldest(self._idle):
                return

    def _end_oldest(self, idle: OrderedDict[OpenConnection, None]) -> bool:
        oldest = next(iter(idle), None)
        if oldest is None:
            return False
        self.busy(oldest)  # it must not be chosen again while it closes
        oldest.end()
        return True

    def opened(self, connection: OpenConnection, peer: str) -> None:
        """Counts a new connection, which is idle from now on: when many arrive at once, each can be closed for the
        next."""
        whose = self._from[connection] = network_of(peer)
        self._open[whose] += 1
        self.idle(connection)

    def idle(self, connection: OpenConnection) -> None:
        if connection in self._from:
            self.busy(connection)
            self._idle[connection] = None
            self._idle_of.setdefault(self._from[connection], OrderedDict())[connection] = None

    def busy(self, connection: OpenConnection) -> None:
        if self._idle.pop(connection, self) is None:
            whose = self._from[connection]
            del self._idle_of[whose][connection]
            if not self._idle_of[whose]:
                del self._idle_of[whose]

    def closed(self, connection: OpenConnection) -> None:
        if connection in self._from:
            self.busy(connection)
            whose = self._from.pop(connection)
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]


class RateLimitedLog:
    """Decides whether the next log line about some trouble is due."""

    def __init__(self) -> None:
        self._last = -LOG_INTERVAL_S

    def may_tell(self) -> bool:
        now = time.monotonic()
        if now - self._last < LOG_INTERVAL_S:
            return False
        self._last = now
        return True


def default_limit() -> int:
    """The number of connections that the limit of open files allows this process."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files // FILES_PER_CONNECTION))
