"""Event types of users' calendars: when a user has an event, its message and its target. The engine knows none of
them."""

import re
from collections.abc import Collection, Iterator
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from duly.decide.calendars.type_settings import filled, text_problems
from duly.decide.calendars.users import FIELDS, read_date
from duly.decide.checks import name_problems
from duly.errors import Invalid, Misuse, NotFound, Problem
from duly.records.user import User
from duly.rules.notation import once, parse_rule, rrule, yearly
from duly.rules.recurrence import RRule, Rule
from duly.rules.yearly import LAST_YEAR


class EventType(Protocol):
    """The strategy for one kind of event. It is called when a user is added or changed, never while events fire: its
    results are stored with the user's next event, and the events of later years follow from them."""

    @property
    def name(self) -> str:
        """The type of the events, for which ``@duly.on(name)`` is the handler."""

    @property
    def depends_on(self) -> Collection[str]:
        """The fields of a user that the type reads, such as ``first_name`` or ``attributes.cat``. A change of any other
        field leaves its events alone; time zone, delivery time, target and key always matter."""

    def rule(self, user: User, at: time) -> Rule | None:
        """When the event fires, in the user's local time; None for a user without such an event. *at* is the user's
        delivery time."""

    def message(self, user: User) -> str:
        """The message in the payload of the event."""

    def target(self, user: User) -> dict[str, Any] | None:
        """The target of the event. None: the tenant's default target for this type, else its Python handler."""

    # A type may also have a method ``payload(user)``, whose object stands beside the message in the payload. And with
    # ``default_text``, such as "Hey, {first_name}", tenants can set texts for it: ``message(user, text)`` gets the one
    # that they have set for the user's language, with the names filled in.


ALWAYS = frozenset({"timezone", "delivery_time", "target", "key"})
"""The fields that every type depends on."""

EPOCH = date(1970, 1, 1)
"""The earliest start of a rule."""

Registered = TypeVar("Registered")


class EventTypes:
    """``duly.event_types``: the registered event types."""

    def __init__(self, types: Collection[EventType] = ()) -> None:
        self._types: dict[str, EventType] = {}
        self._removed: set[str] = set()
        for type in types:
            self.register(type)

    def register(self, type: Registered) -> Registered:
        """Adds an event type; also as a decorator of a class that needs no arguments. Existing users get their events
        by ``users.refresh()``."""
        made: Any = _made(type)
        if problems := _problems(made):
            raise Misuse(f"{made!r:.60} cannot be registered as an event type: {'; '.join(map(str, problems))}")
        if made.name in self._types:
            raise Misuse(f"event type {made.name!r} is already registered; remove it first to replace it")
        self._types[made.name] = made
        self._removed.discard(made.name)
        return type

    def remove(self, name: str) -> None:
        """Removes an event type. Users who are added or changed from now on have no such events; other users lose
        theirs by ``users.refresh()``."""
        self.get(name)
        del self._types[name]
        self._removed.add(name)

    def removed(self) -> frozenset[str]:
        """The names of removed types, whose events users lose. Types that were never registered here are left alone:
        they may belong to another program."""
        return frozenset(self._removed)

    def get(self, name: str) -> EventType:
        found = self._types.get(name)
        if found is None:
            known = ", ".join(self.names()) or "none"
            raise NotFound(f"there is no event type {name!r:.60}; registered types: {known}")
        return found

    def names(self) -> list[str]:
        return sorted(self._types)

    def __iter__(self) -> Iterator[EventType]:
        return iter(list(self._types.values()))


builtin_type = type


def _made(type: Any) -> Any:
    if not isinstance(type, builtin_type):
        return type
    try:
        return type()
    except TypeError as error:
        raise Misuse(
            f"{type.__name__} cannot be created without arguments: register an instance of it ({error})"
        ) from error


def _problems(made: Any) -> list[Problem]:
    problems = [problem._replace(path="name") for problem in name_problems("type", getattr(made, "name", None))]
    problems += [
        Problem(method, "must be a method")
        for method in ("rule", "message", "target", "payload")
        if not callable(getattr(made, method, _usual if method == "payload" else None))
    ]
    if (text := default_text(made)) is not None:
        problems += text_problems("default_text", text)
    depends_on = getattr(made, "depends_on", None)
    if isinstance(depends_on, str) or not isinstance(depends_on, Collection):
        return [*problems, Problem("depends_on", "must be names of fields of users")]
    known = f"known fields: {', '.join(FIELDS)}"
    return problems + [
        Problem("depends_on", f"{field!r:.50} is not a field of a user; {known}")
        for field in depends_on
        if field not in FIELDS and not re.fullmatch(r"attributes\..+", str(field))
    ]


def _usual(user: User) -> None:
    """The payload of a type that adds nothing to its message."""


def default_text(type: Any) -> str | None:
    """The text of a type for which tenants can set others; None if they cannot."""
    return getattr(type, "default_text", None)


def more_payload(type: EventType, user: User) -> Any:
    """What a type adds to the payload beside the message."""
    return getattr(type, "payload", _usual)(user)


# -- the event types that come with Duly


class Birthday:
    """An event on the date of birth, every year."""

    name = "birthday"
    default_text = "Hey, {first_name} {last_name} it's your birthday"
    depends_on = ("first_name", "last_name", "date_of_birth", "leap")

    def __init__(self, *, leap: str = "feb28") -> None:
        self._leap = leap

    def rule(self, user: User, at: time) -> Rule | None:
        return _yearly(user.date_of_birth.month, user.date_of_birth.day, at, user.leap or self._leap)

    def message(self, user: User, text: str | None = None) -> str:
        return text or filled(self.default_text, user)

    def target(self, user: User) -> dict[str, Any] | None:
        return user.target


