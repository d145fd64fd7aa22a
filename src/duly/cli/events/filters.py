"""Which events, as people say it on the command line."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from duly.cli.instants import resolve
from duly.cli.names import DEFAULT_TENANT
from duly.cli.users.names import user_id
from duly.decide.targets.targets import origin_of, url_problems
from duly.duly import Duly
from duly.durations import parse_duration
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.specs import (
    DueBetween,
    ErrorLike,
    Everything,
    ExecutedLate,
    FailedBetween,
    InStatus,
    OfDestination,
    OfSeries,
    OfType,
    OfUser,
    OneOf,
    Spec,
    Stuck,
    WithKey,
)

Instant = Annotated[str | None, Parameter(metavar="WHEN", allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EventFilters:
    """Which events; all that is given must hold."""

    type: str | None = None
    tenant: Annotated[str | None, Parameter(help="Only this tenant's")] = None
    key: str | None = None
    user: Annotated[str | None, Parameter(help="Of this user, by id or key", metavar="ID")] = None
    schedule: Annotated[str | None, Parameter(help="Of this schedule", metavar="NAME")] = None
    destination: Annotated[
        str | None, Parameter(help="To this target, by its name, or to the origin of this URL", metavar="NAME|URL")
    ] = None
    error: Annotated[str | None, Parameter(help="With this text in the last error", metavar="TEXT")] = None
    due_from: Annotated[Instant, Parameter(help="Due then or later: an instant, or such as -1h")] = None
    due_to: Annotated[Instant, Parameter(help="Due before then")] = None
    failed_from: Annotated[Instant, Parameter(help="Dead letters whose last attempt began then or later")] = None
    failed_to: Annotated[Instant, Parameter(help="Dead letters whose last attempt began before then")] = None

    async def spec(self, duly: Duly) -> Spec:
        spec: Spec = Everything()
        if self.type is not None:
            spec &= OfType(self.type)
        if self.key is not None:
            spec &= WithKey(self.key)
        if self.user is not None:
            spec &= OfUser(await user_id(duly, self.user, self.tenant))
        if self.schedule is not None:
            spec &= OfSeries((await duly.schedules.get(self.schedule, tenant=self.tenant or DEFAULT_TENANT)).series)
        if self.destination is not None:
            spec &= OfDestination(_destination(self.destination))
        if self.error is not None:
            spec &= ErrorLike(self.error)
        for between, field in ((DueBetween, "due"), (FailedBetween, "failed")):
            start, end = getattr(self, f"{field}_from"), getattr(self, f"{field}_to")
            if start is not None or end is not None:
                spec &= between(
                    None if start is None else await resolve(duly, start, f"{field}-from"),
                    None if end is None else await resolve(duly, end, f"{field}-to"),
                )
        return spec


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ListFilters(EventFilters):
    """The same, and what is asked of events that are no dead letters."""

    status: Annotated[list[Status] | None, Parameter(help="May be repeated")] = None
    dead: Annotated[bool, Parameter(help="Dead letters: the same as --status FAILED")] = False
    late_by: Annotated[
        str | None, Parameter(help="Late and completed: executed more than this after due, such as 5m")
    ] = None
    stuck: Annotated[
        bool,
        Parameter(help="Not completed an hour after due, or --late-by after it: waiting, under way, or a dead letter"),
    ] = False

    async def spec(self, duly: Duly) -> Spec:
        spec = await super().spec(duly)
        if self.status:
            spec &= OneOf("status", tuple(self.status))
        if self.dead:
            spec &= InStatus(Status.FAILED)
        late_by = None if self.late_by is None else _span(self.late_by)
        if self.stuck:
            spec &= Stuck() if late_by is None else Stuck(late_by)
        elif late_by is not None:
            spec &= ExecutedLate(late_by)
        return spec


ANY, ALL = EventFilters(), ListFilters()


def _span(written: str) -> timedelta:
    try:
        return parse_duration(written)
    except ValueError as error:
        raise Invalid([Problem("late-by", str(error))]) from None


def _destination(written: str) -> str:
    """A name as it is; of a URL, whom its events are filed under."""
    if "://" not in written:
        return written
    if problems := list(url_problems("destination", written)):
        raise Invalid(problems)
    return origin_of(written)
