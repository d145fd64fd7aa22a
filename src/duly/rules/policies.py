"""The policies of a schedule, beside its rule: how it catches up after a misfire, how many of its events may run at
once, and on which days it does not fire."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints

import msgspec

from duly.errors import Invalid, Problem
from duly.rules.exclusions import exclusion_problem, normal_exclusion
from duly.rules.recurrence import OPEN, Dst, OnceLocal
from duly.values.durations import format_duration, parse_duration
from duly.values.instants import EXAMPLE, read_moment, write_instant
from duly.values.numbers import as_whole
from duly.values.spans import SpanOption, span_options

MISFIRES = ("latest", "all", "skip")
ALLOW = "allow"
SKIP = "skip"
OVERLAPS = (ALLOW, SKIP, "queue")
LIVE = "live"
SHADOW = "shadow"
MODES = (LIVE, SHADOW)
LONGEST_JITTER = timedelta(days=1)
MOST_MISSED = 1000
"""The highest *limit* of missed occurrences that the misfire policy ``all`` fires."""

MOST_EXCLUSIONS = 1000
MOST_CONCURRENT = 10_000
LONGEST_TOLERANCE = timedelta(days=366)
SHORTEST_WITHIN = timedelta(seconds=1)
LONGEST_WITHIN = timedelta(days=366)


class Misfire(msgspec.Struct, frozen=True):
    """The policy for missed occurrences: ``latest`` fires only the most recent one, on behalf of all; ``all`` fires the
    most recent *limit* of them; ``skip`` drops occurrences that are later than *tolerance*."""

    policy: str = "latest"
    tolerance: timedelta = timedelta(seconds=30)
    limit: int = 100


class DependsOn(msgspec.Struct, frozen=True):
    """A dependency: fire only if another schedule has succeeded within this time before."""

    schedule: str
    within: timedelta


EXPIRES = SpanOption(
    timedelta(seconds=1), timedelta(days=366), "Skip it if no attempt can begin within this time after it is due"
)


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    misfire: Misfire = Misfire()
    overlap: str = ALLOW
    max_concurrent: int | None = None
    depends_on: DependsOn | None = None
    start: datetime | None = None
    end: datetime | None = None
    dst: Dst = OPEN
    exclude: tuple[str, ...] = ()
    mode: str = LIVE
    jitter: Annotated[
        timedelta,
        SpanOption(
            timedelta(),
            LONGEST_JITTER,
            "Jitter: fire up to this much later, by a different amount for each occurrence",
            ", and shorter than the time between two occurrences",
        ),
    ] = timedelta()
    expires: Annotated[timedelta | None, EXPIRES] = None

    @property
    def room(self) -> int | None:
        """How many events of the schedule may be in progress at once; None means any number."""
        return self.max_concurrent or (None if self.overlap == ALLOW else 1)

    def to_json(self) -> dict[str, Any]:
        """All policies in their JSON form, defaults included."""
        depends_on = self.depends_on
        return {
            "misfire": {
                "policy": self.misfire.policy,
                "tolerance": format_duration(self.misfire.tolerance),
                "limit": self.misfire.limit,
            },
            "overlap": self.overlap,
            "max_concurrent": self.max_concurrent,
            "depends_on": depends_on
            and {"schedule": depends_on.schedule, "within": format_duration(depends_on.within)},
            "start": self.start and write_instant(self.start),
            "end": self.end and write_instant(self.end),
            "dst": {name: value for name, value in self.dst._asdict().items() if value is not None},
            "exclude": list(self.exclude),
            "mode": self.mode,
            **{name: _maybe_written(getattr(self, name)) for name in SPANS},
        }


class PolicyOptions(TypedDict, total=False):
    """Policies as keyword arguments. None means the default."""

    misfire: Misfire | str | dict[str, Any] | None
    overlap: str | None
    max_concurrent: int | None
    depends_on: DependsOn | dict[str, Any] | None
    start: date | str | None  # a datetime is a date
    end: date | str | None
    dst: Dst | dict[str, str] | None
    exclude: str | date | Iterable[str | date] | None
    mode: str | None
    jitter: timedelta | float | str | None
    expires: timedelta | float | str | None


SPANS = span_options(Policies)
"""The policies that are durations, by name."""


def _maybe_written(span: timedelta | None) -> str | None:
    return None if span is None else format_duration(span)


DEFAULT = Policies()
FIELDS = tuple(Policies.__struct_fields__)
_PLAIN = DEFAULT.to_json()

_SCHEMAS: Mapping[type, dict[str, Any]] = {
    int: {"type": "integer", "minimum": 1},
    str: {"type": "string"},
    timedelta: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    tuple: {"type": "array", "items": {"type": "string"}},
}


def policy_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of each policy, as ``to_json`` writes it."""
    return {name: _schema_of(hint) for name, hint in get_type_hints(Policies).items()}


