"""Tags of schedules, and lists of schedules by filters, on both stores."""

from typing import Any

import pytest

from duly import Duly, Event, Invalid, Status, cron, every
from duly.records.finding.schedules import ScheduleFilter
from duly.records.schedule import HaltKind
from duly.testing import ManualClock
from tests.make import HOUR, START
from tests.stores.rows import write


async def names(app: Duly, which: ScheduleFilter, **more: Any) -> list[str]:
    found = [one.name for one in await app.schedules.list(which, **more)]
    assert (await app.schedules.count(which, tenant=more.get("tenant"))).value == len(found)
    return found


@pytest.fixture
async def shop(app: Duly, clock: ManualClock) -> Duly:
    @app.on("report")
    async def report(event: Event) -> None:
        if event.payload == "fails":
            raise ValueError(event.payload)

    await app.schedules.put("etl-load", every("1h", start=START), "report", tags=["nightly", "etl"])
    await app.schedules.put("etl-clean", every("1h", start=START), "report", "fails", tags={"etl"})
    await app.schedules.put("mail", cron("0 9 * * *", timezone="Europe/Brussels"), "mail.send", tags=("nightly",))
    await app.schedules.put("bare", every("1d", start=START), "report", tenant="acme", enabled=False)
    clock.set(START + HOUR)
    await app.tick()
    return app


# -- tags


async def test_tags_are_kept_sorted_and_each_once(app: Duly) -> None:
    put = await app.schedules.put("it", every("1h"), "report", tags=["b", "a", "b"])
    assert put.tags == ("a", "b") == (await app.schedules.get("it")).tags
    kept = await app.schedules.put("it", every("2h"), "report")
    assert kept.tags == ("a", "b"), "without tags, it keeps those that it has"
    assert kept.tag != put.tag
    changed = await app.schedules.put("it", every("2h"), "report", tags=["c"])
    assert (changed.tags, changed.next_at) == (("c",), kept.next_at)
    assert changed.tag != kept.tag
    assert (await app.schedules.history("it"))[-1].detail == "tags"
    assert (await app.schedules.put("it", every("2h"), "report", tags=[])).tags == ()


@pytest.mark.parametrize("tags", ["nightly", [""], ["a b"], ["a,b"], [7], ["x" * 51], [f"t{n}" for n in range(21)], 7])
async def test_what_is_no_list_of_tags_is_refused(app: Duly, tags: Any) -> None:
    with pytest.raises(Invalid, match="tags"):
        await app.schedules.put("it", every("1h"), "report", tags=tags)


async def test_a_template_has_tags_and_a_call_replaces_them(app: Duly) -> None:
    await app.templates.put("house", tags=["b", "a"], type="report")
    assert (await app.schedules.put("it", every("1h"), template="house")).tags == ("a", "b")
    assert (await app.schedules.put("own", every("1h"), template="house", tags=["c"])).tags == ("c",)
    with pytest.raises(Invalid, match="tags"):
        await app.templates.put("bad", tags=["a b"])


async def test_code_declares_tags_and_leaves_those_of_operators_without_them(app: Duly) -> None:
    @app.schedule(every("1h"), name="declared", tags=["code"])
    async def declared(_: Event) -> None: ...

    @app.schedule(every("1h"), name="plain")
    async def plain(_: Event) -> None: ...

    await app.tick()
    assert (await app.schedules.get("declared")).tags == ("code",)
    await app.schedules.put("plain", every("1h"), "plain", tags=["ops"])
    await app.tick()
    assert (await app.schedules.get("plain")).tags == ("ops",)


# -- filters


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (ScheduleFilter(), ["bare", "etl-clean", "etl-load", "mail"]),
        (ScheduleFilter(name_prefix="etl-"), ["etl-clean", "etl-load"]),
        (ScheduleFilter(name_prefix="ETL-"), []),
        (ScheduleFilter(type="mail.send"), ["mail"]),
        (ScheduleFilter(tag="nightly"), ["etl-load", "mail"]),
        (ScheduleFilter(tag=["nightly", "etl"]), ["etl-load"]),
        (ScheduleFilter(tag=("unknown",)), []),
        (ScheduleFilter(enabled=False), ["bare"]),
        (ScheduleFilter(enabled=True), ["etl-clean", "etl-load", "mail"]),
        (ScheduleFilter(halt_kind=HaltKind.PAUSED), ["bare"]),
        (ScheduleFilter(last_status=Status.COMPLETED), ["etl-load"]),
        (ScheduleFilter(last_status=Status.PENDING), ["etl-clean"]),
        (ScheduleFilter(timezone="Europe/Brussels"), ["mail"]),
        (ScheduleFilter(tag=["etl"], last_status=Status.COMPLETED, name_prefix="etl"), ["etl-load"]),
        (ScheduleFilter(imported_from="crontab /etc/crontab"), []),
    ],
)
async def test_a_filter_finds_what_matches_all_its_fields(shop: Duly, which: ScheduleFilter, found: list[str]) -> None:
    assert sorted(await names(shop, which)) == found
    own = await names(shop, which, tenant="default")
    assert own == [name for name in found if name != "bare"]
    paged: list[str] = []
    page = await shop.schedules.list(which, limit=1)
    while page:
        paged += [one.name for one in page]
        page = await shop.schedules.list(which, limit=1, after=page[-1])
    assert sorted(paged) == found


async def test_imported_schedules_are_found_by_their_source(shop: Duly) -> None:
    await shop.schedules.mark_imported("crontab", {(await shop.schedules.get("mail")).id: "3"})
    assert await names(shop, ScheduleFilter(imported_from="crontab")) == ["mail"]


@pytest.mark.parametrize(
    "which",
    [
        {"tag": "a b"},
        {"name_prefix": 5},
        {"enabled": "maybe"},
        {"halt_kind": "lost"},
        {"last_status": "gone"},
        {"timezone": "Mars"},
        {"type": ""},
    ],
)
async def test_what_a_filter_cannot_ask_is_told(app: Duly, which: Any) -> None:
    with pytest.raises(Invalid) as refused:
        await app.schedules.list(ScheduleFilter(**which))
    assert [problem.path for problem in refused.value.problems] == list(which)


async def test_a_row_without_tags_of_an_earlier_version_has_none(shop: Duly) -> None:
    await write(shop.store, "UPDATE duly.schedules SET tags = NULL")
    assert await names(shop, ScheduleFilter(tag="etl")) == []
    assert (await shop.schedules.get("mail")).tags == ()
