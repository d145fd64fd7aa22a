"""What follows a head. Whatever ends being one gets its successor in the same transaction, or a reason why not."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple, Self

import msgspec

from duly.decide.due_head import (
    PAUSED,
    Decision,
    Drop,
    Fire,
    HeadFacts,
    Hold,
    carried,
    continues_after,
    decide,
    due_of,
    head_of,
    occurrence_of,
)
from duly.decide.error_text import describe, storable
from duly.decide.occurrence_facts import OccurrenceFact, names_between
from duly.engine.rule_threads import Slices, evaluated
from duly.ids import new_id
from duly.ports import Fired, Heads, SeriesTransaction
from duly.records.event import Event, Status, user_of
from duly.records.schedule import Schedule
from duly.rules.recurrence import Occurrence

ENDED, ERROR = "ended", "error: "
MOST_TAKEN = 100
"""How many taken occurrences in a row are stepped over before a series is halted."""

SLOW = 0.0005
"""Seconds after which a rule is a slow one. Most take 0.00003."""

EVALUATING = 0.02
"""Seconds that a claim spends on slow rules. It holds locks meanwhile, of SQLite's whole file."""

MOST_SLOW = 10_000
"""Schedules that are remembered as slow."""

SCHEDULE = "schedule"
"""Who did it, in the history, where it was the schedule itself."""


class PlannedOccurrence(NamedTuple):
    """An occurrence that a schedule wants planted."""

    schedule: Schedule
    occurrence: Occurrence


class Claimant(NamedTuple):
    """Who claims, for how long, and what: nothing that has become ready after *as_of*."""

    worker: str
    lease: timedelta
    as_of: datetime | None = None


class HeadsClaimed(NamedTuple):
    """The heads that fire, as they do; those that do not, with the reason; how many have to wait; and the series that
    go no further."""

    fired: list[Event]
    dropped: list[tuple[Event, str]]
    held: int
    halted: dict[str, str]
    names: dict[str, str]  # of those, by their ids

    @property
    def many(self) -> int:
        return len(self.fired) + len(self.dropped) + self.held


class SlowRuleBudget:
    """What a claim spends on rules that take long, so that they keep only others of their kind waiting."""

    _known: ClassVar[set[str]] = set()  # schedules whose rules were slow when this process last evaluated them

    def __init__(self) -> None:
        self.spent = 0.0
        self._began = 0.0
        self._whose = ""

    def last(self, heads: Sequence[Event], schedules: Mapping[str, Schedule]) -> Sequence[Event]:
        """The same heads, those of slow rules last."""
        if not self._known:
            return heads
        slow = {series for series, schedule in schedules.items() if schedule.id in self._known}
        return sorted(heads, key=lambda head: head.series in slow)

    def knows(self, schedule: Schedule) -> bool:
        """Whether its rule was slow when it was last evaluated."""
        return schedule.id in self._known

    def of(self, schedule: Schedule) -> Self:
        self._whose = schedule.id
        return self

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._began
        if took > SLOW:
            self.spent += took
            if len(self._known) >= MOST_SLOW:
                self._known.clear()
            self._known.add(self._whose)
        elif self._known:
            self._known.discard(self._whose)


