import asyncio
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from duly import Duly, Event, Timer
from duly.signals import Claimed, Completed
from duly.stores.postgres.waker import PostgresWaker
from duly.stores.sqlite.store import SqliteStore
from tests.dead_letters import dead
from tests.servers import create_database
from tests.worker.running_worker import PATIENCE, Told, Watched, until, working

ADD = """
import asyncio, sys
from datetime import UTC, datetime
from duly import Duly

async def add():
    async with Duly(sys.argv[1]) as duly:
        await duly.at(datetime.now(UTC), "greet")

asyncio.run(add())
"""


async def add_from_another_process(url: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ADD, url)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


def greeter(url: str, **options: Any) -> tuple[Duly, Watched, Told, list[str]]:
    duly = Duly(url, **options)
    greeted: list[str] = []

    @duly.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event.id)

    return duly, Watched(duly), Told(duly), greeted


async def test_a_worker_sleeps_until_the_next_event_is_due_and_is_never_early(url: str) -> None:
    duly, watched, told, _ = greeter(url, poll_interval="60s", lease="10m")
    async with duly:
        now = await duly.store.now()
        dues = [now + timedelta(milliseconds=30 * number) for number in range(1, 41)]
        known, unknown = dues[::2], dues[1::2]  # when it starts
        await duly.add_many(Timer(due, "greet") for due in [*random.sample(known, 20), now + timedelta(hours=1)])
        async with working(duly):
            for due in unknown:
                await duly.at(due, "greet")
            await until(lambda: len(told.of(Completed)) == 40, "all that are due are done")
            await until(lambda: watched.asleep and watched.asleep > 50, "it sleeps")

    claimed = [claim.event for claim in told.of(Claimed)]
    assert all(event.claimed and event.claimed >= event.due for event in claimed), "none early by the store's clock"
    assert [event.due for event in claimed if event.due in known] == known, "each in its turn"
    assert watched.looks < 250, "it slept in between: otherwise it would have looked a thousand times"


async def test_an_event_that_is_alone_takes_one_claim_and_one_settlement(url: str) -> None:
    duly, watched, told, _ = greeter(url, poll_interval="60s", lease="10m")
    async with duly:
        now = await duly.store.now()
        await duly.add_many(Timer(now + timedelta(milliseconds=200 + 50 * n), "greet") for n in range(10))
        async with working(duly):
            await until(lambda: watched.asleep, "it sleeps")
            looks, claims = watched.looks, len(watched.asked)
            await until(lambda: len(told.of(Completed)) == 10, "all are done")
        assert watched.looks - looks <= 2, "each claim has told when the next event is ready"
        assert sum(watched.settled) == 10
        assert len(watched.asked) - claims <= 10 + 3, "one claim for each event, however many one settlement takes"


async def test_an_event_from_another_process_wakes_a_sleeping_worker(url: str) -> None:
    duly, watched, told, greeted = greeter(url, poll_interval="60s", lease="10m")
    async with duly, working(duly):
        await duly.after(timedelta(seconds=50), "greet")
        await until(lambda: watched.asleep and watched.asleep > 40, "it sleeps")
        await add_from_another_process(url)
        await until(lambda: greeted, "the earlier event was delivered, long before the next poll")
        [claim] = told.of(Claimed)
        assert claim.event.claimed
        assert claim.event.claimed - claim.event.created < timedelta(seconds=10)


async def test_a_replay_of_many_events_wakes_a_sleeping_worker(url: str) -> None:
    duly, watched, _, greeted = greeter(url, poll_interval="60s", lease="10m")
    async with Duly(url) as elsewhere, duly:
        ids = await dead(duly.store, 4)
        async with working(duly):
            for app, done in ((duly, ids[:2]), (elsewhere, ids)):
                await until(lambda: watched.asleep and watched.asleep > 40, "it sleeps")
                await app.events.replay_all(limit=2)
                await until(lambda done=done: sorted(greeted) == done, "they are delivered, long before the next poll")


async def test_an_event_whose_notice_is_lost_is_found_by_the_next_poll(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresWaker, "_on_notice", lambda *_: None)
    monkeypatch.setattr(SqliteStore, "data_version", lambda _: 1)
    duly, watched, _, greeted = greeter(url, poll_interval="1s")
    slept: list[float] = []  # for a whole poll interval at most
    duly.observe(lambda _: slept.extend(in_fact for at_most, in_fact in watched.sleeps if at_most == 1), Claimed)
    async with duly, working(duly):
        await until(lambda: len(watched.sleeps) >= 2 and watched.asleep == 1, "it sleeps")
        await add_from_another_process(url)
        await until(lambda: greeted, "the event was delivered")
    assert slept[-1] > 0.98, "it was not woken: it had slept a whole poll interval when it found the event"


async def test_a_notice_is_sent_only_for_what_is_due_before_the_next_poll(postgres_server: str) -> None:
    url = create_database(postgres_server, f"notices_{random.getrandbits(48):x}")
    heard: list[str] = []
    async with Duly(url, poll_interval="10s") as duly:
        listener = await asyncpg.connect(url)
        await listener.add_listener("duly", lambda *notice: heard.append(str(notice[-1])))
        now = datetime.now(UTC)
        near, far = now + timedelta(seconds=5), now + timedelta(minutes=1)

        await duly.at(far, "far")
        await duly.at(far, "moved", key="order 7")
        await duly.after(timedelta(minutes=1), "far")
        await duly.add_many([Timer(far, "far"), Timer(timedelta(hours=1), "far")])
        await duly.at(near, "near")
        await duly.after(timedelta(seconds=1), "after")
        await duly.add_many([Timer(far, "far"), *[Timer(timedelta(), "many") for _ in range(5)]])
        await duly.at(near, "moved", key="order 7")
        await duly.at(now - timedelta(days=1), "overdue")
        await until(lambda: "handler:overdue" in heard, "the last notice is heard")
        await listener.close()
    assert heard == ["handler:near", "handler:after", "handler:many", "handler:moved", "handler:overdue"]
