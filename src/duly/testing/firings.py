"""What has fired in a test, and the assertion about it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from duly.decide.error_text import first_line
from duly.duly import Duly
from duly.errors import Misuse
from duly.records.event import Event
from duly.signals import Cancelled, Completed, DeadLettered, GivenBack, HeldBack, Retried, Skipped
from duly.values.instants import write_instant

SHOWN = 20
"""Firings and waiting events that a failed assertion shows, of each."""

NOT_MOVED = "Time was not moved: it moves with time.by(…) and time.to(…), which asynchronous tests have to await."
"""Told by a failed assertion in place of what waits."""

OUTCOMES: Mapping[type, str] = {
    Completed: "completed",
    Retried: "retried",
    DeadLettered: "failed",
    Skipped: "skipped",
    Cancelled: "cancelled",
    GivenBack: "given back",
    HeldBack: "held",
}


class Firing(NamedTuple):
    """An attempt of an event, or why there was none."""

    event: Event
    outcome: str  # one of OUTCOMES
    why: str = ""

    @property
    def at(self) -> datetime:
        """When the attempt began."""
        return self.event.claimed or self.event.due


class Record:
    """The firings of one Duly, in order, and what waits since time was last moved."""

    def __init__(self) -> None:
        self.firings: list[Firing] = []
        self.waiting: Sequence[Event] = ()
        self.now: datetime | None = None

    def add(self, signal: Any) -> None:
        why = getattr(signal, "error", "") or getattr(signal, "reason", "")
        self.firings.append(Firing(signal.event, OUTCOMES[type(signal)], first_line(why)))

    def completed_since(self, count: int) -> list[Event]:
        return [firing.event for firing in self.firings[count:] if firing.outcome == "completed"]


_RECORDS: "WeakKeyDictionary[Duly, Record]" = WeakKeyDictionary()


@contextmanager
def recording(duly: Duly) -> Iterator[Record]:
    """Records what fires, beginning anew; within another recording, continues that one."""
    if (record := _RECORDS.get(duly)) is not None:
        yield record
        return
    record = _RECORDS[duly] = Record()
    end = duly.observe(record.add, *OUTCOMES)
    try:
        yield record
    finally:
        end()
        del _RECORDS[duly]


def fired(
    duly: Duly, type: str | None = None, *, times: int | None = None, outcome: str = "completed", **facts: Any
) -> list[Event]:
    """Asserts that events have fired, and returns them, in order: those of a *type*, with these *facts*, which are
    attributes of events such as ``key="order-7"``, ``payload={…}``, ``schedule="digest"``, and ``at``, the instant.
    Without *times* at least one must have fired, and none with ``times=0``. The outcome may also be ``retried``,
    ``failed`` (a dead letter) or ``skipped``."""
    __tracebackhide__ = True  # pytest shows the line of the test
    record = _RECORDS.get(duly)
    if record is None:
        raise Misuse("nothing records what this Duly fires: use the fixture `duly`, `rebound(duly)` or `travel(duly)`")
    if outcome not in OUTCOMES.values():
        raise Misuse(f"there is no outcome {outcome!r}; the outcomes are {', '.join(OUTCOMES.values())}")
    wanted = facts if type is None else {"type": type, **facts}
    for name in wanted:
        if name != "at" and not hasattr(Event, name):
            raise Misuse(
                f"an event has no {name!r}; it has {', '.join(Event.__struct_fields__)}, payload, schedule, user_id"
            )
    found = [one.event for one in record.firings if one.outcome == outcome and _has(one, wanted)]
    if len(found) == times or (times is None and found):
        return found
    raise AssertionError(_told(record, wanted, outcome, times, len(found)))


def _has(firing: Firing, wanted: Mapping[str, Any]) -> bool:
    return all((firing.at if name == "at" else getattr(firing.event, name)) == value for name, value in wanted.items())


def _told(record: Record, wanted: Mapping[str, Any], outcome: str, times: int | None, found: int) -> str:
    what = ", ".join(f"{name}={_shown(value)}" for name, value in wanted.items()) or "any event"
    should = f"should never have {outcome}" if times == 0 else f"should have {outcome} {_often(times)}"
    fired = [_line(one.event, one.at, f"{one.outcome} {one.why}") for one in _shown_of(record, wanted.get("type"))]
    lines = [
        f"{what} {should}, and it did {_often(found) if found else 'not'}.",
        *_list("What fired:", fired, len(record.firings) - len(fired)),
    ]
    if record.now is None:
        return "\n".join([*lines, NOT_MOVED])
    waiting = [_line(event, event.ready or event.due, _why(event, record)) for event in record.waiting]
    return "\n".join([*lines, *_list("What waits:", waiting), f"It is {_shown(record.now)}."])


def _shown_of(record: Record, type: str | None) -> list[Firing]:
    """The latest firings, in order, as many as are shown; those of this type before those of others."""
    firings = record.firings
    latest = sorted(range(len(firings)), key=lambda at: (firings[at].event.type == type, at))[-SHOWN:]
    return [firings[at] for at in sorted(latest)]


def _often(times: int | None) -> str:
    return "at least once" if times is None else "once" if times == 1 else f"{times} times"


def _why(event: Event, record: Record) -> str:
    """Why an event waits, if its time has come."""
    if event.ready is not None and record.now is not None and event.ready <= record.now:
        return "is due, and has no handler here"
    return event.held or ""


def _list(title: str, lines: Sequence[str], more: int = 0) -> list[str]:
    if not lines:
        return [f"{title} nothing"]
    return [title, *([f"  … and {more} more"] if more else []), *lines]


def _line(event: Event, at: datetime, told: str) -> str:
    whose = {"key": event.key, "schedule": event.schedule, "user": event.user_id}
    names = [f"{name}={value}" for name, value in whose.items() if value is not None]
    return "  " + "  ".join([_shown(at), event.type, *names, event.payload_json[:60], told]).rstrip()


def _shown(value: Any) -> str:
    return write_instant(value) if isinstance(value, datetime) else repr(value)
