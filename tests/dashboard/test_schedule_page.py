"""The page of one schedule: what follows, what ran, its policies in words, and what it sends."""

from datetime import timedelta

import pytest

from duly import Duly, Event, Retry, cron, every, http, webhook
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
HOUR = timedelta(hours=1)


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


async def test_upcoming_and_recent_stand_side_by_side_in_both_zones(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await app.schedules.put("report", cron("30 2 * * *"), "fine", timezone="Europe/Brussels")
    clock.advance(timedelta(hours=30))
    await app.tick()
    visitor.client.cookies.set("duly_zone", "America/New_York")
    page = await visitor.get("/schedules/report")
    for said in ("Fri 2026-01-02 02:30:00", "Sat 2026-01-03 02:30:00", "today 20:30:00", "completed"):
        assert (said in page.text) is (said != "Fri 2026-01-02 02:30:00")
    assert any(link.startswith("/events/") for link in page.links)


@pytest.mark.parametrize(
    ("start", "note"),
    [
        ("2026-03-28", "2026-03-29 has no 02:30: it fires right after the gap"),
        ("2026-10-24", "the clocks show 02:30 twice, and this is the first time"),
    ],
)
async def test_gaps_and_overlaps_of_the_clocks_are_marked(app: Duly, visitor: Visitor, start: str, note: str) -> None:
    await app.schedules.put("report", cron("30 2 * * *"), "fine", timezone="Europe/Brussels", start=start)
    assert note in (await visitor.get("/schedules/report")).text


async def test_policies_are_told_in_words(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("load", every("1h"), "fine")
    await app.schedules.put(
        "report", cron("0 9 * * *"), "fine", retry=Retry(max_attempts=5), misfire={"policy": "all", "limit": 7},
        overlap="queue", max_concurrent=2, jitter="30s", expires="2h", exclude=["SAT", "12-25"], mode="shadow",
        depends_on={"schedule": "load", "within": "1h"}, start="2026-02-01T00:00:00Z", end="2027-02-01T00:00:00Z",
        dst={"gap": "skip", "overlap": "both"},
    )  # fmt: skip
    text = (await visitor.get("/schedules/report")).text
    for said in (
        "5 attempts; after a failure it waits 30 s, then 2 min, then 8 min and so on, at most 1 h apart",
        "each missed occurrence fires, the oldest first, at most 7 of them",
        "while 2 run, the next ones wait for their turn",
        "each event fires up to 30 s later",
        "an event that cannot begin within 2 h after it is due is skipped",
        "SAT, 12-25",
        "it records what would have fired, and delivers nothing",
        "it fires only if load has succeeded within 1 h before",
        "nothing before Sun 1 Feb 00:00:00",
        "nothing after Mon 1 Feb 2027 00:00:00",
        "a time that the clocks skip does not fire; one that they show twice fires both times",
    ):
        assert said in text


async def test_json_is_shown_as_it_is_stored(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put(
        "report", every("1h"), "fine", {"big": 12345678901234567, "price": 1.5, "who": WICKED},
        target=http("PUT", "https://example.com/in?token=secret", headers={"X-A": WICKED}),
    )  # fmt: skip
    page = await visitor.get("/schedules/report")
    assert '"big": 12345678901234567,' in page.text
    assert '"price": 1.5,' in page.text
    assert "HTTP PUT https://example.com/in" in page.text
    assert "<img src=x" not in page.html


async def test_a_key_that_only_reads_sees_the_payload_when_it_asks_for_it(app: Duly, visiting: OpenVisitor) -> None:
    await app.schedules.put("report", every("1h"), "fine", {"ssn": "078-05-1120"}, target=webhook("https://e.example"))
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    for path in ("/schedules/report", "/schedules/report/edit", "/schedules/report/trigger"):
        page = await reader.get(path)
        assert "078-05-1120" not in page.html
        assert "hidden for" in page.text.lower()
        assert "078-05-1120" in (await reader.get(f"{path}?payload=1")).html
    before = await reader.before("/schedules/report/edit")
    assert "078-05-1120" not in before.html
    writer = await app.keys.create("writer", scope="write")
    visitor = await visiting(app)
    await visitor.sign_in(writer.secret)
    assert "078-05-1120" in (await visitor.get("/schedules/report")).html


async def test_the_history_tells_who_changed_what(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", every("1h"), "fine", by="ada")
    await app.schedules.pause("report", reason=WICKED, by="bob <b>")
    page = await visitor.get("/schedules/report")
    assert f"paused by bob <b>: {WICKED}" in page.text
    assert "created by ada" in page.text
    assert "<img src=x" not in page.html


async def test_a_schedule_that_has_ended_says_that_nothing_follows(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await app.schedules.put("launch", {"at": (clock.now() + HOUR).isoformat()}, "fine")
    clock.advance(HOUR)
    await app.tick()
    text = (await visitor.get("/schedules/launch")).text
    assert "Nothing follows: its rule has no more occurrences." in text


async def test_a_schedule_of_a_command_says_that_it_is_not_edited_here(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("backup", cron("0 3 * * *"), "backup.run", target={"command": "backup.sh"})
    assert "It is never edited here" in (await visitor.get("/schedules/backup")).text


async def test_an_event_that_waits_too_long_is_called_overdue(app: Duly, visitor: Visitor, clock: ManualClock) -> None:
    await app.schedules.put("report", every("1h"), "fine")
    assert "overdue" not in (await visitor.get("/schedules/report")).text
    clock.advance(2 * HOUR)
    assert "overdue" in (await visitor.get("/schedules/report")).text
    assert "overdue" in (await visitor.get("/schedules")).text


async def test_what_follows_is_told_anew_after_each_edit_and_firing(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await app.schedules.put("report", cron("0 9 * * *"), "fine")
    assert "Thu 2026-01-01 09:00:00" in (await visitor.get("/schedules/report")).text
    await app.schedules.put("report", cron("0 10 * * *"), "fine")
    assert "Thu 2026-01-01 10:00:00" in (await visitor.get("/schedules/report")).text
    clock.advance(11 * HOUR)
    await app.tick()
    text = (await visitor.get("/schedules/report")).text
    assert ("Thu 2026-01-01 10:00:00" in text, "Fri 2026-01-02 10:00:00" in text) == (False, True)


async def test_the_live_part_has_no_form_and_follows_what_happens(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", every("1h"), "fine")
    for path in ("/schedules", "/schedules/report"):
        fragment = await visitor.live(path)
        assert "<form" not in fragment
        assert "csrf" not in fragment
        assert "enabled" in fragment


# -- the calendar


async def test_each_day_of_a_month_tells_what_ran_and_what_will_run(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await app.schedules.put("report", cron("0 9 * * *"), "fine", timezone="Europe/Brussels", exclude=["2026-01-02"])
    for _ in range(5):
        clock.advance(timedelta(days=1))
        await app.tick()
    page = await visitor.get("/schedules/report/calendar")
    assert "January 2026" in page.text
    assert page.html.count('<span class="status late">') + page.html.count('<span class="status completed">') == 4
    assert "2026-01-02" in page.text
    assert page.html.count('<span class="coming">09:00</span>') == 26  # from the 6th to the 31st
    assert 'aria-current="date"' in page.html


async def test_a_calendar_tells_of_clock_changes_and_holidays(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put(
        "report", cron("30 2 * * *"), "fine", timezone="Europe/Brussels", exclude=["holidays:BE", "SAT"]
    )
    page = await visitor.get("/schedules/report/calendar?month=2026-03")
    assert "clocks go forward 1 h at 02:00" in page.text
    assert "clocks go back 1 h at 03:00" in (await visitor.get("/schedules/report/calendar?month=2026-10")).text
    assert "holidays:BE (Christmas Day)" in (await visitor.get("/schedules/report/calendar?month=2026-12")).text


async def test_months_follow_each_other(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", every("1h"), "fine")
    page = await visitor.get("/schedules/report/calendar?month=2026-12")
    for month in ("2026-11", "2027-01"):
        assert f"/schedules/report/calendar?month={month}" in page.links
    assert "and 21 more" in page.text


@pytest.mark.parametrize("month", ["2026-13", "0000-01", "9999-12", "x", "2026-1", "<b>", "٢٠٢٦-01"])
async def test_a_month_that_is_none_is_refused(app: Duly, visitor: Visitor, month: str) -> None:
    await app.schedules.put("report", every("1h"), "fine")
    assert "is not a month" in (await visitor.get(f"/schedules/report/calendar?month={month}", status=422)).text


async def test_a_year_is_twelve_months_of_days(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put(
        "report", cron("0 9 * * MON-FRI"), "fine", timezone="Europe/Brussels", exclude=["holidays:BE", "2026-12-24"]
    )
    page = await visitor.get("/schedules/report/year")
    assert page.html.count("<svg") == 12
    assert page.html.count("<rect") == 365
    assert page.html.count("d-clock") == 2
    assert page.html.count("d-holiday") == 12
    assert page.html.count("d-excluded") == 1
    assert "Thu 24 Dec 2026: excluded by 2026-12-24" in page.text
    assert 'aria-label="March 2026: fires on 22 days, clocks go forward 1 h at 02:00"' in page.html


async def test_a_rule_that_takes_long_leaves_the_calendar_open(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.dashboard.views.schedule_calendar.BUDGET_S", -1.0)
    await app.schedules.put("heavy", every("1h"), "fine")
    page = await visitor.get("/schedules/heavy/calendar")
    assert page.html.count('class="d-unknown') == 365
    assert "not computed: the rule takes too long" in page.text


async def test_a_schedule_that_fires_very_often_is_counted(app: Duly, visitor: Visitor, clock: ManualClock) -> None:
    await app.schedules.put("often", every("1m"), "fine")
    for _ in range(8):
        clock.advance(timedelta(minutes=1))
        await app.tick()
    page = await visitor.get("/schedules/often/calendar")
    assert "8 completed; the latest:" in page.text
    assert page.html.count('class="run"') == 3


async def test_another_tenants_schedule_has_no_pages_here(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("secret", every("1h"), "fine", tenant="rival")
    for path in ("", "/calendar", "/year", "/edit", "/delete", "/backfill", "/reschedule"):
        assert "there is no schedule" in (await visitor.get(f"/schedules/secret{path}", status=404)).text
