"""Filters of events as options of the command line, derived from the fields of `EventFilter`."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import Parameter

from duly.cli.events.days import EXAMPLES as DAYS
from duly.cli.events.days import bounds_of
from duly.cli.instants import resolve
from duly.cli.users.names import user_id
from duly.duly import Duly
from duly.errors import Invalid, Misuse
from duly.records.event import Status
from duly.records.filters import (
    DESTINATION,
    ERROR,
    FIELDS,
    FLAG,
    INSTANT,
    SCHEDULE_NAME,
    STATUSES,
    USER_ID,
    EventFilter,
    read_filter,
)
from duly.rules.recurrence import DEFAULT_ZONE
from duly.values.instants import write_instant

NAMES = {"user_id": "user"}
"""Options whose names differ from their fields: people may name a user by key, too."""

METAVARS = {
    USER_ID: "ID",
    SCHEDULE_NAME: "NAME",
    DESTINATION: "NAME|URL",
    ERROR: "TEXT",
    INSTANT: "WHEN",
}
HINTS = {
    "status": "; may be repeated",
    "user_id": ", by id or key",
    "due_from": ": an instant, or such as -1h",
    "late_by": ", such as 5m",
}
"""How to write a value, where the description of a field does not say."""

NOT_OF_OPEN_EVENTS = ("failed_from", "failed_to", "late_by", "stuck")
NOT_OF_DEAD_LETTERS = ("status", "late_by", "stuck")

_FIELD_NAME = re.compile(r"`(\w+)`")

T = TypeVar("T")


def options(*fields: str) -> Callable[[type[T]], type[T]]:
    """Decorator that adds an option to a class for each of these fields of a filter."""

    def add(options: type[T]) -> type[T]:
        options.__annotations__ = {
            **{NAMES.get(field, field): _annotation(field) for field in fields},
            **inspect.get_annotations(options),
        }
        for field in fields:
            setattr(options, NAMES.get(field, field), False if FIELDS[field].kind is FLAG else None)
        return Parameter(name="*")(dataclass(frozen=True, kw_only=True)(options))

    return add


def _annotation(name: str) -> Any:
    kind, told = FIELDS[name].kind, FIELDS[name].told
    told = _FIELD_NAME.sub(lambda field: f"--{field[1].replace('_', '-')}", told) + HINTS.get(name, "")
    type: Any = {STATUSES: list[Status] | None, FLAG: bool}.get(kind, str | None)
    return Annotated[type, Parameter(help=told, metavar=METAVARS.get(kind), allow_leading_hyphen=kind is INSTANT)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TenantFilter:
    """The option for the tenant of events."""

    tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None

    async def filter(self, duly: Duly) -> EventFilter:
        """The filter of the given options; raises Invalid with every problem."""
        given: dict[str, Any] = {}
        for field in FIELDS:
            value = getattr(self, NAMES.get(field, field), None)
            if value not in (None, False, []):
                given[field] = await self._written(duly, field, value)
        which, problems = read_filter(given)
        if problems:
            raise Invalid([problem._replace(path=problem.path.replace("_", "-")) for problem in problems])
        return which

    async def _written(self, duly: Duly, field: str, value: Any) -> Any:
        """The value of an option as JSON writes it."""
        if FIELDS[field].kind is USER_ID:
            return await user_id(duly, value, self.tenant)
        if FIELDS[field].kind is INSTANT:
            return write_instant(await resolve(duly, value, field.replace("_", "-")))
        return value


@options(*(field for field in FIELDS if field not in NOT_OF_DEAD_LETTERS))
class DeadLetterFilters(TenantFilter):
    """Options that filter dead letters; all given ones must match."""


@options(*(field for field in FIELDS if field not in NOT_OF_OPEN_EVENTS))
class OpenEventFilters(TenantFilter):
    """Options that filter events which wait or run; all given ones must match."""


@options(*FIELDS)
class ListFilters(TenantFilter):
    """Options that filter events; all given ones must match."""

    dead: Annotated[bool, Parameter(help="Dead letters: the same as --status FAILED")] = False
    due: Annotated[
        str | None,
        Parameter(
            help=f"Due on this day: {DAYS}; if it is ahead, what waits, the next one first, and what rules will add",
            metavar="DAY",
        ),
    ] = None
    timezone: Annotated[str, Parameter(help="The zone of the day", metavar="ZONE")] = DEFAULT_ZONE

    async def filter(self, duly: Duly) -> EventFilter:
        which = await super().filter(duly)
        if self.due is not None:
            if which.due_from or which.due_to:
                raise Misuse("--due is a whole day: leave out --due-from and --due-to")
            start, end = await bounds_of(duly, self.due, self.timezone)
            which = msgspec.structs.replace(which, due_from=start, due_to=end)
        if not self.dead:
            return which
        if which.status and Status.FAILED not in which.status:
            raise Misuse("--dead is the same as --status FAILED: use one of them")
        return msgspec.structs.replace(which, status=(Status.FAILED,))


ANY_DEAD_LETTER = DeadLetterFilters()
ANY_OPEN_EVENT = OpenEventFilters()
EVERY_EVENT = ListFilters()
