"""Whatever keeps an event waiting, one cause at a time is named, and without the named causes it fires."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import Delivered, Duly, Event, InStatus, Status, every, webhook
from duly.decide.lifecycle import judge
from duly.engine.presence.beat import row_of
from duly.engine.settle import settle
from duly.records.event import Failed, Outcome, Settlement
from duly.signals import Signals
from duly.testing import ManualClock
from tests.claiming import claimed_by_a_worker
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE, START, completed

LANE = "webhook"
URL = "https://hooks.example/duly"
PLACE = "https://hooks.example"
OTHER = "https://other.example/duly"
DAY = timedelta(days=1)

OWN = ("due", "due later", "retried", "claimed", "paused", "queued")
"""What the event's own row may say."""

AROUND = ("unserved", "down", "parked", "concurrency", "rate", "others")
"""What may be around it."""

KINDS = {
    "due later": "scheduled", "retried": "retrying", "claimed": "running", "paused": "held", "queued": "limit",
    "unserved": "unserved", "down": "down", "parked": "parked", "concurrency": "limit", "rate": "limit",
    "others": "waiting",
}  # fmt: skip


class Sent:
    """A channel that takes everything."""

    async def deliver(self, event: Event) -> Outcome:
        return Delivered()


class Waiting:
    """An event, and what keeps it waiting."""

    def __init__(self, app: Duly, clock: ManualClock, own: str, around: set[str]) -> None:
        if own == "claimed":  # an interrupted event is delivered alone, before all others and beyond limits
            around = around - {"concurrency", "rate", "others"}
        self.app, self.clock, self.left = app, clock, {own, *around} - {"due"}
        self.own = own

    async def begin(self) -> None:
        app, store = self.app, self.app.store
        if self.own == "paused":
            await app.every("hourly", every("1h", start=START), "x", target=webhook(URL))
            [self.event] = await app.events.find()
            await app.schedules.pause("hourly")
        elif self.own == "queued":
            await app.every("hourly", every("1h", start=START), "x", target=webhook(URL), overlap="queue")
            self.clock.advance(HOUR)
            [self.before] = await claimed_by_a_worker(app, {LANE: 1})
            self.clock.advance(HOUR)
            assert await claimed_by_a_worker(app, {LANE: 1}) == []
            [self.event] = await app.events.find(InStatus("PENDING"))
        else:
            self.event = await app.at(START + HOUR if self.own == "due later" else START, "x", target=webhook(URL))
        if self.own in ("retried", "claimed"):
            [claimed] = await store.claim_these("gone", [self.event.id], [LANE], 1, MINUTE)
            if self.own == "retried":
                verdict = judge(Failed("503"), claimed, 1.0)
                await store.settle([Settlement(claimed, verdict)], "gone")
        if "concurrency" in self.left:
            running = await app.at(START, "x", target=webhook(URL))
            await store.claim_these("busy", [running.id], [LANE], 1, DAY)
        if {"concurrency", "rate"} & self.left:
            await self.limit()
        if "rate" in self.left:
            await store.allow([("default", PLACE, 1)])
        if "others" in self.left:
            self.others = [await app.at(START - MINUTE, "x", target=webhook(OTHER)) for _ in range(3)]
        if "parked" in self.left:
            await app.targets.disable(PLACE)
        await self.beat()

    async def beat(self) -> None:
        """What workers tell of themselves."""
        if "unserved" not in self.left:
            closed = '{"webhook":"no route"}' if "down" in self.left else "{}"
            row = row_of("ada", [LANE], self.app.settings, tick=False)
            await self.app.store.beat(msgspec.structs.replace(row, closed_json=closed), timedelta(), begins=True)

    async def limit(self) -> None:
        concurrency, rate = 1 if "concurrency" in self.left else None, "1/d" if "rate" in self.left else None
        await self.app.targets.limit(PLACE, concurrency=concurrency, rate=rate)

    async def removed(self, kind: str) -> None:
        """Removes a cause of this kind, which must be there."""
        cause = next((one for one in (*OWN, *AROUND) if one in self.left and KINDS[one] == kind), None)
        assert cause is not None, f"{kind} is named, and what there is: {self.left}"
        self.left.remove(cause)
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "paused": lambda: self.app.schedules.resume("hourly"),
            "parked": lambda: self.app.targets.enable(PLACE),
            "concurrency": self.limit,
            "rate": self.limit,
            "others": self.cancel_others,
            "queued": self.end_the_one_before,
        }
        if cause in acts:
            await acts[cause]()
        elif cause in OWN:
            event = await self.app.events.get(self.event.id)
            assert event.ready is not None
            self.clock.advance(event.ready - self.clock.now())
        if cause == "paused":
            self.left.add("due later")  # the schedule goes on with the next hour
        await self.beat()

    async def end_the_one_before(self) -> None:
        await settle(self.app.store, [completed(self.before)], "w1", Signals())

    async def cancel_others(self) -> None:
        for other in self.others:
            await self.app.events.cancel(other.id)

    async def fires(self) -> None:
        """Asks why it waits, and removes what is named, until nothing is left; then it fires."""
        for _ in range(len(KINDS)):
            why = await self.app.events.why(self.event.id)
            discreet = await self.app.events.why_told(self.event.id, tenant="default", discreet=True)
            assert discreet.kind == why.kind
            assert not [word for word in ("ada", "gone", "3 other", "no route") if word in discreet.message]
            if not self.left:
                assert why.kind == ("interrupted" if self.own == "claimed" else "waiting"), why
                break
            assert (await self.app.events.get(self.event.id)).status is not Status.COMPLETED
            await self.removed(why.kind)
        assert not self.left
        await self.app.tick()
        assert (await self.app.events.get(self.event.id)).status is Status.COMPLETED


@given(own=st.sampled_from(OWN), around=st.sets(st.sampled_from(AROUND)))
@settings(max_examples=60)
def test_without_the_causes_that_are_named_one_after_the_other_an_event_fires(own: str, around: set[str]) -> None:
    async def example() -> None:
        clock = ManualClock()
        async with Duly("sqlite://", clock=clock, channels={LANE: Sent()}) as app:
            waiting = Waiting(app, clock, own, around)
            await waiting.begin()
            await waiting.fires()

    asyncio.run(example())


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("around", AROUND)
async def test_each_pair_of_causes_is_named_on_both_stores(
    duly: OpenDuly, clock: ManualClock, own: str, around: str
) -> None:
    waiting = Waiting(await duly(channels={LANE: Sent()}), clock, own, {around})
    await waiting.begin()
    await waiting.fires()
