"""Reads and checks users: people with a date of birth and a time zone, for whom calendar events are planned."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any

import msgspec

from duly.decide.checks import name_problems, no_such_day, target_problems, write_json
from duly.decide.targets.commands import calendar_problems
from duly.decide.targets.origin import via_of
from duly.errors import Invalid, Problem
from duly.records.user import User
from duly.rules.yearly import LEAPS
from duly.rules.zones import to_wall, zone

LONGEST_NAME = 100
"""Characters of a first or last name, at most."""

MOST_ATTRIBUTES = 64 * 1024
"""Bytes of JSON in a user's attributes, at most."""

EARLIEST_DATE_ZONE = "Pacific/Kiritimati"
"""The zone where each date begins first."""

JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: some names in Persian, Hindi or Sinhala cannot be written without them."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2})?")


REQUIRED = ("first_name", "last_name", "date_of_birth", "timezone")
OPTIONAL = ("key", "anniversary", "delivery_time", "leap", "target", "attributes")
FIELDS = REQUIRED + OPTIONAL
"""The fields of a user that callers can set; Duly sets the others."""

_STORED = {"target": "target_json", "attributes": "attributes_json"}


def new_user(
    fields: Mapping[str, Any], id: str, tenant: str, channels: Collection[str], now: datetime, at: time | None = None
) -> User:
    """A user from a caller's fields; raises Invalid with every problem at once. *at* is the usual delivery time."""
    problems = [*name_problems("tenant", tenant)]
    for field in REQUIRED:
        if fields.get(field) is None:
            problems.append(Problem(field, "is missing"))
    values = _read(fields, channels, problems)
    problems += birth_problems(values.get("date_of_birth"), values.get("timezone"), now)
    if problems:
        raise Invalid(problems)
    return User(id=id, tenant=tenant, usual_time=at, **values)


def changed_user(user: User, changes: Mapping[str, Any], channels: Collection[str], now: datetime) -> User:
    """The user with some fields changed. None removes an optional field. Attributes work the same way: the given ones
    are changed or removed, and the others stay."""
    problems = [
        Problem(field, "cannot be removed") for field in REQUIRED if field in changes and changes[field] is None
    ]
    if via_of(channels) and "target" in changes and _in_order(changes["target"]) == _in_order(user.target):
        changes = {field: value for field, value in changes.items() if field != "target"}  # sent back unchanged
    if isinstance(given := changes.get("attributes"), dict) and user.attributes_json is not None:
        changes = {**changes, "attributes": {**user.attributes, **given}}
    values = _read(changes, channels, problems)
    problems += birth_problems(values.get("date_of_birth"), values.get("timezone") or user.timezone, now)
    if problems:
        raise Invalid(problems)
    return msgspec.structs.replace(user, **values)


def changes_of(old: User, new: User) -> frozenset[str]:
    """The names of the fields that differ, and of single attributes that differ, such as ``attributes.cat``."""
    changed = {field for field in FIELDS if _stored(old, field) != _stored(new, field)}
    if old.via != new.via:
        changed.add("target")
    elif "target" in changed and _in_order(old.target) == _in_order(new.target):
        changed.remove("target")
    if "attributes" in changed:
        before, after = _each_in_order(old.attributes), _each_in_order(new.attributes)
        names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if not names:
            changed.remove("attributes")
        changed |= {f"attributes.{name}" for name in names}
    return frozenset(changed)


def _each_in_order(values: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: _in_order(value) for name, value in values.items()}


def _in_order(value: Any) -> bytes:
    """JSON with sorted fields, to compare values regardless of the order of fields. (Python values do not suffice: 1
    and True are equal.)"""
    return msgspec.json.encode(value, order="sorted")


def _stored(user: User, field: str) -> Any:
    return getattr(user, _STORED.get(field, field))


def birth_problems(born: date | None, timezone: str | None, now: datetime) -> tuple[Problem, ...]:
    """The problem of a date of birth in the future, by the calendar of the user's zone, which is never a whole day
    behind that of UTC. If the zone is not known, the zone with the earliest date decides."""
    if born is None or born < now.date():
        return ()
    place = timezone or EARLIEST_DATE_ZONE
    if born <= (today := to_wall(now, place).date()):
        return ()
    return (Problem("date_of_birth", f"{born} is in the future: it is {today} in {place}"),)


