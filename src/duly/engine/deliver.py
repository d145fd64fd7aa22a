"""Hands an event to its channel. The result is always an outcome; errors do not escape."""

import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, cast

from duly.decide.error_text import describe, describe_without_paths
from duly.decide.exhaustion import unreachable
from duly.decide.lifecycle import DELIVERED
from duly.engine.destinations.circuit_breaker import CircuitBreaker
from duly.engine.series.holds import let_go_after
from duly.engine.settle import completed
from duly.engine.tally import PassTally, tally_of
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, HandlerTransaction, Route, TransactionalChannel
from duly.records.event import Delivered, Event, Expired, Failed, Outcome, Settlement, Unreachable
from duly.signals import Lost, Settled

SOON = timedelta(seconds=1)
"""The wait before an event is tried again that failed because the store was unavailable. It can be short: by the time
this outcome is stored, the store is available again."""

STORE_AWAY = "the database could not be reached"
"""The text that tenants see. The address of the database and the error are only in the log."""


async def deliver(event: Event, route: Route, destinations: CircuitBreaker) -> Outcome:
    try:
        if event.destination is None:
            return await route.channel.deliver(event)
        if not destinations.is_open(event) and (held := await destinations.closed(event)) is not None:
            return held
        outcome = await route.channel.deliver(event)
        return await destinations.tried(event, outcome) if destinations.tries(event) else outcome
    except StoreUnavailable:  # the store could not tell whether the destination is parked
        return Unreachable(STORE_AWAY, SOON)
    except Exception as error:  # channels return failures; an exception is a bug in the channel
        return unreachable(error) or Failed(f"{type(route.channel).__name__} raised {describe_without_paths(error)}")


async def unless_expired(
    event: Event, store: ClaimPath, attempt: Coroutine[Any, Any, Outcome | None]
) -> Outcome | None:
    """Runs the attempt unless the event has expired. The store's clock decides, because the event may have waited here;
    only events that expire pay for this query."""
    try:
        now = await store.now()
    except StoreUnavailable:
        attempt.close()
        return Unreachable(STORE_AWAY, SOON)
    if event.expires_at is not None and now > event.expires_at:
        attempt.close()
        return Expired()
    return await attempt


class _Undone(Exception):
    """Rolls the handler's effect back, and carries the outcome; None when the claim was lost."""

    def __init__(self, outcome: Outcome | None) -> None:
        self.outcome = outcome


async def deliver_and_settle(
    event: Event,
    route: Route,
    store: ClaimPath,
    tally: PassTally,
    lent: dict[tuple[str, int], HandlerTransaction],
) -> Outcome | None:
    """Runs a transactional handler; its effect and the settlement commit together. The settlement comes last, and if it
    finds no row, the effect is rolled back. Returns None when nothing is left to settle: the event is settled, or the
    claim was lost. While the handler uses the transaction, it is in *lent*."""
    channel = cast(TransactionalChannel, route.channel)
    signals, began = tally.signals, time.monotonic()
    try:
        async with store.lend() as tx:
            lent[event.id, event.version] = tx
            outcome = await channel.deliver_in(event, tx)
            if isinstance(outcome, Failed) and tx.outage is not None:  # not the handler's fault: costs no attempt
                outcome = Unreachable(tx.outage, SOON)
            if not isinstance(outcome, Delivered):
                raise _Undone(outcome)
            settlement = Settlement(event, DELIVERED, time.monotonic() - began)
            if not await tx.settle([settlement], tally.worker, patient=True):
                raise _Undone(None)
            await let_go_after(tx, [event])
    except _Undone as undone:
        if undone.outcome is None:
            signals.emit(Lost(event, DELIVERED.act))
        return undone.outcome
    except StoreUnavailable:
        # The commit may have happened. Giving the claim back finds out: a settled event is no longer claimed.
        return Unreachable(STORE_AWAY, SOON)
    except Exception as error:  # for instance, the handler left the transaction aborted
        return unreachable(error) or Failed(describe(error))
    finally:
        lent.pop((event.id, event.version), None)
    if signals.wanted(Settled):
        signals.emit(Settled([settlement]))
    tally.count(tally_of([settlement], signals.late_after))
    completed(event, signals)
    return None
