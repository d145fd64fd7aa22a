"""Small checks that each yield problems; the caller gets all of them at once.

They run before anything is stored, on what the caller gave, and they write its JSON on the way: what
cannot be written as JSON is a problem like any other.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.core.durations import EXAMPLES
from duly.core.model import Timer
from duly.core.retry import Retry
from duly.errors import Problem

MAX_PAYLOAD = 1024 * 1024
MAX_DEPTH = 100
LONGEST = {"type": 200, "key": 500, "tenant": 100, "name": 200, "correlation_id": 500}
MAX_ATTEMPTS = 1000

_encode = msgspec.json.Encoder().encode


def timer_problems(timer: Timer, channels: Collection[str], at: str = "") -> Iterator[Problem]:
    """All that is wrong with a timer, but for its due time and payload, which no two share."""
    yield from name_problems("type", timer.type, at)
    yield from name_problems("tenant", timer.tenant, at)
    if timer.key is not None:
        yield from name_problems("key", timer.key, at)
    if timer.correlation_id is not None:
        yield from name_problems("correlation_id", timer.correlation_id, at)
    yield from target_problems(timer.target, channels, at)
    yield from retry_problems(timer.retry, at)


def due_problems(due: Any, at: str = "") -> Iterator[Problem]:
    if isinstance(due, datetime):
        if due.tzinfo is None:
            yield Problem(
                f"{at}due",
                f"{due.isoformat()} has no time zone: use an aware datetime, such as datetime.now(UTC)",
            )
        elif not 2 <= due.year <= 9998:
            yield Problem(f"{at}due", f"{due.isoformat()} is out of range")
    elif isinstance(due, timedelta):
        if abs(due) > timedelta(days=365_000):
            yield Problem(f"{at}due", f"a delay of {due.days} days is out of range")
    else:
        yield Problem(f"{at}due", f"expected a datetime or a timedelta, not {type(due).__name__}")


def name_problems(field: str, value: Any, at: str = "") -> Iterator[Problem]:
    """A type, key, tenant or name: text that every store, log line and header can carry."""
    path = at + field
    if not isinstance(value, str):
        yield Problem(path, f"expected text, not {type(value).__name__}")
        return
    if not 0 < len(value) <= LONGEST[field]:
        yield Problem(path, f"must have 1 to {LONGEST[field]} characters, has {len(value)}")
    elif not value.isprintable():
        bad = next(c for c in value if not c.isprintable())
        yield Problem(path, f"has a character that cannot be printed: U+{ord(bad):04X}")
    elif value != value.strip():
        yield Problem(path, "begins or ends with a space")


def target_problems(target: Any, channels: Collection[str], at: str = "") -> Iterator[Problem]:
    if target is None:
        return
    path = f"{at}target"
    if not isinstance(target, dict) or len(target) != 1:
        yield Problem(path, 'expected an object with one channel, such as {"webhook": "https://…"}')
    elif (channel := next(iter(target))) not in channels:
        known = ", ".join(sorted(channels)) or "none but Python handlers, which need no target"
        yield Problem(path, f"unknown channel {channel!r:.50}; known: {known}")


def retry_problems(retry: Any, at: str = "") -> Iterator[Problem]:
    path = f"{at}retry"
    if not isinstance(retry, Retry):
        yield Problem(path, f"expected a Retry, not {type(retry).__name__}")
        return
    if not 1 <= retry.max_attempts <= MAX_ATTEMPTS:
        yield Problem(f"{path}.max_attempts", f"must be 1 to {MAX_ATTEMPTS}, not {retry.max_attempts}")
    if not timedelta() <= retry.base <= timedelta(days=365):
        yield Problem(f"{path}.base", f"must be 0s to 365d, {EXAMPLES}")
    if not timedelta() <= retry.cap <= timedelta(days=365):
        yield Problem(f"{path}.max", f"must be 0s to 365d, {EXAMPLES}")
    if not 1 <= retry.factor <= 100:
        yield Problem(f"{path}.factor", f"must be 1 to 100, not {retry.factor}")


def write_json(value: Any, path: str, most: int = MAX_PAYLOAD) -> str | Problem:
    """The value as JSON text, or the problem that keeps it from being JSON."""
    try:
        written = _encode(value)
    except RecursionError:
        return Problem(path, f"is nested deeper than {MAX_DEPTH} levels")
    except UnicodeEncodeError:
        return Problem(path, "has text with a lone surrogate, which no JSON in UTF-8 can carry")
    except (TypeError, ValueError, OverflowError) as error:
        return Problem(path, f"cannot be written as JSON: {error}")
    if len(written) > most:
        return Problem(
            path,
            f"is {len(written):,} bytes of JSON; at most {most:,}: store it elsewhere and send a reference",
        )
    # Walking in Python is slow, so it happens only where the bytes say that there is something to find.
    if written.count(b"[") + written.count(b"{") > MAX_DEPTH and _depth(msgspec.json.decode(written)) > MAX_DEPTH:
        return Problem(path, f"is nested deeper than {MAX_DEPTH} levels")
    if b"null" in written and _has_nan(value):
        return Problem(path, "has a number that is not finite (NaN or infinity), which JSON cannot carry")
    return written.decode()


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return depth


def _has_nan(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
            return True
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend(item)
    return False
