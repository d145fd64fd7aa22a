"""Chooses the part of a spec that an index can answer in the order of ids. The rest of the spec is tested on the rows
that the index finds, and possibly none of them matches."""

from collections.abc import Iterator
from typing import NamedTuple

from duly.records.event import SCHEDULE, USER, Status
from duly.records.specs import Both, Compare, Everything, InSeriesOf, NamedSpec, Spec

USUAL_TENANT = "default"
BY_TENANT = f" AND e.tenant <> '{USUAL_TENANT}'"
"""A condition that lets a query use the index of tenants, which leaves the default tenant out: if that is the only
tenant, the index would be a second primary key, and each event would take a third more of the server's time."""


class IndexChoice(NamedTuple):
    """The part of a spec that an index answers, and whether a rest remains to be tested on the rows."""

    spec: Spec
    leaves: bool
    tenant: str | None = None  # set if the index narrows the search by nothing but the tenant

    @property
    def also(self) -> str:
        return "" if self.tenant in (None, USUAL_TENANT) else BY_TENANT


def index_choice(spec: Spec) -> IndexChoice:
    """The part that selects the fewest rows."""
    parts = [part for part in parts_of(spec) if part != Everything()]
    schedule = users = failed = tenant = None
    for part in parts:
        match part:
            case Compare("series", _, str(series)) if series.startswith(SCHEDULE):
                schedule = part
            case InSeriesOf(prefix) if prefix.startswith(USER):
                users = part
            case Compare("status", _, Status.FAILED):
                failed = part
            case Compare("tenant", _, str()):
                tenant = part
    if users is not None:
        return IndexChoice(users, leaves=False)  # no user has enough events for the rest to matter
    if schedule is not None:
        return _lead(parts, schedule)
    if failed is not None:
        return _lead(parts, failed) if tenant is None else _lead(parts, tenant, failed)
    if tenant is None:
        return _lead(parts)
    lead = _lead(parts) if tenant.value == USUAL_TENANT else _lead(parts, tenant)
    return lead._replace(tenant=tenant.value)


def _lead(parts: list[Spec], *leading: Spec) -> IndexChoice:
    spec: Spec = Everything()
    for part in leading:
        spec &= part
    return IndexChoice(spec, leaves=any(part not in leading for part in parts))


def parts_of(spec: Spec) -> Iterator[Spec]:
    """The parts of a spec that must all be true."""
    match spec:
        case NamedSpec():
            yield from parts_of(spec.meaning)
        case Both(left, right):
            yield from parts_of(left)
            yield from parts_of(right)
        case _:
            yield spec
