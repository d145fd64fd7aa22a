import asyncio
from contextlib import suppress

import pytest

from duly.errors import Misuse
from duly.records.event import Status
from duly.records.specs import Everything
from tests.conftest import AnyStore, AnyTransaction, OpenStore
from tests.make import LANE, LEASE, completed, failed, make_head, make_new, make_schedule
from tests.stores.rows import ask, event_of, spelled, write

EFFECTS = "CREATE TABLE effects (name text)"


class Oops(Exception):
    pass


async def count(store: AnyStore | AnyTransaction) -> int:
    return len(await store.find(Everything(), limit=1000))


async def test_a_rollback_of_the_store_leaves_nothing(store: AnyStore) -> None:
    await write(store, EFFECTS)
    schedule = make_schedule()
    [id] = await store.add([make_new()])
    before = await event_of(store, id)
    with suppress(Oops):
        async with store.begin() as tx:
            await tx.execute("INSERT INTO effects VALUES ($1)", "sent")
            await tx.add([make_new()])
            await tx.put([make_new(key="k")])
            await tx.put_schedule(schedule)
            await tx.plant([make_head(schedule)])
            for event in await tx.claim("w1", {LANE: 5}, LEASE):
                await tx.settle([failed(event)], "w1")
            raise Oops
    assert await store.find(Everything(), limit=10) == [before]
    assert await store.schedule_named("default", schedule.name) is None
    assert await store.history(id) == []
    assert await ask(store, "SELECT count(*) FROM effects") == 0


async def test_statements_of_one_transaction_commit_together(opened: OpenStore) -> None:
    store, elsewhere = await opened(), await opened()
    await write(store, EFFECTS)
    async with store.begin() as tx:
        await tx.execute("INSERT INTO effects VALUES ($1)", "sent")
        await tx.add([make_new()])
        [event] = await tx.claim("w1", {LANE: 1}, LEASE)
        await tx.settle([completed(event)], "w1")
        assert await count(tx) == 1
        assert await count(elsewhere) == 0
    assert (await event_of(elsewhere, event.id)).status is Status.COMPLETED
    assert len(await elsewhere.history(event.id)) == 1
    assert await ask(elsewhere, "SELECT name FROM effects") == "sent"


async def test_an_error_of_the_database_undoes_all(store: AnyStore) -> None:
    with suppress(Oops):
        async with store.begin() as tx:
            await tx.put([make_new(key="k")])
            with pytest.raises(Exception, match=r"(?i)unique"):
                await tx.add([make_new(key="k")])
            raise Oops
    assert await count(store) == 0
    await store.put([make_new(key="k")])
    assert await count(store) == 1


async def test_an_error_in_a_batch_undoes_the_batch(store: AnyStore) -> None:
    await store.put([make_new(key="k")])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store.add([make_new(), make_new(key="k"), make_new()])
    assert await count(store) == 1


async def test_cancelling_a_transaction_rolls_back_and_lets_others_go_on(store: AnyStore) -> None:
    inside = asyncio.Event()

    async def hang() -> None:
        async with store.begin() as tx:
            await tx.add([make_new()])
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hang())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.add([make_new()])
    assert await count(store) == 1


async def test_simultaneous_transactions_all_commit(store: AnyStore) -> None:
    async def one(n: int) -> None:
        async with store.begin() as tx:
            await tx.put([make_new(key=f"k{n}")])
            await asyncio.sleep(0)
            await tx.put([make_new(key=f"k{n}", payload="moved")])

    await asyncio.gather(*(one(n) for n in range(20)))
    assert {event.payload for event in await store.find(Everything(), limit=100)} == {"moved"}
    assert await count(store) == 20


async def test_the_users_own_statements_read_and_write(store: AnyStore) -> None:
    async with store.begin() as tx:
        await tx.execute(EFFECTS)
        await tx.execute("INSERT INTO effects VALUES ($1), ($2)", "a", "b")
        rows = await tx.fetch("SELECT name FROM effects ORDER BY name")
        assert [tuple(row) for row in rows] == [("a",), ("b",)]
        assert tuple(await tx.fetchrow("SELECT name, 7 FROM effects WHERE name = $1", "b")) == ("b", 7)
        assert await tx.fetchrow("SELECT name FROM effects WHERE name = $1", "c") is None
        assert await tx.fetchval("SELECT count(*) FROM effects") == 2
        assert await tx.fetchval("SELECT name FROM effects WHERE name = $1", "c") is None
        assert tx.connection is not None


async def test_a_transaction_that_has_ended_is_refused(store: AnyStore) -> None:
    async with store.begin() as tx:
        pass
    with pytest.raises(Misuse, match="ended"):
        await tx.add([make_new()])
    with pytest.raises(Misuse, match="ended"):
        await tx.fetchval("SELECT 1")


async def test_a_store_that_is_not_open_says_so(opened: OpenStore) -> None:
    store = await opened()
    await store.close()
    with pytest.raises(Misuse, match="not open"):
        await store.add([make_new()])
    with pytest.raises(Misuse, match="not open"):
        async with store.begin():
            pass


@pytest.mark.broken_rows("its rows are written by hand")
async def test_the_lock_on_an_event_keeps_others_from_changing_it(opened: OpenStore) -> None:
    one, other = await opened(), await opened()
    [id] = await one.add([make_new()])
    async with one.begin() as tx:
        await tx.lock(id)
        claiming = asyncio.create_task(other.claim("w2", {LANE: 1}, LEASE))
        await asyncio.sleep(0.05)  # long enough for a claim that does not wait
        await tx.execute(spelled(one, "UPDATE duly.events SET status = 'CANCELLED', ready = NULL WHERE id = $1"), id)
    assert await claiming == []


async def test_a_transaction_on_sqlite_refuses_to_wait_for_itself(opened: OpenStore) -> None:
    store = await opened()
    if store.dialect != "sqlite":
        async with store.begin(), store.begin():
            return
    async with store.begin():
        with pytest.raises(Misuse, match="transaction=tx"):
            await store.add([make_new()])
        with pytest.raises(Misuse, match="transaction=tx"):
            async with store.begin():
                pass
