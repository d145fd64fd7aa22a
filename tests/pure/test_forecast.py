"""The occurrences of rules by step, compared with those that are found one by one."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duly import Rule, cron, every, rrule, yearly
from duly.decide.series.due_head import due_of, head_of
from duly.decide.series.forecast import Continuation, StepRange, expand
from duly.decide.series.preview import never
from duly.records.series import Series

NOW = datetime(2026, 10, 20, 7, 30, tzinfo=UTC)

RULES: list[Rule] = [
    every("7m").anchored(NOW),
    every("1d").anchored(NOW),
    cron("*/20 * * * *"),
    cron("30 2 * * *", timezone="Europe/Brussels"),
    cron("0 9 * * MON", timezone="Australia/Lord_Howe"),
    rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=1,13;COUNT=40", start="2026-10-01T01:30:00", timezone="America/St_Johns"),
    rrule("FREQ=HOURLY;INTERVAL=5", start="2026-10-01T01:30:00", timezone="Europe/Brussels"),
    yearly("02-29", at="09:00", timezone="Asia/Kathmandu"),
]
POLICIES: list[dict[str, Any]] = [
    {},
    {"jitter": "6m"},
    {"dst": {"gap": "skip", "overlap": "both"}},
    {"exclude": ["SAT", "2026-10-25"]},
    {"end": "2026-11-03T10:00:00Z"},
    {"start": "2026-10-26T01:00:00Z"},
]


def a_series(rule: Rule, policies: dict[str, Any]) -> Series:
    zone = rule.timezone or "UTC"
    return Series(
        name="schedule:7",
        tenant="default",
        type="beat",
        rule_json=msgspec.json.encode(rule.to_json()).decode(),
        timezone=zone,
        policies_json=msgspec.json.encode(policies).decode() if policies else None,
    )


@given(
    rule=st.sampled_from(RULES),
    policies=st.sampled_from(POLICIES),
    starts=st.timedeltas(timedelta(days=-2), timedelta(days=20)),
    span=st.timedeltas(timedelta(seconds=1), timedelta(days=20)),
    steps=st.integers(1, 300),
)
def test_each_step_has_the_occurrences_that_are_due_in_it(
    rule: Rule, policies: dict[str, Any], starts: timedelta, span: timedelta, steps: int
) -> None:
    series = a_series(rule, policies)
    first = series.timetable.after(NOW)
    assume(first is not None)
    assert first is not None
    asked = StepRange(NOW + starts, NOW + starts + span, max(span / steps, timedelta(seconds=1)))
    found = expand([Continuation(series, head_of(series, first, str), 3)], asked, NOW, never)
    one_by_one: Counter[tuple[int, str]] = Counter()
    following = series.timetable.after(first.at)
    while following is not None and following.at < asked.end:
        due = due_of(series, following)
        if asked.start <= due < asked.end:
            one_by_one[(due - asked.start) // asked.step, "beat"] += 3
        following = series.timetable.after(following.at)
    assert (+found.counts, found.left_out, found.failed) == (one_by_one, 0, {})


@pytest.mark.parametrize("policies", POLICIES)
def test_what_was_not_evaluated_is_told(policies: dict[str, Any]) -> None:
    series = a_series(RULES[0], policies)
    first = series.timetable.after(NOW)
    assert first is not None
    asked = StepRange(NOW, NOW + timedelta(days=30), timedelta(hours=1))
    rest = iter([False] * 5)
    found = expand([Continuation(series, head_of(series, first, str), 3)] * 2, asked, NOW, lambda: next(rest, True))
    assert found.left_out == 6


def test_steps_cover_the_range_without_a_gap() -> None:
    asked = StepRange(NOW, NOW + timedelta(hours=5, seconds=1), timedelta(hours=2))
    assert asked.many == 3
    assert [asked.begin(n) for n in range(3)] == [NOW, NOW + timedelta(hours=2), NOW + timedelta(hours=4)]
    assert asked.after(2) == asked.end
    assert asked.step_at(asked.end - timedelta(microseconds=1)) == 2
