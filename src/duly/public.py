"""The public names: ``from duly import …`` finds what stands here."""

from duly.core.event_types import Anniversary, Birthday, EventType, Reminder, Subscription
from duly.core.model import Delivered, Event, Failed, PassedOver, Rejected, Schedule, Status, Timer, Unreachable
from duly.core.policies import DependsOn, Misfire
from duly.core.recurrence import Dst, Rule
from duly.core.retry import Retry
from duly.core.rules import cron, every, once, rrule, template, yearly
from duly.core.specs import (
    DueBetween,
    ErrorLike,
    ExecutedLate,
    FailedBetween,
    InStatus,
    OfDestination,
    OfSeries,
    OfTenant,
    OfType,
    OfUser,
    Overdue,
    Ready,
    Stuck,
    WithKey,
)
from duly.core.stored_targets import Target
from duly.core.targets import http, webhook
from duly.core.users import User
from duly.errors import (
    Conflict,
    DulyError,
    Forbidden,
    Invalid,
    Misuse,
    NotFound,
    Stale,
    StoreError,
    StoreUnavailable,
    Unauthenticated,
)
from duly.ports import Transaction
from duly.wiring import Duly

__all__ = [
    "Anniversary",
    "Birthday",
    "Conflict",
    "Delivered",
    "DependsOn",
    "Dst",
    "DueBetween",
    "Duly",
    "DulyError",
    "ErrorLike",
    "Event",
    "EventType",
    "ExecutedLate",
    "Failed",
    "FailedBetween",
    "Forbidden",
    "InStatus",
    "Invalid",
    "Misfire",
    "Misuse",
    "NotFound",
    "OfDestination",
    "OfSeries",
    "OfTenant",
    "OfType",
    "OfUser",
    "Overdue",
    "PassedOver",
    "Ready",
    "Rejected",
    "Reminder",
    "Retry",
    "Rule",
    "Schedule",
    "Stale",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "Stuck",
    "Subscription",
    "Target",
    "Timer",
    "Transaction",
    "Unauthenticated",
    "Unreachable",
    "User",
    "WithKey",
    "cron",
    "every",
    "http",
    "once",
    "rrule",
    "template",
    "webhook",
    "yearly",
]
