"""Events out: on time, in the words of their tenants, and published before they are settled."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import Status
from duly.channels.brokers.nats_streams import FOR_EVENTS
from duly.signals import Completed
from tests.brokers import NatsServer
from tests.conftest import AnyStore
from tests.timers.conftest import Serve, Served, consuming
from tests.timers.desk import Desk, command, in_seconds
from tests.worker.running_worker import Watched, until


async def test_fifty_due_timers_of_two_tenants_keep_their_own_names(desk: Desk, serve: Serve) -> None:
    due = in_seconds(0.5)
    keys = [f"s{number}" for number in range(25)]
    async with serve():
        await desk.send(
            *(
                command(key, due, tenant=tenant, correlationId=f"{tenant}-{key}")
                for key in keys
                for tenant in ("a", "b")
            )
        )
        events = await desk.events(50)
    assert len(events) == len({event["id"] for event in events}) == 50
    told = {(event["tenantId"], event["payload"]["tenantId"], event["payload"]["serviceCallId"]) for event in events}
    assert told == {(tenant, tenant, key) for key in keys for tenant in ("a", "b")}
    assert all(event["correlationId"] == f"{event['tenantId']}-{event['payload']['serviceCallId']}" for event in events)


async def test_an_event_is_in_the_stream_before_its_row_is_settled(desk: Desk, serve: Serve) -> None:
    watched: list[Watched] = []

    def hold(served: Served) -> None:
        watched.append(Watched(served.duly))
        watched[0].may_settle.clear()

    async with serve(hold) as served:
        await desk.send(command("s1"))
        [event] = await desk.events(1)
        row = await served.duly.store.get(event["id"])
        assert row is not None
        assert row.status is Status.PROCESSING
        assert not served.told.of(Completed)
        watched[0].may_settle.set()
        await until(lambda: served.told.of(Completed), "it is settled")


async def test_an_event_that_is_published_again_is_in_the_stream_once(desk: Desk, serve: Serve) -> None:
    """As after a crash between publishing and settling."""
    async with serve() as served:
        await desk.send(command("s1"))
        await until(lambda: served.told.of(Completed), "it is settled")
        [done] = served.told.of(Completed)
        for _ in range(3):
            await served.service._broker.channel.deliver(done.event)
        assert len(await desk.events()) == 1
        assert [one.seq for one in await desk.stored(FOR_EVENTS)] == [1]


# -- on time


class Deaf:
    """The store, whose wake-ups nobody hears: who waits for them waits until the test says that the time is over."""

    def __init__(self, served: Served) -> None:
        self._store: AnyStore = served.duly.store
        served.duly.store = self  # type: ignore[assignment]
        self._waker: Any = None
        self.waits: list[float] = []
        self.time_is_over = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def listen(self, lanes: Sequence[str]) -> AsyncIterator[Any]:
        async with self._store.listen(lanes) as self._waker:
            yield self

    async def wait(self, timeout: float) -> None:
        self.waits.append(timeout)
        if self.time_is_over.is_set():
            await self._waker.wait(timeout)
        else:
            await self.time_is_over.wait()

    def wake(self) -> None:
        self._waker.wake()


def late(event: dict[str, Any], due: datetime) -> float:
    return (datetime.fromisoformat(event["payload"]["reachedAt"]) - due).total_seconds()


async def test_a_timer_between_two_polls_fires_on_time(desk: Desk, serve: Serve) -> None:
    """The worker sleeps for a minute when the command comes, and is woken."""
    async with serve(polling_interval=timedelta(minutes=1)):
        await consuming(desk)
        await asyncio.sleep(0.3)  # it has gone to sleep
        due = in_seconds(0.7)
        await desk.send(command("s1", due))
        [event] = await desk.events(1)
        assert 0 <= late(event, due) < 30


async def test_a_timer_without_the_wake_up_fires_at_the_next_poll(desk: Desk, serve: Serve) -> None:
    poll = timedelta(seconds=1.5)
    deaf: list[Deaf] = []
    async with serve(lambda served: deaf.append(Deaf(served)), polling_interval=poll):
        await consuming(desk)
        await until(lambda: deaf[0].waits, "the worker has gone to sleep")
        await desk.send(command("s1", in_seconds(0.1)))
        await until(desk.nothing_is_left, "it is stored")
        await asyncio.sleep(0.5)  # it is due
        assert await desk.events() == [], "nobody was there to wake it"
        assert deaf[0].waits == [poll.total_seconds()]
        deaf[0].time_is_over.set()
        await desk.events(1)


class Oblivious(Deaf):
    """Nor does the worker know when the next timer is due: it sleeps from poll to poll."""

    def __init__(self, served: Served, poll: timedelta) -> None:
        super().__init__(served)
        self._poll = poll.total_seconds()
        self.first: datetime | None = None

    async def wait(self, _timeout: float) -> None:
        self.first = self.first or in_seconds(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll):
                await self.time_is_over.wait()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # for it takes as long as it says
async def test_a_timer_due_between_two_real_polls_waits_for_the_second_only_without_the_wake_up(
    desk: Desk, serve: Serve, tmp_path: Path
) -> None:
    """At 0, 5 and 10 s is a poll, and at 7 s a timer is due; in two services that know nothing of each other."""
    poll, between = timedelta(seconds=5), timedelta(seconds=7)
    oblivious: list[Oblivious] = []
    with NatsServer() as server:
        elsewhere = {"broker_url": server.url, "database_url": f"sqlite:///{tmp_path}/elsewhere.db"}
        async with (
            Desk(server.url) as other,
            serve(polling_interval=poll),
            serve(lambda served: oblivious.append(Oblivious(served, poll)), polling_interval=poll, **elsewhere),
        ):
            await consuming(desk)
            due = await until(lambda: oblivious[0].first, "the first poll") + between
            await asyncio.gather(*(one.send(command("s1", due)) for one in (desk, other)))
            [woken], [polled] = await desk.events(1), await other.events(1)
            oblivious[0].time_is_over.set()
    on_time, lost = late(woken, due), late(polled, due)
    assert 0 <= on_time < 2.9, "well before the poll at 10 s"
    assert 2.9 <= lost < 8, "at that poll, and not at the one after it"


@pytest.mark.timeout(180)
async def test_events_come_within_milliseconds_of_their_instants(
    desk: Desk, serve: Serve, url: str, record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many, is for people to read: a machine that is busy with other tests must not fail this one."""
    many, every = 200, 0.01
    async with serve(polling_interval=timedelta(minutes=1)):
        heard = await desk.listen()
        await consuming(desk)
        first = in_seconds(1)
        dues = {f"s{number}": first + number * timedelta(seconds=every) for number in range(many)}
        await desk.send(*(command(key, due) for key, due in dues.items()))
        await until(lambda: len(heard.at) == many, "all are published")
    lateness = sorted((heard.at[key] - due).total_seconds() * 1000 for key, due in dues.items())
    p50, p99 = lateness[many // 2], lateness[many * 99 // 100]
    record_property("p99_ms", p99)
    with capsys.disabled():
        store = url.partition(":")[0]
        print(f"\n{store}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {lateness[-1]:.1f} ms after due")
    assert lateness[0] >= 0, "none is early"
    assert p99 < 30_000, "they waited for the next poll"


async def test_a_timer_reserved_ahead_never_fires_early(
    desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_LOOKAHEAD", "500ms")
    async with serve():
        heard = await desk.listen()
        await consuming(desk)
        dues = {f"s{number}": in_seconds(0.8 + number / 50) for number in range(20)}
        await desk.send(*(command(key, due) for key, due in dues.items()))
        await until(lambda: len(heard.at) == len(dues), "all are published")
    assert all(heard.at[key] >= due for key, due in dues.items())


async def test_timers_due_while_no_service_ran_fire_oldest_first_when_one_starts(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await desk.send(*(command(f"s{number}", in_seconds(1 + number / 100)) for number in range(30)))
        await until(desk.nothing_is_left, "all are stored")
        await served.stop()
    await asyncio.sleep(1.3)
    async with serve():
        events = await desk.events(30)
    assert [event["payload"]["serviceCallId"] for event in events] == [f"s{number}" for number in range(30)]


async def test_a_service_that_stops_lets_another_one_go_on_at_once(
    desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came and was not stored is given back, and does not wait until its time is over."""
    monkeypatch.setattr("duly.channels.brokers.nats_commands.ACKNOWLEDGED_WITHIN", timedelta(minutes=5))
    async with serve() as first:
        await consuming(desk)
        await desk.send(*(command(f"s{number}", in_seconds(3600)) for number in range(3000)))
        await first.stop()
    async with serve() as served:
        await until(desk.nothing_is_left, "all are acknowledged")
        [(_, _, count, _)] = await served.duly.store.overview()
        assert count == 3000


@pytest.mark.timeout(180)
async def test_several_services_share_one_database(desk: Desk, serve: Serve) -> None:
    async with serve() as one, serve() as two:
        await desk.send(*(command(f"s{number}", in_seconds(1)) for number in range(500)))
        events = await desk.events(500)
        await until(lambda: len(one.told.of(Completed)) + len(two.told.of(Completed)) == 500, "all are settled")
    assert len({event["id"] for event in events}) == len(events) == 500
    assert len(await desk.events()) == 500
