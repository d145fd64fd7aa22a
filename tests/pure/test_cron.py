from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules import cron as module
from duly.rules.cron import CronReadings, parse_cron
from duly.rules.cron_fields import ALIASES
from duly.rules.notation import cron
from duly.rules.zones import wall_of


def days(expression: str, year: int = 2026, many: int = 12) -> list[str]:
    """The first dates of a year on which an expression fires."""
    rule, at, found = cron(expression), datetime(year, 1, 1, tzinfo=UTC), []
    for _ in range(many):
        occurrence = rule.after(at)
        if occurrence is None or occurrence.at.year > year:
            break
        at = occurrence.at
        found.append(f"{at:%m-%d}")
    return found


def times(expression: str, many: int = 6) -> list[str]:
    rule, at, found = cron(expression), datetime(2026, 1, 1, tzinfo=UTC), []
    for _ in range(many):
        occurrence = rule.after(at)
        assert occurrence is not None
        at = occurrence.at
        found.append(f"{at:%H:%M:%S}")
    return found


# -- what expressions mean


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 9 * * *", ["09:30:00", "09:30:00"]),
        ("*/20 9 * * *", ["09:00:00", "09:20:00", "09:40:00", "09:00:00"]),
        ("10-40/15 9 * * *", ["09:10:00", "09:25:00", "09:40:00", "09:10:00"]),
        ("45/5 9 * * *", ["09:45:00", "09:50:00", "09:55:00", "09:45:00"]),
        ("5,1,3-4 9 * * *", ["09:01:00", "09:03:00", "09:04:00", "09:05:00"]),
        ("15,45 30 9 * * *", ["09:30:15", "09:30:45", "09:30:15"]),
        ("*/30 * * * * *", ["00:00:30", "00:01:00", "00:01:30"]),
        ("@hourly", ["01:00:00", "02:00:00"]),
        ("*/60 */24 * * *", ["00:00:00", "00:00:00"]),
        ("@DAILY", ["00:00:00"]),
        ("  0\t12   * * ?  ", ["12:00:00"]),
    ],
)
def test_cron_fires_at_the_times_of_its_fields(expression: str, expected: list[str]) -> None:
    assert times(expression, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 13 * *", ["01-13", "02-13", "03-13"]),
        ("0 9 31 * *", ["01-31", "03-31", "05-31", "07-31", "08-31", "10-31", "12-31"]),
        ("0 9 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 9 LW * *", ["01-30", "02-27", "03-31", "04-30", "05-29"]),
        ("0 9 15W * *", ["01-15", "02-16", "03-16", "04-15", "05-15", "06-15", "07-15", "08-14"]),
        ("0 9 1W 8 *", ["08-03"]),
        ("0 9 31W 1,5 *", ["01-30", "05-29"]),
        ("0 9 * * FRI#2", ["01-09", "02-13", "03-13"]),
        ("0 9 * * 5#5", ["01-30", "05-29", "07-31", "10-30"]),
        ("0 9 * * 5L", ["01-30", "02-27", "03-27"]),
        ("0 9 * * SUNL", ["01-25", "02-22", "03-29"]),
        ("0 9 * * mon", ["01-05", "01-12"]),
        ("0 9 * * 1", ["01-05", "01-12"]),
        ("0 9 * * 0", ["01-04", "01-11"]),
        ("0 9 * * 7", ["01-04", "01-11"]),
        ("0 9 * * 5-7", ["01-02", "01-03", "01-04", "01-09"]),
        ("0 9 * * FRI-SUN", ["01-02", "01-03", "01-04", "01-09"]),
        ("0 9 * * */3", ["01-03", "01-04", "01-07", "01-10"]),
        ("0 9 13 * 5", ["01-02", "01-09", "01-13", "01-16"]),
        ("0 9 13 * ?", ["01-13", "02-13"]),
        ("0 9 ? * 5", ["01-02", "01-09"]),
        ("0 9 */10 * 5", ["05-01", "07-31", "08-21", "09-11"]),
        ("0 9 1,15,L 2 *", ["02-01", "02-15", "02-28"]),
        ("0 9 1 jan-mar,DEC *", ["01-01", "02-01", "03-01", "12-01"]),
        ("0 9 1 */4 *", ["01-01", "05-01", "09-01"]),
        ("@monthly", ["02-01", "03-01"]),
        ("@weekly", ["01-04", "01-11"]),
    ],
)
def test_cron_fires_on_the_days_of_its_fields(expression: str, expected: list[str]) -> None:
    assert days(expression, many=len(expected)) == expected


