"""Finding things with a Client: what Python itself finds on the same database."""

import pytest

from duly import Count, Duly, EventFilter, InStatus, Invalid, Status
from duly.client import Client
from tests.make import HOUR, START, a_user


async def test_counts_and_orders_are_those_of_python(app: Duly, client: Client) -> None:
    for hour in (9, 5, 7):
        await app.at(START + hour * HOUR, "greet", key=f"at-{hour}")
    waiting = EventFilter(status=(Status.PENDING,))
    assert await client.events.count(waiting) == await app.events.count(waiting) == Count(3, exact=True)
    assert await client.events.count(InStatus("FAILED")) == Count(0, exact=True)
    assert await client.schedules.count() == await client.users.count() == Count(0, exact=True)
    for sort, keys in (("due", ["at-5", "at-7", "at-9"]), ("-due", ["at-9", "at-7", "at-5"])):
        assert [event.key for event in await client.events.find(sort=sort)] == keys
        page = await client.events.page(sort=sort, limit=2)
        assert page == await app.events.page(sort=sort, limit=2)
        assert [event.key for event in await client.events.find(sort=sort, after=page.next)] == keys[2:]
    with pytest.raises(Invalid, match="the order of waiting events"):
        await client.events.find(EventFilter(stuck=True), sort="due")
    with pytest.raises(Invalid, match="after"):
        await client.events.page(sort="due", after="01a1e15c-88fe-77cf-98f6-68e11067ac37")


async def test_users_are_found_as_in_python(app: Duly, client: Client) -> None:
    await app.users.add(**a_user(key="a", first_name="Ada", timezone="Europe/London", attributes={"plan": "pro"}))
    await app.users.add(**a_user(key="b", first_name="Bob", timezone="Europe/London"))
    assert [user.key for user in await client.users.list(name="ada")] == ["a"]
    assert [user.key for user in await client.users.list(timezone="Europe/London")] == ["b", "a"]
    assert [user.key for user in await client.users.list(key="b", attributes={"plan": "pro"})] == []
    assert await client.users.count(timezone="Europe/London") == Count(2, exact=True)
    with pytest.raises(Invalid, match="timezone"):
        await client.users.list(timezone="Mars/Base")


async def test_a_search_finds_what_python_finds(app: Duly, client: Client) -> None:
    event = await app.at(START + HOUR, "greet", key="at-9")
    await app.users.add(**a_user(key="ada"))
    for text in (event.id, f" webhook-id: {event.id} ", "at-9", "ada", "lovelace ada", "nobody"):
        assert await client.search(text) == await app.search(text)
    assert len(await client.search("ada", limit=1)) == 1
    for bad in ("", "\n"):
        with pytest.raises(Invalid, match="text"):
            await client.search(bad)
