"""Yearly rules, held against brute force on the dates of four centuries.

`make exhaustive` tries every date in every zone, with every time and policy in some of them. The normal run tries every
date in two zones and some in a few others, each with one of the times and policies, always the same.
"""

import os
from calendar import monthrange
from datetime import datetime
from itertools import product
from typing import NamedTuple

import pytest

from duly.rules.notation import yearly
from duly.rules.recurrence import Rule
from tests.pure.oracle import (
    GAPS,
    HOUR,
    LEAPS,
    MINUTE,
    OVERLAPS,
    compare,
    midnight,
    read_zone,
    yearly_instants,
    zone_names,
)

EXHAUSTIVE = bool(os.environ.get("DULY_EXHAUSTIVE"))
FIRST, UNTIL = midnight(2000), midnight(2400)
ZONES = """Europe/Brussels America/New_York Asia/Tokyo America/Sao_Paulo America/St_Johns Africa/Casablanca Asia/Gaza
Australia/Lord_Howe Antarctica/Troll Pacific/Apia America/Havana Africa/Cairo""".split()
WHOLLY = 2  # of the zones: with every date, in the normal run too
STRIDE = 11  # of the dates in the others; no divisor of the number of cases


class Case(NamedTuple):
    at: str
    gap: str
    overlap: str


TIMES = ["09:00", "02:30", "00:15", "01:59"]
CASES = [Case(at, *policies) for at, policies in product(TIMES, zip(GAPS, OVERLAPS, strict=True))]


def check(zone: str, month: int, day: int, leap: str, case: Case) -> None:
    hour, minute = map(int, case.at.split(":"))
    time = hour * HOUR + minute * MINUTE
    policies = {"leap": leap, "gap": case.gap, "overlap": case.overlap}
    expected = yearly_instants(month, day, time, read_zone(zone), FIRST, UNTIL, **policies)
    rule = yearly(f"{month:02}-{day:02}", at=case.at, timezone=zone, leap=leap, gap=case.gap, overlap=case.overlap)
    try:
        compare(rule, expected, FIRST, UNTIL, [*expected[:2], midnight(2100, 2, 28), *expected[-2:]])
    except AssertionError as wrong:
        wrong.add_note(f"yearly('{month:02}-{day:02}') at {case} with {leap=} in {zone}")
        raise


EVERYWHERE = [*ZONES, *(name for name in zone_names() if name not in ZONES)]


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("zone", EVERYWHERE if EXHAUSTIVE else ZONES)
def test_yearly_fires_as_every_year_of_four_centuries_says(zone: str, month: int) -> None:
    number = EVERYWHERE.index(zone)
    for day in range(1, monthrange(2000, month)[1] + 1):
        turn = 31 * month + day + number
        if EXHAUSTIVE and zone in ZONES:
            for case in CASES:
                check(zone, month, day, LEAPS[0], case)
        elif EXHAUSTIVE or number < WHOLLY or turn % STRIDE == 0:
            check(zone, month, day, LEAPS[0], CASES[turn % len(CASES)])


@pytest.mark.parametrize("leap", LEAPS)
@pytest.mark.parametrize("zone", EVERYWHERE if EXHAUSTIVE else ZONES)
def test_a_leap_day_goes_where_it_is_told_for_four_centuries(zone: str, leap: str) -> None:
    for case in CASES if EXHAUSTIVE else CASES[EVERYWHERE.index(zone) % len(CASES) :][:1]:
        check(zone, 2, 29, leap, case)


def given(rule: Rule, first: str, many: int) -> list[datetime]:
    """The first occurrences after *first*."""
    found, at = list[datetime](), datetime.fromisoformat(first)
    for _ in range(many):
        following = rule.after(at)
        assert following is not None
        at = following.at
        found.append(at)
    return found


def instants(*written: str) -> list[datetime]:
    return [datetime.fromisoformat(instant) for instant in written]


# -- by hand, without the oracle


def test_a_birthday_is_at_nine_where_the_user_is_in_summer_and_winter() -> None:
    rule = yearly("04-02", at="09:00", timezone="America/New_York")
    assert given(rule, "2006-01-01T00:00Z", 2) == instants("2006-04-02T09:00-04:00", "2007-04-02T09:00-04:00")
    rule = yearly("11-03", at="09:00", timezone="America/New_York")
    assert given(rule, "2006-01-01T00:00Z", 2) == instants("2006-11-03T09:00-05:00", "2007-11-03T09:00-04:00")


def test_born_on_the_29th_of_february_is_greeted_on_the_28th_by_default() -> None:
    rule = yearly("02-29", at="09:00", timezone="Asia/Tokyo")
    assert given(rule, "2026-01-01T00:00Z", 4) == instants(
        "2026-02-28T09:00+09:00", "2027-02-28T09:00+09:00", "2028-02-29T09:00+09:00", "2029-02-28T09:00+09:00"
    )


def test_born_on_the_29th_of_february_may_be_greeted_on_the_first_of_march() -> None:
    rule = yearly("02-29", at="09:00", leap="mar1", timezone="Asia/Tokyo")
    assert given(rule, "2027-01-01T00:00Z", 3) == instants(
        "2027-03-01T09:00+09:00", "2028-02-29T09:00+09:00", "2029-03-01T09:00+09:00"
    )


def test_a_century_is_a_common_year_and_its_fourth_is_not() -> None:
    rule = yearly("02-29", at="09:00", leap="skip", timezone="Asia/Tokyo")
    assert given(rule, "2094-01-01T00:00Z", 2) == instants("2096-02-29T09:00+09:00", "2104-02-29T09:00+09:00")
    assert given(rule, "2397-01-01T00:00Z", 1) == instants("2400-02-29T09:00+09:00")


def test_a_time_lost_to_a_gap_is_shifted_unless_told_otherwise() -> None:
    def on_the_day(gap: str | None = None) -> list[datetime]:
        return given(yearly("03-29", at="02:30", timezone="Europe/Brussels", gap=gap), "2026-01-01T00:00Z", 1)

    assert on_the_day() == instants("2026-03-29T03:30+02:00")
    assert on_the_day(gap="after") == instants("2026-03-29T03:00+02:00")
    assert on_the_day(gap="skip") == instants("2027-03-29T02:30+02:00")


def test_a_time_shown_twice_fires_once_unless_told_otherwise() -> None:
    def on_the_day(overlap: str | None = None) -> list[datetime]:
        rule = yearly("10-25", at="02:30", timezone="Europe/Brussels", overlap=overlap)
        return given(rule, "2026-01-01T00:00Z", 2)

    following = "2027-10-25T02:30+02:00"
    assert on_the_day() == instants("2026-10-25T02:30+02:00", following)
    assert on_the_day(overlap="second") == instants("2026-10-25T02:30+01:00", following)
    assert on_the_day(overlap="both") == instants("2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00")


def test_a_birthday_on_the_day_that_samoa_left_out_comes_a_day_later() -> None:
    rule = yearly("12-30", at="09:00", timezone="Pacific/Apia")
    assert given(rule, "2010-12-01T00:00Z", 3) == instants(
        "2010-12-30T09:00-10:00", "2011-12-31T09:00+14:00", "2012-12-30T09:00+14:00"
    )