def test_a_leap_day_and_a_fifth_monday_in_february_come_when_they_come() -> None:
    leap, fifth = cron("0 9 29 2 *"), cron("0 9 ? 2 MON#5")
    years, at = [], datetime(2090, 1, 1, tzinfo=UTC)
    for _ in range(3):
        occurrence = leap.after(at)
        assert occurrence is not None
        at = occurrence.at
        years.append(at.year)
    assert years == [2092, 2096, 2104]
    occurrence = fifth.after(datetime(2073, 1, 1, tzinfo=UTC))
    assert occurrence is not None
    assert occurrence.at == datetime(2112, 2, 29, 9, tzinfo=UTC), "40 years after 2072, for 2100 has no leap day"


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_is_the_expression_that_it_stands_for(alias: str) -> None:
    assert cron(alias.lower()) == cron(ALIASES[alias])
    assert cron(alias).to_json() == {"cron": ALIASES[alias]}


def test_cron_has_no_occurrence_after_the_last_year() -> None:
    rule = cron("0 9 * * *")
    first = rule.after(datetime(1, 1, 1, tzinfo=UTC))
    assert first is not None
    assert first.at.year == 1
    assert rule.after(datetime(9998, 12, 31, 12, tzinfo=UTC)) is None
    assert rule.after(datetime(9999, 6, 1, tzinfo=UTC)) is None
    last = rule.last(datetime(9999, 6, 1, tzinfo=UTC))
    assert last is not None
    assert last.at == datetime(9998, 12, 31, 9, tzinfo=UTC)


