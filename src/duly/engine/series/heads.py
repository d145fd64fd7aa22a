"""Successors of heads. An event that ceases to be a head gets its successor in the same transaction, or its series gets
a reason why there is none."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple, Self

import msgspec

from duly.decide.error_text import describe, storable
from duly.decide.series.due_head import (
    PAUSED,
    Decision,
    Drop,
    Fire,
    HeadFacts,
    Hold,
    continues_after,
    decide,
    due_of,
    head_of,
    occurrence_of,
)
from duly.decide.series.occurrence_facts import OccurrenceFact, names_between
from duly.decide.series.successor import with_successor
from duly.engine.series.rule_threads import Slices, evaluated
from duly.ids import new_id
from duly.ports import CaughtUp, Dropped, Fired, Heads, SeriesTransaction
from duly.records.event import Event, HoldKind, NewEvent, Status, schedule_of, user_of
from duly.records.schedule import Halt, HaltKind
from duly.records.series import Series, carried
from duly.rules.recurrence import Occurrence
from duly.signals import Halted

ENDED = Halt(HaltKind.ENDED, "ended")
"""Why a series has no next head: its rule has no more occurrences."""

HALTED_BY_PAUSE = Halt(HaltKind.PAUSED, PAUSED.reason)
"""Why the head of a schedule does not fire: the schedule is paused."""

MOST_TAKEN = 100
"""How many occurrences in a row that have fired before are skipped before a series is halted."""

SLOW_RULE_S = 0.0005
"""Seconds of evaluation after which a rule counts as slow. Most rules take 0.00003."""

SLOW_RULES_BUDGET_S = 0.02
"""Seconds that one transaction spends on slow rules at most. It holds locks meanwhile; on SQLite, that of the whole
file."""

MOST_SLOW = 10_000
"""The most series that are remembered as slow."""

SCHEDULE = "schedule"
"""The actor in history entries for acts of the schedule itself."""


class PlannedOccurrence(NamedTuple):
    """An occurrence that is to become the head of its series."""

    series: Series
    occurrence: Occurrence


class Claimant(NamedTuple):
    """The worker that claims, the lease that it takes, and a bound: events that became ready after *as_of* are left."""

    worker: str
    lease: timedelta
    as_of: datetime | None = None


class HeadsDecided(NamedTuple):
    """The decisions about due heads."""

    fired: list[Event]
    dropped: list[tuple[Event, str]]  # heads that do not fire, with the reason
    held: int  # how many heads wait
    halted: list[Halted]  # series without a next head
    left: Sequence[Event] = ()  # heads of slow rules that were not decided about

    @property
    def many(self) -> int:
        return len(self.fired) + len(self.dropped) + self.held


NO_HEADS = HeadsDecided([], [], 0, [])
"""No decision, because no head was found."""


class SlowRuleBudget:
    """The time that one transaction spends on slow rules. Their heads come last: slow rules delay only each other."""

    _known: ClassVar[set[str]] = set()  # series whose rules were slow when this process last evaluated them

    def __init__(self) -> None:
        self.spent = 0.0
        self._began = 0.0
        self._whose = ""

    def last(self, heads: Sequence[Event]) -> Sequence[Event]:
        """The heads, with those of slow rules at the end."""
        return sorted(heads, key=lambda head: head.series in self._known) if self._known else heads

    def knows(self, series: Series) -> bool:
        """Whether the rule of a series was slow at its last evaluation."""
        return series.name in self._known

    def of(self, series: Series) -> Self:
        self._whose = series.name
        return self

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._began
        if took > SLOW_RULE_S:
            self.spent += took
            if len(self._known) >= MOST_SLOW:
                self._known.clear()
            self._known.add(self._whose)
        elif self._known:
            self._known.discard(self._whose)


async def succeed_heads(tx: SeriesTransaction, found: Heads, by: datetime, claimant: Claimant) -> HeadsDecided:
    """Decides about heads that are due by *by*, carries the decisions out, and plans the successors. Each head is
    written once."""
    heads = found.heads
    known = {one.name: one for one in (*map(carried, heads), *(each.as_series for each in found.schedules)) if one}
    facts = await _facts(tx, known, by)
    fires: dict[str, Fire] = {}
    drops: dict[str, Drop] = {}
    holds: dict[str, Hold] = {}
    halted: dict[str, Halt] = {}
    wanted: list[PlannedOccurrence] = []
    slowness, slices = SlowRuleBudget(), Slices()
    decided: list[HeadDecision] = []
    ordered = slowness.last(heads)
    left: list[Event] = []
    for nth, head in enumerate(ordered):
        if slowness.spent > SLOW_RULES_BUDGET_S:
            left = list(ordered[nth:])
            break
        await slices.between()
        series = known.get(head.series or "")
        if series is None:  # the schedule is deleted: the head fires without a successor
            fires[head.id] = Fire(occurrence_of(head), head.stands_for, None)
            continue
        try:
            with slowness.of(series):
                asked = head, series, facts[series.name]
                decision = await evaluated(decide, *asked) if slowness.knows(series) else decide(*asked)
            decided.append(HeadDecision(head, series, decision))
        except Exception as error:  # one bad rule is one halted series; its neighbours fire
            fires[head.id] = Fire(occurrence_of(head), head.stands_for, None)
            halted[series.name] = halted_by(error)
    for head, series, decision in await _without_taken(tx, decided, facts):
        if isinstance(decision, Hold):
            holds[head.id] = decision
            if decision.kind is HoldKind.PAUSED:
                halted[series.name] = HALTED_BY_PAUSE
            continue
        if isinstance(decision, Drop):
            drops[head.id] = decision
        else:
            fires[head.id] = decision
        if decision.next is None:
            halted[series.name] = ENDED
        else:
            wanted.append(PlannedOccurrence(series, decision.next))
    fired = await _fire(tx, found, fires, known, claimant)
    if drops:
        await tx.drop({head.id: _dropped(head, drops[head.id]) for head in heads if head.id in drops}, SCHEDULE)
    if holds:
        await tx.hold(holds, SCHEDULE)
    halted |= await plant(tx, wanted)
    if halted:
        await halt(tx, halted)
    dropped = [(head, drops[head.id].reason) for head in heads if head.id in drops]
    names = {schedule.series: schedule.name for schedule in found.schedules}
    told = [
        Halted(schedule_of(one) or one, kind, reason, names.get(one, one)) for one, (kind, reason) in halted.items()
    ]
    return HeadsDecided(fired, dropped, len(holds), told, left)


def _dropped(head: Event, drop: Drop) -> Dropped:
    if drop.last is None:
        return Dropped(drop.cause, drop.reason, drop.act)
    return Dropped(drop.cause, drop.reason, drop.act, drop.stands_for, occurrence_of(head).at, drop.last)


class HeadDecision(NamedTuple):
    """A head of a series, and the decision about it."""

    head: Event
    series: Series
    decision: Decision


async def _without_taken(
    tx: SeriesTransaction, decided: Sequence[HeadDecision], facts: Mapping[str, HeadFacts]
) -> Sequence[HeadDecision]:
    """The decisions, made again where some of the missed occurrences have an event already, such as a cancelled one:
    these do not count as missed."""
    bounds: dict[str, tuple[str, str, str]] = {}
    for head, series, decision in decided:
        if not isinstance(decision, Hold) and decision.stands_for > 1:
            until = facts[series.name].now if decision.next is None else decision.next.at
            names = names_between(series.timetable, continues_after(head, series), until)
            bounds[series.name] = (series.name, *names)
    taken: dict[str, list[OccurrenceFact]] = {}
    for whose, name, at in await tx.facts(list(bounds.values())) if bounds else ():
        taken.setdefault(whose, []).append(OccurrenceFact(name, at))
    if not taken:
        return decided
    return [
        one._replace(decision=decide(one.head, one.series, facts[one.series.name]._replace(taken=tuple(found))))
        if (found := taken.get(one.series.name))
        else one
        for one in decided
    ]


async def plan_next(tx: SeriesTransaction, head: Event) -> None:
    """Plans the successor of a locked head that somebody ends by hand."""
    series = await continued_by(tx, head)
    if series is None:
        return
    try:
        then = await next_after(series, continues_after(head, series))
    except Exception as error:
        await halt(tx, {series.name: halted_by(error)})
        return
    if (halted := await plant_next(tx, series, then)) is not None:
        await halt(tx, {series.name: halted})


async def next_after(series: Series, instant: datetime) -> Occurrence | None:
    """The first occurrence after an instant, evaluated in a thread: a sparse rule takes up to 25 ms, and reading a rule
    takes 3 ms."""
    return await evaluated(lambda: series.timetable.after(instant))


async def continued_by(tx: SeriesTransaction, head: Event) -> Series | None:
    """The series of a locked head, locked as well; None if its schedule is deleted."""
    if (series := carried(head)) is not None:
        return series
    if head.schedule_id is None:
        return None
    locked = await tx.schedules([head.schedule_id])  # events come first, then schedules
    return locked[0].as_series if locked else None


def halted_by(error: Exception) -> Halt:
    """Why a series has no next head: its rule cannot be evaluated."""
    return Halt(HaltKind.ERROR, storable(describe(error)))


async def halt(tx: SeriesTransaction, halted: Mapping[str, Halt], *, noted: bool = True) -> None:
    """Stores why series have no next head, by series name: in the schedule, or in the history of the user. Unless
    *noted* is false, the history of a schedule tells of an error as well: it has no head until somebody edits it."""
    if schedules := {id: one for name, one in halted.items() if (id := schedule_of(name)) is not None}:
        await tx.halt(schedules)
        errors = {id: one.reason for id, one in schedules.items() if one.kind is HaltKind.ERROR and noted}
        if errors:
            await tx.note([(id, "halted", reason) for id, reason in errors.items()], SCHEDULE)
    if users := {name: _of_type(name, one) for name, one in halted.items() if user_of(name) is not None}:
        await tx.note_halted(users, SCHEDULE)


def _of_type(series: str, halted: Halt) -> str:
    """Why the series of a user has no next head, as the user's history shows it."""
    error = "error: " if halted.kind is HaltKind.ERROR else ""
    return f"{series.split(':', 2)[2]}: {error}{halted.reason}"


