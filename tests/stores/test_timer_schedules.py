"""The view that shows timers in the words of those who send them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly
from duly.engine.schedule import OrderedTimer, put_ordered_timers
from duly.records.event import Event
from duly.testing import ManualClock
from duly.timer_service.messages import REACHED, TIMER, read_command
from duly.verbs.events.events import Events
from tests.conftest import AnyStore
from tests.make import HOUR, LEASE, MINUTE, START, completed, given_back, make_new, rejected
from tests.stores.rows import spelled

LATE = timedelta(milliseconds=12)


async def add(store: AnyStore, key: str, *, tenant: str = "acme", **fields: Any) -> Event:
    new = make_new(type=REACHED, target={TIMER: {}}, key=key, tenant=tenant, **fields)
    [(event, _)] = await store.put([new])
    assert isinstance(event, Event)
    return event


async def seen(store: AnyStore) -> dict[str, Any]:
    """By their keys; SQLite's instants are text."""
    columns = "tenant_id, service_call_id, due_at, state, registered_at, reached_at, correlation_id"
    async with store.begin() as tx:
        rows = await tx.fetch(spelled(store, f"SELECT {columns} FROM duly.timer_schedules"))
    read = [[instant(one) if is_instant(one) else one for one in row] for row in rows]
    return {str(row[1]): dict(zip(columns.split(", "), row, strict=True)) for row in read}


