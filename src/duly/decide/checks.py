"""Small checks that each yield problems; the caller gets all problems at once.

The checks run before anything is stored, on the values that the caller gave, and write their JSON on the way: a value
that cannot be written as JSON is a problem like any other.
"""

import calendar
import contextlib
import dataclasses
import math
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.decide.retry import Retry
from duly.decide.targets.brokers import WORDS, broker_problems
from duly.decide.targets.commands import COMMAND, command_problems
from duly.decide.targets.origin import HttpOrigin
from duly.decide.targets.targets import HTTP, WEBHOOK, spec_problems
from duly.errors import Invalid, Problem
from duly.records.event import MAX_WAIT, QUIET, TIMER_SPANS, Timer
from duly.values.instants import due_problems

MAX_PAYLOAD = 1024 * 1024
"""Bytes of JSON in a payload or target."""

MAX_DEPTH = 100
"""Levels of nesting in JSON."""

LONGEST = {"type": 200, "key": 500, "tenant": 100, "name": 200, "template": 200, "correlation_id": 500}
"""The most characters of each kind of name."""

MAX_ATTEMPTS = 1000
"""The most attempts that a retry policy may allow."""

MOST_LISTED = 1000
"""The largest page of a list."""

LONGEST_RETRY = timedelta(days=365)
"""The longest wait that a retry policy may ask for."""

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
"""Characters that count as printable but are invisible: all that Unicode calls default-ignorable, such as fillers and
variation selectors, and two blank signs, of braille and of music. With them, two names can look the same, or a name can
look empty."""

_MONTH = re.compile(r"(\d{4})-?(0[1-9]|1[0-2])")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def timer_problems(timer: Timer, channels: Collection[str]) -> Iterator[Problem]:
    """All problems of a timer, except those that writing its JSON finds."""
    yield from when_problems(timer)
    yield from name_problems("type", timer.type)
    yield from name_problems("tenant", timer.tenant)
    if timer.key is not None:
        yield from name_problems("key", timer.key)
    if timer.correlation_id is not None:
        yield from name_problems("correlation_id", timer.correlation_id)
    yield from target_problems(timer.target, channels)
    yield from retry_problems(timer.retry)
    once: Any = timer.once
    if once is not None and type(once) is not bool:
        yield Problem("once", f"expected True or False, not {once!r:.50}")
    elif once and timer.quiet is not None:
        yield Problem(
            "once", "cannot be true with quiet: a debounced key fires again after the next call; leave it out"
        )
    for field, option in TIMER_SPANS.items():
        try:
            if (given := getattr(timer, field)) is not None:
                option.read(field, given)
        except Invalid as error:
            yield from error.problems


def when_problems(timer: Timer) -> Sequence[Problem]:
    """The problems of a timer's due time, or of what stands in its place."""
    quiet, most = timer.quiet, timer.max_wait
    if quiet is None and most is None and timer.due is not None:
        return due_problems(timer.due)
    problems = [] if timer.due is None else list(due_problems(timer.due))
    if quiet is None:
        if timer.due is None:
            problems.append(Problem("due", "is missing: give an instant or a delay, or quiet"))
        if most is not None:
            problems.append(Problem("max_wait", "needs quiet: it limits how long that can delay the event"))
        return problems
    if timer.due is not None:
        problems.append(Problem("quiet", "stands in place of the due time: give one of them"))
    if timer.key is None:
        problems.append(Problem("key", "is missing: with quiet, it says which calls belong together"))
    with contextlib.suppress(Invalid):  # the spans are checked by themselves
        if most is not None and MAX_WAIT.read("max_wait", most) < QUIET.read("quiet", quiet):
            problems.append(Problem("max_wait", "must not be less than quiet"))
    return problems


def no_such_day(written: str, error: ValueError) -> str:
    """Why a date cannot be read. For 30 February, Python's message says only that the day is out of range."""
    found = _MONTH.match(written)
    if found is None or "out of range" not in str(error):
        return str(error)
    year, month = int(found[1]), int(found[2])
    return f"{found[1]}-{found[2]} has {calendar.monthrange(year, month)[1]} days"


# Returns its problems instead of yielding them: it checks every timer of a batch, and starting a generator takes longer
# than the check.
def name_problems(field: str, value: Any) -> tuple[Problem, ...]:
    """The problems of a type, key, tenant or name, which every store, log line and header must be able to carry."""
    if not isinstance(value, str):
        message = f"expected text, not {type(value).__name__}"
    elif not 0 < len(value) <= LONGEST[field]:
        message = f"must have 1 to {LONGEST[field]} characters, has {len(value)}"
    elif not value.isprintable():
        bad = next(c for c in value if not c.isprintable())
        message = f"has a character that cannot be printed: U+{ord(bad):04X}"
    elif not value.isascii() and (blank := INVISIBLE.search(value)) is not None:
        message = f"has an invisible character: U+{ord(blank[0]):04X}"
    elif value != value.strip():
        message = "begins or ends with a space"
    else:
        return ()
    return (Problem(field, message),)


