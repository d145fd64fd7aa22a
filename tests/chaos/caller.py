"""A process that asks Duly for things, all the time, and journals what it asks and what it is told.

What was asked and not answered, because the process was killed or the store was away, may have happened or not.
"""

import asyncio
import itertools
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import asyncpg

from duly import Duly, Retry, Timer, webhook
from duly.errors import Conflict, NotFound, StoreUnavailable
from tests.chaos.orders import Orders, begin, tell_tasks_on_signal
from tests.chaos.worker import HOOK, PLAIN, SLOW, THREADED, TRANSACTIONAL
from tests.crash.killed_worker import Journal

AT_ONCE = 3
"""How many call at the same time, each about timers of its own."""

PACE_SECONDS = 0.15
"""The mean time between two calls of each."""

REST_SECONDS = 0.2
"""After one that found the store away."""

REMEMBERED = 30
"""How many of its latest timers a caller moves and cancels."""

OFTEN = Retry(max_attempts=50, base=timedelta(milliseconds=500), max=timedelta(seconds=2))
TIMEOUT = "5s"  # of one webhook

TRIGGERED, PAUSED, SKIPPED = "latest-plain", "paused", "skipped"
"""Schedules that callers handle."""

WISH = {"sqlite": "INSERT INTO wishes VALUES (?)", "postgresql": "INSERT INTO wishes VALUES ($1)"}

OF_THE_DRIVERS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, apsw.Error)
"""What statements of one's own raise in a transaction when the database goes away: Duly passes it on as it is."""

Answer = dict[str, Any]


def target_of(type: str, receiver: str) -> dict[str, Any] | None:
    return webhook(receiver, timeout=TIMEOUT) if type == HOOK else None


