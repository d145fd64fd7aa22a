"""Schedules over HTTP: every verb does what Python's own does, and gives the same."""

import asyncio
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import (
    Conflict,
    DependsOn,
    Dst,
    Duly,
    Event,
    Invalid,
    Misfire,
    Misuse,
    NotFound,
    PassedOver,
    Ready,
    Retry,
    Stale,
    Status,
    cron,
    every,
    once,
    rrule,
    webhook,
)
from duly.client import Client
from duly.records.results import Backfilled
from duly.testing import ManualClock
from tests.client.serving import without_via
from tests.make import DAY, HOUR, START
from tests.worker.running_worker import until

RULES: list[Any] = [
    cron("0 9 * * MON", timezone="Europe/Brussels"),
    cron("30 2 * * *", timezone="Europe/Brussels", gap="skip", overlap="both"),
    every("15m"),
    every(timedelta(hours=2), start=START),
    rrule("FREQ=MONTHLY;BYDAY=-1FR", start=datetime(2026, 1, 1, 9), timezone="Asia/Tokyo"),  # noqa: DTZ001 - local
    once(START + DAY),
    {"cron": "0 9 * * MON"},
    {"yearly": "02-29", "at": "09:00", "leap": "mar1"},
]
POLICIES: dict[str, Any] = {
    "misfire": Misfire("all", timedelta(seconds=5), 7),
    "overlap": "skip",
    "max_concurrent": 2,
    "start": date(2026, 1, 1),
    "end": START + 1000 * DAY,
    "dst": Dst(gap="skip"),
    "jitter": timedelta(seconds=30),
    "exclude": ["SAT", date(2026, 12, 24)],
    "mode": "shadow",
}


async def test_a_schedule_is_what_python_makes_of_the_same_rule(app: Duly, client: Client) -> None:
    for rule in RULES:
        here = await client.schedules.put("here", rule, "report", {"n": 1})
        there = await app.schedules.put("there", rule, "report", {"n": 1})
        assert here == without_via(await app.schedules.get("here")), rule
        assert here.tag == (await app.schedules.get("here")).tag, rule
        for field in ("rule_json", "timezone", "policies_json", "payload_json", "next_at"):
            assert getattr(here, field) == getattr(there, field), (rule, field)


async def test_policies_and_all_other_fields_of_a_schedule_arrive(app: Duly, client: Client) -> None:
    await client.schedules.put("load", every("1h"), "load")
    options = POLICIES | {
        "timezone": "Europe/Brussels",
        "target": webhook("https://hooks.example/duly"),
        "retry": Retry(max_attempts=9),
        "enabled": False,
        "depends_on": DependsOn("load", timedelta(hours=1)),
    }
    here = await client.schedules.put("here", cron("0 9 * * *"), "report", **options)
    there = await app.schedules.put("there", cron("0 9 * * *"), "report", **options)
    assert here == without_via(await app.schedules.get("here"))
    assert (here.policies_json, here.retry_json, here.target_json, here.enabled) == (
        there.policies_json, there.retry_json, there.target_json, there.enabled,
    )  # fmt: skip
    again = await client.schedules.put("here", cron("0 9 * * *"), "report", **options, expected=here.tag)
    assert again == here
    assert await client.schedules.list() == [without_via(one) for one in await app.schedules.list(tenant="default")]


async def test_each_verb_of_schedules_does_over_http_what_it_does_in_python(
    app: Duly, client: Client, clock: ManualClock
) -> None:
    verbs = client.schedules
    await verbs.put("hourly", every("1h", start=START), "digest")
    moved = await verbs.reschedule("hourly", START + 90 * timedelta(minutes=1))
    assert moved == without_via(await app.schedules.get("hourly"))
    assert moved.next_at == START + timedelta(minutes=90)
    skipped = await verbs.skip("hourly", reason="a holiday")
    assert skipped.passed_over == PassedOver(
        1,
        (START + timedelta(hours=1),),
        "duly schedules backfill hourly --from 2026-01-01T01:00:00Z --to 2026-01-01T01:00:01Z",
    )
    assert msgspec.structs.replace(skipped, passed_over=None) == without_via(await app.schedules.get("hourly"))
    for ends in (START + 9 * HOUR, 9 * HOUR, 9 * 3600, "9h", "2026-01-01T09:00:00Z"):
        until_nine = await verbs.pause("hourly", reason="a migration", until=ends, passed="fire")
        assert until_nine == without_via(await app.schedules.get("hourly"))
        assert (until_nine.paused_until, until_nine.next_at) == (START + 9 * HOUR, START + 9 * HOUR)
    with pytest.raises(Invalid, match="until"):
        await verbs.pause("hourly", until="tomorrow")
    assert (await verbs.resume("hourly")).fires
    paused = await verbs.pause("hourly", reason="lunch")
    assert (paused.enabled, paused) == (False, without_via(await app.schedules.get("hourly")))
    clock.advance(hours=5)
    resumed = await verbs.resume("hourly", passed="fire")
    assert resumed.schedule == without_via(await app.schedules.get("hourly"))
    assert (resumed.passed, resumed.fires) == (4, True)
    event = await verbs.trigger("hourly", payload={"only": "today"}, correlation_id="c")
    assert event == without_via(await app.events.get(event.id))
    assert (await verbs.trigger("hourly", payload=None)).payload is None
    filled = await verbs.backfill("hourly", START, START + 3 * HOUR, label="again")
    assert (filled.label, len(filled.ids), filled.existing) == ("again", 3, 0)
    assert await verbs.backfill("hourly", START, START + 3 * HOUR, label="again") == Backfilled("again", [], 3)
    told = await verbs.backfill("hourly", START, START + 2 * HOUR, label="another", dry_run=True)
    assert told == Backfilled("another", [], 0, [START, START + HOUR])
    assert await verbs.preview("hourly", count=3) == await app.schedules.preview("hourly", count=3)
    assert await verbs.preview("hourly", count=3, after=START) == await app.schedules.preview(
        "hourly", count=3, after=START
    )
    assert await verbs.history("hourly") == await app.schedules.history("hourly")
    waiting = len([event async for event in client.events.all() if event.status is Status.PENDING])
    assert await verbs.delete("hourly") == waiting
    with pytest.raises(NotFound):
        await verbs.get("hourly")


