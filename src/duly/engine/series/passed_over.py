"""Records skipped occurrences, so that none disappears silently, and frees those that an edit plans again in time."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.decide.error_text import storable
from duly.decide.series.due_head import Hold, continues_after, event_of
from duly.decide.series.edits import MOST_ROWS, OccurrenceSpan, span
from duly.decide.series.occurrence_facts import OccurrenceFact, facts_among, names_between
from duly.engine.series.rule_threads import evaluated
from duly.ids import new_id
from duly.ports import Dropped, Freed, SeriesTransaction
from duly.records.event import Event, HoldKind
from duly.records.history import Cause
from duly.records.series import Series
from duly.rules.timetable import Timetable
from duly.values.instants import write_instant


class Why(NamedTuple):
    """Why occurrences are skipped: the cause for programs, the reason for people."""

    cause: Cause
    reason: str


PASSED = Hold(HoldKind.PASSED_OVER, "passed over")
"""The hold of a row between its insertion and its status SKIPPED, so that no worker claims it."""


async def pass_over(
    tx: SeriesTransaction, series: Series, after: datetime, until: datetime, why: Why, by: str
) -> OccurrenceSpan | None:
    """Skips the occurrences of a series after one instant and until another: each gets a SKIPPED row or, if they are
    many, one row stands for all. The schedule or the head is locked. Occurrences that have an event already are left
    alone."""
    table = series.timetable
    first = await _spanned(table, after, until, ())
    if first is None:
        return None
    facts = await facts_between(tx, series, after, until)
    found = await _spanned(table, after, until, facts) if facts else first
    if found is None:
        return None
    many = len(found.first) > MOST_ROWS
    rows = [found.last] if many else found.first
    events = [
        event_of(series, new_id(), one.name, due=found.first[0].at if many else one.at, scheduled=one.at, hold=PASSED)
        for one in rows
    ]
    planted = await tx.plant(events)
    dropped = Dropped(why.cause, storable(why.reason))
    if many:
        reason = storable(f"{why.reason}; it stands for {found.many:,} occurrences")
        dropped = Dropped(why.cause, reason, "skipped", found.many, found.first[0].at, found.last.at)
    await tx.drop({event.id: dropped for event in events if event.id in planted}, by)
    return found


async def _spanned(
    table: Timetable, after: datetime, until: datetime, facts: Sequence[OccurrenceFact]
) -> OccurrenceSpan | None:
    """The occurrences between two instants. Excluded days are counted one by one, some 30 ms for each year, so a
    timetable with exclusions is evaluated in a thread."""
    if table.policies.exclude:
        return await evaluated(span, table, after, until, facts)
    return span(table, after, until, facts)


async def facts_between(
    tx: SeriesTransaction, series: Series, after: datetime, until: datetime
) -> list[OccurrenceFact]:
    bounds = names_between(series.timetable, after, until)
    return [OccurrenceFact(name, at) for _, name, at in await tx.facts([(series.name, *bounds)])]


async def name_again(tx: SeriesTransaction, found: Sequence[Series], after: datetime, why: str, by: str) -> None:
    """Frees skipped occurrences later than *after*, because an act has changed what comes then. Their rows stay and
    give their occurrence names back; where a row stands for many, those whose time has come stay skipped."""
    by_series = {series.name: series for series in found}
    rows = await tx.passed_ahead([(name, after) for name in by_series]) if by_series else []
    await _free(tx, [(row, by_series[row.series or ""]) for row in rows], after, why, by)


async def _free(
    tx: SeriesTransaction, rows: Sequence[tuple[Event, Series]], after: datetime, why: str, by: str
) -> datetime | None:
    """Frees the names of skipped rows; returns the last time that rows standing for many still cover."""
    freed: list[Freed] = []
    last: datetime | None = None
    for row, series in rows:
        if (kept := await _still_passed(tx, row, series, after)) is not None:
            last = kept.scheduled if last is None else max(last, kept.scheduled)
        freed.append(kept or Freed(row.id, f"named again {row.id}", row.scheduled or row.due, row.stands_for, why))
    if freed:
        await tx.free_names(freed, by)
    return last


async def _still_passed(tx: SeriesTransaction, row: Event, series: Series, after: datetime) -> Freed | None:
    """The remainder of a row that stands for many, if the time of some of its occurrences has come."""
    if row.stands_for == 1 or row.due > after:
        return None
    table = series.timetable
    last = table.last(after)
    if last is None or last.at < row.due:
        return None
    facts = [one for one in await facts_between(tx, series, row.due, after) if one.name != row.occurrence]
    many = table.count(row.due, after) - facts_among(table, row.due, after, facts)
    detail = f"of {row.stands_for:,} occurrences, {row.stands_for - many:,} are named again"
    return Freed(row.id, last.name, last.at, many, detail, row.due if many > 1 else None)


class MovedByHand(NamedTuple):
    """The new due time of a head that somebody moved, and the occurrences that the move skips."""

    due: datetime
    over: OccurrenceSpan | None = None


async def move_by_hand(
    tx: SeriesTransaction, series: Series | None, head: Event, due: datetime, by: str
) -> MovedByHand:
    """Handles the occurrences behind a locked head that somebody moves: those that the head moves past are skipped, and
    those that it moves back before are free again. If the rule is unreadable, only the head moves."""
    if series is None:
        return MovedByHand(due)
    try:
        before = continues_after(head, series)
        after = continues_after(msgspec.structs.replace(head, due=due), series)
        _ = series.timetable
    except Exception:  # the claim of the head meets the same error and halts its schedule
        return MovedByHand(due)
    if after == before:
        return MovedByHand(due)
    if after > before:
        why = Why(Cause.MOVED, f"the one before it was moved to {write_instant(due)} by {by}")
        return MovedByHand(due, await pass_over(tx, series, before, after, why, by))
    return MovedByHand(await _move_back(tx, series, after, due, by))


async def _move_back(tx: SeriesTransaction, series: Series, after: datetime, due: datetime, by: str) -> datetime:
    """Frees the skipped occurrences that are still to come; returns the head's due time. A row that stands for many
    holds only the name of its last occurrence. So that the others whose time has come do not fire after all, the head
    is due no earlier than the last of them."""
    now = await tx.now()
    rows = await tx.passed_ahead([(series.name, after)])
    ahead = [row for row in rows if row.scheduled is not None and row.scheduled > now]
    last = await _free(tx, [(row, series) for row in ahead], max(after, now), "the one before it was moved back", by)
    over = [row.scheduled for row in rows if row.stands_for > 1 and row.scheduled is not None and row.scheduled <= now]
    return max([due, *over, *([] if last is None else [last])])


def in_words(over: OccurrenceSpan | None) -> str:
    """The skipped occurrences, as the history of a move shows them."""
    if over is None:
        return ""
    many = "1 occurrence" if over.many == 1 else f"{over.many:,} occurrences"
    return f"; {many} passed over, from {write_instant(over.first[0].at)} on"
