"""Conditions on the attributes of users, in the SQL of each store. Both find the same users: tests compare them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from duly.decide.calendars.attribute_filters import AttributeFilter, Value

NAMES = "abcdefghijklmnopqrstuvwxyz"
"""For the names of parameters, which have no digits."""

Condition = tuple[str, dict[str, Any]]
"""SQL, and its parameters."""


def having_attributes(filters: Sequence[AttributeFilter], dialect: str) -> Condition:
    """The condition that all of these hold; true if there are none."""
    if not filters:
        return "true", {}
    write = _in_sqlite if dialect == "sqlite" else _in_postgres
    written = [write(one, f"attribute_{NAMES[nth]}") for nth, one in enumerate(filters)]
    parameters = {name: value for _, values in written for name, value in values.items()}
    return " AND ".join(["attributes IS NOT NULL", *(f"({sql})" for sql, _ in written)]), parameters


def _in_postgres(one: AttributeFilter, name: str) -> Condition:
    """By containment, which the index of attributes answers."""
    contains = "duly.searchable(u.attributes) @> :{}::text::jsonb"
    if one.value == one.text:
        return contains.format(name), {name: _document(one.path, one.value)}
    texts = {name: _document(one.path, one.value), f"{name}_text": _document(one.path, one.text)}
    return " OR ".join(map(contains.format, texts)), texts


def _document(path: Sequence[str], value: Value) -> str:
    document: Any = value
    for name in reversed(path):
        document = {name: document}
    return msgspec.json.encode(document).decode()


def _in_sqlite(one: AttributeFilter, name: str) -> Condition:
    """By the type and the value at the path: compared by value alone, true would equal 1."""
    kind, value = f"json_type(attributes, :{name}_path)", f"attributes ->> :{name}_path"
    sql = f"{kind} = 'text' AND {value} = :{name}_text"
    parameters: dict[str, Any] = {
        f"{name}_path": "$" + "".join(f'."{part}"' for part in one.path),
        f"{name}_text": one.text,
    }
    if isinstance(one.value, bool):
        sql += f" OR {kind} = '{one.text}'"
    elif not isinstance(one.value, str):
        sql += f" OR {kind} IN ('integer', 'real') AND {value} = :{name}"
        parameters[name] = one.value
    return sql, parameters
