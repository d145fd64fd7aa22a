"""The same answers as python-dateutil's, where that is right."""

from bisect import bisect_left
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly.rules.rrule import Recurrence, bind, parse_recurrence
from duly.rules.rrule_text import FREQUENCIES, WEEKDAYS
from tests.make import DAY, HOUR, MINUTE, SECOND
from tests.pure.rrules import EVER, FOREVER, all_of, make_rule, moment, reading


class Answered(NamedTuple):
    text: str
    start: datetime
    readings: list[int]  # from the start up to the last, without a gap

    @property
    def rule(self) -> Recurrence:
        return bind(parse_recurrence(self.text), self.start)


def begin_of_week(day: datetime, week_start: int) -> datetime:
    return day - timedelta(days=(day.weekday() - week_start) % 7)


@st.composite
def parts_meeting(draw: st.DrawFn, frequency: str, goal: datetime, week_start: int) -> dict[str, list[Any]]:
    """BYxxx parts, each of which the goal satisfies."""
    day, end_of_month = goal.date(), (goal.replace(day=28) + 4 * DAY).replace(day=1).date()
    from_end_of_month = (day - end_of_month).days
    parts: dict[str, list[Any]] = {}

    def maybe(name: str, own: st.SearchStrategy[Any], others: st.SearchStrategy[Any]) -> None:
        if draw(st.integers(0, 2)) == 0:
            parts[name] = sorted({draw(own), *draw(st.lists(others, max_size=3))}, key=str)

    def signed(low: int, high: int) -> st.SearchStrategy[int]:
        return st.integers(low, high) | st.integers(-high, -low)

    maybe("BYMONTH", st.just(goal.month), st.integers(1, 12))
    if frequency != "WEEKLY":
        maybe("BYMONTHDAY", st.sampled_from([day.day, from_end_of_month]), signed(1, 31))
    if frequency not in ("DAILY", "WEEKLY", "MONTHLY"):
        from_end_of_year = (day - date(day.year + 1, 1, 1)).days
        maybe("BYYEARDAY", st.sampled_from([goal.timetuple().tm_yday, from_end_of_year]), signed(1, 366))
    week = ((begin_of_week(goal, week_start) + 3 * DAY).timetuple().tm_yday - 1) // 7 + 1
    if frequency == "YEARLY" and 1 < week < 52:  # dateutil errs in the weeks around new year
        maybe("BYWEEKNO", st.just(week), signed(1, 51))
    name, others = WEEKDAYS[goal.weekday()], st.sampled_from(WEEKDAYS)
    if frequency in ("MONTHLY", "YEARLY") and "BYWEEKNO" not in parts and draw(st.booleans()):
        if frequency == "MONTHLY" or "BYMONTH" in parts:
            nth, nth_last, most = (day.day - 1) // 7 + 1, from_end_of_month // 7, 5
        else:
            ends = date(day.year, 1, 1), date(day.year + 1, 1, 1)
            nth, nth_last, most = (day - ends[0]).days // 7 + 1, (day - ends[1]).days // 7, 53
        numbered = st.builds("{}{}".format, signed(1, most), others)
        maybe("BYDAY", st.sampled_from([f"{nth}{name}", f"{nth_last}{name}"]), numbered)
    else:
        maybe("BYDAY", st.just(name), others)
    maybe("BYHOUR", st.just(goal.hour), st.integers(0, 23))
    maybe("BYMINUTE", st.just(goal.minute), st.integers(0, 59))
    maybe("BYSECOND", st.just(goal.second), st.integers(0, 59))
    if parts:
        maybe("BYSETPOS", st.sampled_from([1, -1]), signed(1, 10))
    return parts