# -- reading one field: returns its value as a user stores it, or the problem with it


def _read(fields: Mapping[str, Any], channels: Collection[str], problems: list[Problem]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, written in fields.items():
        read = _READERS.get(field)
        if read is None:
            problems.append(Problem(str(field)[:50], f"is not a field of a user; known fields: {', '.join(FIELDS)}"))
        elif written is None:
            values[_STORED.get(field, field)] = None
        else:
            value = read(field, written)
            if isinstance(value, Problem):
                problems.append(value)
            else:
                values[_STORED.get(field, field)] = value
    if "target" in fields:
        target = fields["target"]
        problems += [*target_problems(target, channels), *calendar_problems("target", target)]
        values["via"] = None if target is None else via_of(channels)
    return values


def read_name(field: str, written: Any, longest: int = LONGEST_NAME) -> str | Problem:
    """The name of a person, or a part of it."""
    if not isinstance(written, str):
        return Problem(field, f"expected text, not {type(written).__name__}")
    if not 0 < len(written) <= longest:
        return Problem(field, f"must have 1 to {longest} characters, has {len(written)}")
    if written.isprintable() and not written.isspace():  # the fast path for nearly all names
        return written
    if bad := next((c for c in written if not _in_names(c)), None):
        return Problem(field, f"has a character that cannot be printed: U+{ord(bad):04X}")
    if all(c.isspace() or c in JOINERS for c in written):
        return Problem(field, "is blank")
    return written


def _in_names(character: str) -> bool:
    return character.isprintable() or character in JOINERS or unicodedata.category(character) == "Zs"


def read_date(field: str, written: Any) -> date | Problem:
    """A date without a time of day: a ``date``, or text such as 1990-03-15."""
    if type(written) is date:
        return written
    if isinstance(written, str) and _DATE.fullmatch(written):
        try:
            return date.fromisoformat(written)
        except ValueError as error:
            return Problem(field, f"{written} is not a valid date: {no_such_day(written, error)}")
    return Problem(field, f"expected a date such as 1990-03-15, not {written!r:.50}")


@lru_cache(maxsize=1024)
def _timezone(field: str, written: Any) -> str | Problem:
    try:
        return zone(written).name
    except ValueError as error:
        return Problem(field, str(error))


def _zone(field: str, written: Any) -> str | Problem:
    if not isinstance(written, str):
        return Problem(field, f"expected an IANA time zone name such as Europe/Brussels, not {written!r:.50}")
    return _timezone(field, written)


def read_time(field: str, written: Any) -> time | Problem:
    """A time of day in whole seconds, without a time zone."""
    if isinstance(written, str) and _TIME.fullmatch(written):
        try:
            written = time.fromisoformat(written)
        except ValueError as error:
            return Problem(field, f"{written} is not a time of day: {error}")
    if not isinstance(written, time) or written.tzinfo is not None or written.microsecond:
        return Problem(field, f"expected a time of day such as 09:00, not {written!r:.50}")
    return written


def _leap(field: str, written: Any) -> str | Problem:
    return written if written in LEAPS else Problem(field, f"must be one of {', '.join(LEAPS)}, not {written!r:.50}")


def _key(field: str, written: Any) -> str | Problem:
    problems = name_problems(field, written)
    return problems[0] if problems else written


def _json(field: str, written: Any) -> str | Problem:
    return write_json(written, field)


def _attributes(field: str, written: Any) -> str | Problem | None:
    if not isinstance(written, dict) or not all(isinstance(name, str) for name in written):
        return Problem(field, f"expected an object, not {written!r:.50}")
    said = {name: value for name, value in written.items() if value is not None}
    return write_json(said, field, MOST_ATTRIBUTES) if said else None


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "first_name": read_name,
    "last_name": read_name,
    "date_of_birth": read_date,
    "timezone": _zone,
    "key": _key,
    "anniversary": read_date,
    "delivery_time": read_time,
    "leap": _leap,
    "target": _json,
    "attributes": _attributes,
}
