"""Acts on everything that a filter matches, with the client: the same as in Python."""

import pytest

from duly import ActedOn, Duly, EventFilter, Invalid, ScheduleFilter, every
from duly.api.nouns import acts
from duly.client import Client
from duly.testing import ManualClock
from tests.make import HOUR, START

NIGHTLY = ScheduleFilter(tag="nightly")


async def test_schedules_are_found_by_filters_and_have_tags(client: Client, app: Duly) -> None:
    put = await client.schedules.put("it", every("1h", start=START), "report", tags={"nightly", "etl"})
    assert put.tags == ("etl", "nightly")
    await client.schedules.put("other", every("1h", start=START), "report", enabled=False)
    assert [one.name for one in await client.schedules.list(NIGHTLY)] == ["it"]
    assert (await client.schedules.count(ScheduleFilter(enabled=False))).value == 1
    assert [one.name async for one in client.schedules.all(ScheduleFilter(name_prefix="ot"))] == ["other"]
    with pytest.raises(Invalid, match="tag"):
        await client.schedules.list(ScheduleFilter(tag="a b"))
    with pytest.raises(Invalid, match="tags"):
        await client.schedules.put("bad", every("1h"), "report", tags=["a b"])


async def test_acts_by_a_filter_are_done_in_as_many_requests_as_they_need(
    client: Client, app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "MOST_SCHEDULES", 2)
    monkeypatch.setattr(acts, "MOST_EVENTS", 2)
    for number in range(5):
        await app.schedules.put(f"nightly-{number}", every("1h", start=START), "report", tags=["nightly"])
        await app.at(START + HOUR, "letter")
    would = await client.schedules.pause_all(NIGHTLY, dry_run=True)
    assert would == await app.schedules.pause_all(NIGHTLY, dry_run=True, tenant="default")
    told: list[ActedOn] = []
    paused = await client.schedules.pause_all(NIGHTLY, until="2h", reason="migration", progress=told.append)
    assert (paused, [one.done for one in told]) == (ActedOn(done=5), [2, 4, 5])
    assert (await app.schedules.get("nightly-4")).pause_reason == "migration"
    assert await client.schedules.resume_all(NIGHTLY, passed="skip") == ActedOn(done=5)
    assert await client.schedules.trigger_all(NIGHTLY) == ActedOn(done=5)
    letters = EventFilter(type="letter")
    assert await client.events.cancel_all(letters, dry_run=True) == await app.events.cancel_all(letters, dry_run=True)
    assert await client.events.cancel_all(letters, reason="a wrong price") == ActedOn(done=5)
    for act in (client.schedules.pause_all, client.schedules.resume_all, client.schedules.trigger_all):
        with pytest.raises(Invalid, match="everything"):
            await act(ScheduleFilter())
    with pytest.raises(Invalid, match="everything"):
        await client.events.cancel_all(EventFilter())
    assert (await client.schedules.pause_all(ScheduleFilter(), everything=True)).done == 5
