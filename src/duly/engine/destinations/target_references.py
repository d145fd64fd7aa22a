"""Refuses events and schedules that name a stored target which does not exist: they would be dead letters when due."""

from collections.abc import Container, Iterable, Sequence

import msgspec

from duly.decide.targets.targets import named
from duly.errors import Invalid, Problem
from duly.ports import DestinationReader
from duly.records.event import Event, NewEvent
from duly.records.schedule import Schedule

Key = tuple[str, str]
"""A tenant, and the name of a target."""


def key_of(event: Event | NewEvent) -> Key | None:
    """The stored target of an event, if it has one."""
    name = event.stored_target
    return None if name is None else (event.tenant, name)


async def missing(store: DestinationReader, keys: Iterable[Key | None]) -> set[Key]:
    """The keys of targets that do not exist."""
    asked = sorted({key for key in keys if key is not None})
    if not asked:
        return set()
    found = await store.destinations(asked)
    return {(known.tenant, known.destination) for known in found if known.target is None}


async def require_targets(store: DestinationReader, events: Sequence[Event | NewEvent]) -> None:
    """Raises Invalid with a problem for each event whose stored target does not exist."""
    if gone := await missing(store, map(key_of, events)):
        single = len(events) == 1
        raise Invalid(
            [
                _problem(event, "" if single else f"[{index}].")
                for index, event in enumerate(events)
                if key_of(event) in gone
            ]
        )


def targets_missing(events: Sequence[Event | NewEvent], gone: Container[Key | None]) -> list[Problem]:
    """The problems of a user with these events, each missing target once."""
    return list(dict.fromkeys(_problem(event, "") for event in events if key_of(event) in gone))


def _problem(event: Event | NewEvent, where: str) -> Problem:
    target = None if event.target_json is None else msgspec.json.decode(event.target_json)
    return target_missing(target, event.tenant, where)


def target_missing(target: object, tenant: str, where: str = "") -> Problem:
    channel, name = named(target) or ("webhook", "")
    return Problem(
        f"{where}target.{channel}.target", f"there is no target {name!r:.100} in tenant {tenant!r}: create it first"
    )


async def check_target(tx: DestinationReader, schedule: Schedule) -> None:
    """Raises Invalid unless the schedule's stored target exists."""
    found = named(schedule.target)
    if found is not None and await missing(tx, [(schedule.tenant, found[1])]):
        raise Invalid([target_missing(schedule.target, schedule.tenant)])
