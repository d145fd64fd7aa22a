"""The successor that a head carries: the occurrence after it, computed when the head is planted, moved or edited.

On an ordinary day nothing has to be decided when a head falls due: it fires as it is, and the claim plants its
successor from the head's own row. ``ordinary_until`` says how long that holds. All else is decided by
``due_head.decide``.
"""

from datetime import datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from typing import Any

import msgspec

from duly.decide.series.due_head import Reshaped, continues_after, due_of
from duly.records.event import Event, NewEvent, NextState
from duly.records.series import Series
from duly.rules import zones
from duly.rules.exclusions import HOLIDAYS
from duly.rules.policies import SHADOW, Policies
from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE, is_local, stored_timetable
from duly.values.instants import write_instant

UNKNOWN: dict[str, Any] = {"next_state": NextState.CAREFUL}
"""The fields of a head that does not carry its successor."""

MOST_CACHED = 100_000
"""Occurrences after users' heads in the cache: a million users in a zone share 366 birthdays."""


def with_successor(head: NewEvent, series: Series) -> NewEvent:
    """The head with its successor, or marked as one to decide about when it is due."""
    return msgspec.structs.replace(head, **_successor(head, series))


def carrying(head: Event, series: Series) -> NewEvent:
    """A stored head with its successor. Only its id, due time, owner and successor are to be written. (Its owner: a
    process of the version before plants heads without one.)"""
    bare = NewEvent(id=head.id, tenant=head.tenant, type=head.type, lane=head.lane, due=head.due, owner=series.owner)
    return msgspec.structs.replace(bare, **_successor(head, series))


def _successor(head: Event | NewEvent, series: Series) -> dict[str, Any]:
    """The fields in which a head carries its successor. It has none if its series ends, its rule raises, a policy needs
    facts that are not known before, or the successor would be another event than a copy of this one: the head keeps
    values from before an edit, or from older zone data."""
    try:
        if _needs_facts(series.policies) or not _is_current(head, series):
            return UNKNOWN
        following = _following(head, series)
        if following is None:
            return UNKNOWN
        due = due_of(series, following)
        return {
            "next_state": NextState.KNOWN,
            "next_occurrence": following.name,
            "next_scheduled": following.at,
            "next_due": due,
            "next_data": _edition(series.policies),
            "ordinary_until": _ordinary_until(head, series.policies, due),
        }
    except Exception:  # when the head is due, `decide` meets the same error, and the series is halted
        return UNKNOWN


def _is_current(head: Event | NewEvent, series: Series) -> bool:
    """Whether a head has the content that its series gives to new events. Its lane and destination follow from its type
    and target."""
    zone_data = zones.VERSION if is_local(series.rule_json) else None
    return (
        content_of(head) == content_of(series)
        and head.rule_json == series.carried_rule
        and head.zone_data == zone_data
        and head.expires == series.policies.expires
    )


content_of = attrgetter("tenant", "type", "payload_json", "target_json", "retry_json", "timezone", "via")


def reshaped(head: Event, anew: NewEvent, whose: str, series: Series) -> Reshaped:
    """The change of a head, with its successor and its history entry. *whose*: its owner, ``schedule`` or ``user``."""
    anew = with_successor(anew, series)
    due = anew.due or head.due
    if due != head.due:
        return Reshaped(head.id, anew, "moved", f"due {write_instant(head.due)} → {write_instant(due)}")
    return Reshaped(head.id, anew, "changed", f"as its {whose} is now")


def _needs_facts(policies: Policies) -> bool:
    """Whether it depends on other events if a head fires, or a head never fires."""
    return policies.room is not None or policies.depends_on is not None or policies.mode == SHADOW


def _following(head: Event | NewEvent, series: Series) -> Occurrence | None:
    after = continues_after(head, series)
    if series.carried_rule is None:
        return series.timetable.after(after)
    return _cached(series.rule_json, series.timezone, after)


@lru_cache(MOST_CACHED)
def _cached(rule_json: str, timezone: str, after: datetime) -> Occurrence | None:
    return stored_timetable(rule_json, timezone, None).after(after)


def _ordinary_until(head: Event | NewEvent, policies: Policies, next_due: datetime) -> datetime:
    """The first instant at which the misfire policy has something to decide: whether the successor is due too, or the
    head is too late."""
    if policies.misfire.policy != "skip":
        return next_due
    return (head.due or next_due) + policies.misfire.tolerance + BEFORE


# -- the data that successors are computed with


def _holidays_edition() -> str | None:
    try:
        return f"{zones.VERSION} holidays {version('holidays')}"
    except PackageNotFoundError:
        return None


HOLIDAYS_EDITION = _holidays_edition()
"""The editions of zone data and holidays together; None without the holidays package. (Read when this module is
imported, not at the first claim: it takes 3 ms, and fails while the process has no file descriptor left.)"""


def _edition(policies: Policies) -> str | None:
    return HOLIDAYS_EDITION if any(one.startswith(HOLIDAYS) for one in policies.exclude) else zones.VERSION


def editions() -> list[str]:
    """The editions of the data that this process has. It plants no successor that was computed with other data."""
    return [zones.VERSION] if HOLIDAYS_EDITION is None else [zones.VERSION, HOLIDAYS_EDITION]
