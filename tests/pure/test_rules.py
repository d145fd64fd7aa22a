from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules.notation import every, once, parse_rule, yearly
from duly.rules.recurrence import Every, Occurrence, Once, Rule
from duly.values.instants import write_instant
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, SECOND, START

instants = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
intervals = st.timedeltas(SECOND, 400 * DAY)
rules = st.builds(Every, intervals, instants) | st.builds(Once, instants)


def enumerated(rule: Rule, many: int) -> list[Occurrence]:
    """The first occurrences, one after another."""
    found: list[Occurrence] = []
    at = datetime(1, 1, 1, tzinfo=UTC)
    while len(found) < many and (following := rule.after(at)):
        found.append(following)
        at = following.at
    return found


# -- every


def test_an_interval_counts_from_its_start() -> None:
    rule = every("15m", start=START)
    assert rule.after(START - HOUR) == Occurrence("2026-01-01T00:00:00Z", START)
    assert rule.after(START) == Occurrence("2026-01-01T00:15:00Z", START + 15 * MINUTE)
    assert rule.after(START + MICROSECOND) == Occurrence("2026-01-01T00:15:00Z", START + 15 * MINUTE)
    assert rule.after(START + 15 * MINUTE - MICROSECOND) == Occurrence("2026-01-01T00:15:00Z", START + 15 * MINUTE)


@given(rule=rules, instant=instants)
def test_the_next_occurrence_of_an_interval_is_later(rule: Rule, instant: datetime) -> None:
    following = rule.after(instant)
    assert following is None or following.at > instant


@given(interval=intervals, start=instants)
def test_occurrences_strictly_increase_and_are_evenly_spaced(interval: timedelta, start: datetime) -> None:
    dues = [occurrence.at for occurrence in enumerated(Every(interval, start), 10)]
    assert dues == [start + n * interval for n in range(10)]


@given(rule=rules, steps=st.integers(0, 8), off=st.sampled_from([-MICROSECOND, timedelta(), MICROSECOND, MINUTE]))
def test_after_is_the_first_of_the_enumeration_that_is_later(rule: Rule, steps: int, off: timedelta) -> None:
    all = enumerated(rule, 10)
    instant = all[min(steps, len(all) - 1)].at + off
    later = [occurrence for occurrence in enumerated(rule, 3000 if off == MINUTE else 12) if occurrence.at > instant]
    assume(later or isinstance(rule, Once))
    assert rule.after(instant) == (later[0] if later else None)


@given(
    rule=st.builds(Every, intervals, instants), first=st.integers(0, 5), more=st.integers(0, 50), off=st.floats(0, 1)
)
def test_last_and_count_of_an_interval_agree_with_the_enumeration(
    rule: Every, first: int, more: int, off: float
) -> None:
    all = enumerated(rule, first + more + 2)
    until = all[first + more].at + min(off * rule.interval, rule.interval - MICROSECOND)
    due_by_then = [occurrence for occurrence in all[first:] if occurrence.at <= until]
    assert rule.last(until) == due_by_then[-1]
    assert rule.count(all[first].at, until) == len(due_by_then)


def test_a_century_of_seconds_is_counted_at_once() -> None:
    rule = every("1s", start=START)
    assert rule.last(START + 36_525 * DAY) == rule.after(START + 36_525 * DAY - SECOND)
    assert rule.count(START, START + 36_525 * DAY) == 36_525 * 86_400 + 1


def test_an_interval_has_no_last_occurrence_before_its_first() -> None:
    rule = every("1h", start=START)
    assert rule.last(START - SECOND) is None
    assert rule.count(START - DAY, START - SECOND) == 0
    assert rule.count(START - DAY, START + HOUR) == 2


def test_an_interval_has_no_occurrence_after_the_last_year() -> None:
    rule = every("1d", start=datetime(9999, 12, 31, tzinfo=UTC))
    assert rule.after(START) == Occurrence("9999-12-31T00:00:00Z", datetime(9999, 12, 31, tzinfo=UTC))
    assert rule.after(datetime(9999, 12, 31, tzinfo=UTC)) is None


def test_an_interval_without_a_start_is_anchored_once() -> None:
    open = every("1h")
    with pytest.raises(ValueError, match="give it a start first"):
        open.after(START)
    anchored = open.anchored(START)
    assert anchored == every("1h", start=START)
    assert anchored.anchored(START + DAY) == anchored


def test_an_interval_without_a_start_is_the_same_as_any_with_a_start() -> None:
    fixed = every("1h", start=START)
    assert every("1h").same_as(fixed)
    assert fixed.same_as(every("1h"))
    assert fixed.same_as(every("60m", start=START.astimezone(timezone(HOUR))))
    assert not every("2h").same_as(fixed)
    assert not every("1h", start=START + MINUTE).same_as(fixed)
    assert not fixed.same_as(once(START))
    assert not once(START).same_as(fixed)
    assert once(START).same_as(once(START))


# -- once


def test_a_rule_that_fires_once_has_one_occurrence() -> None:
    rule = once(START)
    assert rule.after(START - MICROSECOND) == Occurrence("2026-01-01T00:00:00Z", START)
    assert rule.after(START) is None
    assert rule.last(START + DAY) == Occurrence("2026-01-01T00:00:00Z", START)
    assert rule.last(START - MICROSECOND) is None
    assert (rule.count(START, START + DAY), rule.count(START + SECOND, START + DAY)) == (1, 0)
    assert rule.anchored(START + DAY) is rule


