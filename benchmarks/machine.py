"""The machine on which the benchmarks run, and its other load."""

import contextlib
import os
import platform
import statistics
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import psycopg


def describe(url: str) -> dict[str, Any]:
    """Describes the machine before the first measurement; *url* is the idle PostgreSQL server."""
    with psycopg.connect(url, autocommit=True) as connection:
        [postgres] = connection.execute("SHOW server_version").fetchone() or ["?"]
        settings = "fsync synchronous_commit full_page_writes shared_buffers max_wal_size".split()
        shown = {name: (connection.execute(f"SHOW {name}").fetchone() or ["?"])[0] for name in settings}
        commit = _commit(connection)
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgresql": postgres,
        "libraries": dict(_libraries("cronsim", "croniter")),
        "settings": shown,
        "commit_ms": round(commit, 3),
        "other_load_percent": busy(2),
        "load_average": round(os.getloadavg()[0], 2),
    }


def busy(seconds: float) -> float:
    """The CPU use of all cores in percent by other processes, while no benchmark runs."""
    return float(psutil.cpu_percent(interval=seconds))


def _commit(connection: psycopg.Connection) -> float:
    """The median milliseconds of a durable commit of one row: the cost for a peer that commits each event alone."""
    connection.execute("CREATE TABLE commits (n int)")
    spans = []
    for n in range(200):
        start = time.perf_counter()
        connection.execute("INSERT INTO commits VALUES (%s)", [n])
        spans.append(1000 * (time.perf_counter() - start))
    connection.execute("DROP TABLE commits")
    return statistics.median(spans)


def _libraries(*names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
