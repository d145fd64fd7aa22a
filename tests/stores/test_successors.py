"""What ends being a head and what follows it are one transaction: whatever fails in between, there is one head."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from duly import Duly, Event, StoreUnavailable, every
from duly.engine.series.successors import Successors
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from duly.verbs.schedules.schedules import Schedules
from tests.conftest import AnyStore
from tests.make import HOUR, a_user
from tests.worker.running_worker import PATIENCE, until, working

ENDING = ("fire", "drop", "change")
"""The statements by which an event ends being a head."""


class Faulty:
    """A store that fails at each successor, or at the end of each transaction in which a head ends being one."""

    def __init__(self, store: AnyStore, fault: str | None = None) -> None:
        self._store, self.fault = store, fault
        self.faults = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def plant(self, *args: Any) -> Any:
        self.meet("the successor")
        return await self._store.plant(*args)

    async def claim(self, *args: Any, **options: Any) -> Any:
        """One statement claims a head and plants its successor: it fails as a whole."""
        async with self._store.begin() as tx:
            claimed = await tx.claim(*args, **options)
            if claimed.planted:
                self.meet(self.fault)
            return claimed

    async def start(self, *args: Any) -> Any:
        async with self._store.begin() as tx:
            started, now = await tx.start(*args)
            if started.planted:
                self.meet(self.fault)
            return started, now

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        async with self._store.begin() as tx:
            faulty = FaultyTransaction(tx, self)
            yield faulty
            if faulty.ends_a_head:
                self.meet("the commit")

    def meet(self, point: str | None) -> None:
        if point is not None and point == self.fault:
            self.faults += 1
            raise StoreUnavailable("the connection is lost")


class FaultyTransaction:
    def __init__(self, tx: Any, store: Faulty) -> None:
        self._tx, self._store = tx, store
        self.ends_a_head = False

    def __getattr__(self, name: str) -> Any:
        self.ends_a_head = self.ends_a_head or name in ENDING
        return getattr(self._tx, name)

    async def plant(self, *args: Any) -> Any:
        self._store.meet("the successor")
        return await self._tx.plant(*args)


async def rows(duly: Duly) -> list[tuple[str, bool, int]]:
    return sorted((event.status.value, event.head, event.version) for event in await duly.events.find())


UNTOUCHED = [("PENDING", True, 1)]

# -- what ends being a head: each act gets a Duly with one schedule or user whose head is due


async def claim(duly: Duly, store: AnyStore) -> None:
    duly.store = store
    await duly.tick()


async def skip(duly: Duly, store: AnyStore) -> None:
    await Schedules(store, duly.channels, duly.transaction_of, duly.store).skip("pulse")


async def cancel(duly: Duly, store: AnyStore) -> None:
    [head] = await duly.events.find()
    await Events(store).cancel(head.id)


Act = Callable[[Duly, Any], Awaitable[None]]
Put = Callable[[Duly, ManualClock], Awaitable[Any]]


async def a_schedule(duly: Duly, clock: ManualClock) -> None:
    await duly.every("pulse", every("1h"), "beat")
    clock.advance(HOUR)


async def one_that_is_too_late(duly: Duly, clock: ManualClock) -> None:
    await duly.every("pulse", every("1h"), "beat", misfire={"policy": "skip"})
    clock.advance(1.5 * HOUR)


async def a_user_with_a_birthday(duly: Duly, clock: ManualClock) -> None:
    await duly.users.add(**a_user(date_of_birth="1990-03-15", timezone="UTC"))
    clock.set(datetime(2026, 3, 15, 9, tzinfo=UTC))


ACTS = [
    pytest.param(a_schedule, claim, id="a claim"),
    pytest.param(one_that_is_too_late, claim, id="a misfire"),
    pytest.param(a_user_with_a_birthday, claim, id="a claim of a user's"),
    pytest.param(a_schedule, skip, id="a skip"),
    pytest.param(a_schedule, cancel, id="a cancellation"),
]


def serve(duly: Duly, handler: Callable[[Event], Awaitable[None]]) -> None:
    for type in ("beat", "birthday"):
        duly.on(type)(handler)


@pytest.mark.parametrize("fault", ["the successor", "the commit"])
@pytest.mark.parametrize(("put", "act"), ACTS)
async def test_no_head_ends_without_its_successor_and_no_successor_exists_before_that(
    app: Duly, clock: ManualClock, put: Put, act: Act, fault: str
) -> None:
    done: list[str] = []

    async def handle(event: Event) -> None:
        done.append(event.id)

    serve(app, handle)
    await put(app, clock)
    store = app.store
    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(PATIENCE):
            await act(app, Faulty(store, fault))
    app.store = store
    reserved = [("PENDING", True, 2)]  # to decide about it, a worker reserves a head first
    assert (done, await rows(app)) == ([], reserved if put is one_that_is_too_late else UNTOUCHED)
    await act(app, store)
    assert sorted(head for _, head, _ in await rows(app)) == [False, True], "and later, all of it happens"


@pytest.mark.parametrize("fault", ["the successor", "the commit"])
async def test_no_reserved_head_ends_without_its_successor(url: str, fault: str) -> None:
    duly = Duly(url, lookahead="500ms")
    done: list[str] = []

    async def handle(event: Event) -> None:
        done.append(event.id)

    serve(duly, handle)
    duly.store = faulty = Faulty(duly.store)  # type: ignore[assignment]
    async with duly:
        await duly.every("pulse", every("1s"), "beat")
        faulty.fault = fault
        async with working(duly):
            await until(lambda: faulty.faults, "it was about to start")
            [(status, head, _)] = await rows(duly)
        assert (done, status, head) == ([], "PENDING", True)


@pytest.fixture
def never_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """New heads stay as the claim has planted them."""
    monkeypatch.setattr(Successors, "add", lambda *_: None)


@pytest.mark.usefixtures("never_completed")
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("put", "act"), ACTS)
async def test_a_head_and_its_successor_are_written_by_one_transaction(
    app: Duly, clock: ManualClock, put: Put, act: Act
) -> None:
    writers: list[dict[bool, str]] = []

    async def note(*_: object) -> None:
        writers.append(await written_by(app))

    serve(app, note)
    await put(app, clock)
    await act(app, app.store)
    if not writers:  # nothing was delivered, so nothing else was written since
        await note()
    [written] = writers
    assert written[True] == written[False]


@pytest.mark.usefixtures("never_completed")
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_reserved_head_and_its_successor_are_written_by_one_transaction(url: str) -> None:
    duly = Duly(url, lookahead="500ms")
    writers: list[dict[bool, str]] = []

    @duly.on("beat")
    async def note(event: Event) -> None:
        assert event.claimed
        if event.claimed < event.due:
            writers.append(await written_by(duly))

    async with duly:
        await duly.every("pulse", every("1s"), "beat")
        async with working(duly):
            await until(lambda: writers, "one was started ahead")
    assert writers[0][True] == writers[0][False]


async def written_by(duly: Duly) -> dict[bool, str]:
    """The transactions that have written the head, and the newest of those that are none any more."""
    async with duly.store.begin() as tx:
        found = await tx.fetch("SELECT head, xmin::text FROM duly.events ORDER BY due DESC, id DESC")
    return dict(reversed(found))
