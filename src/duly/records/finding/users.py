"""Which users: by name, key, time zone and attributes; all that are given must match."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from duly.decide.calendars.attribute_filters import AttributeFilter, attribute_filters
from duly.decide.calendars.users import read_name
from duly.decide.checks import name_problems
from duly.errors import Invalid, Problem
from duly.rules.notation import zone_problems

LONGEST_NAME = 201
"""Characters of a name that is searched for: those of a first and a last name, and the space between them."""

_SPACES = re.compile(r"\s+")


class UserFilters(TypedDict, total=False):
    """The filters of a list of users."""

    name: str | None  # the beginning of the first name, the last name, or both in either order; in any letter case
    key: str | None
    timezone: str | None
    attributes: Mapping[str, Any] | None  # such as {"plan": "pro"}


class UserSearch(NamedTuple):
    """The same, checked."""

    name: str | None = None
    key: str | None = None
    timezone: str | None = None
    attributes: tuple[AttributeFilter, ...] = ()

    def __bool__(self) -> bool:
        return self != EVERY_USER

    @property
    def beginnings(self) -> tuple[str, ...]:
        """The name as names are written: in small letters, in capitals, with capitals as initials, and as it is; A to Z
        in small letters, as the stores compare them."""
        if self.name is None:
            return ()
        written = (self.name, self.name.lower(), self.name.upper(), self.name.title())
        return tuple(dict.fromkeys(one.translate(_TO_LOWER_ASCII) for one in written))


EVERY_USER = UserSearch()

_TO_LOWER_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def user_search(filters: Mapping[str, Any]) -> UserSearch:
    """The search; raises Invalid with every problem at once."""
    problems = list[Problem]()
    name, key, timezone = filters.get("name"), filters.get("key"), filters.get("timezone")
    if name is not None and isinstance(found := read_name("name", name, LONGEST_NAME), Problem):
        problems.append(found)
    if key is not None:
        problems += name_problems("key", key)
    if timezone is not None:
        problems += [problem._replace(path="timezone") for problem in zone_problems(timezone)]
    attributes: tuple[AttributeFilter, ...] = ()
    try:
        attributes = attribute_filters(filters.get("attributes"))
    except Invalid as error:
        problems += error.problems
    if problems:
        raise Invalid(problems)
    return UserSearch(None if name is None else _SPACES.sub(" ", name.strip()), key, timezone, attributes)