def _schema_of(hint: Any) -> dict[str, Any]:
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    schema = _SCHEMAS.get(get_origin(kinds[0]) or kinds[0], {"type": "object"})
    return schema if len(kinds) == 1 else {**schema, "type": [schema["type"], "null"]}


def policies_text(policies: Policies) -> str | None:
    """The stored form of policies: JSON of those that differ from the default; None if none does."""
    unusual = {name: value for name, value in policies.to_json().items() if value != _PLAIN[name]}
    return msgspec.json.encode(unusual).decode() if unusual else None


@lru_cache(maxsize=4096)
def stored_policies(text: str | None) -> Policies:
    """Reads policies from their stored form. Raises `Invalid` if somebody has changed the stored text."""
    return DEFAULT if text is None else read_policies(msgspec.json.decode(text), None)


def read_policies(given: Any, timezone: str | None) -> Policies:
    """Reads policies from Python or JSON. Raises `Invalid` with all problems. Naive local times are in *timezone*."""
    if not isinstance(given, Mapping):
        raise Invalid([Problem("policies", f"expected an object, not {type(given).__name__}")])
    problems: list[Problem] = []
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _READERS:
            problems.append(Problem(str(name)[:50], f"is unknown; known: {', '.join(FIELDS)}"))
        elif value is not None:
            try:
                read[name] = _READERS[name](value, timezone)
            except Invalid as error:
                problems += error.problems
    start, end = read.get("start"), read.get("end")
    if start is not None and end is not None and end <= start:
        problems.append(Problem("end", f"{write_instant(end)} is not after the start, {write_instant(start)}"))
    if problems:
        raise Invalid(problems)
    return Policies(**read)


def _misfire(value: Any, _: str | None) -> Misfire:
    if isinstance(value, Misfire):
        value = {"policy": value.policy, "tolerance": value.tolerance, "limit": value.limit}
    given = {"policy": value} if isinstance(value, str) else _object("misfire", value, ("policy", "tolerance", "limit"))
    policy = _one_of("misfire.policy", given.get("policy", "latest"), MISFIRES)
    tolerance = _span("misfire.tolerance", given.get("tolerance", Misfire().tolerance), LONGEST_TOLERANCE)
    return Misfire(policy, tolerance, _whole("misfire.limit", given.get("limit", Misfire().limit), MOST_MISSED))


def _depends_on(value: Any, _: str | None) -> DependsOn:
    if isinstance(value, DependsOn):
        value = {"schedule": value.schedule, "within": value.within}
    given = _object("depends_on", value, ("schedule", "within"))
    name = given.get("schedule")
    if not isinstance(name, str) or not name:
        raise _bad("depends_on.schedule", "give the name of the schedule that must have succeeded")
    if not name.isprintable():
        raise _bad("depends_on.schedule", "has a character that cannot be printed: no schedule has such a name")
    within = _span("depends_on.within", given.get("within"), LONGEST_WITHIN, SHORTEST_WITHIN)
    return DependsOn(name, within)


def _dst(value: Any, _: str | None) -> Dst:
    dst = value if isinstance(value, Dst) else Dst(**_object("dst", value, Dst._fields))
    if problems := dst.problems():
        raise Invalid(problems)
    return dst


