"""What comes in is anybody's. It is read, or refused with all that is wrong with it, and never raises."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.checks import LONGEST, name_problems
from duly.errors import Problem
from duly.records.event import Timer
from duly.timer_service.messages import (
    LARGEST_COMMAND,
    REACHED,
    SHORT_EXCERPT,
    TIMER,
    read_command,
    write_reached,
    write_rejection,
)
from tests.make import MINUTE, START, make_event

DUE = "2026-12-01T09:00:00Z"


def a_command(**changes: Any) -> dict[str, Any]:
    """Sound, but for what is changed; None leaves a field out, and a dotted name is one of the payload."""
    payload = {"tenantId": "t1", "serviceCallId": "s1", "dueAt": DUE}
    command = {"id": "c-1", "type": "ScheduleTimer", "tenantId": "t1", "timestampMs": 0, "correlationId": "c1"}
    for name, value in changes.items():
        where, field = (payload, name[1:]) if name.startswith("_") else (command, name)
        if value is None:
            where.pop(field)
        else:
            where[field] = value
    return {"payload": payload} | command


def read(command: Any) -> Timer | list[Problem]:
    return read_command(json.dumps(command).encode())


def refused(command: Any) -> list[str]:
    found = read(command)
    assert isinstance(found, list), found
    return [str(problem) for problem in found]


def test_a_command_is_a_timer_with_a_key_of_its_tenant() -> None:
    timer = read(a_command())
    assert isinstance(timer, Timer)
    assert (timer.due, timer.type) == (datetime(2026, 12, 1, 9, tzinfo=UTC), "DueTimeReached")
    assert (timer.tenant, timer.key, timer.correlation_id) == ("t1", "s1", "c1")
    assert timer.target == {TIMER: {}}


def test_a_command_with_required_fields_only_is_accepted() -> None:
    timer = read({"type": "ScheduleTimer", "tenantId": "t", "payload": {"serviceCallId": "s", "dueAt": DUE}})
    assert isinstance(timer, Timer)
    assert timer.correlation_id is None
    assert isinstance(read(a_command(correlationId=None)), Timer)


REFUSED = [
    (a_command(tenantId=None), "tenantId: is missing"),
    (a_command(tenantId=7), "tenantId: expected text, not a number"),
    (a_command(tenantId=""), "tenantId: must have 1 to 100 characters, has 0"),
    (a_command(tenantId="t\n"), "tenantId: has a character that cannot be printed: U+000A"),
    (a_command(type=None), "type: is missing"),
    (a_command(type="CancelTimer"), "type: expected ScheduleTimer, not 'CancelTimer'"),
    (a_command(type=["ScheduleTimer"]), "type: expected ScheduleTimer, not ['ScheduleTimer']"),
    (a_command(type="DueTimeReached", _dueAt=None), "type: expected ScheduleTimer, not 'DueTimeReached'"),
    (
        a_command(_type="DueTimeReached"),
        "payload.type: is 'DueTimeReached', but type of the command is 'ScheduleTimer'",
    ),
    (a_command(_tenantId="t2"), "payload.tenantId: is 't2', but tenantId of the command is 't1'"),
    (a_command(_serviceCallId=None), "payload.serviceCallId: is missing"),
    (a_command(_serviceCallId={"id": 1}), "payload.serviceCallId: expected text, not an object"),
    (a_command(_serviceCallId="s" * 501), "payload.serviceCallId: must have 1 to 500 characters, has 501"),
    (a_command(_dueAt=None), "payload.dueAt: is missing"),
    (a_command(_dueAt="tomorrow"), "payload.dueAt: expected an instant such as 2026-12-01T09:00:00Z, not 'tomorrow'"),
    (a_command(_dueAt="2026-12-01T09:00:00"), "payload.dueAt: expected an instant such as"),
    (a_command(_dueAt=1_800_000_000_000), "payload.dueAt: expected an instant such as"),
    (a_command(_dueAt="0001-01-01T00:00:00Z"), "payload.dueAt: 0001-01-01T00:00:00+00:00 is out of range"),
    (a_command(_dueAt="9999-12-31T23:59:59-23:00"), "payload.dueAt: expected an instant such as"),
    (a_command(correlationId=5), "correlationId: expected text, not a number"),
    (a_command(payload="s1"), "payload: expected an object, not text"),
    (a_command(payload=[]), "payload: expected an object, not a list"),
    ({"type": "ScheduleTimer", "tenantId": "t"}, "payload: is missing"),
    (["ScheduleTimer"], "message: expected an object, not a list"),
    ("ScheduleTimer", "message: expected an object, not text"),
    (None, "message: expected an object, not null"),
    (True, "message: expected an object, not true or false"),
    (1.5, "message: expected an object, not a number"),
]


@pytest.mark.parametrize(("command", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_command_that_cannot_be_carried_out_is_refused_with_the_reason(command: Any, reason: str) -> None:
    assert any(problem.startswith(reason) for problem in refused(command))


def test_a_command_cannot_name_a_target_of_its_own() -> None:
    """Such as a program that a worker would run: it is no request of the timer service's."""
    target = {"command": "id"}
    for command in (a_command(target=target), a_command(payload=a_command()["payload"] | {"target": target})):
        found = read(command)
        assert not isinstance(found, Timer) or found.target == {"timer": {}}


