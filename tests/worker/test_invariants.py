"""What is true after every commit is true at every moment: two workers are busy, people do to schedules and events all
that they may, and somebody looks at the rows all the while."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from duly import Conflict, Delivered, Duly, Event, Failed, Invalid, NotFound, Rejected, StoreUnavailable, every, webhook
from duly.records.event import Outcome
from tests.worker.running_worker import working

ACTS = 120  # of each of those who act
ACTORS = 3
LIMITED: dict[str, dict[str, Any]] = {
    "l1": {"overlap": "queue"},
    "l2": {"overlap": "skip"},
    "l3": {"max_concurrent": 2},
}
NAMES = (*LIMITED, "u1", "u2")
TARGETS = ("shop", "https://a.example", "https://a.example/in")
SECRET = "a key of at least thirty-two characters"


class Moody:
    """A destination that is down half of the time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def deliver(self, _event: Event) -> Outcome:
        await asyncio.sleep(self._chance.random() / 50)
        return self._chance.choice((Delivered(), Delivered(), Failed("503", outage=True), Rejected("no")))


def busy(url: str, chance: random.Random) -> Duly:
    app = Duly(
        url, concurrency=8, lease="2s", poll_interval="200ms", secret_key=SECRET, channels={"webhook": Moody(chance)}
    )

    @app.on("work")
    async def work(_event: Event) -> None:
        await asyncio.sleep(chance.random() / 10)
        if chance.random() < 0.2:
            raise RuntimeError("not today")

    return app


class Actor:
    """Does one thing after another, by chance. What is refused is refused."""

    def __init__(self, app: Duly, chance: random.Random) -> None:
        self._app, self._chance = app, chance
        self._acts: tuple[Callable[[], Awaitable[Any]], ...] = (
            self.put, self.put, self.pause, self.resume, self.trigger, self.skip, self.move, self.delete, self.backfill,
            self.end_one, self.move_one, self.time, self.park,
        )  # fmt: skip

    async def act(self) -> None:
        for _ in range(ACTS):
            # Invalid: a new schedule that is over at once. StoreUnavailable: a deadlock, or a file that is locked.
            with suppress(Conflict, Invalid, NotFound, StoreUnavailable):
                await self._chance.choice(self._acts)()
            await asyncio.sleep(self._chance.random() / 100)

    @property
    def name(self) -> str:
        return self._chance.choice(NAMES)

    def soon(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._chance.uniform(-1, 1))

    async def put(self) -> None:
        name = self.name
        others: tuple[dict[str, Any], ...] = ({}, {"end": self.soon()}, {"misfire": "skip"})
        policies = LIMITED.get(name, {}) | self._chance.choice(others)
        if name == "l3":
            policies |= {"max_concurrent": self._chance.randint(1, 3)}
        target = self._chance.choice((None, None, webhook("https://a.example/in"), webhook(target="shop")))
        enabled = self._chance.choice((None, True, False))
        await self._app.schedules.put(name, every("1s"), "work", target=target, enabled=enabled, **policies)

    async def pause(self) -> None:
        await self._app.schedules.pause(self.name)

    async def resume(self) -> None:
        await self._app.schedules.resume(self.name, passed=self._chance.choice(("skip", "fire")))

    async def trigger(self) -> None:
        await self._app.schedules.trigger(self.name)

    async def skip(self) -> None:
        await self._app.schedules.skip(self.name)

    async def move(self) -> None:
        await self._app.schedules.reschedule(self.name, self.soon())

    async def delete(self) -> None:
        if self._chance.random() < 0.2:
            await self._app.schedules.delete(self.name)

    async def backfill(self) -> None:
        now = datetime.now(UTC)
        await self._app.schedules.backfill(self.name, now - timedelta(seconds=2), now - timedelta(milliseconds=1))

    async def end_one(self) -> None:
        events = self._app.events
        await self._chance.choice((events.cancel, events.replay, events.discard))(await self.one())

    async def move_one(self) -> None:
        await self._app.events.reschedule(await self.one(), self.soon())

    async def one(self) -> str:
        events = await self._app.events.find(limit=30)
        return self._chance.choice(events).id if events else "00000000-0000-0000-0000-000000000000"

    async def time(self) -> None:
        await self._app.after(timedelta(seconds=self._chance.random()), "work", key=f"k{self._chance.randrange(9)}")

    async def park(self) -> None:
        targets = self._app.targets
        await self._chance.choice((targets.enable, targets.disable, targets.probe))(self._chance.choice(TARGETS))


async def test_no_sequence_of_acts_violates_an_invariant(url: str) -> None:
    chance = random.Random(1)
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(busy(url, chance)) for _ in range(2)]
        await apps[0].targets.put("shop", "https://shop.example/in")
        looking = await stack.enter_async_context(Duly(url))
        found: list[str] = []
        async with working(apps[0]), working(apps[1]), asyncio.TaskGroup() as group:
            acting = [group.create_task(Actor(apps[n % 2], chance).act()) for n in range(ACTORS)]
            while not all(task.done() for task in acting):
                found += [str(one) for one in (await looking.store.invariants()).violations]
                await asyncio.sleep(0.005)
        assert not found, "\n".join(dict.fromkeys(found))
