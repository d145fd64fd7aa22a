"""The public names, for type checkers: the same as the table in ``__init__.py``, which a test compares."""

from duly.decide.calendars.event_types import (
    Anniversary as Anniversary,
)
from duly.decide.calendars.event_types import (
    Birthday as Birthday,
)
from duly.decide.calendars.event_types import (
    EventType as EventType,
)
from duly.decide.calendars.event_types import (
    Reminder as Reminder,
)
from duly.decide.calendars.event_types import (
    Subscription as Subscription,
)
from duly.decide.retry import (
    Retry as Retry,
)
from duly.decide.targets.brokers import (
    nats as nats,
)
from duly.decide.targets.commands import (
    command as command,
)
from duly.decide.targets.targets import (
    http as http,
)
from duly.decide.targets.targets import (
    webhook as webhook,
)
from duly.duly import (
    Duly as Duly,
)
from duly.errors import (
    AlreadyFired as AlreadyFired,
)
from duly.errors import (
    Conflict as Conflict,
)
from duly.errors import (
    DulyError as DulyError,
)
from duly.errors import (
    Forbidden as Forbidden,
)
from duly.errors import (
    Invalid as Invalid,
)
from duly.errors import (
    Misuse as Misuse,
)
from duly.errors import (
    NotFound as NotFound,
)
from duly.errors import (
    Problem as Problem,
)
from duly.errors import (
    Stale as Stale,
)
from duly.errors import (
    StoreError as StoreError,
)
from duly.errors import (
    StoreUnavailable as StoreUnavailable,
)
from duly.errors import (
    Unauthenticated as Unauthenticated,
)
from duly.ports import (
    Transaction as Transaction,
)
from duly.records.event import (
    Delivered as Delivered,
)
from duly.records.event import (
    Event as Event,
)
from duly.records.event import (
    Failed as Failed,
)
from duly.records.event import (
    HoldKind as HoldKind,
)
from duly.records.event import (
    Rejected as Rejected,
)
from duly.records.event import (
    Status as Status,
)
from duly.records.event import (
    Timer as Timer,
)
from duly.records.event import (
    Unreachable as Unreachable,
)
from duly.records.filters import (
    EventFilter as EventFilter,
)
from duly.records.finding.acts import (
    ActedOn as ActedOn,
)
from duly.records.finding.counts import (
    Count as Count,
)
from duly.records.finding.schedules import (
    ScheduleFilter as ScheduleFilter,
)
from duly.records.results import (
    CancelResult as CancelResult,
)
from duly.records.results import (
    PutChange as PutChange,
)
from duly.records.schedule import (
    HaltKind as HaltKind,
)
from duly.records.schedule import (
    PassedOver as PassedOver,
)
from duly.records.schedule import (
    Schedule as Schedule,
)
from duly.records.specs import (
    DueBetween as DueBetween,
)
from duly.records.specs import (
    ErrorLike as ErrorLike,
)
from duly.records.specs import (
    ExecutedLate as ExecutedLate,
)
from duly.records.specs import (
    FailedBetween as FailedBetween,
)
from duly.records.specs import (
    InStatus as InStatus,
)
from duly.records.specs import (
    OfDestination as OfDestination,
)
from duly.records.specs import (
    OfSeries as OfSeries,
)
from duly.records.specs import (
    OfTenant as OfTenant,
)
from duly.records.specs import (
    OfType as OfType,
)
from duly.records.specs import (
    OfUser as OfUser,
)
from duly.records.specs import (
    Overdue as Overdue,
)
from duly.records.specs import (
    Ready as Ready,
)
from duly.records.specs import (
    Stuck as Stuck,
)
from duly.records.specs import (
    WithKey as WithKey,
)
from duly.records.target import (
    Target as Target,
)
from duly.records.user import (
    User as User,
)
from duly.rules.notation import (
    cron as cron,
)
from duly.rules.notation import (
    every as every,
)
from duly.rules.notation import (
    once as once,
)
from duly.rules.notation import (
    rrule as rrule,
)
from duly.rules.notation import (
    template as template,
)
from duly.rules.notation import (
    yearly as yearly,
)
from duly.rules.policies import (
    DependsOn as DependsOn,
)
from duly.rules.policies import (
    Misfire as Misfire,
)
from duly.rules.recurrence import (
    Dst as Dst,
)
from duly.rules.recurrence import (
    Rule as Rule,
)

__version__: str
PUBLIC_NAMES: dict[str, str]
