"""The first page: its time axis equals what happened and what then happens, and its numbers what there is."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, cron, every
from duly.dashboard.charts.time_axis import Change, FutureStep, PastStep, TimeAxis, draw
from duly.dashboard.views.now import _changes
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

HOUR = timedelta(hours=1)
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("good")
    async def good(_event: object) -> None: ...

    return app


def bars(html: str) -> list[tuple[str, str]]:
    """The kind of each bar, and what its title says after the time."""
    return [
        (kind, title.partition(": ")[2])
        for kind, title in re.findall(r'<rect class="c-(\w+)".*?<title>(.*?)</title>', html)
    ]


async def test_the_axis_tells_what_happened_by_outcome_and_what_is_known_to_come(
    app: Duly, clock: ManualClock, visiting: OpenVisitor
) -> None:
    now = clock.now()
    for minutes in (0, 1, 2):
        await app.at(now + timedelta(minutes=minutes), "good")
    await app.at(now, "good", expires="1s")
    await app.schedules.put("hourly", every("1h"), "good")
    clock.advance(minutes=30)  # all of them are late, and one has expired
    await app.tick()
    page = await (await visiting(app)).get("/")
    told = bars(page.html)
    assert ("late", "3 late, 1 skipped") in told
    assert ("skip", "3 late, 1 skipped") in told
    assert [words for kind, words in told if kind == "next"].count("1 known to become due") >= 22


async def test_what_is_foretold_then_happens(app: Duly, clock: ManualClock, visiting: OpenVisitor) -> None:
    """Over a change of clocks, hour by hour."""
    await app.schedules.put("nightly", cron("30 2 * * *", timezone="Europe/Brussels"), "good")
    await app.schedules.put("often", every("20m"), "good")
    visitor = await visiting(app)
    foretold = sum(
        int(words.split()[0].replace(",", "")) for kind, words in bars((await visitor.get("/")).html) if kind == "next"
    )
    for _ in range(24 * 3):
        clock.advance(minutes=20)
        await app.tick()
    fired = (await app.stats()).total.completed
    assert abs(fired - foretold) <= 3  # the hour that has begun: it is counted to its end


async def test_the_tiles_count_what_needs_somebody(app: Duly, clock: ManualClock, visiting: OpenVisitor) -> None:
    await app.at(clock.now(), "nobody")
    await app.schedules.put("paused", every("1h"), "good")
    await app.schedules.pause("paused")
    await app.targets.disable("https://shop.example")
    clock.advance(HOUR)
    page = await (await visiting(app)).get("/")
    for words in (
        "1 waiting, and late",
        "0 dead letters",
        "1 parked targets",
        "0 schedules halted by an error",
        "1 paused schedules",
        "2 that nobody serves: handler:good, handler:nobody",
        "0 workers",
    ):
        assert words in page.text, (words, page.text)


async def test_a_tenant_sees_its_own_numbers_alone(app: Duly, clock: ManualClock, visiting: OpenVisitor) -> None:
    await app.at(clock.now(), "rivals", tenant="rival")
    clock.advance(HOUR)
    made = await app.keys.create("ada", scope="read")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    page = await visitor.get("/")
    assert "rivals" not in page.html
    assert "0 waiting, and late" in page.text
    assert "workers" not in page.text


async def test_an_unknown_range_is_the_usual_one(visitor: Visitor) -> None:
    assert 'aria-current="true">24 hours' in (await visitor.get("/?range=<b>")).html.replace(" primary", "")


def test_the_present_step_has_what_happened_beneath_what_is_to_come() -> None:
    axis = TimeAxis(
        [PastStep(NOON, 6, 2, 1, 1)], [FutureStep(NOON, 10), FutureStep(NOON + HOUR, 5)], HOUR, NOON + HOUR / 2
    )
    svg = draw(axis, lambda at: f"{at:%H:%M}")
    rects = re.findall(r'<rect class="(\S+)" x="(\S+)" y="(\S+)" width="\S+" height="(\S+)"', svg)
    heights = {colour: float(height) for colour, _, _, height in rects if colour != "c-next"}
    assert heights["c-good"] / heights["c-late"] == pytest.approx(3, rel=0.01)
    first, second = [(float(y), float(height)) for colour, _, y, height in rects if colour == "c-next"]
    assert first[0] + first[1] == pytest.approx(min(float(y) for colour, _, y, _ in rects if colour != "c-next"))
    assert first[1] == pytest.approx(2 * second[1], rel=0.01)


def test_what_others_have_named_is_text_in_a_chart() -> None:
    axis = TimeAxis([PastStep(NOON, 1, 0, 0, 0)], [], HOUR, NOON, [Change(NOON, "<script>")])
    assert "<script>" not in draw(axis, lambda _at: "<b>")


def test_changes_of_the_clocks_are_marked() -> None:
    [forward] = _changes("Europe/Brussels", NOON, NOON + timedelta(days=2))
    assert (forward.at, forward.words) == (datetime(2026, 3, 29, 1, tzinfo=UTC), "clocks go forward")
    assert _changes("UTC", NOON, NOON + timedelta(days=400)) == []
    assert len(_changes("Europe/Brussels", NOON, NOON + timedelta(days=360))) == 2
