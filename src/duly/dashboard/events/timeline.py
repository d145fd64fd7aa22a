"""The timeline of an event: from its creation to its settlement, with each attempt and each act of a person."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from duly.dashboard.times import short
from duly.decide.error_text import first_line
from duly.records.event import Event, Status
from duly.records.history import Entry

KINDS = {
    "delivered": "good",
    "failed": "bad",
    "rejected": "bad",
    "interrupted": "bad",
    "forgotten": "wait",
    "given back": "wait",
    "held": "wait",
}
"""How acts are marked, if they are not plain."""

OF_PEOPLE = frozenset({"rescheduled", "stop requested", "replayed", "discarded", "named again"})
"""Acts that only people do, or code in their name."""

OUTSIDE_CLAIMS = OF_PEOPLE | {"cancelled", "changed", "moved", "created", "skipped"}
"""Acts that workers do only as the end of a claim."""

NO_WORKERS = ("schedule", "caller")
"""Names in the history that are neither a worker's nor a person's."""

SHOWN_LINES = 40
"""Lines of a command's output that are shown at once: the last ones."""


class Moment(NamedTuple):
    """A line of the timeline."""

    at: datetime
    what: str
    kind: str = ""  # good, bad, wait, human
    who: str | None = None
    took: str | None = None  # how long the attempt took
    detail: str | None = None
    more: str | None = None  # the rest of an error, which may repeat what was sent
    output: str | None = None  # the end of what a command has written
    cut: int = 0  # lines of the output before these


def timeline(
    event: Event, history: Sequence[Entry], now: datetime, *, workers: bool, contents: bool
) -> Sequence[Moment]:
    """The moments of an event, the earliest first. *workers*: with the names of workers; *contents*: with what
    receivers and commands have written, which may repeat a payload."""
    moments = [Moment(event.created, "created"), Moment(event.due, "due" if event.due <= now else "will be due")]
    moments += [_moment(entry, event, workers=workers, contents=contents) for entry in history]
    moments += _underway(event, now, workers=workers)
    return sorted(moments, key=lambda moment: moment.at)


def _moment(entry: Entry, event: Event, *, workers: bool, contents: bool) -> Moment:
    took = None if entry.claimed is None else short(entry.at - entry.claimed)
    plain = "human" if entry.act in OF_PEOPLE else ""
    first = None if entry.detail is None else first_line(entry.detail)
    rest = (entry.detail or "").removeprefix(first or "").strip("\n") if contents else ""
    lines = (entry.output or "").rstrip().splitlines() if contents else []
    return Moment(
        entry.at,
        entry.act if entry.attempt is None else f"attempt {entry.attempt} {entry.act}",
        KINDS.get(entry.act, plain),
        entry.worker if workers or _is_no_worker(entry, event) else None,
        took,
        first,
        rest or None,
        "\n".join(lines[-SHOWN_LINES:]) or None,
        max(0, len(lines) - SHOWN_LINES),
    )


def _is_no_worker(entry: Entry, event: Event) -> bool:
    """Whether the name in an entry is certainly not a worker's: those belong to no tenant."""
    if entry.worker in NO_WORKERS:
        return True
    return entry.act in OUTSIDE_CLAIMS and entry.claimed is None and entry.worker != event.worker


def _underway(event: Event, now: datetime, *, workers: bool) -> Iterator[Moment]:
    """What goes on at present, and what comes next."""
    if event.status is Status.PROCESSING and event.claimed is not None and event.ready is not None:
        yield Moment(event.claimed, f"attempt {event.attempt} started", "wait", event.worker if workers else None)
        if event.ready > now:
            yield Moment(event.ready, "its lease ends, if it is not renewed")
        else:
            yield Moment(event.ready, "its lease ended: the next worker delivers it again", "bad")
    elif event.status is Status.PENDING and event.ready is not None and event.ready != event.due:
        yield Moment(event.ready, f"attempt {event.attempt} may start")
