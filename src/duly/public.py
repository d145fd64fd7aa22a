"""The public names: ``from duly import …`` finds what stands here."""

from duly.decide.event_types import Anniversary, Birthday, EventType, Reminder, Subscription
from duly.decide.retry import Retry
from duly.decide.targets.targets import http, webhook
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
from duly.records.event import Delivered, Event, Failed, Rejected, Status, Timer, Unreachable
from duly.records.schedule import PassedOver, Schedule
from duly.records.specs import (
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
from duly.records.target import Target
from duly.records.user import User
from duly.rules.notation import cron, every, once, rrule, template, yearly
from duly.rules.policies import DependsOn, Misfire
from duly.rules.recurrence import Dst, Rule
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
