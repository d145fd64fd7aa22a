"""Where other schedulers go wrong when clocks change; what is right is written out by hand."""

from datetime import datetime
from itertools import pairwise

import pytest

from duly.rules.notation import cron


def fired(expression: str, zone: str, first: str, until: str, **policy: str) -> list[datetime]:
    """Every instant after *first* and not after *until*."""
    rule, found, at = cron(expression, timezone=zone, **policy), list[datetime](), datetime.fromisoformat(first)
    while (following := rule.after(at)) is not None and following.at <= datetime.fromisoformat(until):
        at = following.at
        assert at not in found
        found.append(at)
    assert following is not None
    return found


def instants(*written: str) -> list[datetime]:
    return [datetime.fromisoformat(instant) for instant in written]


# -- fixed times in a gap


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, ["2026-03-29T03:00+02:00"]),
        ({"gap": "after"}, ["2026-03-29T03:00+02:00"]),
        ({"gap": "shift"}, ["2026-03-29T03:30+02:00"]),
        ({"gap": "skip"}, []),
    ],
)
def test_half_past_two_is_at_three_when_brussels_has_no_half_past_two(
    policy: dict[str, str], expected: list[str]
) -> None:
    days = fired("30 2 * * *", "Europe/Brussels", "2026-03-28T00:00+01:00", "2026-03-31T00:00+02:00", **policy)
    assert days == instants("2026-03-28T02:30+01:00", *expected, "2026-03-30T02:30+02:00")


def test_a_day_without_midnight_is_not_left_out() -> None:
    days = fired("0 0 * * *", "America/Sao_Paulo", "2018-11-02T12:00-03:00", "2018-11-05T12:00-02:00")
    assert days == instants("2018-11-03T00:00-03:00", "2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00")


def test_several_times_lost_to_one_gap_fire_once_after_it() -> None:
    times = fired("0,20,40 2-3 * * *", "Europe/Brussels", "2026-03-28T12:00+01:00", "2026-03-29T03:25+02:00")
    assert times == instants("2026-03-29T03:00+02:00", "2026-03-29T03:20+02:00")


def test_samoa_has_no_30th_of_december_2011() -> None:
    def days(**policy: str) -> list[datetime]:
        return fired("0 9 * * *", "Pacific/Apia", "2011-12-28T12:00-10:00", "2012-01-01T12:00+14:00", **policy)

    before, after = "2011-12-29T09:00-10:00", ["2011-12-31T09:00+14:00", "2012-01-01T09:00+14:00"]
    assert days(gap="after") == instants(before, "2011-12-31T00:00+14:00", *after)
    assert days(gap="shift") == instants(before, *after)  # the 30th's lands on the 31st's
    assert days(gap="skip") == instants(before, *after)


# -- fixed times in an overlap


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, ["2026-10-25T02:30+02:00"]),
        ({"overlap": "first"}, ["2026-10-25T02:30+02:00"]),
        ({"overlap": "second"}, ["2026-10-25T02:30+01:00"]),
        ({"overlap": "both"}, ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"]),
    ],
)
def test_half_past_two_fires_once_when_brussels_has_it_twice(policy: dict[str, str], expected: list[str]) -> None:
    days = fired("30 2 * * *", "Europe/Brussels", "2026-10-24T00:00+02:00", "2026-10-27T00:00+01:00", **policy)
    assert days == instants("2026-10-24T02:30+02:00", *expected, "2026-10-26T02:30+01:00")


def test_half_past_one_fires_once_when_new_york_has_it_twice() -> None:
    days = fired("30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00", "2026-11-03T00:00-05:00")
    assert days == instants("2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00")


def test_midnight_fires_once_when_it_comes_twice() -> None:
    days = fired("0 0 * * *", "America/St_Johns", "2006-10-28T12:00-02:30", "2006-10-30T12:00-03:30")
    assert days == instants("2006-10-29T00:00-02:30", "2006-10-30T00:00-03:30")
    days = fired("30 23 * * *", "America/St_Johns", "2006-10-28T12:00-02:30", "2006-10-30T12:00-03:30")
    assert days == instants("2006-10-28T23:30-02:30", "2006-10-29T23:30-03:30")


@pytest.mark.parametrize("start", ["2026-10-25T02:15+01:00", "2026-10-25T02:30+01:00", "2026-10-25T02:45+01:00"])
def test_the_next_time_within_a_repeated_hour_is_never_in_the_past(start: str) -> None:
    following = cron("30 2 * * *", timezone="Europe/Brussels").after(datetime.fromisoformat(start))
    assert following is not None
    assert following.at == datetime.fromisoformat("2026-10-26T02:30+01:00")


def test_between_two_showings_of_a_time_the_second_is_still_to_come() -> None:
    between = datetime.fromisoformat("2026-10-25T02:45+02:00")
    for overlap in ("second", "both"):
        following = cron("30 2 * * *", timezone="Europe/Brussels", overlap=overlap).after(between)
        assert following is not None
        assert following.at == datetime.fromisoformat("2026-10-25T02:30+01:00")


