"""Somebody sets the clock of a machine whose workers share a SQLite file.

The step is simulated where the store reads the clock: to set the real one would set it for everything on this machine,
and a time namespace has none of its own to set. Workers and the clock that cannot be set are real.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly import Duly, Event
from duly.signals import ClockStepped, Completed, Interrupted, StoreDown
from duly.stores.sqlite import codec
from tests.conftest import OpenStore
from tests.worker.running_worker import Logged, Told, Watched, until, working

NOW, HOUR = timedelta(), timedelta(hours=1)


class Wall:
    """The clock on the wall of this machine, in place of the module ``time`` where SQLite's store reads it."""

    def __init__(self) -> None:
        self._set_by = 0.0

    def time_ns(self) -> int:
        return time.time_ns() + round(self._set_by * 1e9)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time_ns() / 1e9, UTC)

    def step(self, by: timedelta) -> None:
        self._set_by += by.total_seconds()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(codec, "time", wall)
    return wall


class Held:
    """A handler that waits until it may go on, and notes what it did."""

    def __init__(self, *dulys: Duly) -> None:
        self.started: list[str] = []
        self.may_go_on = asyncio.Event()
        for duly in dulys:
            duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        self.started.append(event.id)
        await self.may_go_on.wait()


def steps(told: Told) -> list[int]:
    """By how many seconds, as far as that was told."""
    return [round(signal.by.total_seconds()) for signal in told.of(ClockStepped)]


async def test_a_clock_set_forward_interrupts_no_running_event(tmp_path: Path, wall: Wall) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    one, other = Duly(url), Duly(url, poll_interval="20ms")
    told, told_to_other, held = Told(one), Told(other), Held(one, other)
    watched = Watched(other)
    with Logged() as logged:
        async with one, other:
            event = await one.after(NOW, "task")
            async with working(one):
                await until(lambda: held.started, "it is under way")
                async with working(other):
                    wall.step(HOUR)
                    looks = watched.looks
                    await until(lambda: steps(told) == steps(told_to_other) == [3600], "both have noticed")
                    await until(lambda: watched.looks >= looks + 10, "the other one has looked for work")
                    held.may_go_on.set()
                    await until(lambda: told.of(Completed), "it is done")
            assert not told.of(Interrupted) + told_to_other.of(Interrupted)
            assert held.started == [event.id], "once"
            assert [entry.act for entry in await one.events.history(event.id)] == ["delivered"]
    assert logged.acts == ["clock.stepped", "clock.stepped"]


async def test_a_clock_set_forward_is_soon_harmless_to_processes_that_start_later(tmp_path: Path, wall: Wall) -> None:
    """A process that starts after the step, such as a tick, knows nothing of it."""
    url = f"sqlite:///{tmp_path}/duly.db"
    one, late = Duly(url, lease="1h"), Duly(url)
    held = Held(one, late)
    async with one:
        event = await one.after(NOW, "task")
        async with working(one):
            await until(lambda: held.started, "it is under way")
            wall.step(2 * HOUR)

            async def is_renewed() -> bool:
                ready = (await one.events.get(event.id)).ready
                return ready is not None and ready > wall.now()

            await until(is_renewed, "its lease is renewed, long before it is time")
            assert (await late.tick()).processed == 0
            held.may_go_on.set()
    assert held.started == [event.id]


async def test_a_clock_set_forward_does_not_hide_events_of_a_vanished_worker(tmp_path: Path, wall: Wall) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db", lease="1s", poll_interval="20ms")
    told, held = Told(duly), Held(duly)
    held.may_go_on.set()
    async with duly:
        event = await duly.after(NOW, "task")
        [claimed] = await duly.store.claim("gone", {event.lane: 1}, HOUR / 2)
        async with working(duly):
            wall.step(HOUR)
            await until(lambda: told.of(Completed), "it is taken over")
        assert [signal.event.id for signal in told.of(Interrupted)] == [claimed.id]
        assert steps(told) == [3600]


async def test_a_clock_set_back_does_not_make_leases_longer(tmp_path: Path, wall: Wall) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db", lease="1h")
    told, held = Told(duly), Held(duly)
    async with duly:
        event = await duly.after(NOW, "task")
        async with working(duly):
            await until(lambda: held.started, "it is under way")
            wall.step(-3 * HOUR)

            async def is_renewed() -> bool:
                ready = (await duly.events.get(event.id)).ready
                return ready is not None and ready <= wall.now() + HOUR

            await until(is_renewed, "its lease ends an hour from now, and not four")
            held.may_go_on.set()
            await until(lambda: told.of(Completed), "it is done")
    assert steps(told) == [-3 * 3600]
    assert not told.of(StoreDown)


async def test_a_clock_set_back_starts_no_event_before_its_time(tmp_path: Path, wall: Wall) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db", poll_interval="20ms")
    told, held, watched = Told(duly), Held(duly), Watched(duly)
    held.may_go_on.set()
    async with duly, working(duly):
        due = wall.now() + timedelta(seconds=1)
        await duly.at(due, "task")
        wall.step(-HOUR)
        await until(lambda: steps(told) == [-3600], "it is noticed")
        await until(lambda: wall.now() + HOUR > due, "it would have been due")
        looks = watched.looks
        await until(lambda: watched.looks >= looks + 10, "it has looked for work")
        assert held.started == []


async def test_a_clock_set_forward_wakes_a_worker_that_sleeps_until_an_event_is_due(tmp_path: Path, wall: Wall) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db", poll_interval="1h")
    told, held, watched = Told(duly), Held(duly), Watched(duly)
    held.may_go_on.set()
    async with duly:
        await duly.after(HOUR, "task")
        async with working(duly):
            await until(lambda: (watched.asleep or 0) > 1000, "it sleeps until then")
            wall.step(HOUR)
            await until(lambda: told.of(Completed), "it is done")


async def test_a_clock_correction_of_less_than_a_second_is_not_logged(tmp_path: Path, wall: Wall) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db")
    told = Told(duly)
    async with duly, working(duly):
        wall.step(timedelta(seconds=0.8))
        await asyncio.sleep(0.6)  # two looks
        wall.step(HOUR)
        await until(lambda: told.of(ClockStepped), "that is noticed")
    [step] = steps(told)
    assert step >= 3600


async def test_only_a_clock_that_somebody_may_set_is_watched(opened: OpenStore, tmp_path: Path) -> None:
    """Neither PostgreSQL's own, nor one that a test moves."""
    assert (await opened()).system_time() is None
    duly = Duly(f"sqlite:///{tmp_path}/other.db")
    assert abs((duly.store.system_time() or 0) - time.time()) < 60
