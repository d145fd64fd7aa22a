"""Templates of schedules with a client."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Forbidden, Invalid, Misuse, NotFound, Retry, Stale, cron
from duly.client import Client
from duly.decide.targets.commands import command
from duly.rules.policies import Misfire

SETTINGS: dict[str, Any] = {
    "rule": cron("0 9 * * MON", timezone="Europe/Brussels"),
    "type": "report",
    "payload": [1],
    "retry": Retry(max_attempts=2),
    "misfire": Misfire("skip", timedelta(minutes=1)),
}


async def test_a_template_is_what_python_has_on_the_same_database(app: Duly, client: Client) -> None:
    put = await client.templates.put("mine", **SETTINGS)
    own = await app.templates.get("mine")
    assert await client.templates.get("mine") == put
    assert put == msgspec.structs.replace(own, via=None, settings_json=put.settings_json)
    assert (put.settings, put.tag) == (own.settings, own.tag)
    assert (await app.templates.put("mine", **SETTINGS)).settings == own.settings
    listed = [(one.name, one.built_in, one.settings) for one in await client.templates.list()]
    assert listed == [(one.name, one.built_in, one.settings) for one in await app.templates.list()]
    assert [one.name async for one in client.templates.all()] == [name for name, *_ in listed]
    assert [one.name for one in await client.templates.list(limit=2, after="hourly")] == ["mine", "monthly-first-9am"]
    assert (await client.templates.delete("mine", expected=put.tag)).name == "mine"
    with pytest.raises(NotFound):
        await client.templates.get("mine")


async def test_a_client_puts_a_schedule_from_a_template_as_python_does(app: Duly, client: Client) -> None:
    await client.templates.put("mine", **SETTINGS)
    there = await client.schedules.put("s", template="mine", payload={"own": True}, tenant=None)
    here = await app.schedules.put("t", template="mine", payload={"own": True})
    for field in ("rule", "type", "payload", "timezone", "retry", "policies"):
        assert getattr(there, field) == getattr(here, field), field


async def test_errors_are_those_of_python(app: Duly, client: Client) -> None:
    await app.templates.put("code", type="x", target=command("true"))
    for one in (app.templates, client.templates):
        with pytest.raises(Invalid) as refused:
            await one.put("mine", type="", misfire="never", colour=1)  # type: ignore[call-arg]
        assert [problem.path for problem in refused.value.problems] == ["colour"]
        with pytest.raises(Invalid) as refused:
            await one.put("mine", type="", misfire="never")
        assert {problem.path for problem in refused.value.problems} == {"type", "misfire.policy"}
        with pytest.raises(Invalid, match="built-in"):
            await one.put("hourly", type="x")
        with pytest.raises(Stale):
            await one.delete("code", expected="another")
        with pytest.raises(NotFound):
            await one.delete("nothing")
    for schedules in (app.schedules, client.schedules):
        with pytest.raises(Invalid, match="there is no template"):
            await schedules.put("s", template="nothing")
    with pytest.raises(Forbidden):
        await client.templates.put("code", type="y")
    with pytest.raises(Misuse):
        await client.templates.put("mine", type="x", transaction=object())


def test_templates_are_there_for_synchronous_code() -> None:
    with Duly("sqlite://").sync as duly:
        duly.templates.put("mine", **SETTINGS)
        assert duly.schedules.put("s", template="mine").type == "report"
        assert duly.templates.delete("mine").name == "mine"
