"""Duly, the durable scheduler for time-based events: on time, once, even after a crash."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__version__ = "0.1.0"

PUBLIC_NAMES = {
    "duly.duly": "Duly",
    "duly.records.event": "Delivered Event Failed HoldKind Rejected Status Timer Unreachable",
    "duly.records.filters": "EventFilter",
    "duly.records.finding.acts": "ActedOn",
    "duly.records.finding.counts": "Count",
    "duly.records.finding.schedules": "ScheduleFilter",
    "duly.records.results": "CancelResult PutChange",
    "duly.records.schedule": "HaltKind PassedOver Schedule",
    "duly.records.user": "User",
    "duly.records.target": "Target",
    "duly.records.specs": "DueBetween ErrorLike ExecutedLate FailedBetween InStatus OfDestination OfSeries OfTenant "
    "OfType OfUser Overdue Ready Stuck WithKey",
    "duly.decide.calendars.event_types": "Anniversary Birthday EventType Reminder Subscription",
    "duly.decide.retry": "Retry",
    "duly.decide.targets.brokers": "nats",
    "duly.decide.targets.commands": "command",
    "duly.decide.targets.targets": "http webhook",
    "duly.errors": "AlreadyFired Conflict DulyError Forbidden Invalid Misuse NotFound Problem Stale StoreError "
    "StoreUnavailable Unauthenticated",
    "duly.ports": "Transaction",
    "duly.rules.notation": "cron every once rrule template yearly",
    "duly.rules.policies": "DependsOn Misfire",
    "duly.rules.recurrence": "Dst Rule",
}
"""What ``from duly import …`` finds, by the module that defines it; ``__init__.pyi`` tells type checkers the same. A
module is loaded when one of its names is first asked for, so ``duly.inbox`` and ``duly.client`` stay light."""

_MODULES = {name: module for module, names in PUBLIC_NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_MODULES, *(name for name in globals() if name.startswith("__"))})
