from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.records.event import Claim
from duly.records.specs import DueBetween, Everything
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import LANE, LEASE, MICROSECOND, START, make_new
from tests.stores.rows import event_of, event_with_key, write

FAR = [
    datetime(2, 1, 1, tzinfo=UTC),
    datetime(1582, 10, 4, 23, 59, 59, 999_999, UTC),
    datetime(1900, 2, 28, 12, 0, 0, 1, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
    datetime(2000, 1, 1, tzinfo=UTC),
    START - MICROSECOND,
    START,
    START + MICROSECOND,
    datetime(2038, 1, 19, 3, 14, 8, 123_456, UTC),
    datetime(2262, 4, 11, 23, 47, 16, 854_776, UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC),
]


async def test_instants_keep_their_microseconds(store: AnyStore) -> None:
    await store.add([make_new(due=due, payload=n) for n, due in enumerate(FAR)])
    found = {event.payload: event for event in await store.find(Everything(), limit=100)}
    assert [found[n].due for n in range(len(FAR))] == FAR
    assert [found[n].ready for n in range(len(FAR))] == FAR


async def test_instants_sort_as_time(store: AnyStore, clock: ManualClock) -> None:
    clock.set(datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC))
    await store.add([make_new(due=due) for due in reversed(FAR)])
    one_by_one = [event.due for _ in FAR for event in await store.claim("w1", {LANE: 1}, LEASE)]
    assert one_by_one == FAR


async def test_each_instant_is_due_at_itself_and_not_before(store: AnyStore, clock: ManualClock) -> None:
    for due in FAR:
        await store.add([make_new(due=due)])
        clock.set(due - MICROSECOND)
        assert await store.claim("w1", {LANE: 1}, LEASE) == []
        clock.set(due)
        assert [event.due for event in await store.claim("w1", {LANE: 1}, LEASE)] == [due]


async def test_a_search_tells_apart_instants_a_microsecond_apart(store: AnyStore) -> None:
    await store.add([make_new(due=due) for due in FAR])
    for due in FAR:
        assert [event.due for event in await store.find(DueBetween(due, due + MICROSECOND), limit=10)] == [due]


async def test_an_instant_is_the_same_in_every_zone(store: AnyStore) -> None:
    await store.put(
        [make_new(key="k", due=datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))))]
    )
    event = await event_with_key(store, "k")
    assert event.due == datetime(2026, 3, 28, 21, 0, tzinfo=UTC)
    assert event.due.tzinfo is UTC


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dues=st.lists(
        st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds
        min_size=1,
        max_size=20,
    )
)
async def test_any_instants_come_back_equal(store: AnyStore, dues: list[datetime]) -> None:
    ids = await store.add([make_new(due=due) for due in dues])
    found = {event.id: event.due for event in await store.find(Everything(), limit=len(ids))}
    assert [found[id] for id in ids] == dues


SPANS = [
    MICROSECOND,
    timedelta(seconds=1, microseconds=1),
    timedelta(hours=23),
    timedelta(days=364),
    timedelta(days=365_000),
]


@pytest.mark.parametrize("span", [*SPANS, *(-span for span in SPANS)], ids=str)
async def test_spans_are_exact(store: AnyStore, clock: ManualClock, span: timedelta) -> None:
    clock.advance(microseconds=1)
    await store.put([make_new(key="k", delay=span)])
    event = await event_with_key(store, "k")
    assert event.due == event.ready == clock.now() + span
    assert (await store.horizon([LANE]))[0].fresh == span


async def test_the_stores_own_clock_is_utc_and_keeps_time(url: str, opened: OpenStore) -> None:
    from duly.config import read_settings
    from duly.wiring import open_store

    await opened()
    store = open_store(read_settings({}, database_url=url), None)
    await store.open(migrate=False)
    try:
        before = datetime.now(UTC) - timedelta(seconds=5)
        now = await store.now()
        assert before <= now <= datetime.now(UTC) + timedelta(seconds=5)
        [added] = await store.put([make_new(key="k", delay=timedelta(hours=1))])
        assert before + timedelta(hours=1) <= added.event.due
        assert added.event.created.tzinfo is UTC
    finally:
        await store.close()


# -- a server whose zone has a summer time

WINTER, SUMMER = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=180)


@pytest.fixture
async def in_brussels(store: AnyStore, url: str, opened: OpenStore) -> AsyncIterator[AnyStore]:
    """The same database, whose sessions think in a zone where a day can have 23 hours."""
    if store.dialect == "sqlite":
        yield store
        return
    name = url.rpartition("/")[2]
    await write(store, f"ALTER DATABASE {name} SET timezone = 'Europe/Brussels'")
    try:
        yield await opened()
    finally:
        await write(store, f"ALTER DATABASE {name} RESET timezone")


async def test_a_delay_is_real_time_whatever_the_servers_zone(in_brussels: AnyStore, clock: ManualClock) -> None:
    clock.set(WINTER)
    [added] = await in_brussels.put([make_new(key="k", delay=SUMMER)])
    assert added.event.due == WINTER + SUMMER


async def test_a_lease_is_real_time_whatever_the_servers_zone(in_brussels: AnyStore, clock: ManualClock) -> None:
    clock.set(datetime(2026, 3, 28, 12, tzinfo=UTC))  # the clocks change in the night
    await in_brussels.add([make_new(due=clock.now())])
    [event] = await in_brussels.claim("w1", {LANE: 1}, timedelta(days=1))
    assert event.ready == clock.now() + timedelta(days=1)
    await in_brussels.renew([Claim(event.id, event.version)], timedelta(days=1))
    assert (await event_of(in_brussels, event.id)).ready == clock.now() + timedelta(days=1)


async def test_the_history_of_a_move_is_in_utc_whatever_the_servers_zone(in_brussels: AnyStore) -> None:
    await in_brussels.put([make_new(key="k", due=WINTER)])
    [(event, _)] = await in_brussels.put([make_new(key="k", due=WINTER + SUMMER)])
    [entry] = await in_brussels.history(event.id)
    assert [datetime.fromisoformat(part) for part in str(entry.detail).removeprefix("due ").split(" → ")] == [
        WINTER,
        WINTER + SUMMER,
    ]
