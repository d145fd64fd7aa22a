"""The same calls for synchronous code: the proxy that Duly has, before a Client."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from duly import Duly, Invalid, Misuse, NotFound, OfType, Timer, every
from duly.client import Client
from duly.sync import SyncClient
from duly.testing import ManualClock
from tests.client.serving import serving_in_a_thread
from tests.make import DAY, HOUR, START

ADA: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1990-12-10",
    "timezone": "Europe/London",
}


@pytest.fixture
def server(url: str, clock: ManualClock) -> Iterator[str]:
    with serving_in_a_thread(Duly(url, clock=clock)) as address:
        yield address


@pytest.fixture
def sync(server: str) -> Iterator[SyncClient]:
    with Client(server).sync as sync:
        yield sync


def test_synchronous_calls_of_a_client_do_what_the_asynchronous_ones_do(sync: SyncClient) -> None:
    event = sync.at(START + HOUR, "x", {"n": 1}, key="k")
    assert sync.events.by_key("k") == event == sync.events.get(event.id)
    assert sync.put(START + DAY, "x", key="k").change == "moved"
    assert sync.after(HOUR, "y").due == START + HOUR
    assert len(sync.add_many([Timer(START, "y")])) == 1
    assert len(sync.events.find(OfType("y"))) == 2
    assert sync.events.cancel(event.id) == "cancelled"
    assert sync.cancel("k") == "nothing"
    assert sync.every("hourly", every("1h"), "digest") == sync.schedules.get("hourly")
    assert sync.schedules.resume("hourly").passed == 0
    user = sync.users.add(**ADA)
    assert sync.users.update(user.id, timezone="Asia/Tokyo").timezone == "Asia/Tokyo"
    assert sync.targets.list() == []
    with pytest.raises(Invalid, match="type"):
        sync.at(START, "")
    with pytest.raises(NotFound):
        sync.schedules.get("nobody's")


def test_a_synchronous_client_iterates_page_by_page(sync: SyncClient) -> None:
    ids = sync.add_many([Timer(START, "x") for _ in range(3)])
    assert [event.id for event in sync.events.all()] == ids[::-1]
    for event in sync.events.all(OfType("x")):
        assert event.id == ids[-1]
        break  # whoever has enough leaves nothing behind
    assert list(sync.users.all()) == []
    assert list(sync.schedules.all()) == []


def test_threads_may_share_a_synchronous_client(sync: SyncClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        events = list(pool.map(lambda n: sync.at(START, "x", n, key=str(n)), range(40)))
    assert sorted(event.payload for event in events) == list(range(40))
    assert len(sync.events.find(limit=100)) == 40


def test_synchronous_verbs_that_http_does_not_have_say_what_to_do_instead(sync: SyncClient) -> None:
    with pytest.raises(Misuse, match="after your commit"), sync.transaction():
        pytest.fail("there is none")
    for verb in (sync.run, sync.on, sync.schedule, sync.observe, sync.stop, sync.tick):
        with pytest.raises(Misuse, match=r"is not available over HTTP: \w+"):
            verb()
    with pytest.raises(Misuse, match="duly serve --app"):
        sync.event_types.register("x")


def test_a_synchronous_client_knows_the_event_types_of_the_server(sync: SyncClient) -> None:
    assert {"birthday", "anniversary"} <= {type.name for type in sync.event_types.list()}
    for act in (
        lambda: sync.at(START, "x", transaction=object()),
        lambda: sync.schedules.put("a", every("1h"), "x", transaction=object()),
        sync.tick,
        sync.schedules.replan,
        sync.users.refresh,
        lambda: sync.keys.list(),
        lambda: sync.targets.history("shop"),
    ):
        with pytest.raises(Misuse):
            act()
    assert sync.events.find() == []


def test_a_synchronous_client_is_opened_as_often_as_needed_and_closed(server: str) -> None:
    client = Client(server)
    with pytest.raises(Misuse, match="is not open"):
        client.sync.events.find()
    for _ in range(2):
        with client.sync as outer, client.sync:
            assert outer.events.find() == []
    assert not [thread for thread in threading.enumerate() if thread.name == "duly-sync"]


def test_a_client_that_is_open_in_a_loop_serves_threads_from_there(server: str) -> None:
    async def both() -> None:
        async with Client(server) as client:
            event = await asyncio.to_thread(client.sync.at, START, "x")
            assert await client.events.get(event.id) == event
            with pytest.raises(Misuse, match="would block the running event loop"):
                client.sync.events.find()

    asyncio.run(both())
