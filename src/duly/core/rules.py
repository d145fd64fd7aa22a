"""Recurrence, pure: a rule answers "the first occurrence after this instant"."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from duly.core.durations import format_duration, parse_duration
from duly.errors import Invalid, Problem

SHORTEST = timedelta(seconds=1)
"""A rule may not repeat faster than this."""


class Occurrence(NamedTuple):
    """One firing of a rule: the name that makes it unique in its series, and its instant."""

    name: str
    due: datetime


class Rule(Protocol):
    """A recurrence. Equal rules have equal JSON."""

    def after(self, instant: datetime) -> Occurrence | None:
        """The first occurrence strictly later than *instant*; None when there is none."""

    def latest(self, first: datetime, until: datetime) -> tuple[Occurrence, int]:
        """The last occurrence not later than *until*, and how many there are from *first*, itself one."""

    def anchored(self, instant: datetime) -> "Rule":
        """The same rule with what it left open (an interval's start) fixed at *instant*."""

    def same_as(self, other: "Rule") -> bool:
        """Whether both ask for the same; an open anchor asks for nothing."""

    def to_json(self) -> dict[str, Any]: ...


class Once(NamedTuple):
    """A single instant."""

    at: datetime

    def after(self, instant: datetime) -> Occurrence | None:
        return Occurrence(instant_name(self.at), self.at) if self.at > instant else None

    def latest(self, first: datetime, until: datetime) -> tuple[Occurrence, int]:
        return Occurrence(instant_name(self.at), self.at), 1

    def anchored(self, instant: datetime) -> "Once":
        return self

    def same_as(self, other: Rule) -> bool:
        return self == other

    def to_json(self) -> dict[str, Any]:
        return {"at": instant_name(self.at)}


class Every(NamedTuple):
    """A fixed real-time spacing from a start, whatever the clocks on the wall do."""

    interval: timedelta
    start: datetime | None = None

    def after(self, instant: datetime) -> Occurrence | None:
        start = self._start()
        steps = (instant - start) // self.interval + 1 if instant >= start else 0
        return self._nth(steps)

    def latest(self, first: datetime, until: datetime) -> tuple[Occurrence, int]:
        start = self._start()
        last = self._nth((until - start) // self.interval)
        if last is None or last.due < first:
            raise ValueError(f"no occurrence of {self} from {first} until {until}")
        return last, (last.due - first) // self.interval + 1

    def anchored(self, instant: datetime) -> "Every":
        return self if self.start else self._replace(start=instant)

    def same_as(self, other: Rule) -> bool:
        if not isinstance(other, Every) or self.interval != other.interval:
            return False
        return self.start is None or other.start is None or self.start == other.start

    def to_json(self) -> dict[str, Any]:
        start = {} if self.start is None else {"start": instant_name(self.start)}
        return {"every": format_duration(self.interval), **start}

    def _start(self) -> datetime:
        if self.start is None:
            raise ValueError("an interval without a start has no occurrences: anchor it first")
        return self.start

    def _nth(self, steps: int) -> Occurrence | None:
        try:
            due = self._start() + steps * self.interval
        except OverflowError:  # past year 9999: there is none
            return None
        return Occurrence(instant_name(due), due)


def instant_name(instant: datetime) -> str:
    """One writing of an instant, to the microsecond, in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def every(interval: timedelta | str, *, start: datetime | None = None) -> Every:
    """``every("15m")`` or ``every(timedelta(minutes=15), start=…)``: first at the start; without one, an interval
    after the schedule's creation."""
    return parse_rule({"every": interval} if start is None else {"every": interval, "start": start})  # type: ignore[return-value]


def once(at: datetime) -> Once:
    """A schedule that fires once."""
    return parse_rule({"at": at})  # type: ignore[return-value]


def parse_rule(written: Any) -> Rule:
    """A rule from its JSON form; Invalid with the field and the reason."""
    if isinstance(written, dict):
        for kind, (parse, fields) in _PARSERS.items():
            if kind in written:
                if unknown := sorted(set(written) - fields):
                    raise _bad(unknown[0], f"a rule with {kind!r} has only the fields {', '.join(sorted(fields))}")
                return parse(written)
    known = ", ".join(sorted(_PARSERS))
    raise Invalid([Problem("rule", f'expected an object with one of: {known}, such as {{"every": "15m"}}')])


def _parse_once(written: dict[str, Any]) -> Once:
    return Once(_instant("at", written["at"]))


def _parse_every(written: dict[str, Any]) -> Every:
    interval = written["every"]
    if isinstance(interval, str):
        try:
            interval = parse_duration(interval)
        except ValueError as error:
            raise _bad("every", str(error)) from None
    if not isinstance(interval, timedelta):
        raise _bad("every", f"expected a duration such as 15m, not {interval!r:.50}")
    if interval < SHORTEST:
        raise _bad("every", f"{interval} is too often: at least {format_duration(SHORTEST)}")
    start = written.get("start")
    return Every(interval, None if start is None else _instant("start", start))


def _instant(field: str, written: Any) -> datetime:
    if isinstance(written, str):
        try:
            written = datetime.fromisoformat(written)
        except ValueError:
            raise _bad(field, f"{written[:50]!r} is not an instant such as 2026-12-01T09:00:00Z") from None
    if not isinstance(written, datetime):
        raise _bad(field, f"expected an instant such as 2026-12-01T09:00:00Z, not {written!r:.50}")
    if written.tzinfo is None:
        raise _bad(field, f"{written.isoformat()} has no zone: end it with Z or an offset")
    try:
        return written.astimezone(UTC)
    except OverflowError:
        raise _bad(field, f"{written.isoformat()} is out of range in UTC") from None


def _bad(field: str, message: str) -> Invalid:
    return Invalid([Problem(f"rule.{field}", message)])


_PARSERS: dict[str, tuple[Callable[[dict[str, Any]], Rule], set[str]]] = {
    "at": (_parse_once, {"at"}),
    "every": (_parse_every, {"every", "start"}),
}
