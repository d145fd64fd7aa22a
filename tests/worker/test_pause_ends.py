"""Workers end pauses at their instants: not a poll interval late, and as soon as they are told of one."""

import asyncio
import time
from datetime import timedelta

from duly import Duly, Event, every
from tests.worker.running_worker import until, working

LATE = timedelta(seconds=3)
"""How late a busy machine may be; the poll interval is an hour."""


def ticking(url: str) -> tuple[Duly, list[Event]]:
    duly, fired = Duly(url, poll_interval="1h", lease="2h"), list[Event]()
    duly.on("tick")(fired.append)
    return duly, fired


async def resumed_by(duly: Duly, name: str) -> list[tuple[str, float]]:
    """By whom, and how many seconds after the end that the history names."""
    found = [one for one in await duly.schedules.history(name) if one.act == "resumed"]
    return [(one.worker or "", one.at.timestamp()) for one in found]


async def test_a_pause_ends_on_time_that_a_worker_finds_when_it_starts(url: str) -> None:
    duly, fired = ticking(url)
    async with duly:
        await duly.schedules.put("often", every("1s"), "tick")
        paused = await duly.schedules.pause("often", until="2s")
        assert paused.paused_until is not None
        async with working(duly):
            await until(lambda: len(fired) > 0, "it fires again")
        [(by, at)] = await resumed_by(duly, "often")
        assert by == "schedule"
        assert 0 <= at - paused.paused_until.timestamp() < LATE.total_seconds()
        assert all(event.due > paused.paused_until for event in fired)


async def test_a_pause_from_another_process_ends_on_time_while_workers_sleep(url: str) -> None:
    duly, fired = ticking(url)
    other, _ = ticking(url)
    async with duly, other:
        await other.schedules.put("often", every("1s"), "tick")
        async with working(duly), working(other):
            await until(lambda: len(fired) > 0, "it fires")
            paused = await other.schedules.pause("often", until="1500ms")
            assert paused.paused_until is not None
            many = len(fired)
            await until(lambda: len(fired) > many, "it fires again")
        [(by, at)] = await resumed_by(duly, "often")
        assert by == "schedule"
        assert 0 <= at - paused.paused_until.timestamp() < LATE.total_seconds()


async def test_a_shorter_pause_and_an_earlier_resumption_are_noticed(url: str) -> None:
    duly, fired = ticking(url)
    async with duly:
        await duly.schedules.put("often", every("1s"), "tick")
        await duly.schedules.pause("often", until="3h")
        async with working(duly):
            await asyncio.sleep(0.5)  # it knows the end by now, and sleeps for an hour
            began = time.monotonic()
            await duly.schedules.pause("often", until="500ms")
            await until(lambda: len(fired) > 0, "it fires again")
            assert time.monotonic() - began < LATE.total_seconds() + 1
            await duly.schedules.pause("often", until="1m")
            await duly.schedules.resume("often", by="ada")
            many = len(fired)
            await until(lambda: len(fired) > many + 1, "it goes on firing")
        assert [by for by, _ in await resumed_by(duly, "often")] == ["schedule", "ada"]
