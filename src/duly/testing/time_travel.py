"""Time that a test moves. What becomes due on the way fires at its instant, in order."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from duly.duly import Duly
from duly.errors import Misuse, Problem
from duly.ports import Route
from duly.records.event import Event
from duly.sync import Sync
from duly.testing.clock import ManualClock
from duly.testing.firings import SHOWN, recording
from duly.values.instants import read_delay

Follow = Callable[[datetime], Any]
"""Another clock that is to show the same time."""


def travel(duly: Duly, start: datetime | None = None, *, follow: Follow | None = None) -> "Travel":
    """The time of a Duly whose clock the test moves: ``async with travel(duly) as time: await time.by(days=3)``; for
    ``duly.sync``, ``with travel(duly) as time: time.by(days=3)``. It opens the Duly if that is closed. *start* sets the
    clock; *follow* is called with each instant that it moves to, such as ``traveller.move_to`` of time-machine."""
    return Travel(duly, start, follow)


class Travel:
    """The time of an open Duly, moved by the test."""

    def __init__(self, duly: Duly, start: datetime | None, follow: Follow | None) -> None:
        clock = duly.store.clock
        if not isinstance(clock, ManualClock):
            raise Misuse(
                "this Duly has the clock of its database, whose events would fire before their time: take the fixture "
                "`duly`, `with rebound(duly):`, or Duly('sqlite://', clock=ManualClock())"
            )
        self._duly, self._clock, self._follow = duly, clock, follow
        self._start = clock.now() if start is None else _aware(start)
        self._opened, self._worker, self._opened_by_sync = AsyncExitStack(), AsyncExitStack(), ExitStack()
        self._routes: Mapping[str, Route] = {}

    def now(self) -> datetime:
        return self._clock.now()

    async def to(self, instant: datetime) -> list[Event]:
        """Moves time to an instant, and fires what becomes due until then, each event at its instant. Returns the
        events that were completed, in order."""
        if _aware(instant) < self.now():
            raise Misuse(f"time cannot go back from {self.now():%Y-%m-%d %H:%M:%S} UTC to {instant.isoformat()}")
        await self._serve_new_handlers()
        before = len(self._record.firings)
        while (ready := await self._run(self.now())) is not None and ready < instant:
            self._move(ready)
        self._move(instant)
        await self._run(instant)
        await self._look()
        return self._record.completed_since(before)

    async def by(self, span: timedelta | float | str | None = None, **units: float) -> list[Event]:
        """The same for a duration: a timedelta, a number of seconds, text such as ``3d``, or ``days=3``."""
        try:
            delay = timedelta(**units) if span is None else read_delay(span)
            if isinstance(delay, Problem):
                raise Misuse(f"time.by(): {delay.message}")
            until = self.now() + delay
        except OverflowError:
            raise Misuse("time.by(): the calendar ends before then: give a shorter time") from None
        return await self.to(until)

    async def __aenter__(self) -> Self:
        self._move(self._start)
        await self._opened.enter_async_context(self._duly)
        self._record = self._opened.enter_context(recording(self._duly))
        try:
            await self._serve_new_handlers()
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._worker.aclose()
        finally:
            await self._opened.aclose()

    def __enter__(self) -> "SyncTravel":
        if asyncio._get_running_loop() is not None:
            raise Misuse("an event loop runs here: use `async with travel(duly)`")
        sync = self._opened_by_sync.enter_context(self._duly.sync)
        try:
            sync.wait_for(self.__aenter__())
        except BaseException:
            self._opened_by_sync.close()
            raise
        return SyncTravel(self, sync)

    def __exit__(self, *_: object) -> None:
        with self._opened_by_sync:
            self._duly.sync.wait_for(self.__aexit__())

    # -- internal

    async def _serve_new_handlers(self) -> None:
        """Begins a worker, or another one if handlers were registered since."""
        routes = self._duly.routes()
        if routes != self._routes:
            await self._worker.aclose()
            self._run = await self._worker.enter_async_context(self._duly.by_hand())
            self._routes = routes

    def _move(self, instant: datetime) -> None:
        self._clock.set(instant)
        if self._follow is not None:
            self._follow(self._clock.now())

    async def _look(self) -> None:
        """Notes what waits, for the messages of failed assertions."""
        self._record.now, self._record.waiting = self.now(), await self._duly.events.find(limit=SHOWN, sort="due")


class SyncTravel:
    """The time of a Duly, for tests without an event loop. Its calls block."""

    def __init__(self, travel: Travel, sync: Sync) -> None:
        self._travel, self._sync = travel, sync

    def now(self) -> datetime:
        return self._travel.now()

    def to(self, instant: datetime) -> list[Event]:
        """See ``Travel.to``."""
        return self._sync.wait_for(self._travel.to(instant))

    def by(self, span: timedelta | float | str | None = None, **units: float) -> list[Event]:
        """See ``Travel.by``."""
        return self._sync.wait_for(self._travel.by(span, **units))


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise Misuse(f"{instant.isoformat()} has no time zone: give an aware datetime, such as one with tzinfo=UTC")
    return instant.astimezone(UTC)