# -- wildcards: what the clock really shows


def test_every_two_hours_has_nothing_extra_on_a_day_with_a_gap() -> None:
    times = fired("0 */2 * * *", "Europe/Brussels", "2026-03-28T21:00+01:00", "2026-03-29T07:00+02:00")
    assert times == instants(
        "2026-03-28T22:00+01:00", "2026-03-29T00:00+01:00", "2026-03-29T04:00+02:00", "2026-03-29T06:00+02:00"
    )


def test_every_two_hours_fires_at_both_showings_of_an_hour() -> None:
    times = fired("0 */2 * * *", "Europe/Brussels", "2026-10-24T23:00+02:00", "2026-10-25T05:00+01:00")
    assert times == instants(
        "2026-10-25T00:00+02:00", "2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T04:00+01:00"
    )


def test_every_two_hours_does_not_miss_two_on_lord_howe_where_the_clocks_go_back_half_an_hour() -> None:
    times = fired("0 */2 * * *", "Australia/Lord_Howe", "2026-04-04T23:00+11:00", "2026-04-05T05:00+10:30")
    assert times == instants("2026-04-05T00:00+11:00", "2026-04-05T02:00+10:30", "2026-04-05T04:00+10:30")


def test_every_two_hours_goes_on_where_the_clocks_went_back_a_minute_past_midnight() -> None:
    times = fired("0 */2 * * *", "America/St_Johns", "2006-10-28T21:00-02:30", "2006-10-29T05:00-03:30")
    assert times == instants(
        "2006-10-28T22:00-02:30",
        "2006-10-29T00:00-02:30",
        "2006-10-29T00:00-03:30",
        "2006-10-29T02:00-03:30",
        "2006-10-29T04:00-03:30",
    )


def test_five_minutes_stay_five_minutes_through_gap_and_overlap() -> None:
    for start in ("2026-03-28T12:00Z", "2026-10-24T12:00Z"):
        until = start.replace("28T", "29T").replace("24T", "25T")
        times = fired("*/5 * * * *", "Europe/Brussels", start, until)
        assert len(times) == 24 * 12
        assert {(later - earlier).seconds for earlier, later in pairwise(times)} == {300}


def test_every_six_hours_goes_on_over_the_day_that_samoa_left_out() -> None:
    times = fired("0 */6 * * *", "Pacific/Apia", "2011-12-29T11:00-10:00", "2011-12-31T07:00+14:00")
    assert times == instants(
        "2011-12-29T12:00-10:00", "2011-12-29T18:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T06:00+14:00"
    )


# -- laws


def test_casablanca_sets_its_clocks_back_for_ramadan() -> None:
    days = fired("30 2 * * *", "Africa/Casablanca", "2025-02-22T00:00+01:00", "2025-02-25T00:00Z")
    assert days == instants("2025-02-22T02:30+01:00", "2025-02-23T02:30+01:00", "2025-02-24T02:30+00:00")
    days = fired("30 2 * * *", "Africa/Casablanca", "2025-04-05T00:00Z", "2025-04-08T00:00+01:00")
    assert days == instants("2025-04-05T02:30+00:00", "2025-04-06T03:00+01:00", "2025-04-07T02:30+01:00")


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("America/Vancouver", "-07:00"),
        ("America/Edmonton", "-06:00"),
        ("America/Winnipeg", "-05:00"),
        ("Africa/Casablanca", "+00:00"),
    ],
)
def test_clocks_that_a_law_of_2026_stopped_from_changing_change_no_more(zone: str, offset: str) -> None:
    for year in (2026, 2027, 2040):
        [winter] = fired("0 9 1 12 *", zone, f"{year}-11-01T00:00Z", f"{year}-12-31T00:00Z")
        [summer] = fired("0 9 1 7 *", zone, f"{year + 1}-06-01T00:00Z", f"{year + 1}-07-31T00:00Z")
        assert [winter, summer] == instants(f"{year}-12-01T09:00{offset}", f"{year + 1}-07-01T09:00{offset}")


# -- days


def test_the_13th_and_the_fridays_are_either_not_both() -> None:
    days = fired("0 0 13 * 5", "UTC", "2026-04-30T12:00Z", "2026-05-31T12:00Z")
    assert [day.day for day in days] == [1, 8, 13, 15, 22, 29]


@pytest.mark.parametrize(
    ("weekday", "day"), [("1", 5), ("MON", 5), ("mon", 5), ("5", 9), ("6", 10), ("0", 4), ("7", 4), ("Sun", 4)]
)
def test_weekday_1_is_monday_and_both_0_and_7_are_sunday(weekday: str, day: int) -> None:
    days = fired(f"0 9 * * {weekday}", "UTC", "2026-01-04T00:00Z", "2026-01-18T00:00Z")
    assert [found.day for found in days] == [day, day + 7]
