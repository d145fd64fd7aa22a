"""Filters of schedules, as one struct: read from a query string, a JSON body or command-line options, and in Python."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any

from duly.decide.tags import MOST_TAGS, tag_problems
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.filters import TYPE, FilterField, FilterKind, FilterRecord
from duly.records.schedule import HaltKind
from duly.rules.notation import zone_problems

LONGEST = 200
"""The longest beginning of a name, and the longest name of a source, in characters."""


def _read_text(field: str, written: Any) -> str | Problem:
    if isinstance(written, str) and 0 < len(written) <= LONGEST and written.isprintable():
        return written
    return Problem(field, f"expected 1 to {LONGEST} characters of text, not {written!r:.50}")


def _read_tags(field: str, written: Any) -> tuple[str, ...] | Problem:
    tags = written.split(",") if isinstance(written, str) else written
    if not isinstance(tags, list | tuple) or not 0 < len(tags) <= MOST_TAGS:
        return Problem(field, f"expected a tag, or at most {MOST_TAGS} of them, not {written!r:.50}")
    wrong = [problem for tag in tags for problem in tag_problems(field, tag)]
    return wrong[0] if wrong else tuple(sorted(set(tags)))


def _read_zone(field: str, written: Any) -> str | Problem:
    wrong = [Problem(field, f"{written!r:.50} is no time zone")] if written is None else zone_problems(written)
    return wrong[0]._replace(path=field) if wrong else str(written)


def _read_switch(field: str, written: Any) -> bool | Problem:
    if isinstance(written, bool):
        return written
    if written in ("true", "false"):
        return bool(written == "true")
    return Problem(field, f"must be true or false, not {written!r:.50}")


def one_of(name: str, choices: type[StrEnum], *, upper: bool = False) -> FilterKind:
    """A kind of value that is one of some words, in any letter case."""

    def read(field: str, written: Any) -> Any:
        word = (written.upper() if upper else written.lower()) if isinstance(written, str) else None
        if word in tuple(choices):
            return choices(word)
        return Problem(field, f"must be one of {', '.join(choices)}, not {written!r:.50}")

    return FilterKind(name, read)


BEGINNING = FilterKind("beginning", _read_text)
SOURCE = FilterKind("source", _read_text)
TAGS = FilterKind("tags", _read_tags, ",".join, list)
SWITCH = FilterKind("switch", _read_switch, lambda on: "true" if on else "false", bool)
HALT_KIND = one_of("halt kind", HaltKind)
STATUS = one_of("status", Status, upper=True)
ZONE = FilterKind("zone", _read_zone)


class ScheduleFilter(FilterRecord, frozen=True, kw_only=True):
    """A filter of schedules: all fields that are set must match."""

    name_prefix: Annotated[str | None, FilterField("Whose names begin with this", BEGINNING)] = None
    type: Annotated[str | None, FilterField("Of this type", TYPE)] = None
    tag: Annotated[Collection[str], FilterField("With this tag, or with all of several", TAGS)] = ()
    enabled: Annotated[bool | None, FilterField("Enabled (true) or paused (false)", SWITCH)] = None
    halt_kind: Annotated[HaltKind | None, FilterField("Without a next event, for this reason", HALT_KIND)] = None
    last_status: Annotated[Status | None, FilterField("Whose last event has this status", STATUS)] = None
    imported_from: Annotated[str | None, FilterField("Imported from this source", SOURCE)] = None
    timezone: Annotated[str | None, FilterField("In this time zone", ZONE)] = None

    def checked(self) -> "ScheduleFilter":
        """The filter as it is read from JSON; raises Invalid with all problems. In Python, a tag may be one text."""
        values, problems = dict[str, Any](), list[Problem]()
        for name, field, value in self.given():
            read = field.kind.read(name, value)
            problems += [read] if isinstance(read, Problem) else []
            values[name] = read
        if problems:
            raise Invalid(problems)
        return ScheduleFilter(**values)

    def __bool__(self) -> bool:
        """Whether it leaves any schedule out."""
        return any(True for _ in self.given())


EVERY_SCHEDULE = ScheduleFilter()
SCHEDULE_FIELDS = ScheduleFilter.fields()
