"""Updates the heads of a user's series after a change of the user: unstarted heads are moved, rewritten, added and
removed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.decide.calendars.calendar import aim, begun, continues, differs, first_after, lost
from duly.decide.series.due_head import Reshaped, continues_after, head_of, kept, occurrence_of
from duly.decide.series.successor import reshaped
from duly.engine.series.heads import ENDED, MOST_TAKEN, PlannedOccurrence, halt, plant
from duly.engine.series.passed_over import Why, name_again, pass_over
from duly.errors import Conflict
from duly.ids import new_id
from duly.ports import UserTransaction
from duly.records.event import Event, NewEvent
from duly.records.history import Cause
from duly.records.schedule import Halt, HaltKind
from duly.records.series import Series, carried
from duly.records.user import User
from duly.rules.recurrence import Occurrence

MOST_TRIES = 10
"""Tries to lock the heads of users while workers claim them, before Conflict is raised."""

USER = "user"
"""The owner of a head in the history of a change."""

NO_MORE = "its user has no such event any more"
RULE_ENDED = "its rule ended"
NOT_THEIRS = "it was late, and its user does not have this date any more"


class WantedHeads(NamedTuple):
    """The series that a user should have, by event type; None where the user should have none."""

    user: User
    series: Mapping[str, Series | None]
    known: frozenset[str]  # the event types that are registered here, or were removed
    moved: bool  # the user has another time zone or key now, which concerns all types


class MovedHead(NamedTuple):
    """A head and the occurrence that it becomes; None where its rule has ended."""

    head: Event
    series: Series
    occurrence: Occurrence | None


class UnwantedHeads(NamedTuple):
    """Heads that are given up, by reason."""

    gone: list[Event]  # the user has no such series any more
    lost: list[Event]  # owed for a date that the user no longer has; the series continues
    ended: list[MovedHead]  # the rule has no more occurrences


async def follow(tx: UserTransaction, users: Sequence[WantedHeads], now: datetime, by: str) -> int:
    """Updates the heads of locked users; returns how many heads were changed, planted or given up."""
    if not users:
        return 0
    heads = _by_user(await lock_heads(tx, [wanted.user.id for wanted in users]))
    moves: list[MovedHead] = []
    plants: list[PlannedOccurrence] = []
    unwanted = UnwantedHeads([], [], [])
    changed: list[tuple[Event, NewEvent, Series]] = []
    for wanted in users:
        own = heads.get(wanted.user.id, {})
        for type, asked in _series(wanted, own.values()).items():
            head = own.get(type)
            if head is None:
                plants += _first(asked, now)
            elif asked is None:
                unwanted.gone.append(head)
            elif continues(head, series := begun(asked, now, head)):
                changed.append((head, kept(head, series), series))
            elif (there := aim(head, series, now)) is not None and lost(head, series, now):
                unwanted.lost.append(head)
                plants.append(PlannedOccurrence(series, there))
            else:
                moves.append(MovedHead(head, series, there))
    before = [old for move in moves if (old := carried(move.head)) is not None]
    await name_again(tx, before, now, "its user was changed", by)
    settled = await _past_taken(tx, moves)
    changed += [
        (m.head, head_of(m.series, m.occurrence, new_id), m.series) for m in settled if m.occurrence is not None
    ]
    unwanted.ended.extend(move for move in settled if move.occurrence is None)
    different = [_reshaped(head, anew, series, now) for head, anew, series in changed if differs(head, anew)]
    return await _write(tx, different, plants, unwanted, now, by)


async def lock_heads(tx: UserTransaction, users: Sequence[str]) -> list[Event]:
    """Locks and returns the heads of users' series. If a concurrent claim replaces one of them by its successor, the
    successor is locked too."""
    for _ in range(MOST_TRIES):
        heads = await tx.user_heads(users)
        if {head.id for head in heads} == await tx.user_head_ids(users):
            return heads
    raise Conflict("events of these users are being claimed by a worker: try again")


def _by_user(heads: Sequence[Event]) -> dict[str, dict[str, Event]]:
    """Heads by user id and event type."""
    found: dict[str, dict[str, Event]] = {}
    for head in heads:
        found.setdefault(head.user_id or "", {})[head.type] = head
    return found


def _series(wanted: WantedHeads, heads: Iterable[Event]) -> dict[str, Series | None]:
    """The wanted series. Series whose types are unknown here are left alone, except that they follow a new time zone or
    key, which do not depend on the type."""
    series = dict(wanted.series)
    if wanted.moved:
        for head in heads:
            if head.type not in wanted.known and (found := carried(head)) is not None:
                series[head.type] = msgspec.structs.replace(found, timezone=wanted.user.timezone, owner=wanted.user.key)
    return series


def _first(asked: Series | None, now: datetime) -> list[PlannedOccurrence]:
    if asked is None:
        return []
    series = begun(asked, now)
    first = first_after(series, now)
    return [] if first is None else [PlannedOccurrence(series, first)]


async def _past_taken(tx: UserTransaction, moves: Sequence[MovedHead]) -> list[MovedHead]:
    """The moves, where an occurrence that has fired before is replaced by the next one."""
    settled, remaining = [], list(moves)
    for _ in range(MOST_TAKEN):
        asked = [identity for move in remaining if (identity := _identity(move)) is not None]
        taken = await tx.taken(asked) if asked else set()
        settled += [move for move in remaining if _identity(move) not in taken]
        remaining = [move._replace(occurrence=_following(move)) for move in remaining if _identity(move) in taken]
        if not remaining:
            return settled
    raise Conflict(f"{MOST_TAKEN} occurrences of {remaining[0].series.name} in a row were fired before")


def _identity(move: MovedHead) -> tuple[str, str] | None:
    """The series and occurrence name that must be free; None if the head keeps its occurrence."""
    if move.occurrence is None or move.occurrence.name == move.head.occurrence:
        return None
    return move.series.name, move.occurrence.name


def _following(move: MovedHead) -> Occurrence | None:
    return None if move.occurrence is None else move.series.timetable.after(move.occurrence.at)


def _reshaped(head: Event, anew: NewEvent, series: Series, now: datetime) -> Reshaped:
    one = reshaped(head, anew, USER, series)
    if anew.due is None or not anew.due <= now < head.due:
        return one
    return one._replace(detail=f"{one.detail}, which is over there: it fires now")


async def _write(
    tx: UserTransaction,
    changed: Sequence[Reshaped],
    plants: Sequence[PlannedOccurrence],
    unwanted: UnwantedHeads,
    now: datetime,
    by: str,
) -> int:
    if changed:
        await tx.reshape(changed, by)
    if unwanted.gone:
        await tx.give_up([head.id for head in unwanted.gone], by, NO_MORE)
        # A head whose time has come keeps its occurrence name, as if it had fired: the user's history has the reason.
        gone = Halt(HaltKind.ENDED, NO_MORE)
        await halt(tx, {head.series or "": gone for head in unwanted.gone if occurrence_of(head).at <= now})
        await _give_up_behind(tx, unwanted.gone, now, NO_MORE, by)
    if unwanted.lost:
        await tx.give_up([head.id for head in unwanted.lost], by, NOT_THEIRS)
        await _give_up_behind(tx, unwanted.lost, now, NOT_THEIRS, by)
    if unwanted.ended:
        await tx.give_up([move.head.id for move in unwanted.ended], by, RULE_ENDED)
        await _give_up_behind(tx, [move.head for move in unwanted.ended], now, RULE_ENDED, by)
        await halt(tx, {move.series.name: ENDED for move in unwanted.ended})
    halted = await plant(tx, plants)
    if halted:
        await halt(tx, halted)
    return len(changed) + len(unwanted.gone) + len(unwanted.ended) + len(plants) - len(halted)


async def _give_up_behind(tx: UserTransaction, heads: Sequence[Event], now: datetime, why: str, by: str) -> None:
    """Skips the occurrences that have come due behind late heads, by the rules that the heads carry."""
    for head in heads:
        if head.due > now or (series := carried(head)) is None:
            continue
        try:
            after, _ = continues_after(head, series), series.timetable
        except Exception:  # an unreadable rule has no occurrences
            continue
        await pass_over(tx, series, after, now, Why(Cause.EDITED, why), by)