# -- names and JSON


@given(instants, instants)
def test_instants_have_one_name_each(one: datetime, other: datetime) -> None:
    assert (write_instant(one) == write_instant(other)) is (one == other)
    assert datetime.fromisoformat(write_instant(one)) == one
    assert write_instant(one.astimezone(timezone(5 * HOUR))) == write_instant(one)


@given(rules)
def test_a_rule_is_read_as_it_was_written(rule: Rule) -> None:
    written = msgspec.json.encode(rule.to_json())
    again = parse_rule(msgspec.json.decode(written))
    assert again == rule
    assert msgspec.json.encode(again.to_json()) == written


def test_rules_are_written_as_users_write_them() -> None:
    assert every("15m").to_json() == {"every": "15m"}
    assert every(timedelta(minutes=90), start=START).to_json() == {"every": "1h30m", "start": "2026-01-01T00:00:00Z"}
    assert once(START).to_json() == {"at": "2026-01-01T00:00:00Z"}
    assert parse_rule({"at": "2026-01-01T01:00:00+01:00"}) == once(START)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (None, "rule"),
        ("15m", "rule"),
        ([], "rule"),
        ({}, "rule"),
        ({"lunar": "full"}, "rule"),
        ({"every": None}, "rule.every"),
        ({"every": 15}, "rule.every"),
        ({"every": "often"}, "rule.every"),
        ({"every": "0s"}, "rule.every"),
        ({"every": "999ms"}, "rule.every"),
        ({"every": "9999999999d"}, "rule.every"),
        ({"every": timedelta(seconds=-1)}, "rule.every"),
        ({"every": "1h", "start": "tomorrow"}, "rule.start"),
        ({"every": "1h", "start": "2026-01-01T00:00:00"}, "rule.start"),
        ({"every": "1h", "start": 7}, "rule.start"),
        ({"every": "1h", "begin": "2026-01-01T00:00:00Z"}, "rule.begin"),
        ({"every": "1h", "at": "2026-01-01T00:00:00Z"}, "rule.at"),
        ({"at": "noon"}, "rule.at"),
        ({"at": None}, "rule.at"),
        ({"at": datetime(2026, 1, 1)}, "rule.at"),  # noqa: DTZ001 - that is the point
        ({"at": "0001-01-01T00:00:00+14:00"}, "rule.at"),
        ({"at": "9999-12-31T23:59:59-14:00"}, "rule.at"),
        ({"at": "2026-01-01T00:00:00Z", "start": "2026-01-01T00:00:00Z"}, "rule.start"),
    ],
)
def test_a_bad_rule_is_refused_with_the_field(written: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_rule(written)
    [problem] = refused.value.problems
    assert problem.path == path
    assert problem.message


def test_the_python_functions_refuse_what_the_json_refuses() -> None:
    with pytest.raises(Invalid, match=r"rule.every: .* too short"):
        every("10ms")
    with pytest.raises(Invalid, match=r"rule.start: .* no zone"):
        every("1h", start=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(Invalid, match=r"rule.at: .* no zone"):
        once(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"at": "2026-12-01T09:00:00Z", "named": "date"}, "rule.named"),
        ({"at": "2026-12-01T09:00:00", "named": "week"}, "rule.named"),
        ({"rrule": "FREQ=HOURLY", "named": "date"}, "rule.named"),
        ({"cron": "0 9 * * *", "named": "date"}, "rule.named"),
        ({"yearly": "06-15", "since": "2026"}, "rule.since"),
        ({"yearly": "06-15", "since": 0}, "rule.since"),
        ({"yearly": "06-15", "since": True}, "rule.since"),
    ],
)
def test_a_name_or_a_first_year_that_makes_no_sense_is_refused(written: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_rule(written, "Europe/Brussels")
    assert [problem.path for problem in refused.value.problems] == [path]


def test_an_occurrence_that_is_named_by_its_date_is_the_same_at_another_time_of_the_day() -> None:
    nine, ten = (once(datetime(2026, 6, 15, hour), timezone="Asia/Tokyo", by_date=True) for hour in (9, 10))  # noqa: DTZ001
    first, second = nine.after(START), ten.after(START)
    assert first is not None
    assert second is not None
    assert first.name == second.name == "2026-06-15"
    assert ten.anew(first) == second


def test_a_yearly_rule_begins_in_its_first_year() -> None:
    rule = yearly("06-15", since=2030, timezone="UTC")
    first = rule.after(START)
    assert first is not None
    assert first.name == "2030-06-15"
    assert rule.last(first.at - timedelta(days=1)) is None
    assert rule.count(START, first.at + timedelta(days=400)) == 2


# -- as JSON has it


def test_optional_fields_of_a_rule_may_be_null() -> None:
    usual = parse_rule({"yearly": "02-29"}, "UTC")
    assert parse_rule({"yearly": "02-29", "at": None, "leap": None, "since": None}, "UTC") == usual


def test_a_whole_number_may_be_written_with_a_fraction() -> None:
    assert parse_rule({"yearly": "02-29", "since": 2000.0}) == parse_rule({"yearly": "02-29", "since": 2000})
    with pytest.raises(Invalid, match="since"):
        parse_rule({"yearly": "02-29", "since": 2000.5})


def test_an_interval_has_a_longest() -> None:
    assert parse_rule({"every": "365000d"}) == Every(365_000 * DAY)
    with pytest.raises(Invalid, match="too long"):
        parse_rule({"every": "365001d"})
