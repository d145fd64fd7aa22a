"""Fields that must all match, as rules of Duly: each rule has the days and times of the fields, and no others."""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.imports.calendar_fields import LOW_HIGH, CalendarFields, Field, every, rule_of
from duly.imports.found import Unfit
from duly.rules.notation import parse_rule

START = datetime(2026, 1, 1, tzinfo=UTC)


def fields(name: str, *, most: int = 4) -> st.SearchStrategy[Field]:
    low, high = LOW_HIGH[name]
    listed = st.sets(st.integers(low, high), min_size=1, max_size=most).map(frozenset)
    stepped = st.integers(2, high - low).map(lambda step: Field(frozenset(range(low, high + 1, step)), star=True))
    return st.one_of(st.just(every(name)), listed.map(Field), stepped)


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        CalendarFields,
        minutes=fields("minutes", most=2),
        hours=fields("hours", most=2),
        days=fields("days", most=8),
        months=fields("months"),
        weekdays=fields("weekdays"),
        weeks=st.one_of(st.just(every("weeks")), fields("weeks", most=20)),
        last_day=st.booleans(),
        seconds=st.just(Field(frozenset({0}))),
        ordinals=st.just(frozenset[tuple[int, int]]()),
    )
)
def test_a_rule_fires_on_the_days_on_which_all_fields_match(wanted: CalendarFields) -> None:
    try:
        rule = parse_rule(rule_of(wanted), "UTC").anchored(START)
    except Unfit:
        assert wanted.spacing
        assert wanted.weeks != every("weeks")
        return
    first, last = divmod(min(wanted.minutes.values), 60), max(wanted.hours.values)
    found = set()
    at = START - timedelta(microseconds=1)
    while (run := rule.after(at)) is not None and run.at < START + timedelta(days=500):
        found.add(run.at.date())
        at = datetime(run.at.year, run.at.month, run.at.day, tzinfo=UTC) + timedelta(days=1, microseconds=-1)
        assert run.at.minute in wanted.minutes.values
        assert run.at.hour in wanted.hours.values
    assert first[1] in wanted.minutes.values
    assert last in wanted.hours.values
    assert found == {day for each in range(500) if matches(day := START.date() + timedelta(days=each), wanted)}


def matches(day: date, wanted: CalendarFields) -> bool:
    is_last = day.day == monthrange(day.year, day.month)[1]
    return (
        day.month in wanted.months.values
        and (day.day in wanted.days.values or (wanted.last_day and is_last))
        and day.isoweekday() % 7 in wanted.weekdays.values
        and day.isocalendar().week in wanted.weeks.values
    )


def number(*values: int) -> Field:
    return Field(frozenset(values))


NINE: dict[str, Any] = {"minutes": number(0), "hours": number(9)}


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        (CalendarFields(**NINE), {"cron": "0 9 * * *"}),
        (CalendarFields(**NINE, weekdays=number(1, 2, 3, 4, 5)), {"cron": "0 9 * * 1-5"}),
        (CalendarFields(**NINE, days=number(1, 15)), {"cron": "0 9 1,15 * *"}),
        (CalendarFields(Field(frozenset(range(0, 60, 7)), star=True), every("hours")), {"cron": "*/7 * * * *"}),
        (CalendarFields(**NINE, seconds=number(30)), {"cron": "30 0 9 * * *"}),
        (CalendarFields(**NINE, days=number(), last_day=True), {"cron": "0 9 L * *"}),
        (CalendarFields(**NINE, days=number(15), last_day=True), {"cron": "0 9 15,L * *"}),
        (CalendarFields(**NINE, days=number(), ordinals=frozenset({(5, -1)})), {"cron": "0 9 * * 5L"}),
        (CalendarFields(**NINE, days=number(1), ordinals=frozenset({(1, 2)})), {"cron": "0 9 1 * 1#2"}),
        (
            CalendarFields(**NINE, days=number(), ordinals=frozenset({(1, 1), (2, 1)}), weekdays=number(1)),
            {"cron": "0 9 * * 1#1"},
        ),
        (
            CalendarFields(**NINE, days=number(13), weekdays=number(5)),
            {"rrule": "FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0"},
        ),
        (
            CalendarFields(every("minutes"), number(9), days=number(13), weekdays=number(5)),
            {"rrule": "FREQ=MINUTELY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=9;BYSECOND=0"},
        ),
        (
            CalendarFields(**NINE, weeks=number(1)),
            {"rrule": "FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU,MO,TU,WE,TH,FR,SA;BYHOUR=9;BYMINUTE=0;BYSECOND=0"},
        ),
    ],
)
def test_fields_are_cron_where_cron_can_say_it_and_a_recurrence_rule_elsewhere(
    wanted: CalendarFields, rule: dict[str, str]
) -> None:
    assert rule_of(wanted) == rule
    parse_rule(rule, "UTC")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (CalendarFields(**NINE, months=number()), "no value of its months matches"),
        (CalendarFields(number(0), every("hours"), weeks=number(3)), "weeks together with every minute or every hour"),
        (
            CalendarFields(**NINE, days=number(1), ordinals=frozenset({(1, 1)}), weekdays=number(1)),
            "names weekdays by their place in the month and other days too",
        ),
        (
            CalendarFields(**NINE, days=number(), ordinals=frozenset({(1, 1)}), weekdays=number(2)),
            "no weekday of its day matches",
        ),
        (CalendarFields(**NINE, days=number(), ordinals=frozenset({(1, 1)}), weeks=number(2)), "together with weeks"),
    ],
)
def test_fields_that_no_rule_has_are_refused_with_the_reason(wanted: CalendarFields, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        rule_of(wanted)
