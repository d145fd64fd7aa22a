"""``--due DAY``: the events of one day on the clocks of a zone, and what schedules will add to it by their rules."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from duly.cli.instants import resolve_in
from duly.cli.output import counted, note
from duly.decide.checks import MOST_LISTED
from duly.duly import Duly
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.filters import EventFilter
from duly.records.schedule import Schedule
from duly.rules.notation import zone_problems
from duly.rules.zones import to_wall
from duly.values.instants import write_instant

MOST_SCHEDULES = 1000
"""Schedules whose rules are asked."""

MOST_NAMED = 10
"""Schedules that a note names."""

DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
EXAMPLES = f"{', '.join(DAYS)}, or a date such as 2026-12-24"

OF_ROWS_ALONE = frozenset(EventFilter.__struct_fields__) - {"status", "type", "schedule", "due_from", "due_to"}
"""The fields of a filter of which a rule says nothing."""


class ByRule(NamedTuple):
    """Occurrences of a schedule after its next event, which have no event yet."""

    schedule: Schedule
    first: datetime
    last: datetime
    many: int  # at most MOST_LISTED

    def to_json(self) -> dict[str, Any]:
        return {
            "schedule": self.schedule.name,
            "tenant": self.schedule.tenant,
            "type": self.schedule.type,
            "occurrences": self.many,
            "first_at": write_instant(self.first),
            "last_at": write_instant(self.last),
        }


async def bounds_of(duly: Duly, day: str, timezone: str) -> tuple[datetime, datetime]:
    """The beginning of a day in a zone, and that of the next."""
    if problems := zone_problems(timezone):
        raise Invalid(problems)
    word = day.strip().lower()
    try:
        if word in DAYS:
            begins = to_wall(await duly.now(), timezone).date() + timedelta(days=DAYS[word])
        else:
            begins = date.fromisoformat(word)
        ends = begins + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Invalid([Problem("due", f"{day!r:.50} is no day: write {EXAMPLES}")]) from None
    first, last = [await resolve_in(duly, one.isoformat(), timezone, "due") for one in (begins, ends)]
    return first.astimezone(UTC), last.astimezone(UTC)


class Coming(NamedTuple):
    """What schedules will have by their rules."""

    rules: Sequence[ByRule] = ()
    whole: bool = True  # whether these are all of them

    def to_json(self) -> dict[str, Any]:
        return {"by_rule": [one.to_json() for one in self.rules], "by_rule_complete": self.whole}

    def tell(self) -> None:
        """Tells what has no row in the table above."""
        if self.rules:
            many = counted(sum(one.many for one in self.rules), "occurrence")
            note(f"and {many} by the rules of schedules, whose events are made when the ones before them begin:")
            for one in self.rules[:MOST_NAMED]:
                more = " or more" if one.many == MOST_LISTED else ""
                first, last = (write_instant(at.replace(microsecond=0)) for at in (one.first, one.last))
                note(f"  {one.many:,}{more} of {one.schedule.name}, from {first} to {last}")
            if len(self.rules) > MOST_NAMED:
                note(f"  and those of {len(self.rules) - MOST_NAMED:,} other schedules")
        if not self.whole:
            note(f"only the first {MOST_SCHEDULES:,} schedules were asked")


async def coming(duly: Duly, which: EventFilter, tenant: str | None, now: datetime) -> Coming:
    """What schedules will have from *now* on, within the filter's due times, after their next events. Nothing, if the
    filter asks for what only events have."""
    assert which.due_from is not None
    assert which.due_to is not None
    start, end, seen, found = max(which.due_from, now), which.due_to, 0, list[ByRule]()
    waits = not which.status or Status.PENDING in which.status
    if end <= now or not waits or any(getattr(which, field) not in (None, False) for field in OF_ROWS_ALONE):
        return Coming()
    async for schedule in _schedules(duly, which, tenant):
        if (seen := seen + 1) > MOST_SCHEDULES:
            return Coming(found, whole=False)
        head = schedule.next_at
        if head is None or head >= end or not (schedule.enabled or schedule.paused_until):
            continue
        before = start - timedelta(microseconds=1)
        after = max(head, before) if schedule.enabled else before  # after a pause, no event has been made yet
        ahead = await duly.schedules.preview(schedule.name, tenant=schedule.tenant, after=after, count=MOST_LISTED)
        due = [one.due for one in ahead if one.due < end]
        if due:
            found.append(ByRule(schedule, due[0], due[-1], len(due)))
    return Coming(found)


async def _schedules(duly: Duly, which: EventFilter, tenant: str | None) -> AsyncIterator[Schedule]:
    if which.schedule is not None:
        yield await duly.schedules.get(which.schedule, tenant=tenant or "default")
        return
    page: list[Schedule] = []
    while True:
        page = await duly.schedules.list(tenant=tenant, limit=100, after=page[-1] if page else None)
        for schedule in page:
            if which.type in (None, schedule.type):
                yield schedule
        if len(page) < 100:
            return
