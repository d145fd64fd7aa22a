"""How many connections a server keeps open, in all and from one address, and which one ends for the next."""

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

MOST = 10_000
"""Connections, where the limit of open files allows as many: each takes some 6 KB of memory while it is idle."""

OF_FILES = 2
"""One open file in so many may be a connection: the database, deliveries and what is just being closed need others."""

OF_ONE_ADDRESS = 2
"""One connection in so many may come from one address."""

TOLD_EVERY = 60.0
"""Seconds between two lines in the log about one kind of trouble, however often it happens."""


class OpenConnection(Hashable, Protocol):
    def end(self) -> None:
        """At once, and without an answer."""


class Connections:
    """A connection is idle as long as no request on it is under way: before its first, between two, and while the
    head of one arrives. At the limit, the one that has been idle for longest ends, so that whoever opens connections
    and says nothing keeps nobody out. Where none is idle, the new one is refused."""

    def __init__(self, most: int | None = None, trusted: Sequence[Network] = ()) -> None:
        self.most = most or default_limit()
        self._most_of_one = max(1, self.most // OF_ONE_ADDRESS)
        self._trusted = trusted
        self._from: dict[OpenConnection, str] = {}
        self._open: Counter[str] = Counter()  # by address
        self._idle: OrderedDict[OpenConnection, None] = OrderedDict()  # the oldest first
        self._idle_of: dict[str, OrderedDict[OpenConnection, None]] = {}
        self._ended = self._refused = 0
        self._told = RateLimitedLog()

    def __len__(self) -> int:
        return len(self._from)

    def room_for(self, peer: str) -> bool:
        """Whether one more may come from an address; one that is idle ends for it, if need be."""
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
        """The oldest of those that are idle, where the system has no room for more."""
        for _ in range(count):
            if not self._end_oldest(self._idle):
                return

    def _end_oldest(self, idle: OrderedDict[OpenConnection, None]) -> bool:
        oldest = next(iter(idle), None)
        if oldest is None:
            return False
        self.busy(oldest)  # it is not to be chosen again while it ends
        oldest.end()
        return True

    def opened(self, connection: OpenConnection, peer: str) -> None:
        """It is idle from now on: among many that come at once, each can make room for the next."""
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
    """Whether it is time for another line in the log."""

    def __init__(self) -> None:
        self._last = -TOLD_EVERY

    def may_tell(self) -> bool:
        now = time.monotonic()
        if now - self._last < TOLD_EVERY:
            return False
        self._last = now
        return True


def default_limit() -> int:
    """As many connections as this process may have, by the number of files that it may have open."""
    if sys.platform == "win32":
        return MOST
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else max(1, min(MOST, files // OF_FILES))
