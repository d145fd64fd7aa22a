"""The messages of the timer module: ``ScheduleTimer`` comes in, ``DueTimeReached`` goes out."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.core.checks import due_problems, name_problems
from duly.core.model import Event, Timer
from duly.core.recurrence import instant_name
from duly.core.retry import Retry
from duly.errors import Problem

TIMER = "timer"
"""The channel, and so the lane, of these timers."""

SCHEDULE, REACHED = "ScheduleTimer", "DueTimeReached"

RETRY = Retry(max_attempts=10, base=timedelta(seconds=1), factor=2, cap=timedelta(minutes=5))
"""When the broker is there and does not take it. An outage of the broker spends no attempt."""

LARGEST = 64 * 1024
"""Bytes of a command: what it says takes some hundred."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_command(data: bytes) -> Timer | list[Problem]:
    """What a command asks for, or all that is wrong with it."""
    if len(data) > LARGEST:
        return [Problem("message", f"has {len(data):,} bytes; at most {LARGEST:,}")]
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [Problem("message", f"is not JSON: {error}")]
    if not isinstance(envelope, dict):
        return [Problem("message", f"expected an object, not {_kind(envelope)}")]
    payload = envelope.get("payload")
    if problems := [*_envelope_problems(envelope), *_payload_problems(envelope, payload)]:
        return problems
    due = _instant(payload["dueAt"])  # type: ignore[index]
    assert due is not None
    return Timer(
        due,
        REACHED,
        key=payload["serviceCallId"],  # type: ignore[index]
        tenant=envelope["tenantId"],
        target={TIMER: {}},
        retry=RETRY,
        correlation_id=envelope.get("correlationId"),
    )


def write_reached(event: Event) -> bytes:
    """The same id each time it is sent."""
    reached = max(event.claimed or event.due, event.due)
    return _encode(
        {
            "id": event.id,
            "type": REACHED,
            "tenantId": event.tenant,
            "timestampMs": int(reached.timestamp() * 1000),
            **({} if event.correlation_id is None else {"correlationId": event.correlation_id}),
            "payload": {
                "tenantId": event.tenant,
                "serviceCallId": event.key,
                "reachedAt": instant_name(reached),
            },
        }
    )


def write_rejection(data: bytes, problems: list[Problem], at: datetime) -> bytes:
    """A command that cannot be carried out, as it came, and why."""
    return _encode(
        {
            "type": "CommandRejected",
            "rejectedAt": instant_name(at),
            "reason": "; ".join(map(str, problems)),
            "errors": [{"path": path, "message": message} for path, message in problems],
            "command": data[:LARGEST].decode(errors="backslashreplace"),
        }
    )


def _envelope_problems(envelope: dict[str, Any]) -> Iterator[Problem]:
    if (type := envelope.get("type")) != SCHEDULE:
        yield Problem("type", f"expected {SCHEDULE}, not {type!r:.50}" if type is not None else "is missing")
    if "tenantId" not in envelope:
        yield Problem("tenantId", "is missing")
    else:
        yield from _renamed("tenantId", name_problems("tenant", envelope["tenantId"]))
    if envelope.get("correlationId") is not None:
        yield from _renamed("correlationId", name_problems("correlation_id", envelope["correlationId"]))


def _payload_problems(envelope: dict[str, Any], payload: Any) -> Iterator[Problem]:
    if not isinstance(payload, dict):
        yield Problem("payload", "is missing" if payload is None else f"expected an object, not {_kind(payload)}")
        return
    if "tenantId" in payload and "tenantId" in envelope and payload["tenantId"] != envelope["tenantId"]:
        yield Problem("payload.tenantId", f"is {payload['tenantId']!r:.50}, and tenantId {envelope['tenantId']!r:.50}")
    if "serviceCallId" not in payload:
        yield Problem("payload.serviceCallId", "is missing")
    else:
        yield from _renamed("payload.serviceCallId", name_problems("key", payload["serviceCallId"]))
    if "dueAt" not in payload:
        yield Problem("payload.dueAt", "is missing")
    elif (due := _instant(payload["dueAt"])) is None:
        written = payload["dueAt"]
        yield Problem("payload.dueAt", f"expected an instant such as 2026-12-01T09:00:00Z, not {written!r:.50}")
    else:
        yield from _renamed("payload.dueAt", due_problems(due))


def _instant(written: Any) -> datetime | None:
    if not isinstance(written, str):
        return None
    try:
        instant = datetime.fromisoformat(written)
        return None if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _renamed(path: str, problems: tuple[Problem, ...]) -> Iterator[Problem]:
    for problem in problems:
        yield Problem(path, problem.message)


def _kind(value: Any) -> str:
    return {"NoneType": "null", "str": "text", "list": "a list", "bool": "true or false"}.get(
        type(value).__name__, "a number"
    )