async def test_a_preview_of_a_rule_is_the_same_over_http_as_in_python(app: Duly, client: Client) -> None:
    options: dict[str, Any] = {"count": 4, "after": START, "exclude": ["SUN"]}
    for rule in RULES:
        assert await client.schedules.preview(rule, **options) == await app.schedules.preview(rule, **options), rule


async def test_a_trigger_may_wait_for_the_end(app: Duly, client: Client) -> None:
    @app.on("digest")
    def digest(_: Event) -> None:
        pass

    await client.every("hourly", every("1h"), "digest")
    waiting = asyncio.create_task(client.schedules.trigger("hourly", wait=30))
    await until(lambda: app.events.find(Ready()), "it is triggered")
    await app.tick()
    assert (await waiting).status is Status.COMPLETED
    with pytest.raises(Invalid, match="wait"):
        await client.schedules.trigger("hourly", wait=timedelta(minutes=2))


async def test_a_name_of_a_schedule_over_http_may_be_any_text(client: Client) -> None:
    for name in ["a/b", "ä ö ✓", "..", ".", "%2F", "preview", "a?b#c&d", "x" * 200, "a+b"]:
        assert (await client.schedules.put(name, every("1h"), "x")).name == name
        assert (await client.schedules.get(name)).name == name
        assert [one.name for one in await client.schedules.list()] == [name]
        assert (await client.schedules.pause(name)).enabled is False
        assert (await client.schedules.history(name))[-1].act == "paused"
        assert await client.schedules.delete(name) == 1


async def test_pages_of_schedules_over_http_follow_one_another(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.client.protocol.paging.MOST_LISTED", 2)
    names = ["a", "b/ä", "c", "d", "e"]
    for name in names:
        await client.schedules.put(name, every("1h"), "x")
    assert [one.name async for one in client.schedules.all()] == names
    first = await client.schedules.list(limit=3)
    assert [one.name for one in await client.schedules.list(limit=3, after=first[-1])] == ["d", "e"]


async def test_a_client_that_expects_another_state_of_a_schedule_is_told(app: Duly, client: Client) -> None:
    seen = await client.schedules.put("a", every("1h"), "x")
    changed = await client.schedules.put("a", every("2h"), "x", expected=seen.tag)
    for act in (
        client.schedules.put("a", every("3h"), "x", expected=seen.tag),
        client.schedules.delete("a", expected=seen.tag),
        client.schedules.put("new", every("3h"), "x", expected=seen.tag),
    ):
        with pytest.raises(Stale):
            await act
    assert await client.schedules.delete("a", expected=changed.tag) == 1
    with pytest.raises(Invalid, match="expected"):
        await client.schedules.delete("a", expected='"')


async def test_problems_of_a_schedule_are_the_same_over_http_as_in_python(app: Duly, client: Client) -> None:
    bad: list[tuple[Any, Any]] = [
        (5, {}),
        ({"cron": "0 0 30 2 *"}, {}),
        (every("1h"), {"timezone": "Mars/Base"}),
        (cron("@daily", timezone="Asia/Tokyo"), {"timezone": "Europe/Brussels"}),
        (every("1h"), {"overlap": "perhaps", "jitter": "soon"}),
        (every("1h"), {"retry": "often"}),
        (every("1h"), {"target": {"pigeon": 1}}),
    ]
    for rule, options in bad:
        with pytest.raises(Invalid) as here:
            await client.schedules.put("a", rule, "x", **options)
        with pytest.raises(Invalid) as there:
            await app.schedules.put("a", rule, "x", **options)
        assert {problem.path for problem in here.value.problems} == {problem.path for problem in there.value.problems}
    await client.schedules.put("a", every("1h"), "x")
    with pytest.raises(Invalid) as ranged:
        await client.schedules.backfill("a", START, START - HOUR)
    assert [problem.path for problem in ranged.value.problems] == ["end"]
    with pytest.raises(Invalid, match="count"):
        await client.schedules.preview("a", count=0)
    await client.schedules.put("b", every("1h"), "x", depends_on=DependsOn("a", HOUR))
    with pytest.raises(Conflict, match="b depends on it"):
        await client.schedules.delete("a")
    with pytest.raises(Misuse, match="is not available over HTTP"):
        client.schedules.replan()


async def test_a_preview_that_takes_long_is_requested_until_it_is_complete(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    leap_days = {"cron": "0 0 29 2 *"}
    whole = await client.schedules.preview(leap_days, count=5)
    monkeypatch.setattr("duly.api.access.preview_places.PREVIEW_BUDGET_S", 0.0)
    assert await client.schedules.preview(leap_days, count=5) == whole
    assert await client.schedules.preview(leap_days, count=5, enough=lambda: True) == whole[:1]