async def plant_next(tx: SeriesTransaction, series: Series, occurrence: Occurrence | None) -> Halt | None:
    """Inserts the head of one series; returns the reason if there is none."""
    if occurrence is None:
        return ENDED
    return (await plant(tx, [PlannedOccurrence(series, occurrence)])).get(series.name)


async def plant(tx: SeriesTransaction, wanted: Sequence[PlannedOccurrence]) -> dict[str, Halt]:
    """Inserts heads, with their successors; where an occurrence has fired before, the next one. Returns the series
    without a head, with the reasons."""
    halted: dict[str, Halt] = {}
    remaining = list(wanted)
    for _ in range(MOST_TAKEN):
        if not remaining:
            return halted
        heads = await evaluated(_heads_of, remaining)
        planted = await tx.plant(heads)
        tx.tell_created(head for head in heads if head.id in planted)
        again: list[PlannedOccurrence] = []
        for want, head in zip(remaining, heads, strict=True):
            if head.id not in planted:
                then = await next_after(want.series, want.occurrence.at)
                if then is None:
                    halted[want.series.name] = ENDED
                else:
                    again.append(want._replace(occurrence=then))
        remaining = again
    for want in remaining:
        reason = f"{MOST_TAKEN} occurrences from {want.occurrence.name} on were fired before"
        halted[want.series.name] = Halt(HaltKind.ERROR, reason)
    return halted