@st.composite
def starts_before(
    draw: st.DrawFn, frequency: str, interval: int, goal: datetime, week_start: int, parts: dict[str, list[Any]]
) -> datetime:
    """A start some intervals before the goal, and as far from its day and time as the parts allow."""
    periods = interval * draw(st.integers(1, {"YEARLY": 12, "MONTHLY": 40}.get(frequency, 120)))
    chooses_days = not parts.keys().isdisjoint({"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY"})
    if frequency in ("YEARLY", "MONTHLY"):
        months = goal.year * 12 + goal.month - 1 - periods * (12 if frequency == "YEARLY" else 1)
        start = goal.replace(year=months // 12, month=months % 12 + 1, day=min(goal.day, 28))
        if chooses_days:
            start = start.replace(day=draw(st.integers(1, 28)))
            if frequency == "YEARLY":
                start = start.replace(month=draw(st.integers(1, 12)))
    else:
        unit = {"WEEKLY": 7 * DAY, "DAILY": DAY, "HOURLY": HOUR, "MINUTELY": MINUTE, "SECONDLY": SECOND}[frequency]
        start = goal - periods * unit
        if frequency == "WEEKLY" and "BYSETPOS" in parts:  # of a first week dateutil takes only what follows the start
            assume("BYDAY" in parts)
            start = begin_of_week(start, week_start)
        elif frequency == "WEEKLY" and "BYDAY" in parts:
            start = begin_of_week(start, week_start) + draw(st.integers(0, 6)) * DAY
    coarser = FREQUENCIES.index(frequency)
    for place, (part, most) in enumerate([("BYSECOND", 59), ("BYMINUTE", 59), ("BYHOUR", 23)]):
        if part in parts and coarser > place:
            unit_of_wall: dict[str, Any] = {part[2:].lower(): draw(st.integers(0, most))}
            start = start.replace(**unit_of_wall)
    return start


@st.composite
def answered_rules(draw: st.DrawFn) -> Answered:
    """A rule with dateutil's answers. Some goal is sure to be among them, since dateutil looks for ever for none."""
    frequency, interval = draw(st.sampled_from(FREQUENCIES)), draw(st.integers(1, 5) | st.integers(1, 30))
    week_start = draw(st.integers(0, 6))
    goal = draw(st.datetimes(datetime.fromisoformat("1995-01-01"), datetime.fromisoformat("2030-01-01")))
    goal = goal.replace(microsecond=0)
    parts = draw(parts_meeting(frequency, goal, week_start))
    if parts.keys().isdisjoint({"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY"}):
        assume(goal.day <= 28 or frequency not in ("YEARLY", "MONTHLY"))
    start = draw(starts_before(frequency, interval, goal, week_start, parts))
    written: dict[str, list[Any]] = {
        "FREQ": [frequency],
        "INTERVAL": [interval],
        "WKST": [WEEKDAYS[week_start]],
        **parts,
    }
    text = ";".join(f"{name}={','.join(map(str, values))}" for name, values in written.items())
    readings = []
    for found in rrulestr(f"RRULE:{text}", dtstart=start):
        readings.append(reading(found))
        if found >= goal or ("BYSETPOS" in parts and readings[-1] >= period_of(goal, frequency, week_start)):
            break
    return Answered(text, start, readings)


def period_of(goal: datetime, frequency: str, week_start: int) -> int:
    midnight = goal.replace(hour=0, minute=0, second=0)
    begin = {
        "SECONDLY": goal,
        "MINUTELY": goal.replace(second=0),
        "HOURLY": goal.replace(minute=0, second=0),
        "DAILY": midnight,
        "WEEKLY": begin_of_week(midnight, week_start),
        "MONTHLY": midnight.replace(day=1),
        "YEARLY": midnight.replace(month=1, day=1),
    }[frequency]
    return reading(begin)


@settings(max_examples=400)
@given(answered_rules())
def test_the_readings_of_a_recurrence_are_those_of_dateutil(answered: Answered) -> None:
    found = islice(all_of(answered.rule), len(answered.readings))
    assert [moment(each) for each in found] == [moment(each) for each in answered.readings]


@settings(max_examples=200)
@given(answered_rules(), st.data())
def test_first_last_and_count_agree_on_any_stretch_of_time(answered: Answered, data: st.DataObject) -> None:
    rule, readings = answered.rule, answered.readings
    near = st.sampled_from(readings).flatmap(lambda each: st.integers(each - 1, each + 1))
    times = near | st.integers(reading(answered.start) - 86_400, readings[-1] + 1)
    low, high = sorted((min(data.draw(times), readings[-1]), min(data.draw(times), readings[-1] + 1)))
    places = bisect_left(readings, low), bisect_left(readings, high)
    assert rule.first(low) == readings[places[0]]
    assert rule.last(high) == (readings[places[1] - 1] if places[1] else None)
    assert rule.count(low, high) == places[1] - places[0]


@given(answered_rules(), st.data())
def test_count_and_until_end_a_rule_where_it_would_have_gone_on(answered: Answered, data: st.DataObject) -> None:
    readings = answered.readings[: data.draw(st.integers(1, len(answered.readings)))]
    for ending in (f"COUNT={len(readings)}", f"UNTIL={moment(readings[-1]):%Y%m%dT%H%M%S}"):
        rule = answered._replace(text=f"{answered.text};{ending}").rule
        assert list(all_of(rule)) == readings
        assert rule.last(FOREVER) == readings[-1]
        assert rule.count(EVER, FOREVER) == len(readings)


@given(answered_rules(), st.data())
def test_an_excluded_reading_is_left_out_but_counted_by_count(answered: Answered, data: st.DataObject) -> None:
    moments = [moment(each) for each in answered.readings]
    gone = data.draw(st.sets(st.sampled_from([*moments, *(each + SECOND for each in moments)]), max_size=10))
    days = data.draw(st.sets(st.sampled_from([each.date() for each in moments]), max_size=2))
    parts = parse_recurrence(f"{answered.text};COUNT={len(moments)}").parts
    rule = Recurrence(parts, answered.start, frozenset(gone | days))
    left = [reading(each) for each in moments if each not in gone and each.date() not in days]
    assert list(all_of(rule)) == left
    assert rule.count(EVER, FOREVER) == len(left)
    assert rule.last(FOREVER) == (left[-1] if left else None)


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("FREQ=MONTHLY", "2001-01-31T09:00:00"),
        ("FREQ=MONTHLY;INTERVAL=5", "2001-01-30T09:00:00"),
        ("FREQ=YEARLY", "1996-02-29T09:00:00"),
        ("FREQ=YEARLY;BYMONTH=1,2,4", "2001-01-30T09:00:00"),
        ("FREQ=YEARLY;BYYEARDAY=366,-366", "2001-01-30T09:00:00"),
        ("FREQ=YEARLY;BYWEEKNO=1,-1", "2001-01-30T09:00:00"),
        ("FREQ=YEARLY;BYDAY=53MO,-53TU", "2001-01-30T09:00:00"),
        ("FREQ=MONTHLY;BYDAY=5FR,-5SA", "2001-01-30T09:00:00"),
        ("FREQ=WEEKLY;BYMONTH=1", "2001-12-30T09:00:00"),
    ],
)
def test_days_that_some_months_and_years_lack_are_those_of_dateutil(rule: str, start: str) -> None:
    expected = islice(rrulestr(f"RRULE:{rule}", dtstart=datetime.fromisoformat(start)), 40)
    assert [moment(each) for each in islice(all_of(make_rule(rule, start)), 40)] == list(expected)
