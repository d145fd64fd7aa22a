"""The verbs of timers: at, after, put, add_many, cancel. They are attributes of ``Duly`` itself."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Unpack

from duly.decide.keys import required_fresh
from duly.engine.schedule import add_timers, put_timer
from duly.ports import Added, TimerStore
from duly.records.event import Event, Timer, TimerOptions, lane_of
from duly.records.results import CancelResult
from duly.values.instants import read_delay, read_due
from duly.verbs.events.events import Events


class TimerVerbs:
    """The part of ``Duly`` that sets and cancels timers."""

    store: TimerStore
    events: Events
    _channels: Collection[str]

    def transaction_of(self, given: Any) -> TimerStore | None:
        """A wrapper of the caller's transaction."""
        raise NotImplementedError

    async def _look_whether_served(self, lanes: Iterable[str], transaction: Any = None) -> None:
        raise NotImplementedError

    async def at(
        self,
        due: datetime,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once at an instant. With a *key*, a second call moves the first event, unless it has started. A key that
        has fired stays fired: with the same due time, the call returns the event; with another one, it raises
        AlreadyFired, unless *once* is False."""
        return required_fresh(await self.put(due, type, payload, transaction=transaction, **options))

    async def after(
        self,
        delay: timedelta | float | str,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once, after a delay from the store's current time: a timedelta, a number of seconds, or text such as
        ``1h``. The options are those of ``at``.

        Each call is due at another time. So if its *key* has fired, it always raises AlreadyFired, unless *once* is
        False: where calls are repeated, use ``put``, or ``at`` with a time that belongs to the command.
        """
        due: Any = read_delay(delay)  # or the problem with it, which is told together with all others
        return required_fresh(await self.put(due, type, payload, transaction=transaction, **options))

    async def put(
        self,
        due: datetime | timedelta | float | str | None = None,
        type: str = "",
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Added:
        """Do the same as ``at``, given an instant, or as ``after``, given a delay; also return whether the event was
        created, moved or left unchanged, or whether its *key* had already fired.

        With *quiet* instead of a due time, it is due so long after the last call with its *key*, at most *max_wait*
        after the first one: ``put(type="index", key="doc-7", quiet="1m", max_wait="10m")``.
        """
        timer = Timer(read_due(due), type, payload, **options)
        added = await put_timer(self.transaction_of(transaction) or self.store, timer, self._channels)
        await self._look_whether_served([added.event.lane], transaction)
        return added

    async def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        """Schedule many timers: all of them or, if one is invalid, none. Returns the ids, in order."""
        timers = list(timers)
        ids = await add_timers(self.store, timers, self._channels, self.transaction_of(transaction))
        await self._look_whether_served({lane_of(timer.type, timer.target) for timer in timers}, transaction)
        return ids

    async def cancel(
        self,
        id: str,
        *,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> CancelResult:
        """Cancel an event, by its id or key: ``cancelled``, ``running`` (it was asked to stop), ``fired`` or
        ``nothing``. Does the same as ``events.cancel``."""
        return await self.events.cancel(id, tenant=tenant, transaction=transaction, by=by, reason=reason)
