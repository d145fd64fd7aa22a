"""The acts on a schedule: each does what its form says, prints what does the same, and tells of it afterwards."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, cron, every
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.doing_the_same import in_a_shell, offered, over_http
from tests.dashboard.visiting import OpenVisitor, Visitor

WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
HOUR = timedelta(hours=1)
NAME = "-it's <b>"
PAGE = "/schedules/-it%27s%20%3Cb%3E"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    await app.schedules.put(NAME, cron("0 9 * * *"), "fine", {"n": 1, "x": 1.5}, timezone="Europe/Brussels")
    return await visiting(app)


Look = Callable[[Duly], Awaitable[Any]]


async def enabled(app: Duly) -> Any:
    return (await app.schedules.get(NAME)).enabled


async def pause_of(app: Duly) -> Any:
    found = await app.schedules.get(NAME)
    return (found.enabled, found.paused_until, found.pause_passed)


PAUSED = (False, datetime(2027, 6, 1, 8, tzinfo=UTC), "fire")


async def next_at(app: Duly) -> Any:
    return (await app.schedules.get(NAME)).next_at


async def payloads(app: Duly) -> Any:
    return sorted(event.payload_json for event in await app.events.find(limit=100) if not event.head)


async def filled(app: Duly) -> Any:
    found = await app.events.find(limit=100)
    return sorted(str(event.scheduled) for event in found if (event.occurrence or "").startswith("backfill"))


async def names(app: Duly) -> Any:
    return [schedule.name for schedule in await app.schedules.list()]


DUE = "2027-06-01T10:00:00"
ACTS: dict[str, tuple[str, dict[str, Any], Look, Any]] = {
    "pause": ("pause", {"reason": WICKED}, enabled, False),
    "pause for a while": ("pause", {"until": "2027-06-01T10:00", "passed": "fire"}, pause_of, PAUSED),
    "trigger": ("trigger", {}, payloads, ['{"n":1,"x":1.5}']),
    "trigger with another payload": ("trigger", {"payload": '{"n": "it\'s 2"}'}, payloads, ['{"n":"it\'s 2"}']),
    "move": ("reschedule", {"due": DUE}, next_at, datetime(2027, 6, 1, 8, tzinfo=UTC)),
    "backfill": (
        "backfill",
        {"from": "2025-12-01", "to": "2025-12-03", "limit": "10", "label": "l'été"},
        filled,
        ["2025-12-01 08:00:00+00:00", "2025-12-02 08:00:00+00:00"],
    ),
    "delete": ("delete", {}, names, []),
}


@pytest.mark.parametrize("act", ACTS)
async def test_an_act_is_done_and_told(act: str, app: Duly, visitor: Visitor) -> None:
    verb, fields, look, expected = ACTS[act]
    page = await visitor.act(f"{PAGE}/{verb}", **fields)
    assert await look(app) == expected
    assert NAME in page.text
    assert "<img src=x" not in page.html
    assert 'role="status"' in page.html


@pytest.mark.parametrize("act", ACTS)
async def test_the_printed_command_does_the_same(act: str, app: Duly, visitor: Visitor, url: str) -> None:
    verb, fields, look, expected = ACTS[act]
    page = await visitor.before(f"{PAGE}/{verb}", **fields)
    await in_a_shell(page, url)
    assert await look(app) == expected


@pytest.mark.parametrize("act", ACTS)
async def test_the_printed_request_does_the_same(act: str, app: Duly, visitor: Visitor) -> None:
    verb, fields, look, expected = ACTS[act]
    page = await visitor.before(f"{PAGE}/{verb}", **fields)
    await over_http(page, visitor)
    assert await look(app) == expected


async def test_the_command_of_another_tenant_names_it(app: Duly, visiting: OpenVisitor, url: str) -> None:
    await app.schedules.put(NAME, every("1h"), "fine", tenant="acme")
    made = await app.keys.create("ada", scope="write", tenant="acme")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    page = await visitor.before(f"{PAGE}/pause", reason="")
    assert "--tenant acme" in offered(page, "act-command")
    assert '"Authorization: Bearer $DULY_KEY"' in offered(page, "act-curl")
    await in_a_shell(page, url)
    assert not (await app.schedules.get(NAME, tenant="acme")).enabled


# -- undo, where an inverse exists


async def test_a_pause_is_undone_by_a_resume_and_the_other_way(app: Duly, visitor: Visitor) -> None:
    paused = await visitor.act(f"{PAGE}/pause")
    assert f"{PAGE}/resume" in paused.links
    resumed = await visitor.act(f"{PAGE}/resume")
    assert (await enabled(app), f"{PAGE}/pause" in resumed.links) == (True, True)


async def test_a_resume_that_catches_up_fires_what_has_passed(
    app: Duly, visitor: Visitor, clock: ManualClock, url: str
) -> None:
    await visitor.act(f"{PAGE}/pause")
    clock.advance(timedelta(days=3))
    page = await visitor.before(f"{PAGE}/resume", passed="fire")
    assert "--passed fire" in offered(page, "act-command")
    done = await visitor.act(f"{PAGE}/resume", passed="fire")
    assert "3 occurrences passed during the pause, and fire now" in done.text


async def test_a_move_is_undone_by_moving_it_back(app: Duly, visitor: Visitor) -> None:
    before = await next_at(app)
    page = await visitor.act(f"{PAGE}/reschedule", due=DUE)
    [undo] = [link for link in page.links if "/reschedule?due=" in link]
    form = await visitor.get(undo)
    await visitor.post(f"{PAGE}/reschedule", **form.fields)
    assert await next_at(app) == before


# -- what an act would change, before it is done


async def test_a_backfill_tells_its_count_before_it_fires(app: Duly, visitor: Visitor) -> None:
    asked: dict[str, Any] = {"from": "2025-12-01", "to": "2025-12-13", "limit": "20"}
    page = await visitor.before(f"{PAGE}/backfill", **asked)
    assert "12 events would fire now" in page.text
    assert page.html.count("<tr>") == 11
    assert await filled(app) == []
    await visitor.act(f"{PAGE}/backfill", **asked)
    again = await visitor.before(f"{PAGE}/backfill", **asked)
    assert "12 occurrences in this range were filled before" in again.text


async def test_a_move_tells_where_to_in_both_zones(app: Duly, visitor: Visitor) -> None:
    page = await visitor.before(f"{PAGE}/reschedule", due=DUE)
    assert "2027-06-01 10:00:00" in page.text
    assert "Tue 1 Jun 2027 08:00:00" in page.text
    assert "it fires at once" in (await visitor.before(f"{PAGE}/reschedule", due="2020-01-01T00:00:00")).text


async def test_a_skip_leaves_out_one_event_and_says_which(app: Duly, visitor: Visitor, url: str) -> None:
    before = await next_at(app)
    page = await visitor.before(f"{PAGE}/skip", reason=WICKED)
    assert "will not fire" in page.text
    await visitor.act(f"{PAGE}/skip", reason=WICKED)
    assert await next_at(app) == before + timedelta(days=1)
    await over_http(page, visitor)
    await in_a_shell(page, url)
    assert await next_at(app) == before + timedelta(days=3)
    assert WICKED in (await visitor.get(PAGE)).text


# -- what is refused


@pytest.mark.parametrize(
    ("verb", "fields", "field", "told"),
    [
        ("reschedule", {"due": "soon"}, "due", "is not an instant"),
        ("reschedule", {"due": ""}, "due", "is missing"),
        ("reschedule", {"due": WICKED}, "due", "is not an instant"),
        ("trigger", {"payload": "{bad"}, "payload", "is not valid JSON"),
        ("trigger", {"payload": WICKED}, "payload", "is not valid JSON"),
        ("backfill", {"from": "soon"}, "from", "is not an instant"),
        ("backfill", {"to": WICKED}, "to", "is not an instant"),
        ("backfill", {"from": "2025-12-02", "to": "2025-12-01"}, "to", "is not after the start"),
        ("backfill", {"to": "2999-12-01"}, "to", "is in the future"),
        ("backfill", {"limit": "0"}, "limit", "must be a whole number"),
        ("backfill", {"limit": WICKED}, "limit", "must be a whole number"),
        ("backfill", {"from": "2020-01-01", "to": "2025-12-01", "limit": "5"}, "limit", "more than 5"),
        ("backfill", {"from": "2025-12-01", "label": "x" * 300}, "label", "characters"),
        ("resume", {"passed": WICKED}, "passed", "must be one of"),
        ("pause", {"until": "soon"}, "until", "is not an instant"),
        ("pause", {"until": WICKED}, "until", "is not an instant"),
    ],
)
async def test_what_is_wrong_is_told_at_its_field(
    visitor: Visitor, app: Duly, verb: str, fields: dict[str, Any], field: str, told: str
) -> None:
    page = await visitor.act(f"{PAGE}/{verb}", status=422, **fields)
    assert f'id="act-{field}-wrong"' in page.html or verb == "resume"
    assert told in page.text
    assert "<img src=x" not in page.html
    assert await payloads(app) == []


async def test_what_has_no_next_event_cannot_be_moved_or_skipped(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await app.schedules.put("once", {"at": (clock.now() + HOUR).isoformat()}, "fine")
    clock.advance(HOUR)
    await app.tick()
    for verb, fields in (("skip", {}), ("reschedule", {"due": DUE})):
        page = await visitor.act(f"/schedules/once/{verb}", status=409, **fields)
        assert "has no next event" in page.text


async def test_a_schedule_that_others_depend_on_is_not_deleted(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("load", every("1h"), "fine")
    await app.schedules.put("use", every("1h"), "fine", depends_on={"schedule": "load", "within": "1h"})
    assert "use depends on it" in (await visitor.act("/schedules/load/delete", status=409)).text


async def test_a_schedule_that_was_changed_meanwhile_is_not_deleted(app: Duly, visitor: Visitor) -> None:
    form = await visitor.get(f"{PAGE}/delete")
    await app.schedules.put(NAME, cron("0 10 * * *"), "fine")
    page = await visitor.post(f"{PAGE}/delete", status=409, **form.fields)
    assert "has been changed since you read it" in page.text
    assert await names(app) == [NAME]


async def test_a_read_key_sees_each_form_and_changes_nothing(
    app: Duly, visiting: OpenVisitor, visitor: Visitor
) -> None:
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    tag, due = (await app.schedules.get(NAME)).tag, await next_at(app)
    for verb, fields, _, _ in ACTS.values():
        form = await reader.get(f"{PAGE}/{verb}")
        assert "this needs write" in form.text
        await reader.post(f"{PAGE}/{verb}", status=403, **(form.fields | fields))
    assert ((await app.schedules.get(NAME)).tag, await next_at(app), await payloads(app)) == (tag, due, [])


async def test_a_command_is_started_here_by_admin_keys_alone(app: Duly, visiting: OpenVisitor) -> None:
    await app.schedules.put("backup", cron("0 3 * * *"), "backup.run", {"n": 1}, target={"command": "backup.sh"})
    made = await app.keys.create("writer", scope="write")
    writer = await visiting(app)
    await writer.sign_in(made.secret)
    for verb in ("trigger", "reschedule", "backfill", "delete"):
        form = await writer.get(f"/schedules/backup/{verb}")
        assert "only an admin key may do this" in form.text
        await writer.post(f"/schedules/backup/{verb}", status=403, **(form.fields | {"due": DUE}))
    assert (await names(app), await payloads(app)) == (["backup"], [])
    await writer.act("/schedules/backup/pause")
    assert not (await app.schedules.get("backup")).enabled
    admin = await visiting(app)
    await admin.sign_in((await app.keys.create("admin", scope="admin")).secret)
    form = await admin.get("/schedules/backup/trigger")
    assert "payload" not in form.fields
    await admin.post("/schedules/backup/trigger", **form.fields)
    assert await payloads(app) == ['{"n":1}']
