"""``duly.schedules.preview``: what is told of occurrences to come."""

from datetime import UTC, datetime

import pytest

from duly import Duly, Invalid, every
from duly.testing import ManualClock

BRUSSELS = "Europe/Brussels"


@pytest.fixture
def duly() -> Duly:
    return Duly("sqlite://", clock=ManualClock(datetime(2027, 3, 26, tzinfo=UTC)))


async def test_a_gap_is_told_with_the_occurrence_that_it_moves_and_with_no_other(duly: Duly) -> None:
    async with duly:
        found = await duly.schedules.preview({"cron": "30 2 * * *"}, count=10, timezone=BRUSSELS)
    assert [one.note for one in found if one.due.day != 28] == [None] * 9
    [moved] = [one for one in found if one.due.day == 28]
    assert moved.note == "2027-03-28 has no 02:30: it fires right after the gap"


async def test_a_gap_that_swallows_an_occurrence_is_told_with_the_next_one_alone(duly: Duly) -> None:
    async with duly:
        found = await duly.schedules.preview({"cron": "30 2 * * *"}, count=10, dst={"gap": "skip"}, timezone=BRUSSELS)
    noted = {one.local.day: one.note for one in found if one.note}
    assert noted == {29: "2027-03-28 has no 02:30: it does not fire then"}


async def test_a_rule_of_real_time_can_be_previewed_in_a_zone(duly: Duly) -> None:
    async with duly:
        [one] = await duly.schedules.preview(every("1h"), count=1, timezone=BRUSSELS)
    assert (one.due.hour, one.local.hour) == (1, 2)


async def test_a_zone_that_does_not_exist_is_refused_also_where_a_local_time_needs_it(duly: Duly) -> None:
    async with duly:
        with pytest.raises(Invalid, match="'Mars/Phobos' is not a time zone"):
            await duly.schedules.preview({"cron": "0 9 * * *"}, timezone="Mars/Phobos", start="2027-04-01T00:00")
