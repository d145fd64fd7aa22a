"""A caller's transaction that stays open on an event makes nobody wait but that event. (On PostgreSQL: SQLite has one
writer.)"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from duly import Duly, Event, Status
from duly.signals import Claimed, Completed, Interrupted, Lost
from tests.worker.running_worker import Told, until, working

LEASE_S = 1.5
NOW = timedelta()


class Oops(Exception):
    pass


def a_duly(url: str, **options: Any) -> Duly:
    usual: dict[str, Any] = {"lease": f"{LEASE_S}s", "store_timeout": "500ms", "poll_interval": "1s"}
    return Duly(url, **(usual | options))


@asynccontextmanager
async def transaction_of_a_caller(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("commits", [True, False])
async def test_leases_and_settlements_of_others_go_on_while_a_running_event_is_locked_for_longer_than_a_lease(
    clean_postgres: str, commits: bool
) -> None:
    duly, other = a_duly(clean_postgres), a_duly(clean_postgres)
    told, of_other, go_on = Told(duly), Told(other), asyncio.Event()

    @duly.on("long")
    async def long(_event: Event) -> None:
        await go_on.wait()

    @duly.on("quick")
    async def quick(_event: Event) -> None: ...

    other.on("other")(lambda _event: None)

    async with duly, other, working(duly), working(other):
        locked, beside = await duly.after(NOW, "long"), await duly.after(NOW, "long")
        await until(lambda: len(told.of(Claimed)) == 2, "both run")
        with suppress(Oops):
            async with transaction_of_a_caller(clean_postgres) as connection:
                assert await duly.cancel(locked.id, transaction=connection) == "running"
                began, slowest, done = time.monotonic(), 0.0, 0
                while time.monotonic() < began + 2.5 * LEASE_S:
                    asked = time.monotonic()
                    await duly.after(NOW, "quick")
                    done += 1
                    await until(lambda done=done: len(told.of(Completed)) == done, "another event is settled")
                    slowest = max(slowest, time.monotonic() - asked)
                    held = await duly.events.get(beside.id)
                    assert held.ready is not None
                    assert held.ready > datetime.now(UTC), "the lease of the other running event is renewed"
                if not commits:
                    raise Oops
        assert slowest < 1, "no settlement has waited for the locked row"
        if commits:
            await until(lambda: _status(duly, locked.id, Status.CANCELLED), "it stops")
        go_on.set()
        await until(lambda: len(told.of(Completed)) == done + (1 if commits else 2), "what runs ends")
        status = (await duly.events.get(locked.id)).status
    assert status is (Status.CANCELLED if commits else Status.COMPLETED)
    assert not told.of(Lost) + told.of(Interrupted) + of_other.of(Interrupted)


async def _status(duly: Duly, id: str, status: Status) -> bool:
    return (await duly.events.get(id)).status is status


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handler_that_ends_while_its_event_is_locked_is_settled_after_the_transaction(
    clean_postgres: str, commits: bool
) -> None:
    duly = a_duly(clean_postgres)
    told, go_on = Told(duly), asyncio.Event()

    @duly.on("long")
    async def long(_event: Event) -> None:
        await go_on.wait()

    async with duly, working(duly):
        locked = await duly.after(NOW, "long")
        others = [await duly.after(NOW, "long") for _ in range(20)]
        await until(lambda: len(told.of(Claimed)) == 21, "all run")
        with suppress(Oops):
            async with transaction_of_a_caller(clean_postgres) as connection:
                assert await duly.cancel(locked.id, transaction=connection) == "running"
                go_on.set()
                await until(lambda: len(told.of(Completed)) == 20, "the others are settled, all in one batch with it")
                await asyncio.sleep(2 * LEASE_S)  # by the server's clock: its lease runs out meanwhile
                if not commits:
                    raise Oops
        await until(lambda: len(told.of(Completed)) == 21, "it has completed, and that is recorded now")
        acts = [entry.act for entry in await duly.events.history(locked.id)]
    assert {signal.event.id for signal in told.of(Completed)} == {locked.id, *(event.id for event in others)}
    assert acts == (["stop requested", "delivered"] if commits else ["delivered"])
    assert not told.of(Lost)


async def test_a_rolled_back_cancel_costs_at_most_one_poll_interval(clean_postgres: str) -> None:
    duly = a_duly(clean_postgres, lease="30s")
    told = Told(duly)
    fired: list[tuple[str | None, float]] = []

    @duly.on("remind")
    async def remind(event: Event) -> None:
        fired.append((event.key, time.monotonic()))

    async with duly, working(duly):
        await duly.after(timedelta(seconds=0.5), "remind", key="cancelled")
        await duly.after(timedelta(seconds=0.6), "remind", key="other")
        with suppress(Oops):
            async with transaction_of_a_caller(clean_postgres) as connection:
                assert await duly.cancel("cancelled", transaction=connection) == "cancelled"
                await until(lambda: told.of(Completed), "the one that is not locked has fired")
                await asyncio.sleep(2)  # two polls go by
                assert [key for key, _ in fired] == ["other"]
                raise Oops
        rolled_back = time.monotonic()
        await until(lambda: len(fired) == 2, "the other has fired too")
    key, at = fired[1]
    assert key == "cancelled"
    assert at - rolled_back < 1 + 0.5, "within one poll interval, and a little"


async def test_reserved_events_start_on_time_beside_a_locked_one(clean_postgres: str) -> None:
    duly = a_duly(clean_postgres, lookahead="500ms", lease="30s")
    late: dict[str | None, timedelta] = {}

    @duly.on("remind")
    async def remind(event: Event) -> None:
        late[event.key] = datetime.now(UTC) - event.due

    async with duly, working(duly):
        now = await duly.now()
        for number in range(5):
            await duly.at(now + timedelta(seconds=1.5), "remind", key=str(number))

        async def reserved() -> bool:
            return all(event.version > 1 for event in await duly.events.find())

        await until(reserved, "all are reserved")
        with suppress(Oops):
            async with transaction_of_a_caller(clean_postgres) as connection:
                assert await duly.cancel("3", transaction=connection) == "cancelled"
                await until(lambda: len(late) == 4, "the others have fired")
                raise Oops
        await until(lambda: len(late) == 5, "and it has too, after the rollback")
    assert max(span for key, span in late.items() if key != "3") < timedelta(seconds=0.5)
