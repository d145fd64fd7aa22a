"""Who is measured. Each file tells how one of them adds events and works them off, in its best configuration;
how that is measured is the same for all and stands in ``workloads.py``."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, ClassVar, Protocol

from benchmarks.gate import Gate, Order


class Absent(Exception):
    """Why a peer cannot be measured here."""


class Left(Protocol):
    """How many events are not finished."""

    def __call__(self) -> int: ...


class Peer:
    """What the workloads need to know of a peer, and what its processes do."""

    title: ClassVar[str]
    package: ClassVar[str]
    settings: ClassVar[str]
    """How it is set up, and why that is its best."""

    keeps: ClassVar[str]
    """What it keeps and promises, where that differs from Duly and costs or saves time."""

    left_sql: ClassVar[str]
    """Counts what is not finished."""

    ended_sql: ClassVar[str | None] = None
    """Counts what is finished; None where finished events are deleted."""

    drains_at_most = inserts_at_most = 1_000_000
    """Events that it is given, where as many as the others get would take minutes."""

    several = True
    """Whether processes can share the work."""

    adds_per_second = 10_000
    """How fast it adds at the very least; lateness is measured after everything was added."""

    arranges_per_second = 100_000
    """How fast its worker gets through what is not due yet at the very least, where it looks at each of them first."""

    name = ""  # the key in PEERS

    @property
    def version(self) -> str:
        return version(self.package)

    def check(self) -> None:
        """Raise Absent when it cannot be measured here."""

    def command(self, role: str, url: str, mode: str) -> list[str]:
        """Starts a process that follows ``gate.py``."""
        return [sys.executable, "-m", "benchmarks.peers", self.name, role, url, mode]

    def add(self, url: str, orders: Iterator[Order]) -> None:
        """Make the tables, connect, and fulfil orders by the best way that its documentation knows."""
        raise NotImplementedError

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        """Connect, pass the gate, and work until stopped: for the highest rate, or to be on time."""
        raise NotImplementedError

    @contextmanager
    def watch(self, url: str) -> Iterator[Left]:
        """Lets the measuring process ask how much is left."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda: _number(connection, self.left_sql)

    def ended(self, url: str) -> int | None:
        """How many it has kept as finished; None where it keeps none."""
        import psycopg

        if self.ended_sql is None:
            return None
        with psycopg.connect(url, autocommit=True) as connection:
            return _number(connection, self.ended_sql)


def _number(connection: Any, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])


HOMES = {
    "duly": "duly",
    "duly_task": "duly",
    "duly_lookahead": "duly",
    "duly_in_asyncpg": "duly",
    "duly_in_psycopg": "duly",
    "duly_sqlite": "duly",
    "pgqueuer": "pgqueuer",
    "procrastinate": "procrastinate",
    "apscheduler": "apscheduler",
    "huey": "huey",
    "graphile_worker": "graphile_worker",
    "pg_boss": "pg_boss",
}
"""Name → the file it stands in."""

OTHERS = [name for name, home in HOMES.items() if home != "duly"]


def find(name: str) -> Peer:
    """The peer of that name, ready to be measured; Absent when what it needs is not there."""
    peer = known(name)
    peer.check()
    return peer


def known(name: str) -> Peer:
    """The peer of that name, whether it can be measured or not; Absent when its library is not installed."""
    try:
        module = importlib.import_module(f"benchmarks.peers.{HOMES[name]}")
    except ImportError as error:
        raise Absent(f"{error}: `make bench` installs it") from error
    peer: Peer = module.PEERS[name]
    peer.name = name
    return peer
