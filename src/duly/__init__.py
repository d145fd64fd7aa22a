"""Duly, the durable scheduler for time-based events: on time, once, even after a crash."""

from duly.core.model import Delivered, Event, Failed, Rejected, Schedule, Status, Timer, Unreachable
from duly.core.policies import DependsOn, Misfire
from duly.core.recurrence import Dst
from duly.core.retry import Retry
from duly.core.rules import cron, every, once, rrule, template, yearly
from duly.core.specs import (
    DueBetween,
    ExecutedLate,
    InStatus,
    OfSeries,
    OfTenant,
    OfType,
    Overdue,
    Ready,
    Stuck,
    WithKey,
)
from duly.errors import Conflict, DulyError, Invalid, Misuse, NotFound, StoreError, StoreUnavailable
from duly.ports import Transaction
from duly.wiring import Duly

__version__ = "0.1.0"

__all__ = [
    "Conflict",
    "Delivered",
    "DependsOn",
    "Dst",
    "DueBetween",
    "Duly",
    "DulyError",
    "Event",
    "ExecutedLate",
    "Failed",
    "InStatus",
    "Invalid",
    "Misfire",
    "Misuse",
    "NotFound",
    "OfSeries",
    "OfTenant",
    "OfType",
    "Overdue",
    "Ready",
    "Rejected",
    "Retry",
    "Schedule",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "Stuck",
    "Timer",
    "Transaction",
    "Unreachable",
    "WithKey",
    "cron",
    "every",
    "once",
    "rrule",
    "template",
    "yearly",
]