def is_instant(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("20")


def instant(text: str) -> datetime:
    """SQLite's text is UTC, and does not say so: no more does datetime('now')."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


async def test_the_view_shows_a_timer_as_scheduled_and_then_reached(store: AnyStore, clock: ManualClock) -> None:
    await add(store, "s1", due=START + HOUR, correlation_id="c1")
    scheduled = {
        "tenant_id": "acme",
        "service_call_id": "s1",
        "due_at": START + HOUR,
        "state": "Scheduled",
        "registered_at": START,
        "reached_at": None,
        "correlation_id": "c1",
    }
    assert await seen(store) == {"s1": scheduled}
    clock.advance(HOUR + LATE)
    [claimed] = await store.claim("w1", {TIMER: 10}, LEASE)
    assert await seen(store) == {"s1": scheduled}, "while it is being published"
    await store.settle([completed(claimed)], "w1")
    assert await seen(store) == {"s1": scheduled | {"state": "Reached", "reached_at": START + HOUR + LATE}}


async def test_the_view_shows_a_timer_that_was_given_back_as_scheduled(store: AnyStore, clock: ManualClock) -> None:
    await add(store, "s1")
    [claimed] = await store.claim("w1", {TIMER: 10}, LEASE)
    await store.settle([given_back(claimed)], "w1")
    row = (await seen(store))["s1"]
    assert (row["state"], row["reached_at"]) == ("Scheduled", None)


async def test_the_view_shows_a_moved_timer_with_its_first_registration(store: AnyStore, clock: ManualClock) -> None:
    await add(store, "s1", due=START + HOUR)
    clock.advance(MINUTE)
    await add(store, "s1", due=START + 2 * HOUR)
    row = (await seen(store))["s1"]
    assert (row["due_at"], row["registered_at"]) == (START + 2 * HOUR, START)


async def test_the_view_shows_a_rejected_timer_as_failed(store: AnyStore) -> None:
    await add(store, "refused")
    [claimed] = await store.claim("w1", {TIMER: 10}, LEASE)
    await store.settle([rejected(claimed, "too large")], "w1")
    assert (await seen(store))["refused"]["state"] == "Failed"


async def test_the_view_has_one_row_for_a_key(store: AnyStore) -> None:
    """A timer that a person has cancelled frees its key."""
    cancelled = await add(store, "s1", due=START + HOUR)
    await Events(store).cancel(cancelled.id)
    assert await seen(store) == {}
    await add(store, "s1", due=START + 2 * HOUR)
    async with store.begin() as tx:
        assert await tx.fetchval(spelled(store, "SELECT count(*) FROM duly.timer_schedules")) == 1


async def test_the_view_shows_timers_of_the_broker_alone(store: AnyStore) -> None:
    await store.put([make_new(key="mine")])
    await store.add([make_new(type=REACHED, target={TIMER: {}})])
    await add(store, "theirs")
    assert list(await seen(store)) == ["theirs"]


@pytest.mark.parametrize("due", ["2026-12-01T09:00:00.123Z", "1969-07-20T20:17:40Z", "9998-12-31T23:59:59.999Z"])
async def test_the_view_shows_instants_of_all_times(store: AnyStore, due: str) -> None:
    await add(store, "s1", due=datetime.fromisoformat(due))
    async with store.begin() as tx:
        shown = await tx.fetchval(spelled(store, "SELECT due_at FROM duly.timer_schedules"))
    assert (instant(shown) if isinstance(shown, str) else shown) == datetime.fromisoformat(due)


@pytest.mark.parametrize(
    "statement", ["UPDATE duly.timer_schedules SET due_at = reached_at", "DELETE FROM duly.timer_schedules"]
)
async def test_the_view_of_timers_cannot_be_written(store: AnyStore, statement: str) -> None:
    await add(store, "s1")
    before = await seen(store)
    with pytest.raises(Exception, match=r"cannot (modify|update|delete from) .*view|because it is a view"):
        async with store.begin() as tx:
            await tx.execute(spelled(store, statement))
    assert await seen(store) == before


POLLING = """
SELECT tenant_id, service_call_id, due_at, correlation_id
FROM timer_schedules
WHERE state = 'Scheduled' AND due_at <= datetime('now')
ORDER BY due_at ASC
LIMIT 100;
"""
"""Word for word as those write it who poll such a table on SQLite."""


async def test_polling_the_view_finds_timers_that_are_due(store: AnyStore) -> None:
    """By the real clock: that is the one which datetime('now') shows."""
    now = datetime.now(UTC)
    for key, due in {
        "an hour ago": now - HOUR,
        "years ago": now - timedelta(days=4000),
        "last whole second": now.replace(microsecond=0),
        "in an hour": now + HOUR,
        "later today or tomorrow": now + 3 * HOUR,
    }.items():
        await add(store, key, due=due)
    async with store.begin() as tx:
        if store.dialect == "sqlite":
            rows = await tx.fetch(POLLING)
        else:
            await tx.execute("SET LOCAL search_path = duly")
            rows = await tx.fetch(POLLING.replace("datetime('now')", "now()"))
    assert [row[1] for row in rows] == ["years ago", "an hour ago", "last whole second"]


async def test_sqlite_text_of_instants_sorts_with_its_own_clock() -> None:
    """Within a second as well, and never before its time."""
    async with Duly("sqlite://") as duly:
        await _compare_texts(duly.store)


async def _compare_texts(store: AnyStore) -> None:
    micros = {"whole": 0, "a millisecond": 1000, "a moment after": 400, "nearly the next": 999_999}
    for key, microsecond in micros.items():
        await add(store, key, due=START + timedelta(microseconds=microsecond))
    async with store.begin() as tx:
        rows = await tx.fetch("SELECT service_call_id, due_at FROM timer_schedules ORDER BY due_at, service_call_id")
        assert [tuple(row) for row in rows] == [
            ("whole", "2026-01-01 00:00:00"),
            ("a millisecond", "2026-01-01 00:00:00.001"),
            ("a moment after", "2026-01-01 00:00:00.001"),
            ("nearly the next", "2026-01-01 00:00:01"),
        ]
        assert await tx.fetchval("SELECT datetime(1767225600, 'unixepoch')") == "2026-01-01 00:00:00"


async def test_a_timer_is_found_in_the_view_by_the_index_of_keys(store: AnyStore) -> None:
    explain = "EXPLAIN QUERY PLAN" if store.dialect == "sqlite" else "EXPLAIN"
    query = f"{explain} SELECT * FROM duly.timer_schedules WHERE tenant_id = 'a' AND service_call_id = 's7'"
    timers = [make_new(type=REACHED, target={TIMER: {}}, key=f"s{n}", tenant="a") for n in range(2000)]
    await store.put(timers)  # among few rows, one index is as good as another
    async with store.begin() as tx:
        await tx.execute(spelled(store, "ANALYZE duly.events"))
        plan = await tx.fetch(spelled(store, query))
    assert "events_key" in str([tuple(row) for row in plan])


async def test_commands_of_one_batch_for_one_key_are_one_timer(store: AnyStore) -> None:
    def wish(asked: int, due: str) -> OrderedTimer:
        timer = read_command(
            b'{"type": "ScheduleTimer", "tenantId": "acme", "payload": {"serviceCallId": "s1", "dueAt": "%s"}}'
            % due.encode()
        )
        assert not isinstance(timer, list)
        return OrderedTimer(asked, timer)

    wishes = [wish(2, "2030-01-01T00:00:00Z"), wish(3, "2031-01-01T00:00:00Z"), wish(1, "2032-01-01T00:00:00Z")]
    await put_ordered_timers(store, wishes, [TIMER])
    [row] = (await seen(store)).values()
    assert row["due_at"] == datetime.fromisoformat("2031-01-01T00:00:00Z")
