"""What a reader of another scheduler finds: jobs that can become schedules, and jobs that cannot, with the reason."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

MOST_VALUES = 10_000
"""Values in the arguments of one job, at most: a list can contain another one many times over."""

MOST_NESTED = 50
"""How deep the arguments of a job may be nested."""

NextRun = Callable[[datetime], datetime | None]
"""The first run after an instant, mostly a run before it, by the other scheduler's own code; None if there is none."""


class Unfit(ValueError):
    """The reason why a job cannot become a schedule."""


class FoundJob(NamedTuple):
    """A job as a schedule, in the JSON form of schedules."""

    name: str
    schedule: dict[str, Any]
    notes: tuple[str, ...] = ()  # what does not carry over
    old: Any = None  # the job as its reader has it, to ask the other scheduler for its runs


class RefusedJob(NamedTuple):
    name: str
    reason: str


class Found(NamedTuple):
    """The jobs of another scheduler, in its own order."""

    jobs: list[FoundJob]
    refused: list[RefusedJob]
    remarks: tuple[str, ...] = ()  # about all of them together


def plain(value: Any, what: str) -> Any:
    """A copy of a value that JSON can hold as it is; raises Unfit for any other value, such as a date, because it would
    arrive as something else."""
    return _plain(value, what, [MOST_VALUES], MOST_NESTED)


def _plain(value: Any, what: str, left: list[int], deeper: int) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise Unfit(f"{what.partition('[')[0]} has more than {MOST_VALUES:,} values")
    if deeper < 0:
        raise Unfit(f"{what.partition('[')[0]} is nested more than {MOST_NESTED} deep")
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if math.isfinite(value):
            return value
        raise Unfit(f"{what} is {value}, which JSON cannot hold")
    if type(value) in (list, tuple):
        return [_plain(one, f"{what}[{place}]", left, deeper - 1) for place, one in enumerate(value)]
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: _plain(one, f"{what}[{key!r:.40}]", left, deeper - 1) for key, one in value.items()}
    raise Unfit(f"{what} is {_kind(value)}, which JSON cannot hold")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping whose keys are not all text"
    return str(getattr(value, "told", None) or f"of type {type(value).__name__}")


def sequence(value: Any, what: str) -> list[Any]:
    """A list or tuple as a list that JSON can hold."""
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise Unfit(f"{what} is {_kind(value)}, not a list")
    copied: list[Any] = plain(list(value), what)
    return copied


def mapping(value: Any, what: str) -> dict[str, Any]:
    """A mapping with text as keys, as an object that JSON can hold."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Unfit(f"{what} is {_kind(value)}, not a mapping")
    copied: dict[str, Any] = plain(value, what)
    return copied
