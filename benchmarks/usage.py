"""The CPU use of processes, and of the PostgreSQL server behind a URL."""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import psutil
import psycopg


class Usage:
    """The CPU seconds of the given processes and of the server inside ``with Usage(workers, url) as usage:``."""

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
    """The server's processes for this database, without the one that answers this query."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return [psutil.Process(pid) for (pid,) in rows]


def precise_cpu(process: psutil.Process) -> float:
    """The CPU seconds of a process so far. Linux counts nanoseconds for each thread; other systems, ticks of 10 ms."""
    threads = Path(f"/proc/{process.pid}/task")
    with contextlib.suppress(OSError, ValueError, IndexError):
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads.iterdir()) / 1e9
    times = process.cpu_times()
    return float(times.user + times.system)


def _postmaster(url: str) -> psutil.Process | None:
    with psycopg.connect(url) as connection:
        [pid] = connection.execute("SELECT pg_backend_pid()").fetchone() or [0]
        return psutil.Process(pid).parent() if psutil.pid_exists(pid) else None  # None: the server is on another host


def _whole_server(postmaster: psutil.Process | None) -> float:
    """The CPU seconds of the server: of its running child processes, and of ended ones, which their parent counts."""
    if postmaster is None:
        return 0.0
    times = postmaster.cpu_times()
    total = float(times.children_user + times.children_system)
    for process in (postmaster, *postmaster.children()):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += precise_cpu(process)
    return total
