"""The verb that tells why a schedule did not run at an instant."""

from datetime import UTC, datetime
from typing import Any

from duly.decide.series.slots import slot_of
from duly.decide.series.why_not import Facts, WhyNot, choose, why_not
from duly.decide.why import could_begin
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.records.event import HoldKind
from duly.values.instants import EXAMPLE, YEARS, due_problems, read_moment
from duly.verbs.marks import for_doors, reads
from duly.verbs.schedules.group import ScheduleGroup
from duly.verbs.workers import surroundings

FORMS = f"an instant such as {EXAMPLE}, or a local time in its zone, without the Z"


class ScheduleWhyNot(ScheduleGroup):
    """The part of ``duly.schedules`` that explains what became of an occurrence."""

    @reads
    async def why_not(self, name: str, at: datetime | str, *, tenant: str = "default") -> WhyNot:
        """Why a schedule did not run at an instant: the one cause; or that it ran, or when it will.

        A datetime without a zone, or such a text, is what the clocks in the schedule's zone showed: also a time that
        they skipped. If they showed it twice, the rule's policy for overlaps chooses which one is meant.
        """
        return await self.why_not_told(name, at, tenant=tenant, discreet=False)

    @for_doors
    @reads
    async def why_not_told(self, name: str, at: datetime | str, *, tenant: str, discreet: bool) -> WhyNot:
        """The same; *discreet* is for those who may learn of no worker, no host and no other tenant's numbers."""
        moment = _moment(at)
        shown = await self._named(name, tenant)
        schedule = await self._store.schedule_named(tenant, name) or shown  # with its earlier rules
        now = await self._store.now()
        slot = await evaluated(slot_of, schedule, moment)
        head_id = await self._store.head_id(schedule.series)
        head = None if head_id is None else await self._store.get(head_id)
        near = await self._store.near_occurrence(schedule.series, slot.name)
        acts = await self._store.acts_on_schedule(schedule.id)
        chosen = choose(slot, near, head, now)
        event = None if chosen is None else await self._store.get(chosen.id)
        history = [] if event is None else await self._store.history(event.id)
        around = None
        if event is not None and (could_begin(event, now) or event.hold_kind is HoldKind.TARGET):
            around = await surroundings(self._presence, event, now)
        return why_not(slot, Facts(schedule, now, acts, near, chosen, event, history, around, discreet))


def _moment(given: Any) -> datetime:
    """The instant in UTC, or the local reading, that is asked about; raises Invalid if it is neither."""
    at = given
    if isinstance(given, str):
        try:
            at = read_moment(given.strip())
        except ValueError as error:
            raise Invalid([Problem("at", f"{error}: write {FORMS}")]) from None
    if not isinstance(at, datetime):
        raise Invalid([Problem("at", f"expected {FORMS}, not {type(at).__name__}")])
    try:
        instant = at.replace(tzinfo=UTC) if at.utcoffset() is None else at.astimezone(UTC)
    except OverflowError:
        raise Invalid([Problem("at", f"{at.isoformat()} is out of range: its year must be {YEARS}")]) from None
    if problems := due_problems(instant):
        raise Invalid([Problem("at", message) for _, message in problems])
    return instant.replace(tzinfo=None) if at.utcoffset() is None else instant
