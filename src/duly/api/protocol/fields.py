"""Reads the fields of small bodies: checks each field's type, refuses unknown fields, and reports every problem at
once."""

from collections.abc import Callable, Mapping
from typing import Any

from duly.errors import Invalid, Problem
from duly.values.numbers import as_whole

Kind = type | Callable[[str, Any], Any]
_WORDS = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


def read_fields(body: Any, kinds: Mapping[str, Kind], *required: str) -> dict[str, Any]:
    """The value of each field, None where it is missing or null. A kind is a type, or a function that returns the read
    value or a Problem."""
    values, problems = look_at_fields(body, kinds, *required)
    if problems:
        raise Invalid(problems)
    return values


def look_at_fields(body: Any, kinds: Mapping[str, Kind], *required: str) -> tuple[dict[str, Any], list[Problem]]:
    """The same, for callers with more to check: returns the values, None for each bad field, and the problems."""
    if not isinstance(body, dict):
        raise Invalid([Problem("body", f"expected an object with {', '.join(kinds)}")])
    problems = [
        Problem(str(field)[:50], f"is unknown; known: {', '.join(kinds)}") for field in body if field not in kinds
    ]
    values: dict[str, Any] = {}
    for field, kind in kinds.items():
        written = body.get(field)
        value = None if written is None else _read(field, written, kind)
        if isinstance(value, Problem):
            problems.append(value)
            value = None
        elif value is None and field in required:
            problems.append(Problem(field, "is missing"))
        values[field] = value
    return values, problems


def _read(field: str, written: Any, kind: Kind) -> Any:
    if not isinstance(kind, type):
        return kind(field, written)
    if kind is int:
        written = as_whole(written)
    if kind is object or type(written) is kind:
        return written
    return Problem(field, f"expected {_WORDS[kind]}, not {written!r:.50}")
