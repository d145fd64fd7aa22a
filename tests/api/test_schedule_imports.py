"""Schedules remember where they were imported from."""

import pytest

from duly import Duly, every
from duly.testing import ManualClock
from tests.make import HOUR

FILE = "crontab /home/ada/crontab"


async def test_a_schedule_remembers_where_it_was_imported_from(app: Duly) -> None:
    for name, tenant in (("b", "default"), ("a", "default"), ("other", "default"), ("a", "acme")):
        schedule = await app.schedules.put(name, every("1h"), "digest", tenant=tenant)
        await app.schedules.mark_imported("elsewhere" if name == "other" else FILE, {schedule.id: f"line of {name}"})
    found = await app.schedules.imported(FILE)
    assert [(one.name, one.imported_from, one.imported_as) for one in found] == [
        ("a", FILE, "line of a"), ("b", FILE, "line of b"),
    ]  # fmt: skip
    assert [one.tenant for one in await app.schedules.imported(FILE, tenant="acme")] == ["acme"]
    assert await app.schedules.imported("crontab /nowhere") == []
    shown = await app.schedules.get("a")
    assert (shown.imported_from, shown.imported_as) == (FILE, "line of a")


async def test_remembering_an_import_is_no_edit(app: Duly, clock: ManualClock) -> None:
    before = await app.schedules.put("a", every("1h"), "digest")
    clock.advance(HOUR / 2)
    await app.schedules.mark_imported(FILE, {before.id: "3"})
    after = await app.schedules.get("a")
    assert (after.tag, after.updated, after.next_at) == (before.tag, before.updated, before.next_at)
    assert [entry.act for entry in await app.schedules.history("a")] == ["created"]


async def test_an_edit_leaves_alone_where_a_schedule_was_imported_from(app: Duly) -> None:
    schedule = await app.schedules.put("a", every("1h"), "digest")
    await app.schedules.mark_imported(FILE, {schedule.id: "3"})
    edited = await app.schedules.put("a", every("2h"), "digest")
    paused = await app.schedules.pause("a")
    assert [(one.imported_from, one.imported_as) for one in (edited, paused)] == [(FILE, "3")] * 2
    await app.schedules.delete("a")
    await app.schedules.put("a", every("2h"), "digest")
    assert await app.schedules.imported(FILE) == [], "it is another schedule"


async def test_what_an_import_remembers_is_rolled_back_with_it(app: Duly) -> None:
    schedule = await app.schedules.put("a", every("1h"), "digest")

    async def interrupted() -> None:
        async with app.transaction() as tx:
            await app.schedules.mark_imported(FILE, {schedule.id: "3"}, transaction=tx)
            assert len(await app.schedules.imported(FILE, transaction=tx)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await interrupted()
    assert await app.schedules.imported(FILE) == []
