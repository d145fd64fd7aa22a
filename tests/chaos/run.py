"""One run: a load, faults, quiet, and the judgement."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from duly import Duly, Status, cron, every
from duly.errors import StoreUnavailable
from duly.ports import Violation
from duly.values.durations import parse_duration
from tests.chaos.caller import OFTEN, PAUSED, SKIPPED, TRIGGERED, target_of
from tests.chaos.consistency import Comparison, Problem, Told, read
from tests.chaos.faults import FaultLog, Faults, Spans, befall, luck_of
from tests.chaos.processes import Place, Processes
from tests.chaos.receiver import Receiver
from tests.chaos.report import report, summary
from tests.chaos.worker import HOOK, PLAIN, THREADED, TRANSACTIONAL
from tests.crash.consistency import Claimed
from tests.crash.supervisor import Journal

MINUTES = float(os.environ.get("DULY_CHAOS_MINUTES", "0"))
"""For how long faults go on, after one of each; the tests of the project are content with that."""

SEED = os.environ.get("DULY_CHAOS_SEED") or str(time.time_ns())

LEASE, STORE_TIMEOUT = "4s", "1300ms"
OPTIONS: dict[str, Any] = {
    "lease": LEASE,
    "store_timeout": STORE_TIMEOUT,
    "shutdown_grace": "3s",
    "poll_interval": "500ms",
    "concurrency": 8,
    "batch_size": 8,
    "webhook_allow": "127.0.0.0/8,198.18.0.0/15",
    "secret_key": "k" * 40,
}
LOOKAHEAD = {"lookahead": "500ms"}
SPANS = Spans(parse_duration(LEASE).total_seconds(), parse_duration(STORE_TIMEOUT).total_seconds())

SETTLE_PATIENCE = 150.0
"""Seconds until all that was accepted has ended. It takes a few, and what is lost takes for ever."""

LOOK_SECONDS = 2.0
"""Between two looks at the rows."""

STEP = timedelta(seconds=1)
EACH: dict[str, Any] = {"policy": "all", "limit": 1000}

TABLES = (
    "CREATE TABLE effects (event text, version integer, worker text)",
    "CREATE TABLE wishes (call text)",
)


async def prepare(app: Duly, receiver: Receiver) -> dict[str, str]:
    """The schedules, by name their series; each fires every second."""
    async with app.transaction() as tx:
        for table in TABLES:
            await tx.execute(table)
    hook = target_of(HOOK, receiver.url)
    wanted: dict[str, tuple[Any, str, dict[str, Any]]] = {
        TRIGGERED: (every("1s"), PLAIN, {}),
        PAUSED: (every("1s"), PLAIN, {}),
        SKIPPED: (every("1s"), THREADED, {}),
        "all-plain": (every("1s"), PLAIN, {"misfire": EACH}),
        "skip-plain": (every("1s"), PLAIN, {"misfire": {"policy": "skip", "tolerance": "2s"}}),
        "cron-latest": (cron("* * * * * *"), TRANSACTIONAL, {}),
        "cron-all": (cron("* * * * * *"), TRANSACTIONAL, {"misfire": EACH}),
        "queue": (every("1s"), THREADED, {"overlap": "queue"}),
        "hooks": (cron("* * * * * *"), HOOK, {"target": hook}),
    }
    put = {name: await app.schedules.put(name, *what, retry=OFTEN, **more) for name, (*what, more) in wanted.items()}
    return {name: schedule.series for name, schedule in put.items()}


class Run:
    """What one test has under way: ``async with`` ends it, however that goes."""

    def __init__(self, folder: Path, url: str, receiver: Receiver, places: Sequence[Place]) -> None:
        self._folder, self._url, self._receiver = folder, url, receiver
        self.seed = SEED
        self.app = Duly(url, **OPTIONS)
        self.log = FaultLog()
        self.processes = Processes(folder, SEED, receiver.url, places)
        self._series: dict[str, str] = {}
        self._violations: list[Violation] = []  # found while there were faults

    async def __aenter__(self) -> "Run":
        await self.app.__aenter__()
        self._series = await prepare(self.app, self._receiver)
        self.processes.start_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.processes.end()
        await self.app.__aexit__()

    async def suffer(self, **tracks: Faults) -> None:
        """Let faults happen, those of each track one after another, and the tracks beside each other."""
        until = time.monotonic() + 60 * MINUTES
        looking = asyncio.create_task(self._look_again_and_again())
        try:
            async with asyncio.TaskGroup() as group:
                for track, faults in tracks.items():
                    group.create_task(befall(faults, luck_of(self.seed, f"order of {track}"), until))
        except BaseExceptionGroup as errors:
            raise AssertionError(f"{errors.exceptions[0]}\n{self.report([])}") from errors.exceptions[0]
        finally:
            looking.cancel()

    async def _look_again_and_again(self) -> None:
        """What is true of the rows after every commit is true in the middle of faults as well."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreUnavailable):
                self._violations += (await self.app.store.invariants()).violations

    async def settle(self) -> None:
        """No more faults and no more calls: everything ends, and then the workers do."""
        for name in self.processes.of("caller"):
            await self.processes.started(name)
            await self.processes.stop(name)
        async with Duly(self._url, **OPTIONS) as app:
            for schedule in await app.schedules.list():
                assert schedule.next_at is not None, f"{schedule.name} has no next event: {schedule}\n{self.report([])}"
                await app.schedules.resume(schedule.name, passed="fire")
                await app.schedules.delete(schedule.name)
            deadline = time.monotonic() + SETTLE_PATIENCE
            while await unfinished(app):
                self.processes.check()
                if time.monotonic() > deadline:
                    break  # the judgement tells which ones
                await asyncio.sleep(0.1)
        for name in self.processes.of("worker"):
            await self.processes.started(name)
            await self.processes.stop(name)

    async def judge(self) -> Comparison:
        async with Duly(self._url, **OPTIONS) as app:
            comparison = await compared(app, self._what_was_told(), self._series)
        comparison.rows_contradict_nothing(self._violations)
        for name, log in self.processes.logs().items():
            if "Traceback" in log:
                at = log.index("Traceback")
                comparison.wrong(f"{name} has logged an error of its own: {log[max(0, at - 500) : at + 3000]}")
        print(f"seed {self.seed}: {summary(comparison)}, slowest stop {self.processes.slowest_stop:.1f} s")
        assert not comparison.problems, self.report(comparison.problems, comparison)
        return comparison

    def _what_was_told(self) -> Told:
        return what_was_told(self.processes.journal, self._receiver, self.log, one_writer=self.app.one_writer)

    def report(self, problems: Sequence[Problem], comparison: Comparison | None = None) -> str:
        return report(self.seed, self.log, self.processes.logs(), problems, comparison)


