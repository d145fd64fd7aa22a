"""Searches of users, in the SQL of each store. Both find the same users."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from duly.records.finding.users import UserSearch
from duly.stores.filters.attributes import NAMES, having_attributes
from duly.stores.filters.attributes import Condition as Condition
from duly.stores.filters.specs import LAST_CHARACTER


def users_where(tenant: str | None, which: UserSearch, dialect: str) -> Condition:
    """The condition that users ``u`` of the tenant match the search; true if nothing is asked for."""
    sqlite = dialect == "sqlite"
    written = list(_conditions(tenant, which, _named_in_sqlite if sqlite else _named, by_name=sqlite))
    if which.attributes:
        written.append(having_attributes(which.attributes, dialect))
    parameters = {name: value for _, values in written for name, value in values.items()}
    return " AND ".join(f"({sql})" for sql, _ in written) or "true", parameters


def _conditions(
    tenant: str | None, which: UserSearch, named: Callable[[Sequence[str], str | None], Condition], *, by_name: bool
) -> Iterator[Condition]:
    if tenant is not None:
        # SQLite knows no numbers of rows: without the plus, it reads all users of the tenant for the few of a name.
        yield f"{'+' * (by_name and which.name is not None)}u.tenant = :of_tenant", {"of_tenant": tenant}
    for column, value in (("key", which.key), ("timezone", which.timezone)):
        if value is not None:
            yield f"u.{column} = :of_{column}", {f"of_{column}": value}
    if which.key is not None:
        yield "u.key IS NOT NULL", {}
    if which.name is not None:
        yield named(which.beginnings, tenant)


COLUMNS = ("first_last", "last_first")


def _bounds(beginnings: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The first and the last name with each beginning, by the names of their parameters."""
    return {
        f"name_{letter}": (beginning, beginning + LAST_CHARACTER)
        for letter, beginning in zip(NAMES, beginnings, strict=False)
    }


def _parameters(bounds: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    lows = {name: low for name, (low, _) in bounds.items()}
    return lows | {f"{name}_end": high for name, (_, high) in bounds.items()}


def _named(beginnings: Sequence[str], _: str | None) -> Condition:
    bounds = _bounds(beginnings)
    tests = [f"u.{column} >= :{name} AND u.{column} < :{name}_end" for name in bounds for column in COLUMNS]
    return " OR ".join(f"({test})" for test in tests), _parameters(bounds)


def _named_in_sqlite(beginnings: Sequence[str], tenant: str | None) -> Condition:
    """By the ids that the indexes of names have, which are then read in their order."""
    bounds, own = _bounds(beginnings), "" if tenant is None else " AND +n.tenant = :of_tenant"
    parts = [
        f"SELECT n.id FROM users AS n WHERE n.{column} >= :{name} AND n.{column} < :{name}_end{own}"
        for name in bounds
        for column in COLUMNS
    ]
    return f"u.id IN ({' UNION ALL '.join(parts)})", _parameters(bounds)
