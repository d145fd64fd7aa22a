"""Statistics, by the client."""

import pytest

from duly import Duly, Event, Invalid, Misuse, NotFound, every
from duly.client import Client
from duly.testing import ManualClock
from tests.make import DAY, HOUR, START


async def test_they_are_those_that_python_gets(app: Duly, client: Client, clock: ManualClock) -> None:
    @app.on("sync")
    async def sync(event: Event) -> None:
        clock.advance(HOUR / 100)

    await app.schedules.put("pulse", every("1h"), "sync")
    await app.after(0, "sync")
    clock.advance(2 * HOUR)
    await app.tick()
    for range in ((), (START, START + DAY), (None, START + 2 * DAY)):
        assert await client.stats(*range) == await app.stats(*range)
        assert await client.schedules.stats("pulse", *range) == await app.schedules.stats("pulse", *range)
    told = await client.stats(by="type")
    assert told == await app.stats(by="type")
    assert (told.total.runs, told.groups[0].name) == (2, "sync")


async def test_it_refuses_what_python_refuses(client: Client) -> None:
    with pytest.raises(Invalid, match=r"from: .* no time zone"):
        await client.stats(START.replace(tzinfo=None))
    with pytest.raises(Invalid, match="by: expected type or lane, not 'x'"):
        await client.stats(by="x")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="to: must be after"):
        await client.stats(START, START)
    with pytest.raises(NotFound, match="there is no schedule 'x'"):
        await client.schedules.stats("x")
    with pytest.raises(Misuse, match="not for 'acme'"):
        await client.stats(tenant="acme")
