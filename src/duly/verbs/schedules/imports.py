"""Where schedules were imported from: so an import finds its own schedules again, and which of them are gone from its
file."""

import builtins
from collections.abc import Mapping
from typing import Any

from duly.records.schedule import Schedule
from duly.verbs.marks import for_doors, reads
from duly.verbs.schedules.group import ScheduleGroup


class ScheduleImports(ScheduleGroup):
    """The part of ``duly.schedules`` that imports need."""

    @for_doors
    @reads
    async def imported(
        self, source: str, *, tenant: str = "default", transaction: Any = None
    ) -> builtins.list[Schedule]:
        """All schedules that were imported from *source*, in the order of names, without their next and last
        firing."""
        return await self._within(transaction)._store.imported(tenant, source)

    @for_doors
    async def mark_imported(self, source: str, names: Mapping[str, str], *, transaction: Any = None) -> None:
        """Remember from where schedules were imported, and what each is called there: *names*, by the ids of the
        schedules. It is no change of a schedule: neither its history nor `updated` tells of it."""
        await self._within(transaction)._store.mark_imported(source, names)
