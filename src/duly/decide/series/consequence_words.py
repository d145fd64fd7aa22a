"""A consequence in words: a few short sentences for people."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from duly.records.figures.consequence import Consequence, PassedEvents
from duly.rules.zones import to_wall

MOST_NAMED = 3
"""Moved events that the message names by themselves."""


class Around(NamedTuple):
    """What a consequence is about, as far as it does not follow from events."""

    tenant: str
    timezone: str  # of the times in the message
    switched: bool | None = None  # whether it is enabled after the act; None if that does not change
    paused: bool = False  # whether it is paused after the act
    until: datetime | None = None  # when that pause ends by itself
    deleted: bool = False
    halted: str | None = None  # why no event follows
    typed: bool = False  # whether there are several series, whose types have to be named


def in_words(told: Consequence, around: Around) -> str:
    """The message of a consequence."""
    return " ".join(_sentences(told, around))


def _sentences(told: Consequence, around: Around) -> Iterator[str]:
    zone, typed = around.timezone, around.typed
    if told.deleted:
        yield f"It is deleted, and {_cancelled(told.cancelled.count)}."
    elif told.cancelled.count:
        yield f"{_cancelled(told.cancelled.count).capitalize()}."
    if told.switched == "paused":
        until = "it is resumed" if around.until is None else _at(around.until, zone)
        yield f"It is paused: no event starts until {until}."
    elif told.switched == "resumed":
        yield "It is resumed."
    yield from _moves(told, zone, typed)
    for new in told.created[:MOST_NAMED]:
        yield f"A new event{_of(new.type, typed)} is planned, due {_at(new.due, zone)}."
    if told.skipped.count:
        yield _skips(told.skipped, zone)
    if told.owed.count:
        yield f"{_events(told.owed.count)} already due, and {_verb(told.owed.count, 'fires', 'fire')} nevertheless."
    if not (told.deleted or told.switched or told.moved or told.created or told.skipped.count):
        yield "No event moves, and none is skipped."
    if not told.deleted:
        yield from _ahead(told, around)
    yield from _load(told)


def _moves(told: Consequence, zone: str, typed: bool) -> Iterator[str]:
    for one in told.moved[:MOST_NAMED]:
        yield f"The next event{_of(one.type, typed)} moves from {_at(one.from_, zone)} to {_at(one.to, zone)}."
    if (more := len(told.moved) - MOST_NAMED) > 0:
        yield f"So {_verb(more, 'does', 'do')} {more} more."


def _skips(skipped: PassedEvents, zone: str) -> str:
    first = skipped.first[0]
    which = "that of" if skipped.count == 1 else "the first of them that of"
    many = "1 occurrence is" if skipped.count == 1 else f"{skipped.count:,} occurrences are"
    return f"{many} skipped, {which} {_at(first.at, zone)}" + (f": {first.reason}." if first.reason else ".")


def _ahead(told: Consequence, around: Around) -> Iterator[str]:
    zone, typed = around.timezone, around.typed
    if not told.next:
        yield f"No event follows: {around.halted}." if around.halted and not around.paused else "No event follows."
        return
    first = told.next[0]
    named = {*(one.to for one in told.moved), *(one.due for one in told.created)}
    if first.due not in named:
        waits = ", and waits while it is paused" if around.paused and around.until is None else ""
        yield f"The next{_of(first.type, typed)} is due {_at(first.due, zone)}{waits}."
    unusual = next((one for one in told.next if one.note and one.due not in named), None)
    if unusual is not None:
        yield f"Note on {_at(unusual.due, zone)}: {unusual.note}."


def _load(told: Consequence) -> Iterator[str]:
    """The hour whose load grows most."""
    grows = max(told.load, key=lambda one: one.after - one.now, default=None)
    if grows is not None and grows.after > grows.now > 0:
        hour = f"{grows.at:%Y-%m-%d %H:%M} UTC"
        yield f"In the hour from {hour}, {grows.after:,} events of the tenant become due instead of {grows.now:,}."


def _at(at: datetime, zone: str) -> str:
    local = to_wall(at, zone)
    return f"{local:%a %Y-%m-%d %H:%M:%S} {zone}" if local.second else f"{local:%a %Y-%m-%d %H:%M} {zone}"


def _of(type: str, typed: bool) -> str:
    return f" of type {type}" if typed else ""


def _events(count: int) -> str:
    return "1 event is" if count == 1 else f"{count:,} events are"


def _cancelled(count: int) -> str:
    if not count:
        return "no event is waiting"
    return f"{count:,} waiting {_verb(count, 'event is', 'events are')} cancelled"


def _verb(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
