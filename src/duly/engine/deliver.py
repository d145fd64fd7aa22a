"""Hand an event to its channel. What comes back is a value, whatever happened."""

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
from duly.signals import Lost

SOON = timedelta(seconds=1)
"""When to try again what failed because the store was away: it is back when this is stored."""

STORE_AWAY = "the database could not be reached"
"""Where it is, and why, is told in the log: an event's tenant need not know."""


async def deliver(event: Event, route: Route, destinations: CircuitBreaker) -> Outcome:
    try:
        if event.destination is None:
            return await route.channel.deliver(event)
        if not destinations.is_open(event) and (held := await destinations.closed(event)) is not None:
            return held
        outcome = await route.channel.deliver(event)
        return await destinations.tried(event, outcome) if destinations.tries(event) else outcome
    except StoreUnavailable:  # it could not even be asked whether the destination is open
        return Unreachable(STORE_AWAY, SOON)
    except Exception as error:  # a channel returns its failures; one that raises is a bug in that channel
        return unreachable(error) or Failed(f"{type(route.channel).__name__} raised {describe_without_paths(error)}")


async def unless_expired(
    event: Event, store: ClaimPath, attempt: Coroutine[Any, Any, Outcome | None]
) -> Outcome | None:
    """The attempt, if it may still begin. The store's clock decides: the event may have waited here, and only events
    that expire pay for the question."""
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
    """Rolls the handler's effect back, and carries why."""

    def __init__(self, outcome: Outcome | None) -> None:
        self.outcome = outcome


async def deliver_and_settle(
    event: Event,
    route: Route,
    store: ClaimPath,
    worker: str,
    tally: PassTally,
    lent: dict[tuple[str, int], HandlerTransaction],
) -> Outcome | None:
    """The effect and its settlement commit together: the settlement comes last, and finding no row rolls the
    effect back. None when there is nothing left to settle: it is settled, or the claim was lost. While the handler
    has it, the transaction is in *lent*."""
    channel = cast(TransactionalChannel, route.channel)
    settlement, signals = Settlement(event, DELIVERED), tally.signals
    try:
        async with store.lend() as tx:
            lent[event.id, event.version] = tx
            outcome = await channel.deliver_in(event, tx)
            if isinstance(outcome, Failed) and tx.outage is not None:  # not its own failure: no attempt is spent
                outcome = Unreachable(tx.outage, SOON)
            if not isinstance(outcome, Delivered):
                raise _Undone(outcome)
            if not await tx.settle([settlement], worker):
                raise _Undone(None)
            await let_go_after(tx, [event])
    except _Undone as undone:
        if undone.outcome is None:
            signals.emit(Lost(event, DELIVERED.act))
        return undone.outcome
    except StoreUnavailable:
        # The commit may have happened. Giving the claim back finds out: a settled event is no longer claimed.
        return Unreachable(STORE_AWAY, SOON)
    except Exception as error:  # such as a transaction that the handler left aborted
        return unreachable(error) or Failed(describe(error))
    finally:
        lent.pop((event.id, event.version), None)
    tally.count(tally_of([settlement], signals.late_after))
    completed(event, signals)
    return None
