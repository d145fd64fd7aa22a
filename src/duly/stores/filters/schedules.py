"""Filters of schedules, in the SQL of each store. Both find the same schedules."""

from collections.abc import Iterator
from typing import Any

from duly.records.finding.schedules import ScheduleFilter
from duly.stores.filters.attributes import NAMES, Condition
from duly.stores.filters.specs import LAST_CHARACTER

TAGGED = {
    "sqlite": "EXISTS (SELECT 1 FROM json_each(s.tags) AS one WHERE one.value = :{0})",
    "postgres": "EXISTS (SELECT 1 FROM json_array_elements_text(s.tags) AS one (tag) WHERE one.tag = :{0})",
}
LAST_STATUS = (
    "(SELECT e.status FROM {0}events AS e WHERE e.series = 'schedule:' || s.id AND e.rule IS NULL"
    " AND e.claimed IS NOT NULL AND NOT e.head AND e.status <> 'SKIPPED' ORDER BY e.id DESC LIMIT 1) = :of_status"
)
"""The last event that began, as the fragment `shown` finds it."""

EQUAL = ("type", "halt_kind", "imported_from", "timezone")
"""Fields that must be equal to the column of their name."""


def schedules_where(which: ScheduleFilter, dialect: str) -> Condition:
    """The condition that schedules ``s`` match the filter; true if nothing is asked for."""
    written = list(_conditions(which, dialect))
    parameters = {name: value for _, values in written for name, value in values.items()}
    return " AND ".join(f"({sql})" for sql, _ in written) or "true", parameters


def _conditions(which: ScheduleFilter, dialect: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if (beginning := which.name_prefix) is not None:
        bounds = {"of_name": beginning, "of_name_end": beginning + LAST_CHARACTER}
        yield "s.name >= :of_name AND s.name < :of_name_end", bounds
    for field in EQUAL:
        if (value := getattr(which, field)) is not None:
            yield f"s.{field} = :of_{field}", {f"of_{field}": str(value)}
    if which.enabled is not None:
        yield "s.enabled" if which.enabled else "NOT s.enabled", {}
    for letter, tag in zip(NAMES, which.tag, strict=False):
        yield TAGGED[dialect].format(f"of_tag_{letter}"), {f"of_tag_{letter}": tag}
    if which.last_status is not None:
        tables = "" if dialect == "sqlite" else "duly."
        yield LAST_STATUS.format(tables), {"of_status": which.last_status.value}
