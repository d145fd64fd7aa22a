"""A crash of the database undoes a start, which does not wait for the disk, while its worker lives and goes on.

On PostgreSQL the server is killed, and nothing of it that would bring the start to disk sooner is at work. On SQLite
the files are put back as they were when the start was not there yet, as after a power cut.
"""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly import Duly, Event, InStatus, Status, every
from duly.config import read_settings
from duly.records.event import NewEvent
from duly.signals import Completed, Lost
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from duly.wiring import open_store
from tests.conftest import AnyStore
from tests.invariants import require_invariants
from tests.make import (
    HOUR,
    LANE,
    LEASE,
    SECOND,
    START,
    completed,
    failed,
    given_back,
    make_new,
    rejected,
)
from tests.servers import Postgres
from tests.stores.rows import event_of
from tests.worker.running_worker import Told, until, working

AHEAD, PATIENCE = SECOND / 2, 2 * SECOND
FORGOTTEN = "the database lost this claim in a crash; the attempt ended as: delivered"

NOTHING_ELSE_WRITES = {"autovacuum": "off", "bgwriter_lru_maxpages": "0", "checkpoint_timeout": "1h"}
"""Whatever brings its own to disk brings all that came before it."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(settings=NOTHING_ELSE_WRITES) as server:
        yield server


def stop_wal_writer(server: Postgres) -> None:
    """Until the next crash. What does not wait for the disk is then lost in that, not only if it was too quick."""
    with psycopg.connect(server.url) as connection:
        [(pid,)] = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").fetchall()
    os.kill(pid, signal.SIGSTOP)


async def crash(server: Postgres) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


class OnPostgres:
    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.url = server.create_database(f"forgotten_{random.getrandbits(48):x}")

    def remember(self) -> None:
        """What was committed so far is on disk, and nothing else will be unless somebody waits for it."""
        stop_wal_writer(self._server)

    async def forget(self) -> None:
        await crash(self._server)


class OnSqlite:
    def __init__(self, folder: Path) -> None:
        self._file, self._kept = folder / "duly.db", folder / "kept"
        self.url = f"sqlite:///{self._file}"

    def remember(self) -> None:
        self._kept.mkdir()
        for file in self._files():
            shutil.copy(file, self._kept)

    async def forget(self) -> None:
        """When nobody has it open any more."""
        for file in self._files():
            file.unlink()
        for file in self._kept.iterdir():
            shutil.copy(file, self._file.parent)

    def _files(self) -> list[Path]:
        return [file for file in self._file.parent.glob("duly.db*") if not file.name.endswith("-shm")]


class Crashing:
    """A store whose database can lose what was not on disk."""

    def __init__(self, database: OnPostgres | OnSqlite, clock: ManualClock) -> None:
        self._database, self._clock = database, clock

    async def open(self) -> None:
        self.store: AnyStore = open_store(read_settings({}, database_url=self._database.url), self._clock)
        await self.store.open(migrate=True)

    async def started_and_forgotten(self, *news: NewEvent) -> list[Event]:
        """These events as their worker knows them; the database has them as they were reserved."""
        await self.store.add(news)
        reserved, _ = await self.store.reserve("w1", {LANE: len(news)}, AHEAD, PATIENCE)
        self._database.remember()
        events, _ = await self.store.start(reserved, AHEAD + PATIENCE, LEASE, "w1")
        assert len(events) == len(news)
        await self.store.close()
        await self._database.forget()
        await self.open()
        for event in events:
            found = await event_of(self.store, event.id)
            assert (found.status, found.claimed) == (Status.PENDING, None), "its start is forgotten"
            assert found.version == event.version
        return list(events)


@pytest.fixture(params=["sqlite", "postgres"])
async def crashing(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Crashing]:
    database = OnSqlite(tmp_path) if request.param == "sqlite" else OnPostgres(request.getfixturevalue("server"))
    crashing = Crashing(database, clock)
    await crashing.open()
    yield crashing
    await crashing.store.close()
    require_invariants(request, database.url)


def soon(**fields: Any) -> Any:
    return make_new(due=START + AHEAD / 2, **fields)


async def test_an_event_whose_claim_was_lost_in_a_crash_is_settled_all_the_same(
    crashing: Crashing, clock: ManualClock
) -> None:
    """Whatever the verdicts of one batch are."""
    events = await crashing.started_and_forgotten(*(soon() for _ in range(4)))
    store, delivered, back, dead, retried = crashing.store, *events
    clock.advance(SECOND)
    settlements = [completed(delivered), given_back(back), rejected(dead, "no"), failed(retried, "503", jitter=0)]
    assert await store.settle(settlements, "w1") == {event.id for event in events}
    statuses = [(await event_of(store, event.id)).status for event in events]
    assert statuses == [Status.COMPLETED, Status.PENDING, Status.FAILED, Status.PENDING]
    acts = ["delivered", "given back", "rejected", "failed"]
    for event, act in zip(events, acts, strict=True):
        [entry] = await store.history(event.id)
        attempt = None if act == "given back" else 1
        told = (entry.act, entry.worker, entry.version, entry.attempt, entry.claimed)
        assert told == (act, "w1", event.version, attempt, event.claimed), "the attempt is there"
    ready = (await event_of(store, retried.id)).ready
    assert ready is not None
    assert ready > clock.now()
    assert await store.settle(settlements, "w1") == set(), "once"
    assert [len(await store.history(event.id)) for event in events] == [1, 1, 1, 1]
    clock.advance(HOUR)
    assert {event.id for event in await store.claim("w2", {LANE: 9}, LEASE)} == {back.id, retried.id}


async def test_an_event_whose_claim_was_lost_in_a_crash_is_settled_in_a_transaction_all_the_same(
    crashing: Crashing,
) -> None:
    """As with a handler whose effect is in it."""
    [event] = await crashing.started_and_forgotten(soon())
    async with crashing.store.lend() as tx:
        assert await tx.settle([completed(event)], "w1") == {event.id}
    assert (await event_of(crashing.store, event.id)).status is Status.COMPLETED


async def test_a_worker_that_did_not_start_an_event_cannot_settle_its_lost_claim(crashing: Crashing) -> None:
    [event] = await crashing.started_and_forgotten(soon())
    assert await crashing.store.settle([completed(event)], "w2") == set()
    assert (await event_of(crashing.store, event.id)).status is Status.PENDING


async def test_an_event_moved_since_its_claim_was_lost_fires_anew_and_the_history_tells_of_both(
    crashing: Crashing, clock: ManualClock
) -> None:
    [event] = await crashing.started_and_forgotten(soon())
    store = crashing.store
    await Events(store).reschedule(event.id, START + HOUR)
    assert await store.settle([completed(event)], "w1") == set()
    moved = await event_of(store, event.id)
    assert (moved.status, moved.due) == (Status.PENDING, START + HOUR)
    rescheduled, forgotten = await store.history(event.id)
    assert rescheduled.act == "rescheduled"
    assert (forgotten.act, forgotten.claimed, forgotten.detail) == ("forgotten", event.claimed, FORGOTTEN)


async def test_an_event_claimed_again_since_its_claim_was_lost_is_repeated_and_the_history_explains_it(
    crashing: Crashing, clock: ManualClock
) -> None:
    [event] = await crashing.started_and_forgotten(soon())
    store = crashing.store
    clock.advance(AHEAD + PATIENCE)
    [again] = await store.claim("w2", {LANE: 1}, LEASE)
    for _ in range(2):  # when its answer is lost, a settlement is tried again
        assert await store.settle([completed(event)], "w1") == set()
    assert await store.get(event.id) == again, "whose claim it is now"
    assert await store.settle([completed(again)], "w2") == {event.id}
    forgotten, delivered = await store.history(event.id)
    told = (forgotten.act, forgotten.worker, forgotten.version, forgotten.claimed, forgotten.detail)
    assert told == ("forgotten", "w1", event.version, event.claimed, FORGOTTEN)
    assert (delivered.act, delivered.worker, delivered.version) == ("delivered", "w2", again.version)


# -- a worker, and a server that crashes under it


@pytest.fixture
def database(request: pytest.FixtureRequest, server: Postgres) -> Iterator[str]:
    url = server.create_database(f"forgotten_{random.getrandbits(48):x}")
    stop_wal_writer(server)
    yield url
    require_invariants(request, url)


def status_in(database: str, event: Event) -> str:
    with psycopg.connect(database) as connection:
        [(status,)] = connection.execute("SELECT status FROM duly.events WHERE id = %s", [event.id]).fetchall()
    return str(status)


class Slow:
    """A handler that ends when it may."""

    def __init__(self, duly: Duly) -> None:
        self.versions: list[int] = []
        self.may_end = asyncio.Event()
        duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        self.versions.append(event.version)
        await self.may_end.wait()


async def started_ahead(duly: Duly, slow: Slow, clock: ManualClock) -> Event:
    """An event that was reserved and started, and is under way."""
    event = await duly.after(AHEAD / 2, "task")

    async def is_reserved() -> bool:
        return (await duly.events.get(event.id)).worker is not None

    await until(is_reserved, "it is reserved")
    clock.set(event.due)
    await until(lambda: slow.versions, "it is under way")
    return event


async def test_a_handler_that_goes_on_through_a_crash_of_the_server_is_not_repeated(
    server: Postgres, database: str, clock: ManualClock
) -> None:
    duly = Duly(database, clock=clock, lookahead="500ms", poll_interval="50ms", lease="60s")
    slow, told = Slow(duly), Told(duly)
    async with duly, working(duly):
        event = await started_ahead(duly, slow, clock)
        await crash(server)
        assert status_in(database, event) == "PENDING", "its start is forgotten"
        slow.may_end.set()
        await until(lambda: told.of(Completed) or told.of(Lost), "it is settled, or not")
        assert not told.of(Lost)
        clock.advance(HOUR)
        history = await duly.events.history(event.id)
    assert slow.versions == [2], "one effect"
    assert [(entry.act, entry.version, entry.attempt) for entry in history] == [("delivered", 2, 1)]
    assert history[0].claimed == event.due


async def test_a_handler_that_goes_on_for_longer_than_its_reservation_is_repeated_with_a_trace(
    server: Postgres, database: str, clock: ManualClock
) -> None:
    """The worker itself takes the event for one that nobody has, and runs it a second time beside the first."""
    duly = Duly(database, clock=clock, lookahead="500ms", poll_interval="50ms", lease="60s")
    slow, told = Slow(duly), Told(duly)
    async with duly, working(duly):
        event = await started_ahead(duly, slow, clock)
        await crash(server)
        assert status_in(database, event) == "PENDING", "its start is forgotten"
        clock.advance(PATIENCE)
        await until(lambda: len(slow.versions) == 2, "it is repeated")
        slow.may_end.set()
        await until(lambda: told.of(Completed) and told.of(Lost), "both have ended")
        history = await duly.events.history(event.id)
    assert slow.versions == [2, 3]
    assert [(entry.act, entry.version) for entry in history] == [("forgotten", 2), ("delivered", 3)]
    assert history[0].detail == FORGOTTEN


async def test_a_lost_claim_of_a_head_loses_neither_the_head_nor_its_successor(
    server: Postgres, database: str, clock: ManualClock
) -> None:
    """Whether the crash comes before or after the first commit that waits for the disk: that which completes the
    successor."""
    duly = Duly(database, clock=clock, lookahead="500ms", poll_interval="50ms", lease="60s")
    slow, told = Slow(duly), Told(duly)
    async with duly:
        await duly.every("often", every("1s"), "task")
        [head] = await duly.events.find(InStatus("PENDING"))
        clock.set(head.due - AHEAD / 2)
        async with working(duly):

            async def is_reserved() -> bool:
                return (await duly.events.get(head.id)).worker is not None

            await until(is_reserved, "it is reserved")
            clock.set(head.due)
            await until(lambda: slow.versions, "it is under way")
            await crash(server)
            is_lost = status_in(database, head) == "PENDING"
            [waiting] = await duly.events.find(InStatus("PENDING"))
            assert waiting.due == (head.due if is_lost else head.due + SECOND), "start and successor: both, or neither"
            slow.may_end.set()
            await until(lambda: told.of(Completed) or told.of(Lost), "it is settled, or not")
            assert not told.of(Lost)
        [next_head] = await duly.events.find(InStatus("PENDING"))
        assert next_head.due == head.due + SECOND
    assert slow.versions == [2], "one effect"
