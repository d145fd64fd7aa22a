"""Who is next, where several want what there is not enough of. Everybody gets the same, and what one does not want the
others share; between those who have got the same, the oldest comes first."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

Key = tuple[str, str | None]
"""A tenant and where its event goes; None: to a Python handler."""


class Candidate(NamedTuple):
    """An event that could be claimed."""

    id: str
    lane: str
    tenant: str
    destination: str | None
    ready: datetime


class Room(NamedTuple):
    """How many more of each key and of each tenant there is room for."""

    of_key: Callable[[str, str | None], int]
    of_tenant: Callable[[str], int]


def choose(
    candidates: Mapping[Key, Sequence[Candidate]], free: int, in_hand: Mapping[str, int], room: Room
) -> list[Candidate]:
    """So many of the candidates, in the order in which to claim them. Those of each key come oldest first. *in_hand* is
    what each tenant has got already."""
    tenants = _tenants(candidates, room)
    queue = [(in_hand.get(name, 0), tenant.oldest, name) for name, tenant in tenants.items()]
    heapify(queue)
    chosen: list[Candidate] = []
    while queue and len(chosen) < free:
        got, _, name = queue[0]
        tenant = tenants[name]
        chosen.append(tenant.take())
        if tenant.left:
            heapreplace(queue, (got + 1, tenant.oldest, name))
        else:
            heappop(queue)
    return chosen


def fair_share(in_hand: Mapping[str, int], others: Collection[str], free: int) -> int:
    """How much each tenant would have if all of them, those with something in hand and the others, had the same."""
    return -(-(sum(in_hand.values()) + free) // max(1, len({*in_hand, *others})))


def well_served(keys: Mapping[Key, int]) -> set[Key]:
    """Who has got at least half of a fair share, when each of these has got so many."""
    tenants: Counter[str] = Counter()
    for (tenant, _), many in keys.items():
        tenants[tenant] += many
    shares = Counter(tenant for tenant, _ in keys)
    total = tenants.total()
    return {
        (tenant, destination)
        for (tenant, destination), many in keys.items()
        if 2 * tenants[tenant] * len(tenants) >= total and 2 * many * shares[tenant] >= tenants[tenant]
    }


class _Tenant:
    """The candidates of one tenant, whose destinations take turns."""

    __slots__ = ("_queue", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self._queue: list[tuple[int, datetime, int, Sequence[Candidate], int]] = []

    def add(self, candidates: Sequence[Candidate], most: int) -> None:
        self._queue.append((0, candidates[0].ready, len(self._queue), candidates, min(most, len(candidates))))

    def ready(self) -> None:
        heapify(self._queue)
        self.left = min(self.left, sum(most for *_, most in self._queue))

    @property
    def oldest(self) -> datetime:
        return self._queue[0][1]

    def take(self) -> Candidate:
        taken, _, order, candidates, most = self._queue[0]
        self.left -= 1
        if taken + 1 < most:
            heapreplace(self._queue, (taken + 1, candidates[taken + 1].ready, order, candidates, most))
        else:
            heappop(self._queue)
        return candidates[taken]


def _tenants(candidates: Mapping[Key, Sequence[Candidate]], room: Room) -> dict[str, _Tenant]:
    tenants: dict[str, _Tenant] = {}
    for (name, destination), found in candidates.items():
        if found and (most := room.of_key(name, destination)) > 0:
            if name not in tenants:
                tenants[name] = _Tenant(room.of_tenant(name))
            tenants[name].add(found, most)
    for tenant in tenants.values():
        tenant.ready()
    return {name: tenant for name, tenant in tenants.items() if tenant.left > 0}
