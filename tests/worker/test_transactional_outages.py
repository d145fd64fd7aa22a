"""A transactional handler in whose hands the database goes away: that is not its failure, and no attempt is spent."""

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta

import pytest

from duly import Duly, Event, Retry, Status
from duly.errors import StoreUnavailable
from duly.ports.transactions import Transaction
from tests.servers import Postgres
from tests.worker.running_worker import until, working
from tests.worker.test_outages import outage

NOW = timedelta()
CRASHES = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that these tests may kill."""
    with Postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> str:
    return server.create_database(f"tx_{random.getrandbits(48):x}")


async def ended(duly: Duly, id: str) -> Event | None:
    event = await duly.events.get(id)
    return event if event.status in (Status.COMPLETED, Status.FAILED) else None


async def test_crashes_of_the_database_spend_no_attempt_of_a_transactional_handler(
    database: str, server: Postgres
) -> None:
    duly = Duly(database, lease="6s", poll_interval="200ms")
    began = asyncio.Queue[Event]()
    may_write = asyncio.Event()

    @duly.on("book", transactional=True)
    async def book(event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO booked VALUES ($1)", event.id)
        began.put_nowait(event)
        await may_write.wait()
        await tx.execute("INSERT INTO booked VALUES ($1)", event.id)

    async with duly:
        async with duly.transaction() as tx:
            await tx.execute("CREATE TABLE booked (id text)")
        added = await duly.after(NOW, "book", retry=Retry(max_attempts=3))
        async with working(duly):
            for _ in range(CRASHES):
                await asyncio.wait_for(began.get(), 60)
                async with outage(server):
                    may_write.set()
                    await asyncio.sleep(0)
                may_write.clear()
            await asyncio.wait_for(began.get(), 60)
            may_write.set()
            event = await until(lambda: ended(duly, added.id), "it has ended")
        assert (event.status, event.attempts) == (Status.COMPLETED, 1)
        async with duly.transaction() as tx:
            assert await tx.fetchval("SELECT count(*) FROM booked") == 2, "the effect is there once"
        acts = [entry.act for entry in await duly.events.history(added.id)]
        assert "failed" not in acts


async def test_a_deadlock_spends_no_attempt_of_a_transactional_handler(database: str) -> None:
    duly = Duly(database, poll_interval="200ms")
    first = asyncio.Barrier(2)
    tries: list[str] = []

    @duly.on("cross", transactional=True)
    async def cross(event: Event, tx: Transaction) -> None:
        one, other = event.payload
        tries.append(event.id)
        await tx.execute("UPDATE account SET n = n + 1 WHERE id = $1", one)
        if len(tries) <= 2:
            await first.wait()
        await tx.execute("UPDATE account SET n = n + 1 WHERE id = $1", other)

    async with duly:
        async with duly.transaction() as tx:
            await tx.execute("CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)")
            await tx.execute("INSERT INTO account VALUES (1, 0), (2, 0)")
        ids = [(await duly.after(NOW, "cross", pair, retry=Retry(max_attempts=1))).id for pair in ([1, 2], [2, 1])]
        async with working(duly):
            events = [await until(lambda id=id: ended(duly, id), "it has ended") for id in ids]
        assert [event.status for event in events] == [Status.COMPLETED] * 2
        assert len(tries) == 3, "one of them was rolled back, and came again"
        async with duly.transaction() as tx:
            assert await tx.fetchval("SELECT sum(n) FROM account") == 4


@pytest.mark.parametrize(
    "mistake", ["SELECT $1::int", "SELECT 1 / 0", "SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)"]
)
async def test_a_mistake_in_a_statement_of_a_transactional_handler_is_its_failure(database: str, mistake: str) -> None:
    duly = Duly(database)

    @duly.on("wrong", transactional=True)
    async def wrong(event: Event, tx: Transaction) -> None:
        await tx.fetch(mistake) if "$1" in mistake else await tx.execute(mistake)

    async with duly:
        added = await duly.after(NOW, "wrong", retry=Retry(max_attempts=1))
        async with working(duly):
            event = await until(lambda: ended(duly, added.id), "it has ended")
    assert (event.status, event.attempts) == (Status.FAILED, 1)


async def test_an_outage_spends_no_attempt_of_a_handler_that_schedules(database: str, server: Postgres) -> None:
    duly = Duly(database, lease="6s", store_timeout="1s", poll_interval="200ms")
    began, may_schedule = asyncio.Event(), asyncio.Event()
    refused: list[str] = []

    @duly.on("chain")
    async def chain(event: Event) -> None:
        began.set()
        await may_schedule.wait()
        try:
            await duly.after(timedelta(days=1), "next")
        except StoreUnavailable as error:
            refused.append(str(error))
            raise

    async with duly:
        added = await duly.after(NOW, "chain", retry=Retry(max_attempts=1))
        async with working(duly):
            await asyncio.wait_for(began.wait(), 60)
            async with outage(server):
                may_schedule.set()
                await until(lambda: refused, "the handler finds that the database is away")
            event = await until(lambda: ended(duly, added.id), "it has ended")
    assert (event.status, event.attempts) == (Status.COMPLETED, 1)


@pytest.mark.parametrize("plain", [True, False])
async def test_a_handler_may_raise_that_a_service_it_calls_is_unavailable(plain: bool) -> None:
    duly = Duly("sqlite:///:memory:", poll_interval="100ms")
    tries: list[str] = []

    def call(event: Event) -> None:
        tries.append(event.id)
        if len(tries) == 1:
            raise StoreUnavailable("the server that this calls says that its database is away")

    async def call_asynchronously(event: Event) -> None:
        call(event)

    duly.on("call")(call if plain else call_asynchronously)
    async with duly:
        added = await duly.after(NOW, "call", retry=Retry(max_attempts=1))
        async with working(duly):
            event = await until(lambda: ended(duly, added.id), "it has ended")
    assert (event.status, event.attempts, len(tries)) == (Status.COMPLETED, 1, 2)
