"""Schedules as JSON: the shape, and that what is written can be read back."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Invalid, OfSeries, Retry, cron, every, once, yearly
from duly.records.event import EVENT_JSON
from duly.records.schedule import SCHEDULE_JSON
from duly.records.wire.schedule_reader import FIELDS, READ_ONLY, TAKEN, read_schedule
from duly.testing import ManualClock

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
MINIMAL = {"name": "report", "type": "report.weekly", "rule": {"cron": "0 9 * * MON"}}
FULL = {
    "name": "weekly-report",
    "tenant": "default",
    "type": "report.weekly",
    "rule": {"cron": "0 9 * * MON"},
    "timezone": "Europe/Brussels",
    "payload": {"to": "ada"},
    "target": None,
    "misfire": {"policy": "all", "tolerance": "1m", "limit": 7},
    "overlap": "queue",
    "max_concurrent": 2,
    "depends_on": {"schedule": "load", "within": "1h"},
    "start": "2026-12-01T00:00:00Z",
    "end": "2027-12-01T00:00:00Z",
    "dst": {"gap": "skip", "overlap": "both"},
    "jitter": "5m",
    "exclude": ["holidays:BE", "2026-12-24"],
    "mode": "shadow",
    "retry": {"max_attempts": 5, "base": "10s", "factor": 2.0, "max": "10m"},
    "enabled": True,
}


@pytest.fixture
def duly() -> Duly:
    return Duly("sqlite://", clock=ManualClock(NOON))


def plain(written: Any) -> Any:
    return json.loads(msgspec.json.encode(written))


def problems(written: Any, **elsewhere: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        read_schedule(written, **elsewhere)
    return dict(refused.value.problems)


WITHOUT_DRY_RUN = [field for field in READ_ONLY if field != "consequence"]


async def test_every_field_of_a_schedule_is_written_as_json_as_it_was_read(duly: Duly) -> None:
    async with duly:
        await duly.schedules.put("load", every("1h"), "load")
        await duly.schedules.put(**read_schedule(FULL))
        written = plain(SCHEDULE_JSON.write(await duly.schedules.get("weekly-report")))
    assert {field: written[field] for field in FULL} == FULL
    assert tuple(written) == (*FIELDS, *WITHOUT_DRY_RUN)
    assert written["next_at"].startswith("2026-12-07T08:0")
    assert written["next_at"].endswith("Z")
    assert written["created_at"] == "2026-12-01T12:00:00Z"


async def test_fields_that_were_left_out_are_written_with_their_defaults(duly: Duly) -> None:
    async with duly:
        written = plain(SCHEDULE_JSON.write(await duly.schedules.put(**read_schedule(MINIMAL))))
    assert written["misfire"] == {"policy": "latest", "tolerance": "30s", "limit": 100}
    assert written["dst"] == {"gap": "after", "overlap": "first"}
    assert written["retry"] == {"max_attempts": 3, "base": "30s", "factor": 4.0, "max": "1h"}
    assert (written["timezone"], written["jitter"], written["mode"], written["exclude"]) == ("UTC", "0s", "live", [])
    assert (written["next_at"], written["last_at"], written["halted"]) == ("2026-12-07T09:00:00Z", None, None)


@pytest.mark.parametrize(
    ("rule", "dst"),
    [
        (cron("30 2 * * *", timezone="Europe/Brussels"), {"gap": "after", "overlap": "first"}),
        (cron("30 2 * * *", timezone="Europe/Brussels", gap="skip"), {"gap": "skip", "overlap": "first"}),
        (yearly("02-29", leap="mar1", timezone="Asia/Tokyo"), {"gap": "shift", "overlap": "first"}),
        (
            once(datetime.fromisoformat("2026-12-24T18:00"), timezone="Europe/London"),
            {"gap": "shift", "overlap": "first"},
        ),
        (once(NOON + timedelta(days=1)), {"gap": None, "overlap": None}),
        (every("90m"), {"gap": None, "overlap": None}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_schedule_that_is_written_and_put_back_has_not_changed(duly: Duly, rule: Any, dst: Any) -> None:
    async with duly:
        put = await duly.schedules.put("it", rule, "x", {"a": [1, None]}, retry=Retry(max_attempts=1), jitter="1s")
        await duly.schedules.reschedule("it", NOON + timedelta(hours=3))
        before = await duly.schedules.get("it")
        written = plain(SCHEDULE_JSON.write(before))
        assert written["dst"] == dst
        await duly.schedules.put(**read_schedule(written))
        assert await duly.schedules.get("it") == before
        assert [entry.act for entry in await duly.schedules.history("it")] == ["created", "rescheduled"]
        assert put.id == before.id


async def test_a_schedule_can_be_written_edited_and_put(duly: Duly) -> None:
    async with duly:
        written = plain(SCHEDULE_JSON.write(await duly.schedules.put(**read_schedule(MINIMAL))))
        written["rule"] = {"cron": "0 10 * * MON"}
        written["enabled"] = False
        changed = await duly.schedules.put(**read_schedule(written))
    assert changed.next_at == datetime(2026, 12, 7, 10, tzinfo=UTC)
    assert not changed.enabled


def test_every_problem_of_a_schedule_is_told_at_once_with_its_path() -> None:
    found = problems(
        {
            "nam": "report",
            "type": " x",
            "rule": {"cron": "61 * * * *"},
            "timezone": "Mars/Phobos",
            "misfire": {"policy": "never"},
            "jitter": "forever",
            "start": "soon",
            "retry": {"base": "soon"},
            "enabled": "yes",
        }
    )
    assert list(found) == [
        "nam",
        "name",
        "type",
        "enabled",
        "timezone",
        "misfire.policy",
        "start",
        "jitter",
        "rule.cron",
        "retry.base",
    ]
    assert found["nam"] == f"is unknown; known: {', '.join(TAKEN)}"
    assert found["name"] == "is missing"


@pytest.mark.parametrize("written", [None, 7, "weekly", [MINIMAL]])
def test_json_of_a_schedule_that_is_no_object_is_refused(written: Any) -> None:
    assert "expected an object" in problems(written)["schedule"]


def test_a_retry_out_of_range_is_refused_before_anything_is_put() -> None:
    assert list(problems(MINIMAL | {"retry": {"max_attempts": 0}})) == ["retry.max_attempts"]


def test_a_name_from_elsewhere_may_not_contradict_the_objects_own() -> None:
    nameless = {field: value for field, value in MINIMAL.items() if field != "name"}
    assert read_schedule(nameless, name="report", tenant="acme") == MINIMAL | {"tenant": "acme"}
    assert read_schedule(MINIMAL, name="report")["name"] == "report"
    assert "is not 'digest'" in problems(MINIMAL, name="digest")["name"]


def test_a_null_field_is_as_if_it_was_left_out() -> None:
    assert read_schedule(MINIMAL | dict.fromkeys(("payload", "retry", "misfire", "enabled", "timezone"))) == MINIMAL


async def test_a_schedule_that_somebody_broke_by_hand_can_still_be_written(duly: Duly) -> None:
    async with duly:
        await duly.schedules.put(**read_schedule(MINIMAL))
        async with duly.transaction() as tx:
            await tx.execute("""UPDATE schedules SET rule = '{"cron": "at tea"}', policies = '{"overlap": "often"}'""")
        written = plain(SCHEDULE_JSON.write(await duly.schedules.get("report")))
    assert (written["rule"], written["overlap"]) == ({"cron": "at tea"}, "often")
    assert set(written) == {*FIELDS, *WITHOUT_DRY_RUN}


async def test_what_the_verbs_of_schedules_return_is_written_as_json(duly: Duly) -> None:
    async with duly:
        await duly.schedules.put("tokyo", cron("0 9 * * *", timezone="Asia/Tokyo"), "x", enabled=False)
        resumed = plain((await duly.schedules.resume("tokyo")).to_json())
        assert (resumed["name"], resumed["passed"], resumed["fires"]) == ("tokyo", 0, False)
        [one] = await duly.schedules.preview("tokyo", count=1)
        assert plain(one) == {
            "due_at": "2026-12-02T00:00:00Z",
            "local_at": "2026-12-02T09:00:00",
            "note": None,
        }
        days = timedelta(days=2)
        filled = plain(await duly.schedules.backfill("tokyo", NOON - days, NOON, label="again"))
        assert (filled["label"], len(filled["events"]), filled["existing"]) == ("again", 2, 0)


async def test_an_event_of_a_schedule_tells_its_zone_and_local_time(duly: Duly) -> None:
    async with duly:
        tokyo = await duly.schedules.put("tokyo", cron("0 9 * * *", timezone="Asia/Tokyo"), "x")
        await duly.schedules.reschedule("tokyo", datetime(2026, 12, 2, 1, tzinfo=UTC))
        [event] = await duly.events.find(OfSeries(tokyo.series))
        written = plain(EVENT_JSON.write(event))
        assert (written["due_at"], written["local_at"]) == ("2026-12-02T01:00:00Z", "2026-12-02T10:00:00")
        assert (written["scheduled_at"], written["timezone"]) == ("2026-12-02T00:00:00Z", "Asia/Tokyo")
        assert written["zone_data"] == event.zone_data
        assert written["schedule"] == "tokyo"
        timer = plain(EVENT_JSON.write(await duly.after(timedelta(), "x")))
        assert [timer[field] for field in ("local_at", "timezone", "zone_data", "scheduled_at")] == [None] * 4
