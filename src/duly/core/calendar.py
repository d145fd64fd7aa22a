"""What a user's calendar holds: a series for each event type that has something to say, and where its head belongs."""

from collections.abc import Collection, Iterable
from datetime import datetime, time
from functools import lru_cache
from typing import Any

import msgspec

from duly.core.checks import target_problems, write_json
from duly.core.event_types import ALWAYS, EventType
from duly.core.failure import describe
from duly.core.model import Event, NewEvent, Schedule, series_of
from duly.core.recurrence import OPEN, Occurrence, Rule
from duly.core.succession import occurrence_of
from duly.core.timetable import stored_timetable
from duly.core.users import User
from duly.errors import Invalid, Problem

_encode = msgspec.json.Encoder().encode


def calendar(user: User, types: Iterable[EventType], at: time, channels: Collection[str]) -> dict[str, Schedule]:
    """A user's series by the names of their types; Invalid with what a type cannot make sense of."""
    found: dict[str, Schedule] = {}
    problems: list[Problem] = []
    for type in types:
        try:
            series = _series(user, type, user.delivery_time or at, channels)
        except Invalid as error:
            problems += error.problems
        except Exception as error:  # whatever a type of somebody else's raises
            problems.append(Problem(type.name, f"its event type cannot use this user: {describe(error)}"))
        else:
            if series is not None:
                found[type.name] = series
    if problems:
        raise Invalid(problems)
    return found


def concerned(types: Iterable[EventType], changed: Collection[str]) -> list[EventType]:
    """The types that look at any of the fields that have changed."""
    return [type for type in types if not ALWAYS.isdisjoint(changed) or not set(type.depends_on).isdisjoint(changed)]


def _series(user: User, type: EventType, at: time, channels: Collection[str]) -> Schedule | None:
    rule: Any = type.rule(user, at)
    if rule is None:
        return None
    if not hasattr(rule, "placed"):
        raise Invalid([Problem(type.name, f"its event type must answer with a rule or None, not {rule!r:.50}")])
    message: Any = type.message(user)
    target = type.target(user)
    payload = write_json({"message": message}, type.name)
    problems = [problem._replace(path=f"{type.name}.target") for problem in target_problems(target, channels)]
    if not isinstance(message, str):
        problems.append(Problem(type.name, f"its message must be text, not {message!r:.50}"))
    if isinstance(payload, Problem):
        problems.append(payload)
    if problems:
        raise Invalid(problems)
    series = series_of(user.id, type.name)
    return Schedule(
        id=series,
        tenant=user.tenant,
        name=series,
        type=type.name,
        rule_json=_written(rule, user.timezone),
        timezone=user.timezone,
        payload_json=str(payload),
        target_json=None if target is None else _text(target),
        user_id=user.id,
    )


@lru_cache(maxsize=8192)
def _written(rule: Rule, timezone: str) -> str:
    return _text(rule.placed(timezone, OPEN).to_json())


def _text(value: Any) -> str:
    return _encode(value).decode()


# -- where heads belong


_known: dict[tuple[str, str], tuple[datetime, Occurrence]] = {}
MOST_KNOWN = 100_000


def first_after(series: Schedule, now: datetime) -> Occurrence | None:
    """The next occurrence of a series. Remembered while it holds: a million users have but 366 birthdays in a zone."""
    key = series.rule_json, series.timezone
    since, found = _known.get(key, (None, None))
    if since is not None and found is not None and since <= now < found.at:
        return found
    first = series.timetable.after(now)
    if first is not None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = now, first
    return first


def begun(series: Schedule, now: datetime) -> Schedule:
    """A series with what its rule left open (an interval's start) fixed at *now*."""
    if '"yearly"' in series.rule_json or '"start"' in series.rule_json:  # nearly all: not even to be read
        return series
    rule = series.timetable.rule.anchored(now)
    return msgspec.structs.replace(series, rule_json=_text(rule.to_json()))


def continued(head: Event, series: Schedule) -> Schedule | None:
    """The series as its head carries it, if both go by the same rule: what began when that was stored does not begin
    anew. None if they do not."""
    if head.timezone != series.timezone or head.rule_json is None:
        return None
    if head.rule_json == series.rule_json:
        return series
    if '"start"' not in head.rule_json:
        return None
    stored = stored_timetable(head.rule_json, series.timezone, None).rule
    same = series.timetable.rule.same_as(stored)
    return msgspec.structs.replace(series, rule_json=head.rule_json) if same else None


def aim(head: Event, series: Schedule, now: datetime) -> Occurrence | None:
    """Which occurrence a head that has not started should be, now that its series goes by another rule. One that is
    owed already stays owed, if the series still has it."""
    if head.due <= now and (owed := _still(head, series)) is not None:
        return owed
    return first_after(series, now)


def differs(head: Event, anew: NewEvent) -> bool:
    return any(getattr(head, field) != getattr(anew, field) for field in _FOLLOWED)


_FOLLOWED = ("lane", "due", "payload_json", "target_json", "retry_json", "occurrence", "timezone", "rule_json")


def _still(head: Event, series: Schedule) -> Occurrence | None:
    itself = occurrence_of(head)
    try:
        there = series.timetable.rule.anew(itself)
    except ValueError:  # another kind of rule, whose occurrences have other names
        return None
    return there if there is not None and there.name == itself.name else None
