"""How long finished events are kept: ``DULY_RETENTION``."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from duly.records.event import Status
from duly.values.durations import format_duration, parse_duration

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=36_500)

EXAMPLE = "90d,completed=30d,type:digest.send=7d"

PRUNED = (Status.COMPLETED, Status.CANCELLED, Status.SKIPPED)
"""The statuses of finished events. A dead letter is FAILED: it stays until somebody replays or discards it."""

TYPE = "type:"

Of = TypeVar("Of", bound=str)


class Cutoff(NamedTuple):
    """The instant before which an event must have ended to be deleted: of one status, of one type, or of all others."""

    status: str
    type: str
    before: datetime


class Retention(msgspec.Struct, frozen=True):
    """How long a finished event is kept: as its type says, or else its status, or else all the others."""

    usual: timedelta = timedelta(days=90)
    statuses: Mapping[Status, timedelta] = {}
    types: Mapping[str, timedelta] = {}

    def __str__(self) -> str:
        """The notation that ``read_retention`` reads."""
        named = {status.lower(): span for status, span in self.statuses.items()}
        named |= {f"{TYPE}{type}": span for type, span in self.types.items()}
        return ",".join([format_duration(self.usual), *(f"{of}={format_duration(span)}" for of, span in named.items())])

    def cutoffs(self, now: datetime) -> list[Cutoff]:
        return [
            Cutoff("", "", now - self.usual),
            *(Cutoff(status, "", now - span) for status, span in self.statuses.items()),
            *(Cutoff("", type, now - span) for type, span in self.types.items()),
        ]

    @property
    def shortest(self) -> timedelta:
        return min([self.usual, *self.statuses.values(), *self.types.values()])


def read_retention(text: str) -> Retention:
    """Reads a retention such as ``90d,completed=30d,type:digest.send=7d``; raises ValueError with what is wrong."""
    usual: timedelta | None = None
    statuses: dict[Status, timedelta] = {}
    types: dict[str, timedelta] = {}
    for part in text.split(","):
        of, named, written = part.strip().rpartition("=")
        of, span = of.strip(), _span(written)
        if not named:
            if usual is not None:
                both = f"{format_duration(usual)} and {format_duration(span)}"
                raise ValueError(f"{both} both say how long all others stay")
            usual = span
        elif of.startswith(TYPE):
            _put(types, of.removeprefix(TYPE), of, span)
        else:
            _put(statuses, _status(of), of, span)
    return Retention(Retention().usual if usual is None else usual, statuses, types)


def _span(written: str) -> timedelta:
    span = parse_duration(written)
    if not SHORTEST <= span <= LONGEST:
        raise ValueError(f"{written.strip()} is not from {format_duration(SHORTEST)} to {format_duration(LONGEST)}")
    return span


def _status(written: str) -> Status:
    allowed = ", ".join(status.lower() for status in PRUNED)
    try:
        status = Status(written)
    except ValueError:
        known = f"neither a status ({allowed}) nor a type, such as {TYPE}digest.send"
        raise ValueError(f"{written!r:.50} is {known}") from None
    if status is Status.FAILED:
        raise ValueError("dead letters stay until somebody replays or discards them: failed= is not possible")
    if status not in PRUNED:
        raise ValueError(f"{written} events are not finished: possible are {allowed}")
    return status


def _put(spans: dict[Of, timedelta], of: Of, written: str, span: timedelta) -> None:
    if not of:
        raise ValueError(f"{written} names no type")
    if of in spans:
        raise ValueError(f"{written} is given twice")
    spans[of] = span