def test_a_null_in_a_command_is_no_tenant_and_no_instant() -> None:
    nulls = {"type": None, "tenantId": None, "correlationId": None, "payload": {"serviceCallId": None, "dueAt": None}}
    assert refused(nulls) == [
        "type: is missing",
        "tenantId: expected text, not null",
        "payload.serviceCallId: expected text, not null",
        "payload.dueAt: expected an instant such as 2026-12-01T09:00:00Z, not None",
    ]


def test_all_problems_of_a_command_are_told_at_once() -> None:
    assert refused({"type": "Timer", "correlationId": "", "payload": {"tenantId": "t", "dueAt": "now"}}) == [
        "type: expected ScheduleTimer, not 'Timer'",
        "tenantId: is missing",
        "correlationId: must have 1 to 500 characters, has 0",
        "payload.serviceCallId: is missing",
        "payload.dueAt: expected an instant such as 2026-12-01T09:00:00Z, not 'now'",
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"type": "\xc3\x28"}',
        b'{"a": "\\ud800"}',
        b"[" * 50_000,
        b'{"a":' * 10_000,
        b"nan",
        b'{"type": 1' + b"0" * 5000 + b"}",
        b'{"payload": {"dueAt": 1e999}}',
    ],
    ids=lambda data: data[:12],
)
def test_a_command_that_is_no_json_is_refused(data: bytes) -> None:
    found = read_command(data)
    assert isinstance(found, list)
    assert json.loads(write_rejection(data, found, START))["reason"]


def test_a_command_that_is_too_large_is_not_parsed() -> None:
    padded = json.dumps(a_command(note="x" * LARGEST_COMMAND)).encode()
    assert read_command(padded) == [Problem("message", f"has {len(padded):,} bytes; at most 65,536")]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda more: st.lists(more) | st.dictionaries(st.text(), more),
)
FIELDS = ["id", "type", "tenantId", "correlationId", "timestampMs", "payload"]
INNER = ["type", "tenantId", "serviceCallId", "dueAt"]
SOUND = st.sampled_from(["ScheduleTimer", "t1", "s1", DUE])


@given(st.binary())
def test_any_bytes_are_read_as_a_command_or_refused(data: bytes) -> None:
    found = read_command(data)
    assert isinstance(found, list)
    write_rejection(data, found, START)


@given(
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING | SOUND),
    st.dictionaries(st.sampled_from(INNER), ANYTHING | SOUND),
    st.booleans(),
)
def test_any_json_is_read_as_a_command_or_refused(
    envelope: dict[str, Any], payload: dict[str, Any], nested: bool
) -> None:
    data = json.dumps({"payload": payload} | (envelope if nested else envelope | {"payload": payload})).encode()
    found = read_command(data)
    if isinstance(found, list):
        assert found
        assert len({problem.path for problem in found}) == len(found), "one thing is told twice"
        rejection = json.loads(write_rejection(data, found, START))
        assert rejection["command"] == data.decode()
        assert [problem["path"] for problem in rejection["errors"]] == [problem.path for problem in found]


