"""The forecast, by the client."""

from datetime import timedelta

import pytest

from duly import Duly, Invalid, Misuse, every
from duly.client import Client
from tests.make import DAY, HOUR, START, a_user


async def test_it_is_the_one_that_python_gets(app: Duly, client: Client) -> None:
    await app.schedules.put("pulse", every("30m"), "pulse")
    await app.users.add(**a_user(date_of_birth="1990-01-01", timezone="UTC"))
    for range in ((), (START, START + DAY), (START, START + 3 * DAY, "6h"), (None, START + DAY, timedelta(hours=2))):
        assert await client.forecast(*range) == await app.forecast(*range)
    told = await client.forecast(step=HOUR)
    assert told.by_type == {"pulse": 47, "birthday": 1}
    assert told.count == 48


async def test_it_refuses_what_python_refuses(client: Client) -> None:
    with pytest.raises(Invalid, match=r"from: .* no time zone"):
        await client.forecast(START.replace(tzinfo=None))
    with pytest.raises(Invalid, match="step: must be 1s to 366d"):
        await client.forecast(step=0)
    with pytest.raises(Invalid, match="to: must be after"):
        await client.forecast(START, START)
    with pytest.raises(Misuse, match="not for 'acme'"):
        await client.forecast(tenant="acme")
