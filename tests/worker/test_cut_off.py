"""Workers that are cut off from PostgreSQL, by a network that drops packets or by a server that is frozen."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from duly import Duly, InStatus, Status, Timer
from tests.network import Namespace
from tests.servers import Postgres
from tests.worker.running_worker import until
from tests.worker.test_frozen_server import frozen, nothing_is_left_behind
from tests.worker.worker_process import now, worker_process

NOW = timedelta()
LEASE_S = 4.0
GRACE_S = 3.0

GONE_WITHIN_S = GRACE_S + 5
"""What docs/operations.md promises of a worker that is told to stop."""

NOISE_S = 6.0
"""Seconds by which a busy machine may be late; a worker that waits for its database is later than that."""

BRIEF = {"DULY_LEASE": f"{LEASE_S:g}s", "DULY_SHUTDOWN_GRACE": f"{GRACE_S:g}s", "DULY_POLL_INTERVAL": "500ms"}


@pytest.fixture(scope="module")
def other() -> Iterator[Namespace]:
    """A host that can be cut off from this one."""
    with Namespace() as other:
        yield other


@pytest.fixture(scope="module")
def server(other: Namespace) -> Iterator[Postgres]:
    with Postgres(networks=[other.network]) as server:
        yield server


@pytest.fixture
async def duly(server: Postgres) -> AsyncIterator[Duly]:
    async with Duly(server.create_database(f"cut_{random.getrandbits(48):x}")) as duly:
        yield duly


@asynccontextmanager
async def cut(other: Namespace) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(other.cut)
        yield
    finally:
        await asyncio.to_thread(other.mend)


def url_of(duly: Duly, other: Namespace) -> str:
    return other.reaching(duly.settings.database_url)


async def all_done(duly: Duly, many: int) -> bool:
    return len(await duly.events.find(InStatus(Status.COMPLETED), limit=1000)) == many


async def test_a_worker_that_is_cut_off_says_so_once_and_goes_on_when_it_can(
    duly: Duly, other: Namespace, server: Postgres, tmp_path: Path
) -> None:
    worker = ("worker", "--app", "shop:duly", "--db", url_of(duly, other))
    with worker_process(tmp_path, *worker, within=other.enter, **BRIEF) as far:
        await duly.add_many(Timer(NOW, "task", {"seconds": 0.01}) for _ in range(20))
        await until(lambda: len(far.told("end")) == 20, "it works")
        async with cut(other):
            await duly.add_many(Timer(NOW, "task", {"seconds": 0.01}) for _ in range(20))
            await until(lambda: far.said("store.unreachable"), "the silence is noticed")
            await nothing_is_left_behind(server.url)
        await until(lambda: all_done(duly, 40), "what came meanwhile is done")
        log = far.log.read_text()
        assert (log.count("store.unreachable"), log.count("store.back")) == (1, 1), log


async def test_a_worker_that_is_cut_off_starts_nothing_after_its_lease_has_ended(
    duly: Duly, other: Namespace, tmp_path: Path
) -> None:
    """Quick events make it claim ahead, and then come slow ones: most of these are claimed and not started."""
    quick, slow, lease = 400, 24, 2.0
    many, settings = quick + slow, BRIEF | {"DULY_LEASE": f"{lease:g}s"}
    worker = ("worker", "--app", "shop:duly", "--concurrency", "4", "--db")
    with worker_process(tmp_path, *worker, url_of(duly, other), within=other.enter, **settings) as far:
        await until(lambda: far.said("worker.started"), "it has started")
        seconds = [0.0] * quick + [0.6] * slow
        ids = await duly.add_many(Timer(NOW, "task", {"seconds": each}) for each in seconds)
        await until(lambda: len(far.told("end")) >= quick + 2, "it is in the middle of the slow ones")
        claimed = await duly.events.find(InStatus(Status.PROCESSING), limit=1000)
        assert len(claimed) > 12, "or this would prove nothing"
        async with cut(other):
            cut_at = now()
            with worker_process(tmp_path, *worker, duly.settings.database_url, **settings) as near:
                await until(lambda: all_done(duly, many), "the other worker does the rest", patience=90)
        begun_late = [entry for entry in far.told("begin") if entry["at"] > cut_at + lease]
        assert not begun_late, "after its lease had ended"
        begun = Counter(entry["id"] for each in (far, near) for entry in each.told("begin"))
        twice = {id for id, times in begun.items() if times > 1}
        lasted = {entry["id"] for entry in far.told("begin") if entry["at"] > cut_at - 1}
        assert set(begun) == set(ids)
        assert twice <= lasted, "only what was under way when it was cut off"


async def test_a_worker_that_was_frozen_past_its_lease_starts_nothing_of_what_it_held(
    duly: Duly, tmp_path: Path
) -> None:
    worker = ("worker", "--app", "shop:duly", "--concurrency", "2", "--db", duly.settings.database_url)
    with worker_process(tmp_path, *worker, **BRIEF) as first:
        await until(lambda: first.said("worker.started"), "it has started")
        ids = await duly.add_many(Timer(NOW, "task", {"seconds": 0.4}) for _ in range(20))
        await until(lambda: len(first.told("end")) >= 4, "it is in the middle of the work")
        first.process.send_signal(signal.SIGSTOP)
        began = {entry["id"] for entry in first.told("begin")}
        with worker_process(tmp_path, *worker, **BRIEF) as second:
            await until(lambda: all_done(duly, 18), "the other one does what was not under way", patience=90)
            first.process.send_signal(signal.SIGCONT)
            await until(lambda: all_done(duly, 20), "all are done", patience=90)
            times = Counter(entry["id"] for each in (first, second) for entry in each.told("begin"))
        assert set(times) == set(ids)
        assert {id for id, many in times.items() if many > 1} <= began


@pytest.mark.parametrize("silence", ["cut off", "frozen"])
@pytest.mark.parametrize("command", ["worker", "serve"])
async def test_sigterm_ends_a_worker_within_its_grace_whatever_the_database_does(
    duly: Duly, other: Namespace, server: Postgres, tmp_path: Path, silence: str, command: str
) -> None:
    arguments = (command, "--app", "shop:duly", "--db", url_of(duly, other), *(["--port", "0"] * (command == "serve")))
    with worker_process(tmp_path, *arguments, within=other.enter, **BRIEF) as far:
        await duly.add_many(Timer(NOW, "task", {"seconds": seconds}) for seconds in (0.01, 0.2, 60.0) * 5)
        await until(lambda: len(far.told("begin")) >= 8, "it is in the middle of the work")
        async with cut(other) if silence == "cut off" else frozen(server):
            await asyncio.sleep(random.uniform(0, 3))  # whatever it waits for just then
            assert await asyncio.to_thread(far.ends_within, GONE_WITHIN_S + NOISE_S), "it does not end"
            assert far.process.returncode == 0
            assert far.said("worker.stopped")


async def test_a_worker_that_cannot_reach_its_database_at_the_start_can_be_stopped(
    duly: Duly, server: Postgres, tmp_path: Path
) -> None:
    async with frozen(server):
        with worker_process(
            tmp_path, "worker", "--app", "shop:duly", "--db", duly.settings.database_url, **BRIEF
        ) as worker:
            await until(lambda: worker.said("store.unreachable"), "it waits for the database")
            assert await asyncio.to_thread(worker.ends_within, GONE_WITHIN_S + NOISE_S), "it does not end"
            assert worker.process.returncode == 0


async def test_a_thread_that_a_handler_has_left_behind_does_not_keep_the_process(duly: Duly, tmp_path: Path) -> None:
    with worker_process(
        tmp_path, "worker", "--app", "shop:duly", "--db", duly.settings.database_url, **BRIEF
    ) as worker:
        await duly.after(NOW, "stuck")
        await until(lambda: all_done(duly, 1), "the handler has ended, and its thread has not")
        assert await asyncio.to_thread(worker.ends_within, GONE_WITHIN_S + NOISE_S), "it does not end"
        assert worker.process.returncode == 0
