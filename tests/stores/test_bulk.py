"""Many events at once. PostgreSQL takes them by COPY, which must keep all that a plain insert keeps."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.config import read_settings
from duly.decide.retry import Retry
from duly.errors import SchemaMismatch
from duly.ids import new_ids
from duly.records.event import NewEvent
from duly.records.specs import Everything
from duly.stores.postgres.bulk_copy import WORTH_COPYING
from duly.stores.postgres.copy_rows import BLOCK_ROWS
from duly.stores.postgres.store import PostgresStore
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import AnyStore
from tests.make import DAY, MICROSECOND, SECOND, START, make_new
from tests.stores.rows import write
from tests.stores.test_instants import FAR, SPANS

MANY = WORTH_COPYING + 1

TEXTS = ["\x00", "a\tb\nc\rd", "\\", "\\N", "\\.", '"', "é", "\u2028", "日本語", "🎂", "", "x" * 70_000]


def kinds() -> list[dict[str, Any]]:
    """Events that differ in every column."""
    return [
        *({"payload": text} for text in TEXTS),
        *({"payload": {text: [text, 1.5, None, True]}} for text in TEXTS),
        {"payload": 10**30},
        {"tenant": "ключ"},
        {"type": "a\\b"},
        {"target": {"webhook": "https://hooks.example/?a=\\x"}},
        {"target": {"nats": "é"}, "correlation_id": "🎂\\N"},
        {"retry": Retry(max_attempts=9), "correlation_id": "c"},
        {"delay": timedelta()},
        {"via": "http"},
    ]


async def found(store: AnyStore, ids: list[str]) -> list[Any]:
    events = {event.id: event for event in await store.find(Everything(), limit=10_000)}
    return [events[id] for id in ids]


async def test_a_bulk_insert_keeps_what_a_plain_one_keeps(store: AnyStore) -> None:
    plain = await found(store, await store.add([make_new(**fields) for fields in kinds()]))
    repeated = [make_new(**fields) for fields in kinds() * (1 + MANY // len(kinds()))]
    bulk = await found(store, await store.add(repeated))
    assert [msgspec.structs.replace(event, id="") for event in bulk] == [
        msgspec.structs.replace(event, id="") for _ in range(len(bulk) // len(plain)) for event in plain
    ]


async def test_a_bulk_keeps_keys(store: AnyStore) -> None:
    ids = await store.add([make_new(key=f"key-{n}" if n % 2 else None) for n in range(MANY)])
    assert [event.key for event in await found(store, ids)] == [f"key-{n}" if n % 2 else None for n in range(MANY)]


async def test_a_bulk_of_several_blocks_is_stored_in_order(store: AnyStore) -> None:
    count = 2 * BLOCK_ROWS + 7
    events = [make_new(id=id, payload=n, due=START + n * SECOND) for n, id in enumerate(new_ids(count))]
    assert await store.add(events) == [event.id for event in events]
    stored = await found(store, [event.id for event in events])
    assert [(event.payload, event.due) for event in stored] == [(n, START + n * SECOND) for n in range(count)]


async def bulk_of(store: AnyStore, dues: list[datetime]) -> list[datetime]:
    """The due times that come back for these, padded to as many as make a bulk."""
    events = [make_new(due=due) for due in dues] + [make_new() for _ in range(MANY)]
    stored = (await found(store, await store.add(events)))[: len(dues)]
    assert [event.ready for event in stored] == [event.due for event in stored]
    return [event.due for event in stored]


async def test_instants_keep_their_microseconds_in_bulk(store: AnyStore) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    assert await bulk_of(store, [first, *FAR, last]) == [first, *FAR, last]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    dues=st.lists(
        st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.timezones()),  # noqa: DTZ001 - bounds
        min_size=1,
        max_size=50,
    )
)
async def test_any_instants_of_any_zone_come_back_equal_in_bulk(store: AnyStore, dues: list[datetime]) -> None:
    await write(store, "DELETE FROM duly.events")
    dues = [due.astimezone(UTC) for due in dues]
    assert await bulk_of(store, dues) == dues


async def test_delays_are_exact_in_bulk_and_count_from_the_stores_now(store: AnyStore, clock: ManualClock) -> None:
    clock.advance(microseconds=1)
    spans = [*SPANS, *(-span for span in SPANS)]
    events = [make_new(delay=span) for span in spans] + [make_new() for _ in range(MANY)]
    stored = (await found(store, await store.add(events)))[: len(spans)]
    assert [event.due for event in stored] == [clock.now() + span for span in spans]
    assert {event.created for event in stored} == {clock.now()}


async def test_an_event_that_cannot_be_inserted_undoes_the_bulk(store: AnyStore) -> None:
    twice = make_new()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store.add([twice, *(make_new() for _ in range(3 * BLOCK_ROWS)), twice])
    assert await store.find(Everything(), limit=1) == []
    await store.add([make_new() for _ in range(MANY)])
    assert len(await store.find(Everything(), limit=1000)) == MANY


# -- what only PostgreSQL has


@pytest.fixture
async def on_postgres(clean_postgres: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    store = open_store(read_settings({}, database_url=clean_postgres), clock)
    assert isinstance(store, PostgresStore)
    await store.open(migrate=True)
    yield store
    await store.close()


async def notices(store: AnyStore, events: list[NewEvent]) -> list[str]:
    """The lanes that others are told of."""
    heard: list[str] = []
    assert isinstance(store, PostgresStore)
    connection = await asyncpg.connect(store.url)
    try:
        await connection.add_listener("duly", lambda *notice: heard.append(str(notice[-1])))
        await store.add(events)
        await connection.execute("SELECT 1")
    finally:
        await connection.close()
    return heard


async def test_lanes_with_work_soon_are_woken_once_by_a_bulk(on_postgres: PostgresStore) -> None:
    soon, later = START + on_postgres.soon, START + on_postgres.soon + MICROSECOND
    events = [
        *(make_new(type=type, due=due) for type in ("b", "a") for due in (START - DAY, soon) for _ in range(MANY)),
        *(make_new(type="later", due=later) for _ in range(MANY)),
        make_new(type="in a moment", delay=on_postgres.soon),
        make_new(type="in two", delay=on_postgres.soon + MICROSECOND),
    ]
    assert await notices(on_postgres, events) == ["handler:a", "handler:b", "handler:in a moment"]


async def test_cancelling_a_bulk_in_the_middle_undoes_it(on_postgres: PostgresStore) -> None:
    events = [make_new(payload="x" * 2000) for _ in range(5 * BLOCK_ROWS)]
    for turns in range(0, 12, 2):
        task = asyncio.create_task(on_postgres.add(events))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with on_postgres.begin() as tx:
        await tx.add([make_new() for _ in range(MANY)])
    assert len(await on_postgres.find(Everything(), limit=10_000)) == MANY


async def test_a_bulk_is_text_in_whatever_encoding_the_transaction_has(on_postgres: PostgresStore) -> None:
    async with on_postgres.lend() as tx:
        await tx.execute("SET LOCAL client_encoding = 'LATIN1'")
        ids = await tx.add([make_new(payload="é", tenant="é") for _ in range(MANY)])
    assert {(event.payload, event.tenant) for event in await found(on_postgres, ids)} == {("é", "é")}


async def test_a_bulk_is_independent_of_codecs_of_the_transaction(on_postgres: PostgresStore) -> None:
    def refuse(value: Any) -> Any:
        raise AssertionError(f"{value!r} went through a codec of the user's")

    async with on_postgres.lend() as tx:
        tx.clock = None  # a test's clock is a parameter, which the codec would see
        for name in ("timestamptz", "json", "uuid"):
            await tx.connection.set_type_codec(name, schema="pg_catalog", encoder=refuse, decoder=refuse)
        try:
            ids = await tx.add([make_new(payload={"n": 1}) for _ in range(MANY)])
        finally:
            for name in ("timestamptz", "json", "uuid"):
                await tx.connection.reset_type_codec(name, schema="pg_catalog")
    assert [event.payload for event in await found(on_postgres, ids)] == [{"n": 1}] * MANY


async def test_a_bulk_without_tables_says_what_to_do(on_postgres: PostgresStore) -> None:
    async with on_postgres.begin() as tx:
        await tx.execute("ALTER TABLE duly.events RENAME TO elsewhere")
        with pytest.raises(SchemaMismatch, match="duly migrate"):
            await tx.add([make_new() for _ in range(MANY)])
    assert await on_postgres.find(Everything(), limit=1) == []
