"""Searches of users, in the SQL of each store. Both find the same users."""

from collections.abc import Iterator

from duly.records.finding.users import UserSearch
from duly.stores.filters.attributes import NAMES, having_attributes
from duly.stores.filters.attributes import Condition as Condition
from duly.stores.filters.specs import LAST_CHARACTER


def users_where(tenant: str | None, which: UserSearch, dialect: str) -> Condition:
    """The condition that users ``u`` of the tenant match the search; true if nothing is asked for."""
    written = list(_conditions(tenant, which))
    if which.attributes:
        written.append(having_attributes(which.attributes, dialect))
    parameters = {name: value for _, values in written for name, value in values.items()}
    return " AND ".join(f"({sql})" for sql, _ in written) or "true", parameters


def _conditions(tenant: str | None, which: UserSearch) -> Iterator[Condition]:
    for column, value in (("tenant", tenant), ("key", which.key), ("timezone", which.timezone)):
        if value is not None:
            yield f"u.{column} = :of_{column}", {f"of_{column}": value}
    if which.key is not None:
        yield "u.key IS NOT NULL", {}
    if which.name is not None:
        yield _named(which.beginnings)


def _named(beginnings: tuple[str, ...]) -> Condition:
    tests, parameters = list[str](), dict[str, str]()
    for letter, beginning in zip(NAMES, beginnings, strict=False):
        low, high = f"name_{letter}", f"name_{letter}_end"
        parameters |= {low: beginning, high: beginning + LAST_CHARACTER}
        tests += [f"u.{column} >= :{low} AND u.{column} < :{high}" for column in ("first_last", "last_first")]
    return " OR ".join(f"({test})" for test in tests), parameters
