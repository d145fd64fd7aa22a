"""Over HTTP, what expires is said and told as in Python."""

from datetime import timedelta

import pytest

from duly import Duly, Invalid, Timer, cron
from duly.client import Client
from tests.make import HOUR, START


async def test_timers_and_schedules_of_a_client_expire_as_in_python(app: Duly, client: Client) -> None:
    event = await client.at(START + HOUR, "x", key="k", expires="90m")
    assert event.expires == (await app.events.get(event.id)).expires == timedelta(minutes=90)
    assert (await client.after(HOUR, "x", expires=timedelta(seconds=2.5))).expires == timedelta(seconds=2.5)
    [id] = await client.add_many([Timer(START, "x", expires=60)])
    assert (await app.events.get(id)).expires == timedelta(minutes=1)
    schedule = await client.every("digest", cron("0 9 * * *"), "digest", expires=HOUR)
    assert schedule.policies.expires == (await app.schedules.get("digest")).policies.expires == HOUR


async def test_an_expiry_of_a_client_that_is_no_span_is_refused(client: Client) -> None:
    with pytest.raises(Invalid, match=r"expires: must be 1s to 366d, not 0:00:00"):
        await client.at(START, "x", expires=timedelta())
    with pytest.raises(Invalid, match=r"expires: must be 1s to 366d"):
        await client.every("digest", cron("0 9 * * *"), "digest", expires="400d")
