"""Why a schedule did not run at an instant: the calendar asks, and the page answers."""

from datetime import timedelta

import pytest

from duly import Event, cron
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

DAY = timedelta(days=1)


@pytest.fixture
async def visitor(duly: OpenDuly, visiting: OpenVisitor, clock: ManualClock) -> Visitor:
    app = await duly()

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    await app.schedules.put("report", cron("0 9 * * *"), "fine", timezone="Europe/Brussels", exclude=["2026-01-02"])
    for _ in range(3):
        clock.advance(DAY)
        await app.tick()
    await app.schedules.pause("report", by="ada")
    clock.advance(2 * DAY)
    return await visiting(app)


async def test_each_empty_day_of_the_calendar_leads_to_its_cause(visitor: Visitor) -> None:
    page = await visitor.get("/schedules/report/calendar")
    asked = [link for link in page.links if "why-not?at=" in link]
    assert asked, page.links
    told = [(await visitor.get(link)).text for link in asked]
    assert any("2026-01-02" in text and "excluded" in text for text in told)
    assert any("paused" in text for text in told)


async def test_what_is_no_time_is_told_at_the_field(visitor: Visitor) -> None:
    page = await visitor.get("/schedules/report/why-not?at=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", status=422)
    assert 'id="at-wrong"' in page.html
    assert "<img src=x" not in page.html
    assert "Why did it not run?" in (await visitor.get("/schedules/report/why-not")).text
