"""Stores what an import has read, whatever its source: one transaction for all of it."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duly.cli.invocation import person
from duly.cli.schedules.imports.differences import Difference, differences
from duly.cli.schedules.put import change, existing
from duly.duly import Duly
from duly.errors import Conflict, Invalid, NotFound
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import editable, read_schedule

RENAMED = "renamed"
"""The change of a schedule that goes on under another name."""


CRONTAB = "crontab"
"""The kind of a source that is a file."""


class Source(NamedTuple):
    """Where schedules are imported from, such as a file, and the tenant that they are for."""

    name: str
    tenant: str = "default"


def source_name(kind: str, place: str, prefix: str = "") -> str:
    """The text by which schedules remember their source: the kind, such as ``crontab``, the place, and the prefix of
    the names, because the same place can be imported under several."""
    return f"{kind} {place} with prefix {prefix}" if prefix else f"{kind} {place}"


class Entry(NamedTuple):
    """What a source says of one schedule."""

    place: str  # what the source calls it, such as the number of a line
    name: str  # of the schedule
    fields: Mapping[str, Any]  # as JSON: they replace those of the schedule, and its others stay
    keeps: Schedule | None = None  # the schedule that the entry had, perhaps under another name


class Imported(NamedTuple):
    """A stored entry. The change is created, changed, renamed or unchanged."""

    entry: Entry
    schedule: Schedule
    change: str
    differences: Sequence[Difference]


class Refused(NamedTuple):
    place: str
    reason: str


class ImportResult(NamedTuple):
    done: Sequence[Imported]
    refused: Sequence[Refused]
    gone: Sequence[Schedule]  # imported before, and no longer in the source
    kept: Mapping[str, str]  # those of them that could not be deleted, with the reasons
    pruned: bool  # whether the others were deleted


class _DryRun(Exception):
    """Raised to roll back a dry run."""


async def apply(
    duly: Duly, source: Source, entries: Sequence[Entry], gone: Sequence[Schedule], *, prune: bool, dry_run: bool
) -> ImportResult:
    """Creates and changes the schedules of the entries, deletes those that are *gone* if they are to be *pruned*, and
    remembers where they came from. What an operator has paused stays paused, and policies that the source does not tell
    stay as they are."""
    done: list[Imported] = []
    refused: list[Refused] = []
    kept: dict[str, str] = {}
    with contextlib.suppress(_DryRun):
        async with duly.transaction() as tx:
            for entry in entries:
                try:
                    done.append(await _put(duly, source, entry, tx))
                except (Invalid, Conflict) as error:
                    refused.append(Refused(entry.place, str(error)))
            for schedule in gone if prune else ():
                try:
                    await duly.schedules.delete(schedule.name, tenant=source.tenant, by=person(), transaction=tx)
                except (Conflict, NotFound) as error:
                    kept[schedule.name] = str(error)
            await _remember(duly, source, done, () if prune else gone, tx)
            if dry_run:
                raise _DryRun
    return ImportResult(done, refused, gone, kept, prune)


async def _put(duly: Duly, source: Source, entry: Entry, tx: Any) -> Imported:
    before, name = entry.keeps, entry.name
    renamed = before is not None and before.name != name
    if before is None or renamed:
        _refuse(await existing(duly, name, source.tenant), source)
    kept = {} if before is None else editable(before)
    fields = read_schedule({**kept, **entry.fields, "name": name, "tenant": source.tenant})
    after = await duly.schedules.put(**fields, by=person(), transaction=tx)
    if before is not None and renamed:
        try:
            await duly.schedules.delete(before.name, tenant=source.tenant, by=person(), transaction=tx)
        except Conflict:  # others depend on it
            await duly.schedules.delete(name, tenant=source.tenant, by=person(), transaction=tx)
            raise
    made = RENAMED if renamed else change(before, after)
    return Imported(entry, after, made, differences(kept, editable(after)) if kept else [])


def _refuse(there: Schedule | None, source: Source) -> None:
    """Raises Conflict if a schedule that this source has not made has the name of a new one."""
    if there is None:
        return
    if there.imported_from is None:
        raise Conflict(f"a schedule {there.name!r} that was not imported already exists: give a --prefix to have both")
    told = f"a schedule {there.name!r} that was imported from {there.imported_from} already exists"
    moved = ""
    if source.name.startswith(f"{CRONTAB} ") and there.imported_from.startswith(f"{CRONTAB} "):
        file = there.imported_from.removeprefix(f"{CRONTAB} ").partition(" with prefix ")[0]
        moved = f"if its file was moved here, give --moved-from {shlex.quote(file)}; "
    raise Conflict(f"{told}: {moved}give a --prefix to have both")


async def _remember(duly: Duly, source: Source, done: Sequence[Imported], gone: Sequence[Schedule], tx: Any) -> None:
    """Remembers the places of entries, and that schedules without one came from this source too, if it has moved."""
    now = [*((one.schedule, one.entry.place) for one in done), *((one, one.imported_as or "") for one in gone)]
    places = {one.id: place for one, place in now if (one.imported_from, one.imported_as) != (source.name, place)}
    if places:
        await duly.schedules.mark_imported(source.name, places, transaction=tx)
