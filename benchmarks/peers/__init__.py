"""The measured schedulers and queues ("peers"). Each file defines how a peer adds events and processes them, in its
best configuration; the measurement is the same for all, in ``workloads.py``."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, ClassVar, Protocol

from benchmarks.gate import Gate, Order


class Absent(Exception):
    """A peer cannot be measured here; the message is the reason."""


class Left(Protocol):
    """Returns the number of unfinished events."""

    def __call__(self) -> int: ...


class Peer:
    """A peer: its facts for the workloads, and the code that its processes run."""

    title: ClassVar[str]
    package: ClassVar[str]
    settings: ClassVar[str]
    """The peer's configuration, which is its fastest."""

    keeps: ClassVar[str]
    """The data that the peer keeps and the guarantees that it gives, where they differ from Duly and affect time."""

    left_sql: ClassVar[str]
    """The query that counts unfinished events."""

    ended_sql: ClassVar[str | None] = None
    """The query that counts finished events; None if the peer deletes them."""

    drains_at_most = inserts_at_most = 1_000_000
    """The most events that the peer is given, lower for a peer that would take minutes with the full number."""

    several = True
    """Whether several processes can share the work."""

    adds_per_second = 10_000
    """Events that the peer adds per second at least; lateness is measured after all events are added."""

    arranges_per_second = 100_000
    """Future events that the peer's worker examines per second at least, if it examines each of them first."""

    name = ""  # the key in PEERS

    @property
    def version(self) -> str:
        return version(self.package)

    def check(self) -> None:
        """Raises `Absent` if the peer cannot be measured here."""

    def command(self, role: str, url: str, mode: str) -> list[str]:
        """The command of a process that follows the protocol of ``gate.py``."""
        return [sys.executable, "-m", "benchmarks.peers", self.name, role, url, mode]

    def add(self, url: str, orders: Iterator[Order]) -> None:
        """Creates the tables, connects, and adds the ordered events in the fastest way that the peer documents."""
        raise NotImplementedError

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        """Connects, waits for ``go``, and works until stopped: for the highest rate, or for the lowest lateness."""
        raise NotImplementedError

    @contextmanager
    def watch(self, url: str) -> Iterator[Left]:
        """A function with which the measuring process counts unfinished events."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda: _number(connection, self.left_sql)

    def ended(self, url: str) -> int | None:
        """The number of finished events that the peer keeps; None if it deletes them."""
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
    "duly_schedules": "duly",
    "duly_in_asyncpg": "duly",
    "duly_in_psycopg": "duly",
    "duly_sqlite": "duly",
    "duly_observed": "duly",
    "duly_observed_sqlite": "duly",
    "pgqueuer": "pgqueuer",
    "procrastinate": "procrastinate",
    "apscheduler": "apscheduler",
    "huey": "huey",
    "graphile_worker": "graphile_worker",
    "pg_boss": "pg_boss",
}
"""The module of each peer, by the peer's name."""

OTHERS = [name for name, home in HOMES.items() if home != "duly"]


def find(name: str) -> Peer:
    """The peer with a name, ready to be measured. Raises `Absent` if a requirement of the peer is missing."""
    peer = known(name)
    peer.check()
    return peer


def known(name: str) -> Peer:
    """The peer with a name, even if it cannot be measured. Raises `Absent` if its library is not installed."""
    try:
        module = importlib.import_module(f"benchmarks.peers.{HOMES[name]}")
    except ImportError as error:
        raise Absent(f"{error}: `make bench` installs it") from error
    peer: Peer = module.PEERS[name]
    peer.name = name
    return peer