def what_was_told(journal: Journal, receiver: Receiver, log: FaultLog, *, one_writer: bool) -> Told:
    return Told(
        asked={one["call"]: one for one in journal.of("asked")},
        answered=journal.of("answered"),
        begun=journal.of("begun"),
        done={Claimed(one["event"], one["version"]) for one in journal.of("done")},
        stalls=journal.of("stalled"),
        posts=receiver.posts(),
        faults=log.faults,
        one_writer=one_writer,
    )


async def compared(app: Duly, told: Told, series: dict[str, str], *, steady: bool = True) -> Comparison:
    """All that must agree."""
    events, history = await read(app)
    async with app.transaction() as tx:
        effects = [tuple(row) for row in await tx.fetch("SELECT event, version, worker FROM effects")]
        wishes = [row[0] for row in await tx.fetch("SELECT call FROM wishes")]
    comparison = Comparison(events, history, told, parse_duration(LEASE), steady=steady)
    comparison.everything_has_ended()
    comparison.accepted_is_there()
    comparison.what_was_cancelled_or_moved_stayed_so()
    comparison.rows_of_callers_came_with_their_events(wishes)
    comparison.each_claim_has_one_end()
    comparison.handlers_did_what_the_history_says(effects)
    comparison.posts_are_what_the_history_says()
    comparison.every_occurrence_has_one_fact(series, STEP)
    comparison.rows_contradict_nothing((await app.store.invariants(None)).violations)
    return comparison


async def unfinished(app: Duly) -> int:
    overview = await app.store.overview()
    return sum(count for _, status, count, _ in overview if status in (Status.PENDING, Status.PROCESSING))
