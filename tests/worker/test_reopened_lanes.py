"""A lane that could not be served for a while goes on with the oldest: what was given back has its place before what
came after it."""

import math
from datetime import datetime

import pytest

from duly.engine.claim import Claims
from duly.engine.fairness.lanes import Lanes
from duly.engine.faults import frontier
from duly.records.event import Event
from tests.claiming import claims_of
from tests.conftest import AnyStore
from tests.make import LANE, MINUTE, SECOND, START, given_back, make_event, make_new

BATCH = 20


@pytest.fixture
def claims(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> Claims:
    """Every scan counts as quick, also on a busy machine: after a slow one, a claim begins where the last one ended."""
    monkeypatch.setattr(frontier, "CHEAP_FULL_SCAN_S", math.inf)
    return claims_of(store, "w", BATCH)


async def due(store: AnyStore, tenant: str, since: datetime, many: int) -> list[str]:
    """Events that are due a moment after each other, the oldest first."""
    events = [make_new(tenant=tenant, due=since + n * SECOND / 10) for n in range(many)]
    await store.put(events)
    return [event.id for event in events]


async def take(claims: Claims) -> list[Event]:
    return [event async for batch in claims.take({LANE: BATCH}) for event in batch.events]


async def test_a_claim_takes_the_oldest_event_also_after_it_was_given_back(store: AnyStore, claims: Claims) -> None:
    ids = await due(store, "default", START - MINUTE, 3 * BATCH)
    first = await take(claims)
    [other] = await claims.take_for_idle_tenants([LANE], 1)  # which learns of all that come after it
    assert [event.id for event in (*first, other)] == ids[: BATCH + 1]
    await store.settle([given_back(event) for event in (*first, other)], "w")
    assert [event.id for event in await take(claims)] == ids[:BATCH]
    assert [event.id for event in await take(claims)] == ids[BATCH : 2 * BATCH]


async def test_a_lane_that_opens_again_goes_on_with_the_oldest(store: AnyStore, claims: Claims) -> None:
    flooding = await due(store, "flooding", START - 2 * MINUTE, 3 * BATCH)
    await due(store, "quiet", START - MINUTE, 3 * BATCH)
    events = await take(claims) + await take(claims)
    assert "quiet" in {event.tenant for event in events}, "they share by now"
    await store.settle([given_back(event) for event in events], "w")
    await claims.begin_again(LANE)
    assert [event.id for event in await take(claims)] == flooding[:BATCH]


def test_a_lane_that_opens_again_waits_for_events_that_are_being_given_back() -> None:
    lanes, under_way = Lanes(["nats", "redis"]), [make_event(lane="nats")]
    lanes.open_only({"redis"}, frozenset())
    assert lanes.budget(10, (), lambda: under_way) == {"redis": 10}
    lanes.open_only({"nats", "redis"}, frozenset())
    assert lanes.budget(10, (), lambda: under_way) == {"nats": 0, "redis": 5}
    assert lanes.trusted == ["redis"]
    under_way.clear()
    assert lanes.budget(10, (), lambda: under_way) == {"nats": 5, "redis": 5}
    assert lanes.returned({"nats": 5, "redis": 5}) == {"nats"}
    assert lanes.returned({"nats": 5, "redis": 5}) == set()
    assert lanes.trusted == ["nats", "redis"]
    under_way.append(make_event(lane="nats"))
    assert lanes.budget(10, (), lambda: under_way) == {"nats": 5, "redis": 5}, "it has returned"


def test_a_lane_that_is_closed_while_it_is_claimed_from_has_no_backlog() -> None:
    """Or the worker would go on and on for it, and let nobody else have a turn."""
    lanes = Lanes(["nats", "redis"])
    room = lanes.budget(2, (), list)
    lanes.open_only({"redis"}, frozenset())
    lanes.claimed([make_event(lane="nats"), make_event(lane="redis")], room)
    assert lanes.busy == {"redis"}
    lanes.open_only((), frozenset())
    lanes.claimed([make_event(lane="redis")], {"redis": 1})
    assert lanes.busy == set()


def test_a_lane_that_closes_again_at_once_does_not_open() -> None:
    lanes = Lanes(["nats"])
    lanes.open_only((), frozenset())
    lanes.open_only({"nats"}, frozenset())
    lanes.open_only((), frozenset())
    assert lanes.returned(["nats"]) == set()
    assert lanes.open == []
