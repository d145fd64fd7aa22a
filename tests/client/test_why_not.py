"""Why a schedule did not run at an instant, by the client."""

from datetime import datetime
from typing import Any

import pytest

from duly import Duly, Invalid, Misuse, cron
from duly.client import Client
from tests.make import DAY, HOUR, START


async def test_it_is_the_answer_that_python_gets(app: Duly, client: Client) -> None:
    await app.schedules.put("nightly", cron("30 2 * * *", timezone="Europe/Brussels"), "report", exclude=["2026-01-02"])
    await app.schedules.pause("nightly", by="ada")
    readings = (datetime(2026, 3, 29, 2, 30), datetime(2026, 1, 2, 2, 30), "2026-01-03T02:30", "2026-01-01T01:30:00Z")  # noqa: DTZ001
    for at in (*readings, START - DAY, START + HOUR):
        assert await client.schedules.why_not("nightly", at) == await app.schedules.why_not("nightly", at)
    paused = await client.schedules.why_not("nightly", "2026-01-01T02:30")
    assert (paused.kind, paused.by) == ("paused", "ada")


@pytest.mark.parametrize("at", [7, "soon", datetime(1, 1, 1)])  # noqa: DTZ001
async def test_it_refuses_what_python_refuses(app: Duly, client: Client, at: Any) -> None:
    await app.schedules.put("nightly", cron("30 2 * * *"), "report")
    for one in (app, client):
        with pytest.raises(Invalid, match="at: "):
            await one.schedules.why_not("nightly", at)


async def test_it_asks_about_no_other_tenant(client: Client) -> None:
    with pytest.raises(Misuse, match="not for 'acme'"):
        await client.schedules.why_not("nightly", START, tenant="acme")
