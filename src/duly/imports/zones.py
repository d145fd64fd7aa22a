"""The names of time zones, from the objects of the several libraries that have them."""

from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_offset
from typing import Any

from duly.imports.found import Unfit
from duly.rules.notation import zone_problems
from duly.rules.recurrence import DEFAULT_ZONE

HOUR = timedelta(hours=1)


def zone_name(zone: Any) -> str:
    """The IANA name of a zone; raises Unfit for a zone without one."""
    name = zone if isinstance(zone, str) else getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name is None and isinstance(zone, tzinfo):
        return _of_offset(zone)
    if not isinstance(name, str):
        raise Unfit(f"its time zone {zone!r:.60} has no name: give it one, such as Europe/Brussels")
    if problems := zone_problems(name):
        raise Unfit(f"its time zone cannot be used: {problems[0].message}")
    return name


def _of_offset(zone: tzinfo) -> str:
    offset = zone.utcoffset(datetime(2026, 1, 1)) if isinstance(zone, fixed_offset) else None  # noqa: DTZ001
    if offset is None:
        raise Unfit(f"its time zone {zone!r:.60} has no name: give it one, such as Europe/Brussels")
    if not offset:
        return DEFAULT_ZONE
    if offset % HOUR:
        raise Unfit(f"its time zone {zone} is an offset that no zone has by name: name a place, such as Asia/Kolkata")
    hours = offset // HOUR
    return f"Etc/GMT{-hours:+d}"  # the signs in these names are reversed
