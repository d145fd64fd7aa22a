"""Keys of timers that have fired, and debounced timers, through the client."""

import asyncio
from datetime import timedelta

import pytest

from duly import AlreadyFired, Conflict, Duly, Event, Invalid, PutChange, Timer
from duly.client import Client
from duly.testing import ManualClock
from tests.client.serving import without_via
from tests.make import DAY, HOUR, START


async def fired(app: Duly, client: Client) -> Event:
    app.on("greet")(lambda event: None)
    await client.at(START, "greet", {"secret": 7}, key="k")
    await app.tick()
    return await client.events.get("k")


async def test_a_key_that_has_fired_is_what_python_has(app: Duly, client: Client) -> None:
    done = await fired(app, client)
    assert await client.at(START, "greet", key="k") == done
    for call in (client.at(START + HOUR, "greet", key="k"), client.after("1h", "greet", key="k")):
        with pytest.raises(AlreadyFired, match="once=False") as refused:
            await call
        assert refused.value.event == done
    told = [
        await client.put(START, "greet", key="k"),
        await client.put(START + HOUR, "greet", key="k"),
        await client.put(HOUR, "greet", key="k"),
        await client.put(START + HOUR, "greet", key="k", once=False),
        await client.put(START + DAY, "greet", key="k"),
    ]
    assert [one.change for one in told] == [
        PutChange.UNCHANGED, PutChange.ALREADY_FIRED, PutChange.ALREADY_FIRED, PutChange.CREATED, PutChange.MOVED,
    ]  # fmt: skip
    assert told[-1].event == without_via(await app.events.get("k"))


async def test_adding_many_returns_the_old_ids_of_keys_that_have_fired(app: Duly, client: Client) -> None:
    done = await fired(app, client)
    ids = await client.add_many([Timer(START + HOUR, "greet", key="k"), Timer(START, "greet")])
    assert (ids[0], len(set(ids))) == (done.id, 2)
    assert await client.add_many([Timer(START + HOUR, "greet", key="k", once=False)]) != [done.id]


async def test_another_type_under_an_open_key_is_refused(client: Client) -> None:
    await client.at(START + HOUR, "greet", key="k")
    with pytest.raises(Conflict, match="a timer of type 'bill' needs another key"):
        await client.at(START + HOUR, "bill", key="k")
    with pytest.raises(Invalid, match=r"\[0\].type: .* a timer of type 'bill' needs another key"):
        await client.add_many([Timer(START + HOUR, "bill", key="k")])


async def test_a_timer_may_be_debounced(app: Duly, client: Client, clock: ManualClock) -> None:
    first = await client.put(type="greet", key="k", quiet="24h", max_wait=timedelta(hours=36))
    clock.advance(DAY - HOUR)
    moved = await client.put(type="greet", key="k", quiet="24h", max_wait=timedelta(hours=36))
    assert (first.change, first.event.due, first.event.first_asked) == ("created", START + DAY, START)
    assert (moved.change, moved.event.due) == ("moved", START + timedelta(hours=36))
    assert await client.add_many([Timer(None, "greet", key="k", quiet=DAY)]) == [first.event.id]
    with pytest.raises(Invalid, match="key: is missing"):
        await client.put(type="greet", quiet="24h")


async def test_a_key_whose_event_was_deleted_tells_what_is_left(app: Duly, client: Client) -> None:
    done = await fired(app, client)
    await app.store.delete_ended([done.id])
    event, change = await client.put(START + HOUR, "greet", key="k")
    assert (change, event.id, event.status, event.executed, event.payload) == (
        "already_fired", done.id, done.status, done.executed, None,
    )  # fmt: skip
    assert await client.events.get("k") == event
    assert await client.cancel("k") == "fired"


async def test_synchronous_code_has_the_same_options(app: Duly, client: Client) -> None:
    await fired(app, client)

    def call() -> list[str]:
        sync = client.sync
        with pytest.raises(AlreadyFired):
            sync.at(START + HOUR, "greet", key="k")
        told = [sync.put(START + HOUR, "greet", key="k", once=False), sync.put(type="greet", key="d", quiet="1h")]
        return [one.change.value for one in told]

    assert await asyncio.to_thread(call) == ["created", "created"]