def _exclude(value: Any, _: str | None) -> tuple[str, ...]:
    if isinstance(value, str | date):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise _bad("exclude", 'expected a list such as ["SAT", "SUN", "2026-12-24", "holidays:BE"]')
    written = [normal_exclusion(item) for item in value]
    if len(written) > MOST_EXCLUSIONS:
        raise _bad("exclude", f"has {len(written):,} items; at most {MOST_EXCLUSIONS:,}")
    problems = [
        Problem(f"exclude[{index}]", problem)
        for index, item in enumerate(written)
        if (problem := exclusion_problem(item)) is not None
    ]
    if problems:
        raise Invalid(problems)
    return tuple(dict.fromkeys(written))


def _moment(field: str) -> Callable[[Any, str | None], datetime]:
    def read(value: Any, timezone: str | None) -> datetime:
        try:
            moment = read_moment(value) if isinstance(value, str) else value
            if isinstance(moment, date) and not isinstance(moment, datetime):
                moment = datetime.combine(moment, time())
            if not isinstance(moment, datetime):
                raise TypeError
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            example = f"an instant such as {EXAMPLE}, or a local time without the Z"
            raise _bad(field, f"{value!r:.50} is not {example}") from None
        if timezone is None:
            raise _bad(field, f"{moment.isoformat()} has no zone: end it with Z or an offset, or give a timezone")
        if not 1970 <= moment.year <= 9998:
            raise _bad(field, f"{moment.isoformat()} is out of range: a year from 1970 to 9998")
        local = OnceLocal(moment.replace(microsecond=0), timezone=timezone).last(
            datetime.max.replace(tzinfo=UTC, year=9998)
        )
        if local is None:  # cannot happen: a time in a gap is shifted
            raise _bad(field, f"{moment.isoformat()} does not exist in {timezone}: the clocks skip it")
        return local.at

    return read


def _overlap(value: Any, _: str | None) -> str:
    return _one_of("overlap", value, OVERLAPS)


def _mode(value: Any, _: str | None) -> str:
    return _one_of("mode", value, MODES)


def _max_concurrent(value: Any, _: str | None) -> int:
    return _whole("max_concurrent", value, MOST_CONCURRENT)


def _reader_of(span: str) -> Callable[[Any, str | None], timedelta]:
    return lambda value, _: SPANS[span].read(span, value)


_READERS: dict[str, Callable[[Any, str | None], Any]] = {
    "misfire": _misfire,
    "overlap": _overlap,
    "max_concurrent": _max_concurrent,
    "depends_on": _depends_on,
    "start": _moment("start"),
    "end": _moment("end"),
    "dst": _dst,
    "exclude": _exclude,
    "mode": _mode,
    **{name: _reader_of(name) for name in SPANS},
}


def _object(field: str, value: Any, allowed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(field, f"expected an object with {', '.join(allowed)}, not {type(value).__name__}")
    if unknown := sorted(set(value) - set(allowed), key=str):
        raise _bad(f"{field}.{str(unknown[0])[:50]}", f"is unknown; known: {', '.join(allowed)}")
    return value


def _one_of(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise _bad(field, f"must be one of {', '.join(allowed)}, not {value!r:.50}")
    return value


def _whole(field: str, value: Any, most: int) -> int:
    value = as_whole(value)
    if type(value) is not int or not 1 <= value <= most:
        raise _bad(field, f"must be a whole number from 1 to {most:,}, not {value!r:.50}")
    return value


def _span(field: str, value: Any, most: timedelta, least: timedelta = timedelta()) -> timedelta:
    if isinstance(value, str):
        try:
            value = parse_duration(value)
        except ValueError as error:
            raise _bad(field, str(error)) from None
    if not isinstance(value, timedelta) or not least <= value <= most:
        raise _bad(field, f"must be {format_duration(least)} to {format_duration(most)}, not {value!s:.50}")
    return value


def _bad(field: str, message: str) -> Invalid:
    return Invalid([Problem(field, message)])
