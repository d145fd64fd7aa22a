"""Claims as a worker makes them, without the worker."""

from collections.abc import Mapping

from duly import Duly, Event
from duly.engine.claim import Claims
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.fairness.limits import Unlimited
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.heads import Claimant
from duly.engine.series.successors import Successors
from duly.ports import ClaimPath
from duly.signals import Signals
from tests.make import LEASE


async def claimed_by_a_worker(app: Duly, room: Mapping[str, int], worker: str = "w1") -> list[Event]:
    """The events that a worker claims in these lanes, heads included; nothing is computed beside its loop."""
    claims = claims_of(app.store, worker)
    return [event async for batch in claims.take(room) for event in batch.events]


def claims_of(store: ClaimPath, worker: str, concurrency: int = 10) -> Claims:
    """The claims of a worker that has no limits besides its concurrency."""
    claimant, signals = Claimant(worker, LEASE), Signals()
    heads = CarefulHeads(store, claimant, Successors(store), signals)
    return Claims(store, claimant, FairQueue(Unlimited(concurrency), concurrency), heads, signals)
