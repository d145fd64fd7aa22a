"""The list of schedules: what it says of each, and which ones it shows."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest

from duly import Duly, Event, Rejected, cron, every
from duly.dashboard.views.schedules import PAGE_SIZE
from duly.stores.finding.runs import RunQueries
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

HOUR = timedelta(hours=1)
WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    @app.on("bad")
    async def bad(event: Event) -> Rejected:
        return Rejected(f"no recipient {WICKED}")

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


async def test_without_schedules_the_list_teaches_the_first_command(visitor: Visitor) -> None:
    page = await visitor.get("/schedules")
    assert "duly schedules put digest --cron '0 9 * * MON'" in page.text
    assert "/new-schedule" in page.links


async def test_the_list_says_the_rule_in_words_and_when_it_fires(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", cron("0 9 * * MON-FRI"), "fine", timezone="Europe/Brussels")
    page = await visitor.get("/schedules")
    for said in ("report", "Monday to Friday at 09:00", "Europe/Brussels", "enabled", "1 schedule"):
        assert said in page.text
    assert f'datetime="{(await app.schedules.get("report")).next_at:%Y-%m-%d}' in page.html


async def test_the_latest_runs_are_drawn_by_their_outcome(app: Duly, visitor: Visitor, clock: ManualClock) -> None:
    await app.schedules.put("good", every("1h"), "fine")
    await app.schedules.put("poor", every("1h"), "bad")
    for _ in range(2):
        clock.advance(HOUR)
        await app.tick()
    await app.schedules.skip("poor", reason="a holiday", by="ada")
    page = await visitor.get("/schedules")
    assert 'aria-label="Latest 2 runs: 2 completed"' in page.html
    assert 'aria-label="Latest 3 runs: 2 failed, 1 skipped"' in page.html
    assert page.html.count('class="c-bad"') == 2
    assert "skipped : skipped by ada: a holiday" in page.text
    assert "<img src=x" not in page.html


async def test_what_was_missed_during_an_outage_is_marked(app: Duly, visitor: Visitor, clock: ManualClock) -> None:
    await app.schedules.put("sparse", every("1h"), "fine")
    clock.advance(5 * HOUR)
    await app.tick()
    page = await visitor.get("/schedules")
    assert "4 missed" in page.text
    assert "for 4 missed before it" in page.text


async def test_one_query_finds_the_runs_of_all_schedules(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = RunQueries.recent_runs

    async def counted(self: RunQueries, series: list[str], **more: object) -> object:
        asked.append(len(series))
        return await original(self, series, **more)  # type: ignore[arg-type]

    for number in range(12):
        await app.schedules.put(f"s-{number}", every("1h"), "fine")
    monkeypatch.setattr(RunQueries, "recent_runs", counted)
    await visitor.get("/schedules")
    assert asked == [12]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["a-1", "a-2", "b-1", "b-2"]),
        ("name_prefix=a-", ["a-1", "a-2"]),
        ("type=bad", ["b-1"]),
        ("state=paused", ["a-2"]),
        ("state=enabled", ["a-1", "b-1", "b-2"]),
        ("state=ended", ["b-2"]),
        ("name_prefix=a&state=enabled&type=fine", ["a-1"]),
        ("name_prefix=zzz", []),
        ("name_prefix=%25", []),
        ("state=halted", []),
        ("enabled=false", ["a-2"]),
        ("halt_kind=ended", ["b-2"]),
        ("tag=nightly", ["a-1"]),
        ("tag=nightly,eu", []),
        ("timezone=Asia/Tokyo", []),
    ],
)
async def test_filters_are_an_address_that_can_be_shared(
    app: Duly, visitor: Visitor, clock: ManualClock, query: str, shown: list[str]
) -> None:
    await app.schedules.put("a-1", every("1h"), "fine", tags=["nightly"])
    await app.schedules.put("a-2", every("1h"), "fine", enabled=False)
    await app.schedules.put("b-1", every("1h"), "bad")
    await app.schedules.put("b-2", {"at": (clock.now() + HOUR).isoformat()}, "fine")
    clock.advance(HOUR)
    await app.tick()
    page = await visitor.get(f"/schedules?{query}")
    assert [link.rpartition("/")[2] for link in page.links if link.startswith("/schedules/")] == shown
    assert ("No schedule matches" in page.text) == (not shown)


async def test_the_form_of_the_filters_keeps_what_was_asked(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("a", every("1h"), "fine", enabled=False)
    asked = {"name_prefix": "a", "type": "fine", "state": "paused", "timezone": "UTC"}
    page = await visitor.get(f"/schedules?{urlencode(asked)}")
    assert {name: page.fields[name] for name in asked} == asked
    assert (await visitor.get("/schedules?enabled=false")).fields["state"] == "paused"


async def test_tags_lead_to_all_that_have_them(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("a", every("1h"), "fine", tags=["nightly", "eu"])
    for path in ("/schedules", "/schedules/a"):
        page = await visitor.get(path)
        assert {"/schedules?tag=nightly", "/schedules?tag=eu"} <= set(page.links)


async def test_a_paused_schedule_tells_why_and_until_when(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("a", every("1h"), "fine")
    await app.schedules.pause("a", reason=f"the printer {WICKED}", until="2h")
    for path in ("/schedules", "/schedules/a"):
        page = await visitor.get(path)
        assert "until today 02:00:00" in page.text
        assert f"the printer {WICKED}" in page.text
        assert "<img src=x" not in page.html


@pytest.mark.parametrize(
    "query",
    [
        "state=weird",
        "name_prefix=%00",
        "type=%1b",
        "tag=%3Cb%3E",
        "timezone=Mars",
        "enabled=maybe",
        "after=%00",
        "state=%3Cscript%3E",
    ],
)
async def test_a_filter_that_cannot_be_is_refused_with_the_reason(visitor: Visitor, query: str) -> None:
    page = await visitor.get(f"/schedules?{query}", status=422)
    assert query.partition("=")[0] in page.text
    assert "<script>" not in page.html


async def test_a_filter_with_markup_is_text(visitor: Visitor) -> None:
    page = await visitor.get("/schedules?name_prefix=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&type=%22%3E%3Cb%3E")
    assert page.fields["name_prefix"] == "<img src=x onerror=alert(1)>"
    assert page.fields["type"] == '"><b>'
    assert "<img src=x" not in page.html


async def test_pages_of_the_list_keep_the_filter(app: Duly, visitor: Visitor) -> None:
    for number in range(PAGE_SIZE + 2):
        await app.schedules.put(f"s-{number:03}", every("1h"), "fine")
    await app.schedules.put("other", every("1h"), "fine")
    page = await visitor.get("/schedules?name_prefix=s-")
    [following] = [link for link in page.links if "after=" in link]
    assert "name_prefix=s-" in following
    page = await visitor.get(following)
    assert [link for link in page.links if link.startswith("/schedules/")] == ["/schedules/s-050", "/schedules/s-051"]
    assert "/schedules?name_prefix=s-" in page.links


async def test_a_schedule_whose_row_was_edited_by_hand_is_still_listed(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("odd", every("1h"), "fine")
    async with app.transaction() as tx:
        await tx.execute(
            f"UPDATE {'duly.' if 'postgres' in app.settings.database_url else ''}schedules SET rule = '{{\"moon\": 1}}'"
        )
    assert '{"moon":' in (await visitor.get("/schedules")).text.replace('": ', '":')
    await visitor.get("/schedules/odd")