def check_page(limit: Any) -> None:
    """Raises Invalid unless *limit* is a valid page size."""
    if type(limit) is not int or not 1 <= limit <= MOST_LISTED:
        raise Invalid([Problem("limit", f"must be a whole number from 1 to {MOST_LISTED}, not {limit!r:.50}")])


def check_id(id: Any, whose: str, field: str = "id") -> str:
    """The id in the form that stores use, whichever form the caller gave; raises Invalid if it is not a UUID. *whose*,
    such as ``a user's``, is for the message."""
    try:
        return str(uuid.UUID(id))
    except (ValueError, AttributeError, TypeError):
        raise Invalid([Problem(field, f"{id!r:.60} is not {whose} id: expected a UUID")]) from None


def is_id(text: str) -> bool:
    """Whether a text is an id in the form that stores use."""
    return _ID.fullmatch(text) is not None


def target_problems(target: Any, channels: Collection[str]) -> Iterator[Problem]:
    if target is None:
        return
    if not isinstance(target, dict) or len(target) != 1:
        yield Problem("target", 'expected an object with one channel, such as {"webhook": "https://…"}')
    elif (channel := next(iter(target))) not in channels:
        known = ", ".join(sorted(channels)) or "none, because only Python handlers are used, and they need no target"
        yield Problem("target", f"unknown channel {channel!r:.50}; known: {known}")
    elif channel in (WEBHOOK, HTTP):
        yield from spec_problems(channel, target[channel])
    elif channel == COMMAND or channel in WORDS:
        spec = target[channel]
        wrong = list(command_problems(spec) if channel == COMMAND else broker_problems(channel, spec))
        yield from wrong
        if not wrong and isinstance(channels, HttpOrigin):
            yield from channels.problems(target)


def retry_problems(retry: Any) -> Iterator[Problem]:
    if not isinstance(retry, Retry):
        yield Problem("retry", f"expected a Retry, not {type(retry).__name__}")
        return
    if type(retry.max_attempts) is not int or not 1 <= retry.max_attempts <= MAX_ATTEMPTS:
        yield Problem("retry.max_attempts", f"must be 1 to {MAX_ATTEMPTS}, not {retry.max_attempts!r:.50}")
    for name, span in (("base", retry.base), ("max", retry.max)):
        if not isinstance(span, timedelta) or not timedelta() <= span <= LONGEST_RETRY:
            yield Problem(f"retry.{name}", f"must be a timedelta from 0s to 365d, not {span!r:.50}")
    if type(retry.factor) not in (int, float) or not 1 <= retry.factor <= 100:
        yield Problem("retry.factor", f"must be 1 to 100, not {retry.factor!r:.50}")


def write_json(value: Any, path: str, most: int = MAX_PAYLOAD) -> str | Problem:
    """The value as JSON text, or the problem that prevents it."""
    try:
        written = _encode(value)
        if len(written) > most:
            return Problem(
                path, f"is {len(written):,} bytes of JSON; at most {most:,}: store it elsewhere and send a reference"
            )
        again = _decode(written)
    except RecursionError:
        return Problem(path, f"is nested deeper than {MAX_DEPTH} levels")
    except UnicodeEncodeError:
        return Problem(path, "has text with half of a surrogate pair, which UTF-8 cannot encode")
    except (TypeError, ValueError, OverflowError) as error:
        return Problem(path, f"cannot be encoded as JSON: {error}")
    if len(written) > 2 * MAX_DEPTH and _too_deep(written, again):
        return Problem(path, f"is nested deeper than {MAX_DEPTH} levels")
    if again != value and (message := _lost_in_json(value)):
        return Problem(path, message)
    return written.decode()


def _too_deep(written: bytes, value: Any) -> bool:
    """Whether a value is nested too deep. Measuring the depth in Python is slow, so brackets are counted first."""
    return written.count(b"[") + written.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH


def _lost_in_json(value: Any) -> str | None:
    """The problem of a value that JSON would silently change."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return "has a number that is not finite (NaN or infinity), which JSON does not allow"
        if isinstance(item, set | frozenset):
            return "has a set, which has no order in JSON: use a sorted list"
        if isinstance(item, datetime) and item.utcoffset() is None:
            return (
                f"has a datetime without a time zone ({item.isoformat()}): use an aware datetime, such "
                "as datetime.now(UTC)"
            )
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, msgspec.Struct):
            stack.extend(getattr(item, name) for name in item.__struct_fields__)
        elif dataclasses.is_dataclass(item):
            stack.extend(getattr(item, field.name) for field in dataclasses.fields(item))
    return None


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