async def succeed_heads(tx: SeriesTransaction, found: Heads, by: datetime, claimant: Claimant) -> HeadsClaimed:
    """Decide about heads that are due by then, carry it out, and plan what follows them. All that happens to a head is
    written once."""
    heads = found.heads
    sources = found.schedules + [series for series in map(carried, heads) if series is not None]
    schedules = {schedule.series: schedule for schedule in sources}
    facts = await _facts(tx, sources, by)
    fires: dict[str, Fire] = {}
    drops: dict[str, Drop] = {}
    holds: dict[str, str] = {}
    halted: dict[str, str] = {}
    wanted: list[PlannedOccurrence] = []
    slowness, slices = SlowRuleBudget(), Slices()
    decided: list[HeadDecision] = []
    for head in slowness.last(heads, schedules):
        if slowness.spent > EVALUATING:
            break  # the others stay due: the next claim takes them
        await slices.between()
        schedule = schedules.get(head.series or "")
        if schedule is None:  # deleted: it completes without a successor
            fires[head.id] = Fire(occurrence_of(head), head.stands_for, None)
            continue
        try:
            with slowness.of(schedule):
                known = head, schedule, facts[schedule.id]
                decision = await evaluated(decide, *known) if slowness.knows(schedule) else decide(*known)
            decided.append(HeadDecision(head, schedule, decision))
        except Exception as error:  # one bad rule is one halted schedule; its neighbours fire
            fires[head.id] = Fire(occurrence_of(head), head.stands_for, None)
            halted[schedule.id] = storable(f"{ERROR}{describe(error)}")
    for head, schedule, decision in await _without_taken(tx, decided, facts):
        if isinstance(decision, Hold):
            holds[head.id] = decision.reason
            if decision.reason == PAUSED:
                halted[schedule.id] = PAUSED
            continue
        if isinstance(decision, Drop):
            drops[head.id] = decision
        else:
            fires[head.id] = decision
        if decision.next is None:
            halted[schedule.id] = ENDED
        else:
            wanted.append(PlannedOccurrence(schedule, decision.next))
    fired = await _fire(tx, found, fires, schedules, claimant)
    if drops:
        await tx.drop({id: (drop.stands_for, drop.act, drop.reason) for id, drop in drops.items()}, SCHEDULE)
    if holds:
        await tx.hold(holds, SCHEDULE)
    halted |= await plant(tx, wanted)
    if halted:
        await halt(tx, halted)
    dropped = [(head, drops[head.id].reason) for head in heads if head.id in drops]
    names = {schedule.id: schedule.name for schedule in sources if schedule.id in halted}
    return HeadsClaimed(fired, dropped, len(holds), halted, names)


class HeadDecision(NamedTuple):
    """A head of a schedule, and what becomes of it."""

    head: Event
    schedule: Schedule
    decision: Decision


async def _without_taken(
    tx: SeriesTransaction, decided: Sequence[HeadDecision], facts: Mapping[str, HeadFacts]
) -> Sequence[HeadDecision]:
    """Where several were missed, some of them may have a fact already, such as a cancellation. Then it is decided anew
    without them."""
    bounds: dict[str, tuple[str, str, str]] = {}
    for head, schedule, decision in decided:
        if not isinstance(decision, Hold) and decision.stands_for > 1:
            until = facts[schedule.id].now if decision.next is None else decision.next.at
            names = names_between(schedule.timetable, continues_after(head, schedule), until)
            bounds[schedule.series] = (schedule.series, *names)
    taken: dict[str, list[OccurrenceFact]] = {}
    for series, name, at in await tx.facts(list(bounds.values())) if bounds else ():
        taken.setdefault(series, []).append(OccurrenceFact(name, at))
    if not taken:
        return decided
    return [
        one._replace(decision=decide(one.head, one.schedule, facts[one.schedule.id]._replace(taken=tuple(found))))
        if (found := taken.get(one.schedule.series))
        else one
        for one in decided
    ]


async def plan_next(tx: SeriesTransaction, head: Event) -> None:
    """What follows a head that somebody ends by hand; it is locked, and no head from now on."""
    schedule = await continued_by(tx, head)
    if schedule is None:
        return
    try:
        then = await next_after(schedule, continues_after(head, schedule))
    except Exception as error:
        await halt(tx, {schedule.id: storable(f"{ERROR}{describe(error)}")})
        return
    halted = {schedule.id: ENDED} if then is None else await plant(tx, [PlannedOccurrence(schedule, then)])
    if halted:
        await halt(tx, halted)


async def next_after(schedule: Schedule, instant: datetime) -> Occurrence | None:
    """The first occurrence after an instant, in a thread: a sparse rule takes up to 25 ms, and to read one takes 3."""
    return await evaluated(lambda: schedule.timetable.after(instant))


