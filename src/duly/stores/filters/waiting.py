"""What the index of waiting events, which has them by tenant and due time, can answer of a spec."""

from datetime import datetime
from typing import NamedTuple

from duly.records.event import Status
from duly.records.specs import Compare, Everything, Spec
from duly.stores.filters.index_choice import parts_of


class WaitingPart(NamedTuple):
    """The part of a spec that the index answers: the tenant, and bounds of the due time."""

    tenant: str | None
    due: Spec
    asks: bool  # whether the spec asks for waiting events and no others
    leaves: bool  # whether a rest remains to be tested on the rows
    low: datetime | None = None  # of these bounds, the latest beginning (included),
    high: datetime | None = None  # and the earliest end (excluded)


def waiting_part(spec: Spec) -> WaitingPart:
    tenant: str | None = None
    due: Spec = Everything()
    asks = leaves = False
    low: datetime | None = None
    high: datetime | None = None
    for part in parts_of(spec):
        match part:
            case Compare("tenant", "=", str(named)) if tenant in (None, named):
                tenant = named
            case Compare("due", op, bound):
                due &= part
                if op == ">=" and isinstance(bound, datetime):
                    low = bound if low is None else max(low, bound)
                elif op == "<" and isinstance(bound, datetime):
                    high = bound if high is None else min(high, bound)
            case Compare("status", "=", Status.PENDING):
                asks = True
            case Everything():
                pass
            case _:
                leaves = True
    return WaitingPart(tenant, due, asks, leaves, low, high)
