"""Rules in words: what is said is what the rule does, and what would be long is shown as it is written."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.dashboard.rule_words import LONGEST, words_of
from duly.errors import Invalid
from duly.rules.cron import days_of, parse_cron
from duly.rules.notation import parse_rule
from tests.dashboard.rule_readings import read
from tests.pure.rrules import rule_texts

SAID: list[tuple[dict[str, Any], str]] = [
    ({"cron": "0 9 * * MON"}, "every Monday at 09:00"),
    ({"cron": "0 9 * * MON-FRI"}, "Monday to Friday at 09:00"),
    ({"cron": "*/15 * * * *"}, "every 15 minutes"),
    ({"cron": "* * * * *"}, "every minute"),
    ({"cron": "@hourly"}, "every hour"),
    ({"cron": "5 * * * *"}, "at 5 minutes past every hour"),
    ({"cron": "*/10 * * * * *"}, "every 10 seconds"),
    ({"cron": "0 18 * * FRIL"}, "on the last Friday of each month at 18:00"),
    ({"cron": "0 9 * * FRI#5"}, "on the fifth Friday of each month, where there is one, at 09:00"),
    ({"cron": "0 0 1,15 * *"}, "on the 1st and 15th of each month at 00:00"),
    ({"cron": "0 0 L * *"}, "on the last day of each month at 00:00"),
    ({"cron": "0 9 31 * *"}, "on the 31st of each month, where there is one, at 09:00"),
    ({"cron": "0 9 29 2 *"}, "on 29 February in leap years at 09:00"),
    ({"cron": "0 0 13 * 5"}, "on the 13th of each month, and every Friday, at 00:00"),
    ({"cron": "*/5 9-17 * * MON-FRI"}, "every 5 minutes from 09:00 to 17:55, Monday to Friday"),
    ({"cron": "0 */5 * * *"}, "every 5 hours from 00:00 to 20:00"),
    ({"cron": "0 9,12 * 6-8 SAT,SUN"}, "every Saturday and Sunday in June to August at 09:00 and 12:00"),
    ({"cron": "0 9 */2 * MON"}, "cron 0 9 */2 * MON"),  # the days of both fields: no short words
    ({"cron": "1,7,8,20,41 * * * *"}, "cron 1,7,8,20,41 * * * *"),
    ({"cron": "0 9 31 2 MON"}, "cron 0 9 31 2 MON"),  # a day that the month never has
    (
        {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "start": "2026-01-01T09:00:00"},
        "rrule FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    ),
    ({"template": "weekday-mornings"}, "Monday to Friday at 09:00"),
    ({"every": "15m"}, "every 15 minutes"),
    ({"every": "1h"}, "every hour"),
    ({"every": "1h30m"}, "every 1 hour and 30 minutes"),
    ({"every": "1d"}, "every 24 hours"),  # not every day: a day with a change of clocks has 23 or 25 hours
    ({"every": "1w"}, "every 7 days of 24 hours"),
    ({"every": "1h1m1s"}, "every 1h1m1s"),
    ({"every": "1500ms"}, "every 1500ms"),
    ({"yearly": "12-24", "at": "09:00"}, "every year on 24 December at 09:00"),
    ({"yearly": "02-29"}, "every year on 29 February at 09:00 (in other years on 28 February)"),
    ({"yearly": "02-29", "leap": "skip"}, "every year on 29 February at 09:00, in leap years only"),
    ({"yearly": "12-24", "since": 2027}, "every year on 24 December at 09:00, from 2027 on"),
    ({"at": "2026-12-01T09:00:00"}, "once, on 1 December 2026 at 09:00"),
    ({"at": "2026-12-01T09:00:00Z"}, "once, on 1 December 2026 at 10:00"),  # on the clocks of Brussels
    ({"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "start": "2026-01-01T18:00:00"}, "on the last Friday of each month at 18:00"),
    ({"rrule": "FREQ=DAILY", "start": "2026-01-01T18:00:00"}, "every day at 18:00"),
    (
        {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "start": "2026-01-01T18:00:00"},
        "every 2 weeks on Monday and Wednesday at 18:00",
    ),
    (
        {"rrule": "FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=10", "start": "2026-01-01T18:00:00"},
        "on the last day of each month at 18:00, 10 times",
    ),
    (
        {"rrule": "FREQ=YEARLY;UNTIL=20300101T000000Z", "start": "2026-07-01T18:00:00"},
        "every year on 1 July at 18:00, until 1 January 2030 00:00 UTC",
    ),
    (
        {"rrule": "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "start": "2026-07-01T18:00:00"},
        "on the last weekday (Monday to Friday) of each month at 18:00",
    ),
    (
        {"rrule": "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", "start": "2026-07-31T18:00:00"},
        "every year on the fourth Thursday of November at 18:00",
    ),
    ({"rrule": "FREQ=HOURLY;INTERVAL=6", "start": "2026-07-01T18:00:00"}, "every 6 hours"),
    (
        {"rrule": "FREQ=DAILY", "start": "2026-01-01T18:00:00", "exdate": ["2026-01-02"]},
        "every day at 18:00, except 1 date",
    ),
    ({"rrule": "FREQ=YEARLY;BYWEEKNO=20", "start": "2026-01-01T18:00:00"}, "rrule FREQ=YEARLY;BYWEEKNO=20"),
]


@pytest.mark.parametrize(("rule", "words"), SAID, ids=[words for _, words in SAID])
def test_a_rule_is_said_in_words(rule: dict[str, Any], words: str) -> None:
    assert words_of(json.dumps(rule), "Europe/Brussels") == words


@pytest.mark.parametrize(
    "stored", ["", "null", "{}", "[]", '{"cron": 5}', '{"moon": 1}', '{"cron": "0 25 * * *"}', "{"]
)
def test_a_row_that_was_edited_by_hand_is_shown_as_it_is(stored: str) -> None:
    assert words_of(stored, "Mars/Olympus") == stored


def lists(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    value = st.integers(low, high).map(str)
    ranges = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.sampled_from([f"*/{step}" for step in (2, 3, 5, 10, 15, 20, 30) if step <= high])
    more = [st.sampled_from(names)] if names else []
    return st.one_of(st.just("*"), value, ranges, steps, st.lists(value, min_size=2, max_size=4).map(",".join), *more)


EXPRESSIONS = st.tuples(
    lists(0, 59),
    lists(0, 23),
    lists(1, 31, ["L", "LW", "?", "31", "29-31"]),
    lists(1, 12, ["JAN", "FEB", "JUN-AUG"]),
    lists(0, 7, ["MON-FRI", "SAT,SUN", "FRI#2", "5L", "MON#5", "?", "SUN"]),
).map(" ".join)


@given(EXPRESSIONS)
def test_words_of_a_cron_expression_mean_what_it_does(expression: str) -> None:
    try:
        parsed = parse_cron(expression)
    except Invalid:
        return
    words = words_of(json.dumps({"cron": expression}))
    assert len(words) <= LONGEST + len(expression)
    if words == f"cron {expression.upper()}":
        return
    meant = read(words)
    assert meant is not None, f"{expression}: {words}"
    days, minutes = meant
    assert minutes == sorted(60 * hour + minute for hour in parsed.hours for minute in parsed.minutes), words
    for year, month in [(year, month) for year in (2027, 2028) for month in range(1, 13)]:
        fires = days_of(parsed, year, month)
        day = date(year, month, 1)
        while day.month == month:
            assert days(day) == (day.day in fires), f"{expression}: {words}: {day}"
            day += timedelta(days=1)


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SIMPLE = st.sampled_from(
    [
        "FREQ=DAILY", "FREQ=DAILY;BYMONTH=6,7,8", "FREQ=WEEKLY", "FREQ=WEEKLY;BYDAY=MO,WE,FR", "FREQ=MONTHLY",
        "FREQ=MONTHLY;BYDAY=2TU", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=MONTHLY;BYMONTHDAY=15", "FREQ=MONTHLY;BYMONTHDAY=-1",
        "FREQ=MONTHLY;BYMONTHDAY=31", "FREQ=MONTHLY;BYDAY=5MO", "FREQ=MONTHLY;BYDAY=SA,SU",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0",
    ]
)  # fmt: skip


@given(SIMPLE, st.integers(0, 364), st.integers(0, 1439))
def test_words_of_a_plain_recurrence_mean_what_it_does(text: str, day_of_year: int, minute_of_day: int) -> None:
    start = NEW_YEAR + timedelta(days=day_of_year, minutes=minute_of_day)
    written = {"rrule": text, "start": start.replace(tzinfo=None).isoformat()}
    meant = read(words_of(json.dumps(written), "UTC"))
    assert meant is not None
    days, minutes = meant
    rule = parse_rule(written, "UTC")
    at = start - timedelta(seconds=1)
    expected = list[datetime]()
    day = start.date()
    while len(expected) < 20:
        for minute in minutes:
            instant = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minute)
            if days(day) and instant > at:
                expected.append(instant)
        day += timedelta(days=1)
    for instant in expected[:20]:
        following = rule.after(at)
        assert following is not None
        assert following.at == instant, words_of(json.dumps(written), "UTC")
        at = following.at


@given(rule_texts())
def test_every_recurrence_has_words_or_is_shown(text: str) -> None:
    said = words_of(json.dumps({"rrule": text, "start": "2026-01-05T09:30:00"}), "UTC")
    assert said
    assert len(said) <= max(LONGEST, len(text) + 100)
