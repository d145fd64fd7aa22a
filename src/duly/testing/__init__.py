"""Tools to test code that uses Duly: time that the test moves, your program's Duly on a database of the test, channels
that record what is sent, and builders. ``plugin.py`` has the fixtures for pytest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.testing.builders import EventBuilder, UserBuilder
    from duly.testing.clock import ManualClock
    from duly.testing.firings import fired
    from duly.testing.rebinding import rebound
    from duly.testing.recorder import Recorder, Sent
    from duly.testing.schedule_builder import ScheduleBuilder
    from duly.testing.time_travel import travel

__all__ = [
    "EventBuilder",
    "ManualClock",
    "Recorder",
    "ScheduleBuilder",
    "Sent",
    "UserBuilder",
    "fired",
    "rebound",
    "travel",
]

_MODULES = {
    "EventBuilder": "builders",
    "ManualClock": "clock",
    "Recorder": "recorder",
    "ScheduleBuilder": "schedule_builder",
    "Sent": "recorder",
    "UserBuilder": "builders",
    "fired": "firings",
    "rebound": "rebinding",
    "travel": "time_travel",
}
"""The modules of these names. They are loaded when asked for: pytest loads this package in every run. No module has the
name of what it offers: loading it would put the module in that name's place."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