def names(field: str) -> st.SearchStrategy[str]:
    printable = st.characters(exclude_categories=["C", "Z"])
    return st.text(printable, min_size=1, max_size=LONGEST[field]).filter(lambda name: not name_problems(field, name))


FIRST, LAST = datetime(3, 1, 1), datetime(9997, 1, 1)  # noqa: DTZ001  (the zones come beside them)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    names("tenant"),
    names("key"),
    st.none() | names("correlation_id"),
    st.datetimes(FIRST, LAST, timezones=ZONES),
)
def test_an_accepted_command_keeps_its_values(tenant: str, key: str, correlation: str | None, due: datetime) -> None:
    payload = {"tenantId": tenant, "serviceCallId": key, "dueAt": due.isoformat()}
    command = {"type": "ScheduleTimer", "tenantId": tenant, "correlationId": correlation, "payload": payload}
    timer = read(command)
    assert isinstance(timer, Timer), timer
    assert (timer.tenant, timer.key, timer.correlation_id, timer.due) == (tenant, key, correlation, due)


# -- what goes out


def an_event(**fields: Any) -> Any:
    return make_event(type=REACHED, target={TIMER: {}}, tenant="t1", key="s1", status="PROCESSING", **fields)


def test_a_due_time_reached_message_tells_the_timer_and_when_it_was_reached() -> None:
    event = an_event(due=START, claimed=START + timedelta(milliseconds=12), correlation_id="c1")
    at = START + timedelta(milliseconds=12)
    assert json.loads(write_reached(event)) == {
        "id": event.id,
        "type": "DueTimeReached",
        "tenantId": "t1",
        "timestampMs": round(at.timestamp() * 1000),
        "correlationId": "c1",
        "payload": {"tenantId": "t1", "serviceCallId": "s1", "reachedAt": at.isoformat().replace("+00:00", "Z")},
    }


def test_a_due_time_reached_message_has_no_correlation_id_of_its_own() -> None:
    assert "correlationId" not in json.loads(write_reached(an_event()))


def test_a_timer_is_never_told_as_reached_before_it_was_due() -> None:
    """A look-ahead claims a moment before."""
    told = json.loads(write_reached(an_event(due=START, claimed=START - timedelta(milliseconds=8))))
    assert told["payload"]["reachedAt"] == START.isoformat().replace("+00:00", "Z")


def test_a_message_of_a_second_attempt_has_the_same_id() -> None:
    event = an_event(id="0190b5a0-0000-7000-8000-000000000001", due=START)
    again = an_event(id=event.id, due=START, claimed=START + MINUTE, version=3)
    assert json.loads(write_reached(event))["id"] == json.loads(write_reached(again))["id"] == event.id


def test_a_rejection_has_the_command_as_it_came() -> None:
    data = b'{"type": "Timer\xff", "tenantId": "\xc3\xa9"}'
    told = json.loads(write_rejection(data, [Problem("message", "is not JSON"), Problem("type", "is missing")], START))
    assert told == {
        "type": "CommandRejected",
        "rejectedAt": START.isoformat().replace("+00:00", "Z"),
        "reason": "message: is not JSON; type: is missing",
        "errors": [{"path": "message", "message": "is not JSON"}, {"path": "type", "message": "is missing"}],
        "bytes": len(data),
        "command": '{"type": "Timer\\xff", "tenantId": "é"}',
    }


def test_a_rejection_can_be_brief() -> None:
    told = json.loads(write_rejection(b"x" * 5000, [Problem("message", "is not JSON")], START, SHORT_EXCERPT))
    assert (told["bytes"], len(told["command"])) == (5000, SHORT_EXCERPT)
