import asyncio
from datetime import timedelta

from duly import Duly, Event, Status, Timer
from duly.decide.lifecycle import DELIVERED
from duly.records.event import Claim, Settlement
from duly.signals import Completed, Interrupted, Lost
from duly.testing import ManualClock
from tests.worker.running_worker import Told, until, working

LEASE = timedelta(seconds=30)


async def test_the_lease_of_a_long_handler_is_renewed(url: str) -> None:
    one, other = Duly(url, lease="6s", poll_interval="50ms"), Duly(url, lease="6s", poll_interval="50ms")
    told_one, told_other = Told(one), Told(other)
    runs: list[int] = []

    async def long(event: Event) -> None:
        runs.append(event.version)

        async def longer_than_its_lease() -> bool:
            return event.claimed is not None and await one.store.now() > event.claimed + timedelta(seconds=8)

        await until(longer_than_its_lease, "the handler has run for longer than its lease")

    one.on("long")(long)
    other.on("long")(long)
    async with one, other, working(one), working(other):
        event = await one.after(timedelta(), "long")
        await until(lambda: told_one.of(Completed) + told_other.of(Completed), "it is done")
        done = await one.events.get(event.id)
        assert [entry.act for entry in await one.events.history(event.id)] == ["delivered"]
    assert runs == [2], "it was delivered once, by its first claim"
    assert (done.status, done.version, done.interruptions) == (Status.COMPLETED, 2, 0)
    for told in (told_one, told_other):
        assert not told.of(Interrupted)
        assert not told.of(Lost)


async def test_a_worker_that_lost_its_lease_drops_its_verdict(url: str) -> None:
    """It stalls for longer than its lease, and somebody else delivers the event meanwhile."""
    stalled, other = Duly(url, lease="1s", store_timeout="950ms"), Duly(url, poll_interval="50ms")
    told_stalled, told_other = Told(stalled), Told(other)
    released = asyncio.Event()

    @stalled.on("task")
    async def stall(_event: Event) -> None:
        await released.wait()

    @other.on("task")
    async def task(_event: Event) -> None: ...

    async def never(*_: object) -> set[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with stalled, other:
        stalled.store.renew = never  # type: ignore[method-assign,assignment]
        async with working(stalled):
            event = await stalled.after(timedelta(), "task")
            await until(lambda: _processing(stalled, event.id), "it is under way")
            async with working(other):
                await until(lambda: told_other.of(Completed), "the other has delivered it")
            released.set()
            await until(lambda: told_stalled.of(Lost), "the stalled one hears that it lost the claim")
        done = await other.events.get(event.id)
        history = await other.events.history(event.id)
    assert (done.status, done.version) == (Status.COMPLETED, 3)
    assert [entry.act for entry in history] == ["interrupted", "delivered"]
    assert not told_stalled.of(Completed)


async def test_a_worker_that_claims_an_event_again_after_losing_it_runs_both_attempts_to_their_end(
    url: str, clock: ManualClock
) -> None:
    """Its handler goes on for longer than its lease, which cannot be renewed; and nobody else is there."""
    duly = Duly(url, clock=clock, lease="1s", poll_interval="50ms", concurrency=2)
    told, versions, may_end = Told(duly), list[int](), asyncio.Event()

    @duly.on("task")
    async def task(event: Event) -> None:
        versions.append(event.version)
        await may_end.wait()

    async def never(*_: object) -> set[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with duly:
        duly.store.renew = never  # type: ignore[method-assign,assignment]
        async with working(duly):
            event = await duly.after(timedelta(), "task")
            await until(lambda: versions == [2], "it is under way")
            clock.advance(hours=1)
            await until(lambda: versions == [2, 3], "it is under way twice")
            may_end.set()
            await until(lambda: len(told.of(Completed)) + len(told.of(Lost)) == 2, "both have ended")
            more = [await duly.after(timedelta(), "task") for _ in range(4)]
            await until(lambda: len(told.of(Completed)) == 5, "it has its places still")
        history = await duly.events.history(event.id)
    assert [signal.event.version for signal in told.of(Lost)] == [2]
    assert {signal.event.id for signal in told.of(Completed)} == {event.id, *(one.id for one in more)}
    assert [(entry.act, entry.version) for entry in history] == [("interrupted", 2), ("delivered", 3)]


async def test_renewals_and_settlements_of_the_same_events_do_not_deadlock(url: str) -> None:
    """A worker renews the leases of what it is settling; the two name their events in any order."""
    async with Duly(url) as duly:
        for _ in range(8):
            await duly.add_many(Timer(timedelta(), "task") for _ in range(300))
            events = await duly.store.claim("worker", {"handler:task": 300}, LEASE)
            kept, settled = await asyncio.gather(
                duly.store.renew([Claim(event.id, event.version) for event in events], LEASE),
                duly.store.settle([Settlement(event, DELIVERED) for event in reversed(events)], "worker"),
            )
            assert set(settled) == {event.id for event in events} >= kept


async def _processing(duly: Duly, id: str) -> bool:
    return (await duly.events.get(id)).status is Status.PROCESSING
