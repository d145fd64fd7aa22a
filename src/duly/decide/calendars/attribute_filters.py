"""Which users: those with certain attributes. In Python a value is text, a number or a boolean; in query strings and on
the command line it is text, which stands for the number or boolean that it reads as, unless it is in double quotes."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from duly.errors import Invalid, Problem

PREFIX = "attributes."
"""The beginning of the names of these parameters, as in ``attributes.plan=pro``."""

MOST_FILTERS = 10
"""Attributes that one list may ask for."""

DEEPEST = 5
"""Names of a dotted path, at most."""

LONGEST_VALUE = 1000
"""Characters of a text that is asked for, at most."""

MOST_EXACT = 2**53
"""Whole numbers beyond this are not equal on both databases: one of them compares them as binary fractions."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?")
_NAME = re.compile(r'[^."\\\x00-\x1f\x7f]{1,100}')
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WORDS = {"true": True, "false": False}

Value = str | int | float | bool


class AttributeFilter(NamedTuple):
    """Users whose attribute at this path equals the value, or the text of the value."""

    path: tuple[str, ...]
    value: Value

    @property
    def text(self) -> str:
        """The text that matches as well: an import from CSV stores ``42`` as text."""
        return self.value if isinstance(self.value, str) else msgspec.json.encode(self.value).decode()


def attribute_filters(given: Mapping[str, Any] | None) -> tuple[AttributeFilter, ...]:
    """The filters, by dotted path; raises Invalid with every problem at once."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise Invalid([Problem("attributes", f'expected an object such as {{"plan": "pro"}}, not {given!r:.50}')])
    problems = [
        Problem(f"{PREFIX}{name!s:.50}", why) for name, value in given.items() if (why := _problem(name, value))
    ]
    if len(given) > MOST_FILTERS:
        problems.append(Problem("attributes", f"{len(given)} are asked for; at most {MOST_FILTERS}"))
    if problems:
        raise Invalid(problems)
    return tuple(AttributeFilter(tuple(name.split(".")), value) for name, value in given.items())


def _problem(name: Any, value: Any) -> str | None:
    if not isinstance(name, str) or not all(_NAME.fullmatch(one) for one in name.split(".")):
        return "cannot be asked for: expected a name, or names with dots between them, without quotes and backslashes"
    if name.count(".") >= DEEPEST:
        return f"is a path of more than {DEEPEST} names"
    if isinstance(value, str):
        if len(value) > LONGEST_VALUE or _UNSTORABLE.search(value):
            return f"must be at most {LONGEST_VALUE:,} characters, without U+0000 and halves of surrogate pairs"
    elif isinstance(value, bool):
        return None
    elif not isinstance(value, int | float):
        return f"expected text, a number or a boolean, not {value!r:.50}"
    elif not -MOST_EXACT <= value <= MOST_EXACT:
        return f"must be a number from {-MOST_EXACT} to {MOST_EXACT}, not {value!r:.50}"
    return None


def read_attribute(written: str) -> Value:
    """The value of a parameter."""
    if len(written) >= 2 and written[0] == written[-1] == '"':
        return written[1:-1]
    if written in _WORDS:
        return _WORDS[written]
    if _NUMBER.fullmatch(written):
        number = msgspec.json.decode(written)
        if msgspec.json.encode(number).decode() == written:  # otherwise, such as 1.50, it is a text
            return number  # type: ignore[no-any-return]
    return written


def write_attribute(value: Value) -> str:
    """The value as a parameter, which is read back as the same."""
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return value if read_attribute(value) == value else f'"{value}"'