class Anniversary:
    """An event on the date of the anniversary, from the following year on."""

    name = "anniversary"
    default_text = "Hey, {first_name} {last_name} it's your anniversary"
    depends_on = ("first_name", "last_name", "anniversary", "leap")

    def __init__(self, *, leap: str = "feb28") -> None:
        self._leap = leap

    def rule(self, user: User, at: time) -> Rule | None:
        day = user.anniversary
        return None if day is None else _yearly(day.month, day.day, at, user.leap or self._leap, day.year + 1)

    def message(self, user: User, text: str | None = None) -> str:
        return text or filled(self.default_text, user)

    def target(self, user: User) -> dict[str, Any] | None:
        return user.target


class Reminder:
    """The events that the user's attribute ``reminder`` asks for: one with ``{"on": "2027-05-01", "message": …}``, or
    events by any rule with
    ``{"rule": {"rrule": "FREQ=MONTHLY;BYDAY=1MO", "start": "2027-01-01T09:00:00"}, "message": …}``."""

    name = "reminder"
    default_text = "Hey, {first_name} {last_name} this is your reminder"
    depends_on = ("first_name", "last_name", "attributes.reminder")

    def rule(self, user: User, at: time) -> Rule | None:
        asked = _asked(user, "reminder", {"on", "rule", "message"})
        if asked is None:
            return None
        if ("on" in asked) == ("rule" in asked):
            raise _bad("reminder", 'give either a date, {"on": "2027-05-01"}, or a rule, {"rule": {"every": "1d"}}')
        if "on" in asked:
            day = _day("reminder.on", asked["on"])
            moment = datetime.combine(max(day, EPOCH), at)  # a date before 1970 is past in any case
            return once(moment, timezone=user.timezone, by_date=True)
        try:
            rule = parse_rule(_at_that_time(asked["rule"], at), user.timezone)
        except Invalid as error:
            raise Invalid([one._replace(path=f"attributes.reminder.{one.path}") for one in error.problems]) from None
        if isinstance(rule, RRule) and rule.start is None:  # else it would start at the minute the user was added
            raise _bad("reminder.rule.start", "is missing: give the first date and time, such as 2027-01-01T09:00:00")
        return rule

    def message(self, user: User, text: str | None = None) -> str:
        said = user.attributes["reminder"].get("message")
        if said is not None and not isinstance(said, str):
            raise _bad("reminder.message", f"expected text, not {said!r:.50}")
        return said or text or filled(self.default_text, user)

    def target(self, user: User) -> dict[str, Any] | None:
        return user.target


class Subscription:
    """An event on each renewal of a subscription. The user's attribute ``subscription`` has the date since when it
    runs, and whether it is renewed each ``month`` or each ``year``. In a month too short for the day, the event is on
    the last day."""

    name = "subscription"
    default_text = "Hey, {first_name} {last_name} your subscription is renewed today"
    depends_on = ("first_name", "last_name", "leap", "attributes.subscription")

    def rule(self, user: User, at: time) -> Rule | None:
        asked = _asked(user, "subscription", {"since", "every"})
        if asked is None:
            return None
        since = _day("subscription.since", asked.get("since"))
        every = asked.get("every", "year")
        if every == "year":
            return _yearly(since.month, since.day, at, user.leap or "feb28", since.year + 1)
        if every == "month":
            days = ",".join(str(day) for day in range(min(since.day, 28), since.day + 1))
            first = datetime.combine(max(since.replace(day=1), EPOCH), at)
            next_month = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
            return rrule(f"FREQ=MONTHLY;BYMONTHDAY={days};BYSETPOS=-1", start=next_month, by_date=True)
        raise _bad("subscription.every", f"must be month or year, not {every!r:.50}")

    def message(self, user: User, text: str | None = None) -> str:
        return text or filled(self.default_text, user)

    def target(self, user: User) -> dict[str, Any] | None:
        return user.target


def shipped() -> list[EventType]:
    return [Birthday(), Anniversary(), Reminder(), Subscription()]


@lru_cache(maxsize=4096)
def _yearly(month: int, day: int, at: time, leap: str, since: int | None = None) -> Rule:
    """A yearly rule. Cached: a million users have only 366 birthdays."""
    return yearly(f"{month:02}-{day:02}", at=at, leap=leap, since=since)


def _asked(user: User, attribute: str, known: set[str]) -> dict[str, Any] | None:
    asked = None if user.attributes_json is None else user.attributes.get(attribute)
    if asked is None:
        return None
    if not isinstance(asked, dict) or not asked.keys() <= known:
        raise _bad(attribute, f"expected an object with {', '.join(sorted(known))}, not {asked!r:.60}")
    return asked


def _day(path: str, written: Any) -> date:
    day = read_date(path, written)
    if isinstance(day, Problem):
        raise _bad(path, day.message)
    if day.year >= LAST_YEAR:
        raise _bad(path, f"{day} is out of range: the year must be less than {LAST_YEAR}")
    return day


def _at_that_time(rule: Any, at: time) -> Any:
    """The rule with the user's delivery time, if it is a yearly rule without a time of its own."""
    return {"at": at, **rule} if isinstance(rule, dict) and "yearly" in rule else rule


def _bad(path: str, message: str) -> Invalid:
    return Invalid([Problem(f"attributes.{path}", message)])
