"""The oracle is right about zones and dates: else its word about the rules would be worth nothing."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from tests.pure.oracle import (
    DAY,
    HOUR,
    MINUTE,
    cron_instants,
    instant,
    midnight,
    read_zone,
    yearly_instants,
    zone_names,
)

FIRST, UNTIL = midnight(1970), midnight(2101)
PARTS = 16


def written(instants: list[int]) -> list[str]:
    return [instant(at).strftime("%Y-%m-%d %H:%M") for at in instants]


@pytest.mark.parametrize("part", range(PARTS))
def test_the_oracle_and_zoneinfo_read_the_same_offsets_from_the_same_file(part: int) -> None:
    for name in zone_names()[part::PARTS]:
        with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            theirs = ZoneInfo.from_file(file, key=name)
        ours = read_zone(name)
        around = [at + off for at, _, _ in ours.changes(FIRST, UNTIL) for off in (-HOUR, -1, 0, 1, HOUR)]
        for at in [*range(FIRST, UNTIL, 53 * DAY + 7 * HOUR + 11 * MINUTE), *around]:
            offset = instant(at).astimezone(theirs).utcoffset()
            assert offset == timedelta(seconds=ours.offset(at)), f"{name} at {instant(at)}"


def test_tzdata_has_hundreds_of_zones() -> None:
    assert len(zone_names()) > 500


def test_a_change_of_offset_is_known_to_the_second() -> None:
    at = int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp())
    assert read_zone("Europe/Brussels").changes(midnight(2026), midnight(2026, 6)) == [(at, HOUR, 2 * HOUR)]


def test_readings_are_shown_once_or_twice_or_not_at_all() -> None:
    brussels = read_zone("Europe/Brussels")
    half_past_two = 2 * HOUR + 30 * MINUTE
    assert written(brussels.showing(midnight(2026, 7, 1) + half_past_two)) == ["2026-07-01 00:30"]
    assert written(brussels.showing(midnight(2026, 10, 25) + half_past_two)) == ["2026-10-25 00:30", "2026-10-25 01:30"]
    assert written(brussels.showing(midnight(2026, 3, 29) + half_past_two)) == []


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 L * *", "31 28 31 30 31 30 31 31 30 31 30 31"),
        ("0 0 LW * *", "30 27 31 30 29 30 31 31 30 30 30 31"),
        ("0 0 15W * *", "15 16 16 15 15 15 15 14 15 15 16 15"),  # Sunday: Monday; Saturday: Friday
        ("0 0 1W * *", "1 2 2 1 1 1 1 3 1 1 2 1"),  # never into the month before
        ("0 0 * * FRI#2", "9 13 13 10 8 12 10 14 11 9 13 11"),
        ("0 0 * * 5L", "30 27 27 24 29 26 31 28 25 30 27 25"),
        ("0 0 ? * sun#1", "4 1 1 5 3 7 5 2 6 4 1 6"),
        ("0 0 * * 7L", "25 22 29 26 31 28 26 30 27 25 29 27"),
        ("0 0 13 * ?", " ".join(["13"] * 12)),
    ],
)
def test_days_are_counted_as_a_calendar_of_2026_shows_them(expression: str, days: str) -> None:
    fired = cron_instants(expression, read_zone("UTC"), midnight(2026), midnight(2027))
    assert [(instant(at).month, instant(at).day) for at in fired] == list(enumerate(map(int, days.split()), 1))


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("10-40/7 3 * * *", "03:10:00 03:17:00 03:24:00 03:31:00 03:38:00"),
        ("5/25 3 * * *", "03:05:00 03:30:00 03:55:00"),
        ("0 */9 * * *", "00:00:00 09:00:00 18:00:00"),
        ("*/30 15 2,4 * * *", "02:15:00 02:15:30 04:15:00 04:15:30"),
        ("@daily", "00:00:00"),
    ],
)
def test_times_are_counted_as_a_clock_shows_them(expression: str, times: str) -> None:
    fired = cron_instants(expression, read_zone("UTC"), midnight(2026), midnight(2026, 1, 2))
    assert [instant(at).strftime("%H:%M:%S") for at in fired] == times.split()


def test_two_restricted_day_fields_add_up_and_a_star_narrows() -> None:
    def days(expression: str) -> list[int]:
        return [
            instant(at).day for at in cron_instants(expression, read_zone("UTC"), midnight(2026, 5), midnight(2026, 6))
        ]

    assert days("0 0 13 * 5") == [1, 8, 13, 15, 22, 29]
    assert days("0 0 */10 * 5") == [1]  # of the 1st, 11th, 21st and 31st
    assert days("0 0 1-10 * *") == list(range(1, 11))


def test_the_29th_of_february_goes_where_it_is_told() -> None:
    def dates(leap: str) -> list[str]:
        policy = {"leap": leap, "gap": "shift", "overlap": "first"}
        return written(yearly_instants(2, 29, 9 * HOUR, read_zone("UTC"), midnight(2099), midnight(2105), **policy))

    leap_year = "2104-02-29 09:00"
    common = range(2099, 2104)  # 2100 too: a century is common
    assert dates("feb28") == [*(f"{year}-02-28 09:00" for year in common), leap_year]
    assert dates("mar1") == [*(f"{year}-03-01 09:00" for year in common), leap_year]
    assert dates("skip") == [leap_year]
