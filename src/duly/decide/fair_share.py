"""Fair shares of scarce places. Every tenant gets the same number, and the others share the places that a tenant does
not need; between tenants with the same number, the oldest event comes first."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

Key = tuple[str, str | None]
"""A tenant and a destination; the destination None stands for Python handlers."""


class Candidate(NamedTuple):
    """An event that could be claimed."""

    id: str
    lane: str
    tenant: str
    destination: str | None
    ready: datetime


class FreePlaces(NamedTuple):
    """How many more events each key and each tenant may have."""

    of_key: Callable[[str, str | None], int]
    of_tenant: Callable[[str], int]


def choose(
    candidates: Mapping[Key, Sequence[Candidate]], free: int, in_hand: Mapping[str, int], room: FreePlaces
) -> list[Candidate]:
    """Up to *free* of the candidates, in the order in which to claim them. The candidates of each key are given oldest
    first. *in_hand* is how many events each tenant has already."""
    tenants: dict[str, _Tenant] = {}
    for (name, destination), found in candidates.items():
        if found:
            if name not in tenants:
                tenants[name] = _Tenant()
            tenants[name].add((name, destination), found)
    queue = [(in_hand.get(name, 0), tenant.oldest, name) for name, tenant in tenants.items()]
    heapify(queue)
    chosen: list[Candidate] = []
    while queue and len(chosen) < free:
        got, _, name = queue[0]
        tenant = tenants[name]
        if (taken := tenant.take(room)) is None:
            heappop(queue)
        else:
            chosen.append(taken)
            heapreplace(queue, (got + 1, tenant.oldest, name))
    return chosen


def fair_share(in_hand: Mapping[str, int], others: Collection[str], free: int) -> int:
    """How many events each tenant would have if all tenants, those with events in hand and the others, had the same."""
    return -(-(sum(in_hand.values()) + free) // max(1, len({*in_hand, *others})))


def well_served(keys: Mapping[Key, int]) -> set[Key]:
    """The keys that have at least half of a fair share, given how many events each key has."""
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
    """The candidates of one tenant, whose destinations take turns. Free places are computed only at the tenant's first
    turn: of thousands of tenants, few may get one."""

    __slots__ = ("_keys", "_left", "_queue", "oldest")
    oldest: datetime

    def __init__(self) -> None:
        self._keys: list[tuple[Key, Sequence[Candidate]]] = []
        self._queue: list[tuple[int, datetime, int, Sequence[Candidate], int]] | None = None
        self._left = 0

    def add(self, key: Key, candidates: Sequence[Candidate]) -> None:
        self.oldest = min(self.oldest, candidates[0].ready) if self._keys else candidates[0].ready
        self._keys.append((key, candidates))

    def take(self, room: FreePlaces) -> Candidate | None:
        if self._queue is None:
            self._queue = self._lined_up(room)
            self._left = room.of_tenant(self._keys[0][0][0])
        if not self._queue or self._left <= 0:
            return None
        taken, _, order, candidates, most = self._queue[0]
        self._left -= 1
        if taken + 1 < most:
            heapreplace(self._queue, (taken + 1, candidates[taken + 1].ready, order, candidates, most))
        else:
            heappop(self._queue)
        if self._queue:
            self.oldest = self._queue[0][1]
        return candidates[taken]

    def _lined_up(self, room: FreePlaces) -> list[tuple[int, datetime, int, Sequence[Candidate], int]]:
        """A heap of this tenant's keys: events taken so far, when the next one became ready, order, candidates, and the
        most events that may be taken."""
        queue = [
            (0, candidates[0].ready, order, candidates, min(most, len(candidates)))
            for order, (key, candidates) in enumerate(self._keys)
            if (most := room.of_key(*key)) > 0
        ]
        heapify(queue)
        return queue