class Caller:
    def __init__(self, duly: Duly, orders: Orders, journal: Journal, name: str) -> None:
        self._duly, self._orders, self._journal, self._name = duly, orders, journal, name
        self._luck = random.Random(f"{orders.seed} {name}")
        self._numbers = itertools.count(1)
        self._timers: list[tuple[str | None, str]] = []  # key and id
        self._often: dict[Callable[[str], Awaitable[Answer]], float] = {
            self.add: 5,
            self.put: 5,
            self.move: 3,
            self.cancel: 3,
            self.reschedule: 2,
            self.add_with_own_row: 2,
            self.trigger: 1,
            self.pause: 0.5,
            self.resume: 1,
            self.skip: 0.5,
        }

    async def call_until(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            [verb] = self._luck.choices(list(self._often), list(self._often.values()))
            outcome = await self._ask(verb)
            await asyncio.sleep(REST_SECONDS if outcome == "unknown" else self._luck.expovariate(1 / PACE_SECONDS))

    async def _ask(self, verb: Callable[[str], Awaitable[Answer]]) -> str:
        name: str = getattr(verb, "__name__", "")
        call = f"{self._name}-{next(self._numbers)}"
        answer: Answer
        try:
            outcome, answer = "done", await verb(call)
        except StoreUnavailable as error:
            outcome, answer = "unknown", {"error": str(error)}
        except (Conflict, NotFound) as error:
            outcome, answer = "refused", {"error": str(error)}
        except OF_THE_DRIVERS as error:
            own = verb == self.add_with_own_row
            outcome, answer = "unknown" if own else "surprised", {"error": repr(error)}
        except Exception as error:
            outcome, answer = "surprised", {"error": repr(error)}
        if "error" in answer:
            answer["error"] = answer["error"][:200]
        self._journal.write("answered", call=call, verb=name, outcome=outcome, **answer)
        return outcome

    def _asking(self, call: str, **facts: Any) -> None:
        self._journal.write("asked", call=call, **facts)

    def _type(self) -> str:
        kinds = {PLAIN: 10, THREADED: 6, TRANSACTIONAL: 10, HOOK: 10, SLOW: 0.1}
        return self._luck.choices(list(kinds), list(kinds.values()))[0]

    def _delay(self, least: float, most: float) -> timedelta:
        return timedelta(seconds=self._luck.uniform(least, most))

    async def add(self, call: str) -> Answer:
        """Some timers without keys."""
        timers = []
        for number in range(self._luck.randint(1, 4)):
            type = self._type()
            target = target_of(type, self._orders.receiver)
            due = self._delay(0, 3)
            timers.append(Timer(due, type, number, target=target, retry=OFTEN, correlation_id=call))
        self._asking(call, many=len(timers))
        ids = await self._duly.add_many(timers)
        self._remember((None, ids[-1]))
        return {"ids": ids}

    async def put(self, call: str) -> Answer:
        """A timer with a key of its own."""
        self._asking(call, key=call, many=1)
        return await self._put(call, call, self._delay(0.5, 5))

    async def move(self, call: str) -> Answer:
        key, _ = self._pick(lambda timer: timer[0] is not None)
        due = datetime.now(UTC) + self._delay(0.2, 5)
        self._asking(call, key=key, due=due.timestamp(), many=1)
        return await self._put(call, key or "", due)

    async def _put(self, call: str, key: str, due: timedelta | datetime) -> Answer:
        type = self._type()
        target = target_of(type, self._orders.receiver)
        added = await self._duly.put(due, type, 0, key=key, target=target, retry=OFTEN, correlation_id=call)
        self._remember((key, added.event.id))
        return {"ids": [added.event.id], "change": added.change, "due": added.event.due.timestamp()}

    async def cancel(self, call: str) -> Answer:
        _, id = self._pick()
        self._asking(call, event=id)
        cancelled = await self._duly.events.cancel(id, by=call)
        return {"event": id, "change": str(cancelled)}

    async def reschedule(self, call: str) -> Answer:
        _, id = self._pick()
        due = datetime.now(UTC) + self._delay(0.2, 4)
        self._asking(call, event=id, due=due.timestamp())
        moved = await self._duly.events.reschedule(id, due, by=call)
        return {"event": id, "change": "moved", "due": moved.due.timestamp()}

    async def add_with_own_row(self, call: str) -> Answer:
        """A timer and a row of the caller's own in one transaction."""
        self._asking(call, many=1, own_row=True)
        async with self._duly.transaction() as tx:
            await tx.execute(WISH[self._orders.dialect], call)
            event = await self._duly.after(
                self._delay(0, 3), TRANSACTIONAL, 0, retry=OFTEN, correlation_id=call, transaction=tx
            )
        return {"ids": [event.id]}

    async def trigger(self, call: str) -> Answer:
        self._asking(call, many=1)
        event = await self._duly.schedules.trigger(TRIGGERED, correlation_id=call)
        return {"ids": [event.id]}

    async def pause(self, call: str) -> Answer:
        self._asking(call)
        await self._duly.schedules.pause(PAUSED, by=call)
        return {}

    async def resume(self, call: str) -> Answer:
        self._asking(call)
        await self._duly.schedules.resume(PAUSED, passed="fire", by=call)
        return {}

    async def skip(self, call: str) -> Answer:
        self._asking(call)
        await self._duly.schedules.skip(SKIPPED, by=call)
        return {}

    def _remember(self, timer: tuple[str | None, str]) -> None:
        self._timers = [*self._timers[1 - REMEMBERED :], timer]

    def _pick(self, fits: Callable[[tuple[str | None, str]], bool] = lambda _: True) -> tuple[str | None, str]:
        if fitting := [timer for timer in self._timers if fits(timer)]:
            return self._luck.choice(fitting)
        raise NotFound("nothing was accepted yet")


async def call(orders: Orders, journal: Journal) -> None:
    tell_tasks_on_signal()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    duly = Duly(orders.url, migrate=False, **orders.options)
    callers = [Caller(duly, orders, journal, f"{orders.name}{letter}") for letter in "abcdef"[:AT_ONCE]]
    while not stopping.is_set():
        try:
            async with duly:
                journal.write("started")
                async with asyncio.TaskGroup() as group:
                    for caller in callers:
                        group.create_task(caller.call_until(stopping))
        except StoreUnavailable:
            await asyncio.sleep(REST_SECONDS)


def main(orders: Orders) -> None:
    journal = begin(orders)
    asyncio.run(call(orders, journal))
