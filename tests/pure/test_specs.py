import math
from datetime import datetime, timedelta
from typing import Any

import pytest

from duly.errors import Invalid
from duly.records.event import Status
from duly.records.filters import EventFilter
from duly.records.specs import (
    Compare,
    DueBetween,
    ErrorLike,
    Everything,
    ExecutedLate,
    FailedBetween,
    InStatus,
    OfDestination,
    OfSeries,
    OfTenant,
    OfType,
    Overdue,
    Ready,
    Spec,
    Stuck,
    WithKey,
)
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START, make_event


def test_specs_combine_as_they_read() -> None:
    spec = Ready() & OfType("birthday") | Overdue(hours=1) & OfType("anniversary")
    assert spec.matches(make_event(type="birthday"), START)
    assert not spec.matches(make_event(type="birthday"), START - MICROSECOND)
    assert not spec.matches(make_event(type="anniversary"), START)
    assert spec.matches(make_event(type="anniversary"), START + HOUR + MICROSECOND)
    assert not spec.matches(make_event(type="other"), START + DAY)
    assert (~spec).matches(make_event(type="other"), START + DAY)


@pytest.mark.parametrize("a", [Everything(), ~Everything()])
@pytest.mark.parametrize("b", [Everything(), ~Everything()])
def test_and_or_and_not_are_what_they_say(a: Spec, b: Spec) -> None:
    def true(spec: Spec) -> bool:
        return spec.matches(make_event(), START)

    assert true(a & b) is (true(a) and true(b))
    assert true(a | b) is (true(a) or true(b))
    assert true(~a) is (not true(a))
    assert true(~(a & b)) is true(~a | ~b)


@pytest.mark.parametrize(
    ("spec", "fields", "matches"),
    [
        (Ready(), {"ready": START}, True),
        (Ready(), {"ready": START + MICROSECOND}, False),
        (Ready(), {"held": "paused"}, False),
        (Ready(), {"status": "PROCESSING", "ready": START}, True),
        (Ready(), {"status": "COMPLETED"}, False),
        (OfType("greet"), {}, True),
        (OfType("Greet"), {}, False),
        (OfTenant("acme"), {"tenant": "acme"}, True),
        (OfTenant("acme"), {}, False),
        (OfSeries("schedule:a"), {"series": "schedule:a", "occurrence": "x"}, True),
        (OfSeries("schedule:a"), {}, False),
        (OfDestination("crm"), {"destination": "crm"}, True),
        (OfDestination("crm"), {}, False),
        (WithKey("k"), {"key": "k"}, True),
        (WithKey("k"), {}, False),
        (InStatus("FAILED"), {"status": "FAILED"}, True),
        (InStatus(Status.FAILED), {}, False),
        (Overdue(), {"due": START - HOUR - MICROSECOND}, True),
        (Overdue(), {"due": START - HOUR}, False),
        (Overdue(hours=0.5), {"due": START - 31 * MINUTE}, True),
        (Overdue(), {"due": START - DAY, "status": "PROCESSING"}, True),
        (Overdue(), {"due": START - DAY, "status": "FAILED"}, False),
        (Stuck(), {"due": START - DAY, "status": "FAILED"}, True),
        (Stuck(), {"due": START - DAY, "status": "CANCELLED"}, False),
        (Stuck(by=2 * DAY), {"due": START - DAY}, False),
        (DueBetween(START, START + HOUR), {"due": START}, True),
        (DueBetween(START, START + HOUR), {"due": START + HOUR}, False),
        (DueBetween(START, START + HOUR), {"due": START - MICROSECOND}, False),
        (DueBetween(start=START), {"due": START + 9 * DAY}, True),
        (DueBetween(end=START), {"due": START}, False),
        (DueBetween(), {}, True),
        (ErrorLike("503"), {"last_error": "HTTP 503 from hooks.example"}, True),
        (ErrorLike("http 503"), {"last_error": "HTTP 503 from hooks.example"}, True),
        (ErrorLike("5%3"), {"last_error": "HTTP 503 from hooks.example"}, False),
        (ErrorLike("5_3"), {"last_error": "HTTP 503 from hooks.example"}, False),
        (ErrorLike(""), {"last_error": "x"}, True),
        (ErrorLike(""), {}, False),
        (FailedBetween(START, START + HOUR), {"status": "FAILED", "claimed": START}, True),
        (FailedBetween(START, START + HOUR), {"status": "FAILED", "claimed": START + HOUR}, False),
        (FailedBetween(START), {"status": "FAILED", "claimed": START - MICROSECOND}, False),
        (FailedBetween(), {"status": "FAILED"}, True),
        (FailedBetween(START), {"status": "PROCESSING", "claimed": START}, False),
        (ExecutedLate(by=HOUR), {"status": "COMPLETED", "executed": START + HOUR + MICROSECOND}, True),
        (ExecutedLate(by=HOUR), {"status": "COMPLETED", "executed": START + HOUR}, False),
        (ExecutedLate(by=timedelta()), {"status": "FAILED"}, False),
    ],
)
def test_each_spec_matches_what_it_says(spec: Spec, fields: dict[str, Any], matches: bool) -> None:
    event = make_event(**({"due": START} | fields))
    assert spec.matches(event, START) is matches
    assert (~spec).matches(event, START) is (not matches)


def test_specs_are_values() -> None:
    assert OfType("a") & Ready() == OfType("a") & Ready()
    assert OfType("a") != OfType("b")
    assert repr(OfType("a")) == "OfType(type='a')"
    assert len({OfType("a"), OfType("a"), ~OfType("a")}) == 2


def test_a_spec_with_a_value_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot compare 'payload'"):
        Compare("payload", "=", "x")
    with pytest.raises(ValueError, match="cannot compare 'due' '!='"):
        Compare("due", "!=", START)
    with pytest.raises(ValueError, match="can only be compared with ="):
        Compare("type", "<", "x")
    with pytest.raises(ValueError, match="NOPE"):
        InStatus("NOPE")
    with pytest.raises(ValueError, match="has no time zone"):
        DueBetween(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(Invalid, match="hours: must be a number"):
        Overdue(hours=math.nan)
    with pytest.raises(TypeError, match="Spec has no condition to match"):
        Spec().matches(make_event(), START)


@pytest.mark.parametrize("written", ["pending", "Pending", "PENDING", Status.PENDING])
def test_a_status_is_read_in_any_letter_case(written: str) -> None:
    assert InStatus(written).matches(make_event(), START)
    for which in (EventFilter(status=(written,)), EventFilter(status=(written, "failed"))):  # type: ignore[arg-type]
        assert which.spec().matches(make_event(), START)
    assert Status(written) is Status.PENDING


def test_a_status_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="lost"):
        InStatus("lost")
