"""Compiles a spec to SQL with parameters. A comparison with an empty field is false, never unknown, so that
``NOT`` means in SQL what ``~`` means in memory."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duly.decide.checks import is_id
from duly.records.event import SCHEDULE
from duly.records.specs import (
    NULLABLE,
    ORDERED,
    Both,
    Compare,
    Either,
    ErrorLike,
    Everything,
    Gap,
    InSeriesOf,
    NamedSpec,
    Not,
    Now,
    OneOf,
    Spec,
)

LAST_CHARACTER = "\U0010ffff"
"""The character that sorts after all others: both stores compare the names of series as bytes."""

LARGEST_INTEGER = 2**63 - 1
"""The largest integer that both stores accept; the counts in rows stay far below."""

TEXT_FIELDS = frozenset(NULLABLE) - ORDERED | {"id"}
"""The fields that are text in both stores."""


class Dialect(NamedTuple):
    """How a store writes an instant, a span, the current time and a placeholder of some type."""

    now: str
    instant: Callable[[datetime], Any]
    span: Callable[[timedelta], Any]
    typed: Callable[[str, str, Any], str]  # (field, placeholder, value) → the placeholder with its type
    contains: str  # a test whether a column contains a text, ignoring the case of A to Z
    status_of_several: str = "e.status"  # the status, where it is compared with one of several


def compile_spec(spec: Spec, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    parameters: dict[str, Any] = {}

    def place(field: str, value: Any) -> str:
        name = f"spec_{'abcdefghijklmnopqrstuvwxyz'[len(parameters) % 26]}{'x' * (len(parameters) // 26)}"
        parameters[name] = _plain(value, dialect)
        return dialect.typed(field, f":{name}", value)

    def guard(field: str, test: str) -> str:
        return f"({_column(field)} IS NOT NULL AND {test})" if NULLABLE[field] else test

    def column(field: str, several: bool) -> str:
        return dialect.status_of_several if field == "status" and several else _column(field)

    def write(spec: Spec, several: bool = False) -> str:
        """*several*: whether it is one of several tests, of which one must be true."""
        match spec:
            case NamedSpec():
                return write(spec.meaning, several)
            case Both(left, right):
                return f"({write(left, several)} AND {write(right, several)})"
            case Either(left, right):
                return f"({write(left, True)} OR {write(right, True)})"
            case Not(inner):
                return f"NOT ({write(inner, True)})"
            case Everything():
                return "true"
            case Compare(field, op, Now(offset)):
                return guard(field, f"e.{field} {op} {dialect.now} + {place(field, offset)}")
            case Compare(field, _, value) if not _storable(value) or (
                field in TEXT_FIELDS and not isinstance(value, str)
            ):
                return "false"
            case Compare("id", "=", value) if not is_id(value):
                return "false"
            case Compare("series", _, value) if value.startswith(SCHEDULE):
                # Events of schedules carry no rule, because the schedule has it; so they have an index of their own.
                return guard("series", f"e.series = {place('series', value)} AND e.rule IS NULL")
            case Compare(field, op, value):
                return guard(field, f"{column(field, several)} {op} {place(field, value)}")
            case OneOf(field, values):
                tests = [
                    f"{column(field, several or len(values) > 1)} = {place(field, value)}"
                    for value in values
                    if _storable(value)
                    and (field not in TEXT_FIELDS or isinstance(value, str))
                    and (field != "id" or is_id(value))
                ]
                return guard(field, f"({' OR '.join(tests) or 'false'})")
            case InSeriesOf(prefix):
                if not _storable(prefix):
                    return "false"
                bounds = place("series", prefix), place("series", prefix + LAST_CHARACTER)
                return guard("series", f"(e.series >= {bounds[0]} AND e.series < {bounds[1]})")
            case ErrorLike() if not _storable(spec.text):
                return "false"
            case ErrorLike():
                test = dialect.contains.format(column="e.last_error", text=place("last_error", spec.small))
                return guard("last_error", test)
            case Gap(later, earlier, op, span):
                return guard(later, guard(earlier, f"e.{later} - e.{earlier} {op} {place(later, span)}"))
        raise TypeError(f"{type(spec).__name__} cannot be compiled: build it from the specs in duly.records.specs")

    return write(spec), parameters


def _column(field: str) -> str:
    return "coalesce(e.key, e.freed_key)" if field == "key" else f"e.{field}"


def _plain(value: Any, dialect: Dialect) -> Any:
    if isinstance(value, datetime):
        return dialect.instant(value)
    if isinstance(value, timedelta):
        return dialect.span(value)
    if isinstance(value, int):
        return max(-LARGEST_INTEGER, min(value, LARGEST_INTEGER))
    return str(value) if isinstance(value, str) else value


def _storable(value: Any) -> bool:
    """Whether stores accept the value. A value that no store accepts is in no row, and a search for it must not be an
    error."""
    if isinstance(value, str):
        return "\x00" not in value and value.encode(errors="ignore").decode() == value
    return value is not None
