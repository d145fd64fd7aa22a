"""Rules that take long to evaluate: bounded, or refused when they come in."""

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.decide.series.preview import table_of
from duly.errors import Invalid
from duly.rules.notation import parse_rule, rrule, work_problems
from duly.rules.policies import read_policies
from duly.rules.recurrence import Occurrence
from duly.rules.rrule import Recurrence, TooMuchWork
from duly.rules.timetable import Timetable
from tests.make import SECOND, START

WALL = START.replace(tzinfo=None)
EVERY_SECOND = ";".join(
    f"{name}={','.join(map(str, range(most)))}" for name, most in (("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60))
)


def test_a_rule_for_every_second_is_answered_at_once_also_after_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rrule(f"FREQ=DAILY;{EVERY_SECOND}", start=WALL, timezone="Europe/Brussels")
    after_the_gap = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert rule.last(after_the_gap) == Occurrence("2026-03-29T03:30:00", after_the_gap)
    asked: list[str] = []

    def counted(name: str, ask: Any) -> Any:
        def noted(*given: Any) -> Any:
            asked.append(name)
            return ask(*given)

        return noted

    for name in ("first", "last"):
        monkeypatch.setattr(Recurrence, name, counted(name, getattr(Recurrence, name)))
    assert rule.after(after_the_gap) == Occurrence("2026-03-29T03:30:01", after_the_gap + SECOND)
    assert rule.last(after_the_gap - SECOND) == Occurrence("2026-03-29T03:29:59", after_the_gap - SECOND)
    assert len(asked) < 10


def test_excluded_days_and_a_sparse_rule_are_not_searched_for_ever() -> None:
    sparse = rrule("FREQ=SECONDLY;INTERVAL=9973;BYHOUR=9;BYMINUTE=0;BYSECOND=0", start=WALL)
    table = Timetable(sparse, read_policies({"exclude": ["2026-01-01/9000-01-01"]}, "UTC"))
    with pytest.raises(TooMuchWork, match=r"gave up after 10,000 steps, at .* every occurrence until then is excluded"):
        table.after(START)
    with pytest.raises(TooMuchWork, match="every occurrence until then is excluded"):
        table.last(datetime(8000, 1, 1, tzinfo=UTC))


def test_a_rule_too_heavy_to_evaluate_is_refused_with_the_field_and_the_limit() -> None:
    many = [f"2026-01-01T00:{n // 60:02}:{n % 60:02}" for n in range(1001)]
    rule = parse_rule({"rrule": "FREQ=HOURLY;INTERVAL=7;BYDAY=MO;COUNT=10001", "exdate": many}, "UTC")
    assert work_problems(rule.anchored(START)) == [
        ("rule.exdate", "1,001 are too many: at most 1,000; exclude whole days with exclude instead"),
        ("rule.rrule", "COUNT=10001: with such an INTERVAL or BYSETPOS at most 10000; UNTIL has no such limit"),
    ]
    with pytest.raises(Invalid, match=r"rule\.exdate: 1,001 are too many"):
        table_of({"rrule": "FREQ=HOURLY", "exdate": many}, "UTC", {}, START)


@pytest.mark.parametrize("text", ["FREQ=SECONDLY;INTERVAL=7;COUNT=100000", "FREQ=HOURLY;BYHOUR=9;COUNT=100000"])
def test_a_count_that_can_be_worked_out_may_be_as_large_as_it_likes(text: str) -> None:
    assert work_problems(parse_rule({"rrule": text}, "UTC").anchored(START)) == []