async def continued_by(tx: SeriesTransaction, head: Event) -> Schedule | None:
    """The series that a locked head is of, locked as well; None where its schedule is deleted."""
    if (series := carried(head)) is not None:
        return series
    locked = await tx.schedules([schedule_id(head.series)])  # events come first, then schedules
    return locked[0] if locked else None


async def halt(tx: SeriesTransaction, reasons: Mapping[str, str]) -> None:
    """Record why no head follows: with the schedule, or in the history of the user whose series it was."""
    users = {series: user for series in reasons if (user := user_of(series)) is not None}
    if schedules := {id: reason for id, reason in reasons.items() if id not in users}:
        await tx.halt(schedules)
    if users:
        type_of = {series: series.split(":", 2)[2] for series in users}
        await tx.note([(user, "halted", f"{type_of[one]}: {reasons[one]}") for one, user in users.items()], SCHEDULE)


async def plant(tx: SeriesTransaction, wanted: Sequence[PlannedOccurrence]) -> dict[str, str]:
    """Insert heads; where an occurrence was fired before, the following one. What could not be planted, and why."""
    halted: dict[str, str] = {}
    remaining = list(wanted)
    for _ in range(MOST_TAKEN):
        if not remaining:
            return halted
        heads = [head_of(want.schedule, want.occurrence, new_id) for want in remaining]
        planted = await tx.plant(heads)
        tx.tell_created(head for head in heads if head.id in planted)
        again: list[PlannedOccurrence] = []
        for want, head in zip(remaining, heads, strict=True):
            if head.id not in planted:
                then = await next_after(want.schedule, want.occurrence.at)
                if then is None:
                    halted[want.schedule.id] = ENDED
                else:
                    again.append(want._replace(occurrence=then))
        remaining = again
    for want in remaining:
        halted[want.schedule.id] = f"{ERROR}{MOST_TAKEN} occurrences from {want.occurrence.name} on were fired before"
    return halted


async def _facts(tx: SeriesTransaction, schedules: Sequence[Schedule], now: datetime) -> dict[str, HeadFacts]:
    """Asked only for the schedules whose policies need it."""
    limited, depending = [], []
    for schedule in schedules:
        try:
            policies = schedule.policies
        except Exception:  # `decide` meets it again, and halts this schedule alone
            continue
        if policies.room is not None:
            limited.append(schedule.series)
        if policies.depends_on is not None:
            depending.append((schedule.id, (schedule.tenant, policies.depends_on.schedule)))
    under_way = await tx.under_way(limited) if limited else {}
    successes = await tx.successes([name for _, name in depending]) if depending else {}
    succeeded = {id: successes.get(name) for id, name in depending}
    return {one.id: HeadFacts(now, under_way.get(one.series, 0), succeeded.get(one.id)) for one in schedules}


async def _fire(
    tx: SeriesTransaction,
    found: Heads,
    fires: Mapping[str, Fire],
    schedules: Mapping[str, Schedule],
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
        schedule = schedules.get(head.series or "")
        gated = schedule is not None and is_limited(schedule)
        if head.id not in moved or moved[head.id] in taken:  # the latest was fired by hand: this one fires as itself
            occurrence, due = occurrence_of(head), head.due
        else:
            occurrence = fire.occurrence
            due = occurrence.at if schedule is None else due_of(schedule, occurrence)
        written.append(Fired(head.id, due, occurrence, fire.stands_for, gated))
        if fire.note is not None:
            notes.append((head.id, "caught up", fire.note))
        fired.append(
            msgspec.structs.replace(
                head,
                status=Status.PROCESSING,
                version=head.version + 1,
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
        await tx.note(notes, SCHEDULE)
    return fired


def is_limited(schedule: Schedule) -> bool:
    """Whether only so many of its events may be under way."""
    try:
        return schedule.policies.room is not None
    except Exception:  # what cannot be read limits nothing
        return False


def schedule_id(series: str | None) -> str:
    return (series or "").partition(":")[2]
