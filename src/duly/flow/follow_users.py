"""Let what has not started follow its user: heads move, say something else, appear and go, in place."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.core.calendar import aim, begun, continues, differs, first_after
from duly.core.model import Event, NewEvent, Schedule
from duly.core.recurrence import Occurrence
from duly.core.succession import carried, head_of, kept, reshaped
from duly.core.users import User
from duly.errors import Conflict
from duly.flow.heads import ENDED, MOST_TAKEN, Next, halt, plant
from duly.flow.ids import new_id
from duly.ports import Statements

MOST_TRIES = 10
USER = "user"


class Wanted(NamedTuple):
    """What a user's calendar should hold, for the types that were asked: None where there should be nothing."""

    user: User
    series: Mapping[str, Schedule | None]
    known: frozenset[str]  # the types that are registered here, or were removed
    moved: bool  # to another zone, which matters to all


class Move(NamedTuple):
    """A head that becomes another occurrence."""

    head: Event
    series: Schedule
    occurrence: Occurrence | None


async def follow(tx: Statements, users: Sequence[Wanted], now: datetime, by: str) -> int:
    """The users are locked. How many heads were changed, planted or given up."""
    if not users:
        return 0
    heads = _by_user(await lock_heads(tx, [wanted.user.id for wanted in users]))
    moves: list[Move] = []
    plants: list[Next] = []
    unwanted: list[str] = []
    changed: list[tuple[Event, NewEvent]] = []
    for wanted in users:
        own = heads.get(wanted.user.id, {})
        for type, asked in _series(wanted, own.values()).items():
            head = own.get(type)
            if head is None:
                plants += _first(asked, now)
            elif asked is None:
                unwanted.append(head.id)
            elif continues(head, series := begun(asked, now, head)):
                changed.append((head, kept(head, series)))
            else:
                moves.append(Move(head, series, aim(head, series, now)))
    settled = await _past_taken(tx, moves)
    changed += [(m.head, head_of(m.series, m.occurrence, new_id)) for m in settled if m.occurrence is not None]
    ended = [move for move in settled if move.occurrence is None]
    return await _write(tx, changed, plants, unwanted, ended, by)


async def lock_heads(tx: Statements, users: Sequence[str]) -> list[Event]:
    """The heads of users' series. A claim that has one of them locked plants another one: then that is locked too."""
    for _ in range(MOST_TRIES):
        heads = await tx.user_heads(users)
        if {head.id for head in heads} == await tx.user_head_ids(users):
            return heads
    raise Conflict("events of these users are being claimed just now: try again")


def _by_user(heads: Sequence[Event]) -> dict[str, dict[str, Event]]:
    """By the users' ids, and their types."""
    found: dict[str, dict[str, Event]] = {}
    for head in heads:
        found.setdefault(head.user_id or "", {})[head.type] = head
    return found


def _series(wanted: Wanted, heads: Iterable[Event]) -> dict[str, Schedule | None]:
    """What is wanted, and what becomes of series whose types are not known here: they are left alone, but for a new
    zone, which is no matter of types."""
    series = dict(wanted.series)
    if wanted.moved:
        for head in heads:
            if head.type not in wanted.known and (found := carried(head)) is not None:
                series[head.type] = msgspec.structs.replace(found, timezone=wanted.user.timezone)
    return series


def _first(asked: Schedule | None, now: datetime) -> list[Next]:
    if asked is None:
        return []
    series = begun(asked, now)
    first = first_after(series, now)
    return [] if first is None else [Next(series, first)]


async def _past_taken(tx: Statements, moves: Sequence[Move]) -> list[Move]:
    """Where an occurrence was fired before, the following one."""
    settled, remaining = [], list(moves)
    for _ in range(MOST_TAKEN):
        asked = [identity for move in remaining if (identity := _identity(move)) is not None]
        taken = await tx.taken(asked) if asked else set()
        settled += [move for move in remaining if _identity(move) not in taken]
        remaining = [move._replace(occurrence=_following(move)) for move in remaining if _identity(move) in taken]
        if not remaining:
            return settled
    raise Conflict(f"{MOST_TAKEN} occurrences of {remaining[0].series.series} in a row were fired before")


def _identity(move: Move) -> tuple[str, str] | None:
    """What must not be taken; None where the head stays the occurrence that it is."""
    if move.occurrence is None or move.occurrence.name == move.head.occurrence:
        return None
    return move.series.series, move.occurrence.name


def _following(move: Move) -> Occurrence | None:
    return None if move.occurrence is None else move.series.timetable.after(move.occurrence.at)


async def _write(
    tx: Statements,
    changed: Sequence[tuple[Event, NewEvent]],
    plants: Sequence[Next],
    unwanted: Sequence[str],
    ended: Sequence[Move],
    by: str,
) -> int:
    different = [reshaped(head, anew, USER) for head, anew in changed if differs(head, anew)]
    if different:
        await tx.reshape(different, by)
    if unwanted:
        await tx.give_up(unwanted, by, "its user has no such event any more")
    if ended:
        await tx.give_up([move.head.id for move in ended], by, "its rule ended")
        await halt(tx, {move.series.id: ENDED for move in ended})
    halted = await plant(tx, plants)
    if halted:
        await halt(tx, halted)
    return len(different) + len(unwanted) + len(ended) + len(plants) - len(halted)