# -- what is refused


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "must have five fields, or six with seconds first, but has 0:"),
        ("* * * *", "must have five fields, or six with seconds first, but has 4:"),
        ("* * * * * * *", "must have five fields, or six with seconds first, but has 7:"),
        ("60 * * * *", "minute '60': 60 is out of range: 0 to 59"),
        ("* 24 * * *", "hour '24': 24 is out of range: 0 to 23"),
        ("* * 0 * *", "day of month '0': 0 is out of range: 1 to 31"),
        ("* * 32 * *", "day of month '32': 32 is out of range"),
        ("* * * 13 *", "month '13': 13 is out of range: 1 to 12"),
        ("* * * * 8", "day of week '8': 8 is out of range: 0 to 7"),
        ("61 * * * * *", "second '61': 61 is out of range"),
        ("* * * FOO *", "month 'FOO': 'FOO' is not 1 to 12 or JAN to DEC"),
        ("* * * * FRY", "day of week 'FRY': 'FRY' is not 0 to 7 or SUN to SAT"),
        ("JAN * * * *", "minute 'JAN': 'JAN' is not 0 to 59"),
        ("*/0 * * * *", "the step '0' is not a whole number, at least 1"),
        ("*/x * * * *", "the step 'X' is not a whole number"),
        ("*/90 * * * *", "the step 90 is longer than the field, 0 to 59"),
        ("5- * * * *", "a value is missing"),
        ("1,,2 * * * *", "a value is missing"),
        ("-5 * * * *", "a value is missing"),
        ("9-5 * * * *", "9-5 begins after its end: write two ranges, 9-59,0-5"),
        ("? * * * *", "a question mark is only allowed in the two day fields"),
        ("* * * * L", "L needs a weekday"),
        ("* * * * FRI#6", "write #1 to #5"),
        ("* * * * FRI#0", "write #1 to #5"),
        ("* * 32W * *", "32 is out of range"),
        ("* * W * *", "'W' is not 1 to 31"),
        ("* * * L *", "'L' is not 1 to 12"),
        ("* * 15W#2 * *", "is not 1 to 31"),
        ("0 0 30 2 *", "day of month '30' does not exist in month '2'"),
        ("0 0 31 4,6,9,11 *", "day of month '31' does not exist"),
        ("0 0 31W feb *", "does not exist in month 'FEB'"),
        ("@reboot", "@reboot is not a time"),
        ("@every 5m", "@every is not cron"),
        ("@lunch", "'@lunch' is unknown; known: @yearly"),
        ("* " * 600, "has 1,200 characters; at most 1,000"),
        ("\u0660 * * * *", "is not 0 to 59"),
    ],
)
def test_a_bad_expression_is_refused_with_the_field_and_the_reason(expression: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        cron(expression)
    [problem] = refused.value.problems
    assert problem.path == "rule.cron"
    assert message in problem.message


def test_all_bad_fields_are_told_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        cron("60 24 0 13 8")
    assert [problem.message.split(" '")[0] for problem in refused.value.problems] == [
        "minute",
        "hour",
        "day of month",
        "month",
        "day of week",
    ]


@pytest.mark.parametrize("expression", [None, 7, ["*"], b"* * * * *"])
def test_an_expression_that_is_no_text_is_refused(expression: object) -> None:
    with pytest.raises(Invalid, match="expected text"):
        cron(expression)  # type: ignore[arg-type]


# -- bounds

ALPHABET = "0123456789*/,-?LW# @MONFRIJAN"
fields = st.text(ALPHABET, min_size=1, max_size=40)
likely = st.sampled_from(
    ["*", "*/7", "0", "29", "L", "LW", "15W", "2", "FEB", "MON#5", "5L", "1-5", "30,31", "?", "0/9"]
)


@given(
    st.text(ALPHABET, max_size=200)
    | st.lists(fields | likely, min_size=5, max_size=6).map(" ".join)
    | st.lists(likely, min_size=5, max_size=6).map(" ".join)
)
def test_any_text_is_refused_or_answers_within_its_bound(expression: str) -> None:
    """A month that is looked at is a step; one look takes at most those of 41 years, whatever was written."""
    steps = 0
    try:
        readings = CronReadings(parse_cron(expression))
    except Invalid:
        return
    original = readings._days_of

    def counted(year: int, month: int) -> tuple[int, ...]:
        nonlocal steps
        steps += 1
        return original(year, month)

    readings._days_of = counted  # type: ignore[method-assign]
    low = 0
    for _ in range(5):
        steps = 0
        reading = readings.first(low)
        assert steps <= 2 * (12 * module.LONGEST_PAUSE + 1)
        assert reading is not None, f"{expression} was accepted, so it fires at some time"
        assert reading >= low
        assert readings.last(reading + 1) == reading
        assert readings.count(low, reading + 1) == 1
        low = reading + 1
    assert wall_of(low).year < 2300


EXPRESSIONS = ["*/7 * * * *", "0 9 * * MON-FRI", "30 2 L * *", "*/20 15,45 1-3 13 * 5", "0 0 29 2 *", "5 4 15W 1/3 *"]


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(["Europe/Brussels", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "UTC"]),
    st.sampled_from(["after", "shift", "skip"]),
    st.sampled_from(["first", "second", "both"]),
    st.datetimes(datetime(2015, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds
)
def test_occurrences_increase_and_look_the_same_from_both_sides(
    expression: str, zone: str, gap: str, overlap: str, start: datetime
) -> None:
    rule = cron(expression, timezone=zone, gap=gap, overlap=overlap)
    walk, at = [], start
    for _ in range(20):
        occurrence = rule.after(at)
        assert occurrence is not None
        walk.append(occurrence)
        at = occurrence.at
    assert all(one.at < other.at for one, other in pairwise(walk))
    assert len({one.name for one in walk}) == len(walk)
    assert [rule.last(one.at) for one in walk] == walk
    assert rule.count(walk[0].at, walk[-1].at) == len(walk)
    assert rule.after(walk[7].at) == walk[8]
