"""Runs the cases one after the other, each in its own process and database, and repeats them all several times."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import machine
from benchmarks.claims import held_open
from benchmarks.plan import Backdrop, Case, refusal
from tests.servers import Postgres

DURABLE = {"shared_buffers": "1GB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
"""Settings of PostgreSQL, beside fsync, synchronous_commit and full_page_writes, which are on. With these, checkpoints
happen between cases and not within one."""

TIMEOUT = 1800  # seconds for one case


class Failed(Exception):
    """A case gave no figures. The message is the reason in one line; the full output is printed."""


class Stage:
    """One PostgreSQL, and a folder for SQLite files. Use it as ``with Stage(backdrops) as stage:``."""

    def __init__(self, backdrops: dict[str, Backdrop]) -> None:
        self._backdrops = backdrops
        self._prepared: dict[str, str] = {}
        self._stack = ExitStack()
        self._made = 0

    def __enter__(self) -> "Stage":
        self.server = self._stack.enter_context(Postgres(durable=True, settings=DURABLE))
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, case: Case) -> dict[str, Any]:
        """The figures of one case. Raises `Failed` if there are none."""
        if case.backdrop is not None:
            return _one(case.peer, case.workload, self._with_backdrop(case.backdrop), case.numbers)
        if case.shares is not None:
            return _one(case.peer, case.workload, self._shared(case.shares), case.numbers)
        with self._fresh(case.peer) as url:
            return _one(case.peer, case.workload, url, case.numbers)

    @contextmanager
    def _fresh(self, peer: str) -> Iterator[str]:
        self._made += 1
        name = f"bench_{self._made}"
        if peer == "duly_sqlite":
            yield f"sqlite:///{self._folder / name}.db"
            return
        yield self.server.create_database(name)
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute("CHECKPOINT")

    def _shared(self, name: str) -> str:
        if name not in self._prepared:
            self._prepared[name] = self.server.create_database(f"bench_{name}")
        return self._prepared[name]

    def _with_backdrop(self, name: str) -> str:
        """The URL of a database with a backdrop. It is created on first use and kept: five million rows take a
        minute."""
        if name not in self._prepared:
            backdrop = self._backdrops[name]
            url = self.server.create_database(f"bench_{name}")
            _one("duly", "backdrop", url, (backdrop.future, backdrop.foreign, backdrop.finished))
            if backdrop.finished:
                self._stack.enter_context(held_open(url))
                _one("duly", "finish_all", url, (backdrop.finished,))
            self._prepared[name] = url
        return self._prepared[name]


def run_all(
    stage: Stage, cases: list[Case], repeat: int, told: Callable[[Case, dict[str, Any] | str], None]
) -> tuple[dict[Case, list[dict[str, Any]]], dict[Case, str]]:
    """Runs every case *repeat* times, interleaved. Returns the figures of each case, and the reasons of failures."""
    refused = {case: reason for case in cases if (reason := refusal(case)) is not None}
    for case, reason in refused.items():
        told(case, reason)
    figures: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases if case not in refused}
    for repetition in range(repeat):
        for case in figures:
            if case in refused or (case.once and repetition):
                continue
            load, start = machine.busy(0.2), time.monotonic()
            try:
                found = stage.run(case)
            except Failed as failure:
                refused[case] = str(failure)
                told(case, str(failure))
                continue
            found |= {"took_s": time.monotonic() - start, "other_load_percent": load}
            figures[case].append(found)
            told(case, found)
    return {case: runs for case, runs in figures.items() if case not in refused}, refused


def _one(peer: str, workload: str, url: str, numbers: tuple[int, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.one", peer, workload, url, *map(str, numbers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {TIMEOUT} s") from None
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise Failed(done.stderr.strip().rpartition("\n")[2].removeprefix("benchmarks.crew."))
    return dict(json.loads(done.stdout))
