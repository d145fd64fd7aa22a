"""The calendar of a user: a series for each event type that applies to the user, and the place of its head."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, time
from functools import lru_cache
from typing import Any

import msgspec

from duly.decide.calendars.event_types import ALWAYS, EventType, default_text, more_payload
from duly.decide.calendars.type_settings import TEXT_DEPENDS_ON, filled, text_for
from duly.decide.checks import target_problems, write_json
from duly.decide.error_text import describe
from duly.decide.own_checks import checks_of
from duly.decide.series.due_head import occurrence_of
from duly.decide.targets.commands import calendar_problems
from duly.decide.targets.origin import door_of
from duly.errors import Invalid, Problem
from duly.records.calendar.type_settings import TypeSettings
from duly.records.event import Event, NewEvent, Timer, series_of
from duly.records.series import Series
from duly.records.user import User
from duly.rules.recurrence import DEFAULT_ZONE, OPEN, Occurrence, RRule, Rule
from duly.rules.timetable import stored_timetable

_encode = msgspec.json.Encoder().encode


Settings = Mapping[tuple[str, str], TypeSettings]
"""What tenants have set for event types, by tenant and type."""

NOTHING_SET: Settings = {}


def calendar(
    user: User, types: Iterable[EventType], at: time, channels: Collection[str], settings: Settings = NOTHING_SET
) -> dict[str, Series]:
    """A user's series by event type; raises Invalid if a type cannot use the user's fields."""
    found: dict[str, Series] = {}
    problems: list[Problem] = []
    checks = checks_of(channels)
    for type in types:
        try:
            own = settings.get((user.tenant, type.name))
            series = _series(user, type, user.delivery_time or at, channels, own)
            if checks is not None and series is not None and type.name in checks:
                problems += [_of_type(type, one) for one in checks.problems(_as_timer(series, user))]
        except Invalid as error:
            problems += [_of_type(type, problem) for problem in error.problems]
        except Exception as error:  # event types of applications may raise anything
            problems.append(Problem(type.name, f"its event type cannot use this user: {describe(error)}"))
        else:
            if series is not None:
                found[type.name] = series
    if problems:
        raise Invalid(problems)
    return found


def _as_timer(series: Series, user: User) -> Timer:
    """What the checks of its type see: any of its events. The rule gives each its due time."""
    target = None if series.target_json is None else msgspec.json.decode(series.target_json)
    payload = msgspec.json.decode(series.payload_json)
    return Timer(None, series.type, payload, key=user.key or user.id, tenant=user.tenant, target=target)


def _of_type(type: EventType, problem: Problem) -> Problem:
    """The problem with the event type's name in its path, unless it is about the user's own attributes."""
    if problem.path.startswith((type.name, "attributes.")):
        return problem
    return problem._replace(path=f"{type.name}.{problem.path}")


def concerned(types: Iterable[EventType], changed: Collection[str]) -> list[EventType]:
    """The event types that depend on any of the changed fields."""
    return [
        type
        for type in types
        if not ALWAYS.isdisjoint(changed)
        or not set(type.depends_on).isdisjoint(changed)
        or (default_text(type) is not None and not TEXT_DEPENDS_ON.isdisjoint(changed))
    ]


def _series(
    user: User, type: EventType, at: time, channels: Collection[str], own: TypeSettings | None
) -> Series | None:
    rule: Any = type.rule(user, at)
    if rule is None:
        return None
    if not hasattr(rule, "placed"):
        raise Invalid([Problem(type.name, f"its event type must return a rule or None, not {rule!r:.50}")])
    payload = _payload(user, type, own)
    target, via = type.target(user), user.via
    if target is None and own is not None:
        target, via = own.target, own.via
    where = None if target is None else write_json(target, f"{type.name}.target")
    problems = [problem for problem in (payload, where) if isinstance(problem, Problem)]
    if not isinstance(where, Problem):
        wrong = [*target_problems(target, door_of(via, channels)), *calendar_problems("target", target)]
        problems += [problem._replace(path=f"{type.name}.target") for problem in wrong]
    if problems:
        raise Invalid(problems)
    return Series(
        name=series_of(user.id, type.name),
        tenant=user.tenant,
        type=type.name,
        rule_json=_written(rule, user.timezone if isinstance(rule, RRule) else DEFAULT_ZONE),
        timezone=user.timezone,
        payload_json=str(payload),
        target_json=None if where is None else str(where),
        owner=user.key,
        via=via,  # that of the user also where the type has changed the target
    )


def _payload(user: User, type: EventType, own: TypeSettings | None) -> str | Problem:
    """The message, in the tenant's text for the user's language if one is set, and what the type adds to it."""
    text = None if own is None or default_text(type) is None else text_for(own.texts, user)
    message: Any = type.message(user) if text is None else type.message(user, filled(text, user))  # type: ignore[call-arg]
    if not isinstance(message, str):
        raise Invalid([Problem(type.name, f"its message must be text, not {message!r:.50}")])
    more = more_payload(type, user)
    if more is None:
        more = {}
    if not isinstance(more, dict) or not all(isinstance(name, str) for name in more):
        raise Invalid([Problem(type.name, f"its payload must be an object or None, not {more!r:.50}")])
    if "message" in more:
        raise Invalid([Problem(type.name, "its payload must not have a message: the method message returns it")])
    return write_json({"message": message, **more}, type.name)


@lru_cache(maxsize=8192)
def _written(rule: Rule, timezone: str) -> str:
    """The rule as JSON. Only the start of an RFC 5545 rule is written differently in each zone."""
    text = _text(rule.placed(timezone, OPEN).to_json())
    stored_timetable(text, timezone, None)  # raises Invalid if a worker could not read the rule
    return text


def _text(value: Any) -> str:
    return _encode(value).decode()


# -- where heads belong


_known: dict[tuple[str, str], tuple[datetime, Occurrence]] = {}
MOST_KNOWN = 100_000
"""Next occurrences in the cache, beyond which it is emptied, to bound its memory."""


def first_after(series: Series, now: datetime) -> Occurrence | None:
    """The next occurrence of a series. Cached while it lies ahead: a million users in a zone share 366 birthdays."""
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


def begun(series: Series, now: datetime, head: Event | None = None) -> Series:
    """The series with a start for its rule, if the rule left it open (an interval): the start that the head has, if
    both have the same rule, so that the interval does not begin again; else *now*."""
    if '"yearly"' in series.rule_json or '"start"' in series.rule_json:  # nearly all rules: no need to parse them
        return series
    if head is not None and head.rule_json is not None and '"start"' in head.rule_json:
        stored = stored_timetable(head.rule_json, series.timezone, None).rule
        if series.timetable.rule.same_as(stored):
            return msgspec.structs.replace(series, rule_json=head.rule_json)
    rule = series.timetable.rule.anchored(now)
    return msgspec.structs.replace(series, rule_json=_text(rule.to_json()))


def continues(head: Event, series: Series) -> bool:
    """Whether a series has the rule and time zone that its head carries."""
    return head.timezone == series.timezone and head.rule_json == series.rule_json


def aim(head: Event, series: Series, now: datetime) -> Occurrence | None:
    """The occurrence that an unstarted head should become, now that its series has another rule. An owed head stays
    owed if the series still has its date. So does a head that a new zone or time of day puts into the past: its date
    has not had its event, so it fires now."""
    there = _still(head, series)
    if there is not None and min(head.due, occurrence_of(head).at, there.at) <= now:
        return there
    return first_after(series, now)


def lost(head: Event, series: Series, now: datetime) -> bool:
    """Whether a head is owed for a date that its series no longer has."""
    return min(head.due, occurrence_of(head).at) <= now and _still(head, series) is None


def differs(head: Event, anew: NewEvent) -> bool:
    return any(getattr(head, field) != getattr(anew, field) for field in _FOLLOWED)


_FOLLOWED = (
    "lane",
    "destination",
    "due",
    "payload_json",
    "target_json",
    "retry_json",
    "occurrence",
    "timezone",
    "rule_json",
    "via",
    "owner",
)
"""The fields of a head that follow its series."""


def _still(head: Event, series: Series) -> Occurrence | None:
    itself = occurrence_of(head)
    try:
        there = series.timetable.rule.anew(itself)
    except (ValueError, TypeError):  # another kind of rule, with other occurrence names
        return None
    return there if there is not None and there.name == itself.name else None
