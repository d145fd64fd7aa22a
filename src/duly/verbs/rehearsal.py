"""Dry runs: an act is carried out in a transaction that is rolled back, and the rows before and after it are compared.
So the consequence that is told is what the act itself does."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from duly.decide.series.consequence import (
    HOUR,
    MOST_FIRST,
    OPEN,
    Scene,
    became,
    cancelled,
    created,
    load,
    moved,
    owed,
    skipped,
    upcoming,
    windows,
)
from duly.decide.series.consequence_words import Around, in_words
from duly.engine.series.rule_threads import IN_CALLERS_THREAD, evaluated
from duly.errors import Invalid
from duly.ports import RehearsalPort
from duly.records.event import Event, Status
from duly.records.figures.consequence import Consequence, HourLoad
from duly.records.specs import OneOf, Spec
from duly.verbs.figures.forecast import Limits, forecast

MOST_OPEN = 200
"""Open events of the series that are compared, besides heads: triggered and backfilled ones, and retries."""

MOST_NEW = 200
"""Events that one act may create and a dry run finds: an act gives at most 21 rows to the occurrences that it skips in
each series."""

LOAD_LIMITS = Limits(count_s=1.0, evaluation_s=0.5)
"""What counting the events of all others may cost."""

EVALUATION_S = 1.0
"""Seconds that the rules of the series concerned may be evaluated. Then occurrences are missing at the end, and the
load is not complete."""


MOST_WAITS = 10
"""How often a dry run lets a worker come first that is deciding about a head."""

WAIT_S = 0.02
"""Seconds of one such wait: a worker needs a few milliseconds."""


class Rehearsed(NamedTuple):
    """The scenes before and after an act, and what only the transaction could tell."""

    before: Scene
    after: Scene
    skipped: Sequence[Event]
    reasons: Mapping[str, str | None]
    cancelled: int | None = None  # how many events the act has cancelled, where it tells


def is_being_decided(heads: Iterable[Event], now: datetime) -> bool:
    """Whether a worker has reserved one of these locked heads, to decide about it in its next transaction. It would
    pass over a head that is locked then, and the head would be ready again only when the reservation ends."""
    return any(head.held is None and head.ready is not None and head.ready > max(head.due, now) for head in heads)


async def let_worker_come_first() -> None:
    if IN_CALLERS_THREAD.get():
        time.sleep(WAIT_S)  # noqa: ASYNC251 - no event loop runs in the caller's thread
    else:
        await asyncio.sleep(WAIT_S)


async def waiting(store: RehearsalPort, which: Spec) -> list[str]:
    """The ids of the open events of some series. Read before the transaction: a series may have a long history, and the
    act should not keep its locks meanwhile."""
    return [event.id for event in await store.find(which & OneOf("status", OPEN), limit=MOST_OPEN)]


async def seen(tx: RehearsalPort, which: Spec | None, known: Iterable[str]) -> dict[str, Event]:
    """The events with known ids, and the latest of some series, as they are now in a transaction."""
    ids = tuple(known)
    there = await tx.find(OneOf("id", ids), limit=len(ids)) if ids else []
    latest = [] if which is None else await tx.find(which, limit=MOST_NEW)
    return {event.id: event for event in (*there, *latest)}


async def rehearsed(tx: RehearsalPort, before: Scene, after: Scene, cancelled: int | None = None) -> Rehearsed:
    """Both scenes, with the reasons why events are skipped, which their histories have."""
    rows = became(before, after, Status.SKIPPED)
    reasons = {row.id: (await tx.history(row.id))[-1].detail for row in rows[:MOST_FIRST]}
    return Rehearsed(before, after, rows, reasons, cancelled)


async def consequence(store: RehearsalPort, found: Rehearsed, around: Around) -> Consequence:
    """The consequence of an act that was rolled back. Rules are evaluated in a thread, and without locks."""
    before, after = found.before, found.after
    enough = _enough_after(EVALUATION_S)
    ahead, earlier = await evaluated(upcoming, after, enough), await evaluated(upcoming, before, enough)
    moves, new = moved(before, after), created(before, after)
    passed = skipped(found.skipped, found.reasons)
    were = [*(one.from_ for one in moves), *(one.at for one in passed.first), *(one.due for one in earlier)]
    will_be = [*(one.to for one in moves), *(one.due for one in new), *(one.due for one in ahead)]
    hours, complete = await _load(store, windows(were, will_be, after.now), found, around.tenant, enough)
    silent = Consequence(
        at=after.now,
        message="",
        moved=moves,
        skipped=passed,
        owed=owed(before, after),
        cancelled=cancelled(before, after, found.cancelled),
        created=new,
        switched=None if around.switched is None else "resumed" if around.switched else "paused",
        deleted=around.deleted,
        next=tuple(ahead),
        load=tuple(hours),
        load_complete=complete,
    )
    return silent.saying(in_words(silent, around))


async def _load(
    store: RehearsalPort,
    hours: Sequence[Sequence[datetime]],
    found: Rehearsed,
    tenant: str,
    enough: Callable[[], bool],
) -> tuple[list[HourLoad], bool]:
    """The load of the hours in these windows, and whether all of it could be counted."""
    counts: dict[datetime, int] = {}
    complete = True
    for window in hours:
        try:
            as_it_is = await forecast(store, window[0], window[-1] + HOUR, HOUR, tenant, LOAD_LIMITS)
        except Invalid:  # too many events wait until then to be counted in this time
            complete = False
            continue
        counts |= {step.at: step.count for step in as_it_is.steps if step.at in window}
        complete = complete and as_it_is.complete
    hourly = await evaluated(load, counts, (found.before, found.after), enough) if counts else []
    return hourly, complete and not (counts and enough())


def _enough_after(seconds: float) -> Callable[[], bool]:
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() > ends
