"""What processes and the PostgreSQL behind a URL use of the machine."""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import psutil
import psycopg


class Usage:
    """CPU seconds that pass inside ``with Usage(workers, url) as usage:``, of these processes and of the server."""

    wall = workers = server = 0.0

    def __init__(self, workers: Iterable[psutil.Process], url: str) -> None:
        self._workers = list(workers)
        self._postmaster = _postmaster(url) if url.startswith("postgresql") else None

    def __enter__(self) -> Self:
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        after = self._now()
        self.wall, self.workers, self.server = (b - a for a, b in zip(self._before, after, strict=True))

    def _now(self) -> tuple[float, float, float]:
        workers = sum(precise_cpu(process) for process in self._workers)
        return time.perf_counter(), workers, _whole_server(self._postmaster)

    def per(self, events: int) -> dict[str, float]:
        return {
            "client_us_per_event": 1e6 * self.workers / events,
            "server_us_per_event": 1e6 * self.server / events,
        }


def backends(url: str) -> list[psutil.Process]:
    """The server's processes that serve this database, apart from the one that answers here."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return [psutil.Process(pid) for (pid,) in rows]


def precise_cpu(process: psutil.Process) -> float:
    """CPU seconds so far. Linux knows them to the nanosecond for each thread; elsewhere the clock ticks in 10 ms."""
    threads = Path(f"/proc/{process.pid}/task")
    with contextlib.suppress(OSError, ValueError, IndexError):
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads.iterdir()) / 1e9
    times = process.cpu_times()
    return float(times.user + times.system)


def _postmaster(url: str) -> psutil.Process | None:
    with psycopg.connect(url) as connection:
        [pid] = connection.execute("SELECT pg_backend_pid()").fetchone() or [0]
        return psutil.Process(pid).parent() if psutil.pid_exists(pid) else None  # a server elsewhere has none here


def _whole_server(postmaster: psutil.Process | None) -> float:
    """With its living children, and with those that have ended and were counted by their parent."""
    if postmaster is None:
        return 0.0
    times = postmaster.cpu_times()
    total = float(times.children_user + times.children_system)
    for process in (postmaster, *postmaster.children()):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += precise_cpu(process)
    return total
