"""The messages of the timer module: ``ScheduleTimer`` comes in, ``DueTimeReached`` goes out."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.decide.checks import name_problems
from duly.decide.retry import Retry
from duly.errors import Problem
from duly.records.event import Event, Timer
from duly.values.instants import EXAMPLE, due_problems, write_instant

TIMER = "timer"
"""The channel, and so the lane, of these timers."""

SCHEDULE = "ScheduleTimer"
REACHED = "DueTimeReached"

RETRY = Retry(max_attempts=10, base=timedelta(seconds=1), factor=2, max=timedelta(minutes=5))
"""The retries of an event that a reachable broker refuses. An outage of the broker spends no attempt."""

LARGEST_COMMAND = 64 * 1024
"""Bytes of a command at most: a valid command takes some hundred."""

SHORT_EXCERPT = 1024
"""Bytes of a rejected command that are kept if the broker refuses a larger rejection."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_command(data: bytes) -> Timer | list[Problem]:
    """The timer that a command asks for, or all problems of the command."""
    if len(data) > LARGEST_COMMAND:
        return [Problem("message", f"has {len(data):,} bytes; at most {LARGEST_COMMAND:,}")]
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
    """The ``DueTimeReached`` message of an event. Its id is the event's id, the same on every retry and replay."""
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
                "reachedAt": write_instant(reached),
            },
        }
    )


def write_rejection(data: bytes, problems: Sequence[Problem], at: datetime, most: int = LARGEST_COMMAND) -> bytes:
    """The message for a rejected command: its first *most* bytes as received, and the problems found."""
    return _encode(
        {
            "type": "CommandRejected",
            "rejectedAt": write_instant(at),
            "reason": "; ".join(map(str, problems)),
            "errors": [{"path": path, "message": message} for path, message in problems],
            "bytes": len(data),
            "command": data[:most].decode(errors="backslashreplace"),
        }
    )


def _envelope_problems(envelope: dict[str, Any]) -> Iterator[Problem]:
    if (type := envelope.get("type")) != SCHEDULE:
        yield Problem("type", "is missing" if type is None else f"expected {SCHEDULE}, not {type!r:.50}")
    yield from _name_problems(envelope, "tenantId", "tenantId", "tenant")
    if envelope.get("correlationId") is not None:
        yield from _name_problems(envelope, "correlationId", "correlationId", "correlation_id")


def _payload_problems(envelope: dict[str, Any], payload: Any) -> Iterator[Problem]:
    if not isinstance(payload, dict):
        yield Problem("payload", "is missing" if payload is None else f"expected an object, not {_kind(payload)}")
        return
    for name in ("type", "tenantId"):  # a payload may repeat these fields of the envelope
        if name in payload and name in envelope and payload[name] != envelope[name]:
            yield Problem(
                f"payload.{name}", f"is {payload[name]!r:.50}, but {name} of the command is {envelope[name]!r:.50}"
            )
    yield from _name_problems(payload, "serviceCallId", "payload.serviceCallId", "key")
    if "dueAt" not in payload:
        yield Problem("payload.dueAt", "is missing")
    elif (due := _instant(payload["dueAt"])) is None:
        written = payload["dueAt"]
        yield Problem("payload.dueAt", f"expected an instant such as {EXAMPLE}, not {written!r:.50}")
    else:
        yield from (Problem("payload.dueAt", problem.message) for problem in due_problems(due))


def _instant(written: Any) -> datetime | None:
    if not isinstance(written, str):
        return None
    try:
        instant = datetime.fromisoformat(written)
        return None if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _name_problems(where: dict[str, Any], name: str, path: str, field: str) -> Iterator[Problem]:
    if name not in where:
        yield Problem(path, "is missing")
    elif not isinstance(where[name], str):
        yield Problem(path, f"expected text, not {_kind(where[name])}")
    else:
        yield from (Problem(path, problem.message) for problem in name_problems(field, where[name]))


def _kind(value: Any) -> str:
    """The JSON type of a value, for error messages."""
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