def _heads_of(planned: Sequence[PlannedOccurrence]) -> list[NewEvent]:
    return [with_successor(head_of(series, occurrence, new_id), series) for series, occurrence in planned]


async def _facts(tx: SeriesTransaction, known: Mapping[str, Series], now: datetime) -> dict[str, HeadFacts]:
    """The facts that decisions need. The store is queried only for series whose policies need it."""
    limited, depending = [], []
    for name, series in known.items():
        try:
            policies = series.policies
        except Exception:  # `decide` meets the same error, and only this series is halted
            continue
        if policies.room is not None:
            limited.append(name)
        if policies.depends_on is not None:
            depending.append((name, (series.tenant, policies.depends_on.schedule)))
    under_way = await tx.under_way(limited) if limited else {}
    successes = await tx.successes([schedule for _, schedule in depending]) if depending else {}
    succeeded = {name: successes.get(schedule) for name, schedule in depending}
    return {name: HeadFacts(now, under_way.get(name, 0), succeeded.get(name)) for name in known}


async def _fire(
    tx: SeriesTransaction,
    found: Heads,
    fires: Mapping[str, Fire],
    known: Mapping[str, Series],
    claimant: Claimant,
) -> list[Event]:
    firing = [head for head in found.heads if head.id in fires]
    moved = {
        head.id: (head.series or "", fires[head.id].occurrence.name)
        for head in firing
        if fires[head.id].occurrence.name != head.occurrence
    }
    taken = await tx.taken(list(moved.values())) if moved else set()
    fired, written, notes = [], [], []
    for head in firing:
        fire = fires[head.id]
        series = known.get(head.series or "")
        gated = series is not None and is_limited(series)
        if head.id not in moved or moved[head.id] in taken:  # taken: the latest has fired, so the head fires as itself
            occurrence, due = occurrence_of(head), head.due
        else:
            occurrence = fire.occurrence
            due = occurrence.at if series is None else due_of(series, occurrence)
        written.append(Fired(head.id, due, occurrence, fire.stands_for, gated))
        if fire.note is not None:
            notes.append(CaughtUp(head.id, fire.note, occurrence_of(head).at, fire.occurrence.at))
        fired.append(
            msgspec.structs.replace(
                head,
                status=Status.PROCESSING,
                worker=claimant.worker,
                claimed=found.now,
                ready=found.now + claimant.lease,
                head=False,
                due=due,
                scheduled=occurrence.at,
                occurrence=occurrence.name,
                stands_for=fire.stands_for,
                gated=gated,
            )
        )
    if written:
        await tx.fire(written, claimant.worker, found.now, claimant.lease)
    if notes:
        await tx.note_caught_up(notes, SCHEDULE)
    return fired


def is_limited(series: Series) -> bool:
    """Whether a series limits how many of its events run at once."""
    try:
        return series.policies.room is not None
    except Exception:  # unreadable policies limit nothing
        return False
