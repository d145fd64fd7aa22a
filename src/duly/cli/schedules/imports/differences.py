"""What has changed between two JSON values, field by field."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    field: str  # with the names of the objects around it, such as target.command.shell
    old: Any  # None: it was missing
    new: Any  # None: it is missing now


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[Difference]:
    found: list[Difference] = []
    for name in dict.fromkeys([*old, *new]):
        before, after, field = old.get(name), new.get(name), f"{path}{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{field}.")
        elif before != after:
            found.append(Difference(field, before, after))
    return found
