"""Services with different handlers share one database, and neither takes the other's work."""

import asyncio
from typing import Any

import pytest

from duly import Duly, Event, InStatus, OfType, Retry, Status, Timer
from duly.testing import ManualClock, Recorder
from tests.conftest import OpenDuly
from tests.make import HOUR, START
from tests.stores.rows import ask, write

HUNDRED_THOUSAND = {
    "postgres": """
        INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created)
        SELECT gen_random_uuid(), 'default', 'theirs', 'handler:theirs', $1, $1, '{}', $1
        FROM generate_series(1, 100000)""",
    "sqlite": """
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)
        INSERT INTO events (id, tenant, type, lane, due, ready, payload, created)
        SELECT format('01900000-0000-7000-8000-%012x', n), 'default', 'theirs', 'handler:theirs', $1, $1, '{}', $1
        FROM numbers""",
}


def serving(app: Duly, *types: str) -> list[Event]:
    served: list[Event] = []

    async def serve(event: Event) -> None:
        served.append(event)

    for type in types:
        app.on(type)(serve)
    return served


async def test_each_service_takes_only_the_events_of_its_lanes(duly: OpenDuly) -> None:
    one, other = await duly(), await duly(channels={"pigeon": (pigeon := Recorder())})
    ours, theirs = serving(one, "ours", "also.ours"), serving(other, "theirs")
    for type in ("ours", "theirs", "also.ours", "nobodys"):
        await one.add_many([Timer(START, type) for _ in range(5)])
    await other.at(START, "ours", target={"pigeon": "the loft"})
    await asyncio.gather(one.tick(), other.tick())
    assert sorted(event.type for event in ours) == ["also.ours"] * 5 + ["ours"] * 5
    assert [event.type for event in theirs] == ["theirs"] * 5
    assert [event.type for event in pigeon.events] == ["ours"]
    left = await one.events.find(InStatus("PENDING"))
    assert [event.type for event in left] == ["nobodys"] * 5


async def test_a_hundred_thousand_events_of_another_lane_are_not_in_the_way(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    served = serving(app, "ours")
    await write(app.store, HUNDRED_THOUSAND[app.store.dialect], app.store.instant(START - HOUR))
    event = await app.at(START, "ours")
    await app.tick()
    assert [e.id for e in served] == [event.id]
    untouched = "SELECT count(*) FROM duly.events WHERE status = 'PENDING' AND version = 1 AND type = 'theirs'"
    assert await ask(app.store, untouched) == 100_000


async def test_an_event_that_one_service_fails_is_not_tried_by_another(duly: OpenDuly) -> None:
    one, other = await duly(), await duly()
    theirs = serving(other, "theirs")

    @one.on("ours")
    async def fail(_: Event) -> None:
        raise ConnectionError

    event = await one.at(START, "ours", retry=Retry(max_attempts=1))
    await other.tick()
    await one.tick()
    await other.tick()
    assert theirs == []
    assert (await one.events.get(event.id)).status is Status.FAILED


@pytest.mark.parametrize("concurrency", [1, 2, 100])
async def test_a_tick_serves_every_lane_however_few_places_there_are(duly: OpenDuly, concurrency: int) -> None:
    app = await duly(concurrency=concurrency)
    served = serving(app, *(f"type-{n}" for n in range(5)))
    await app.add_many([Timer(START, f"type-{n}") for n in (4, 0, 2, 4)])
    await app.tick()
    assert sorted(event.type for event in served) == ["type-0", "type-2", "type-4", "type-4"]


async def test_a_flood_in_one_lane_does_not_starve_another(duly: OpenDuly) -> None:
    app = await duly(concurrency=10, batch_size=10)
    served = serving(app, "flood", "trickle")
    await app.add_many([Timer(START - HOUR, "flood") for _ in range(500)] + [Timer(START, "trickle")])
    await app.tick()
    place = [event.type for event in served].index("trickle")
    assert place < 100


async def test_a_lane_is_found_by_its_whole_name(duly: OpenDuly) -> None:
    app = await duly()
    served = serving(app, "a", "handler:a", "A", "a ".strip() + "b")
    for type in ("a", "handler:a", "A", "ab", "b", "handler"):
        await app.at(START, type)
    await app.tick()
    assert sorted(event.type for event in served) == ["A", "a", "ab", "handler:a"]
    assert {event.type for event in await app.events.find(InStatus("PENDING"))} == {"b", "handler"}


async def test_a_handler_named_like_a_channel_is_not_that_channel(duly: OpenDuly) -> None:
    app: Any = await duly(channels={"pigeon": (pigeon := Recorder())})
    served = serving(app, "pigeon")
    await app.at(START, "pigeon")
    await app.tick()
    assert (len(served), pigeon.events) == (1, [])
    assert len(await app.events.find(OfType("pigeon"))) == 1
