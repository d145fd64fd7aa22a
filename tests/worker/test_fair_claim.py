"""How a claim learns of others behind a flood."""

import asyncio
from collections.abc import Collection

import pytest

from duly.decide.fair_share import Candidate, Key
from duly.engine.fairness import fair_claim
from duly.engine.fairness.backlog_scan import OLDEST_EVENTS
from duly.engine.fairness.fair_claim import FairClaim
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.fairness.limits import Unlimited
from duly.ports import ScanRequest, ScanResult
from tests.make import START, make_event

LANE = "greet"
QUIET = Candidate("1", LANE, "quiet", None, START)


class Store:
    """Answers a look that goes deep when it may, and one among the newest at once."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.newest: list[Candidate] = []
        self.looks: list[int] = []  # how deep each of them goes

    async def look(self, where: ScanRequest, _known: Collection[Key]) -> ScanResult:
        depth = where.depth[LANE]
        self.looks.append(depth)
        if depth:
            await self.may_answer.wait()
        return ScanResult(self.newest, {LANE: 0})


def at_a_flood(store: Store, tenants: str) -> FairClaim:
    """That of a worker that has had events of these tenants, when a flood begins."""
    turns = FairQueue(Unlimited(100), 100)
    turns.extend(make_event(tenant=tenant, lane=LANE) for tenant in tenants)
    shared = FairClaim(store.look, dict, turns)
    shared.taken_oldest([make_event(tenant="flood", lane=LANE)] * 10, {LANE: 10})
    return shared


async def beside_a_flood(store: Store, tenants: str) -> FairClaim:
    """The same when it has begun."""
    shared = at_a_flood(store, tenants)
    store.may_answer.set()
    assert await shared.choose(LANE, 10) == []
    store.may_answer.clear()
    shared.rested()
    return shared


async def test_events_that_have_just_become_due_are_scanned_beside_a_deep_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_claim, "AWAITED_S", 0.01)
    store = Store()
    shared = await beside_a_flood(store, "ab")
    assert await shared.choose(LANE, 10) == []
    store.newest = [QUIET]
    assert await shared.choose(LANE, 10) == [QUIET]
    assert [depth > 0 for depth in store.looks] == [True, True, False], "the second one has not answered"
    await shared.stop()


async def test_a_worker_shared_by_tenants_does_not_wait_for_a_deep_scan_when_a_flood_begins() -> None:
    store = Store()
    shared = at_a_flood(store, "ab")
    async with asyncio.timeout(30):
        assert await shared.choose(LANE, 10) == []
    assert store.looks == [OLDEST_EVENTS]
    await shared.stop()


@pytest.mark.parametrize(("tenants", "found"), [("ab", [QUIET]), ("a", [])], ids=["shared", "alone"])
async def test_events_found_by_a_scan_are_chosen_at_once_while_tenants_share_a_worker(
    tenants: str, found: list[Candidate]
) -> None:
    store = Store()
    shared = await beside_a_flood(store, tenants)
    store.newest = [QUIET]
    store.may_answer.set()
    assert await shared.choose(LANE, 10) == found
    await asyncio.sleep(0)
    assert await shared.choose(LANE, 10) == [QUIET], "else the claim after it takes it"
    await shared.stop()


@pytest.mark.parametrize(("tenants", "looks"), [("ab", 4), ("a", 1)], ids=["shared", "alone"])
async def test_each_claim_scans_for_newly_due_tenants_while_tenants_share_a_worker(tenants: str, looks: int) -> None:
    store = Store()
    store.may_answer.set()
    shared = at_a_flood(store, tenants)
    for _ in range(4):
        await shared.choose(LANE, 10)
    assert len(store.looks) == looks
    await shared.stop()
