"""What an act would do: a dry run carries it out and undoes it, so it tells what then happens."""

from collections.abc import Awaitable, Callable

from duly.dashboard.acts.act import Foretold, Upcoming, Values
from duly.dashboard.visit import Visit
from duly.records.figures.consequence import Consequence

Rehearsal = Callable[[Visit, Values], Awaitable[Consequence | None]]
"""Carries the act out as a dry run."""


def foretold_by(rehearse: Rehearsal) -> Callable[[Visit, Values], Awaitable[Foretold | None]]:
    """What the form of an act tells before it is sent. Visitors who may not act are told nothing: a dry run locks."""

    async def foretell(visit: Visit, values: Values) -> Foretold | None:
        if not visit.may_write:
            return None
        told = await rehearse(visit, values)
        return None if told is None else told_of(told)

    return foretell


def told_of(consequence: Consequence) -> Foretold:
    """A consequence as a form shows it."""
    upcoming = [Upcoming(one.due, one.local, one.note) for one in consequence.next]
    zone = consequence.next[0].timezone if consequence.next else ""
    return Foretold([consequence.message], upcoming, zone)
