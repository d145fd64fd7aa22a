"""A stream of events that takes nothing, though one can connect to its server: told once, tried with one event at a
time, and up when something gets through."""

import contextlib
import logging

import pytest
from nats.js.api import DiscardPolicy, StreamConfig
from nats.js.errors import APIError

from duly import Status
from duly.channels.brokers import channel
from duly.channels.brokers.nats_streams import EVENTS
from duly.observers.logs import Line
from duly.signals import ChannelDown, ChannelUp, Claimed, Completed, DeadLettered, GivenBack, Retried
from duly.timer_service.messages import TIMER
from tests.brokers import NatsServer
from tests.timers.conftest import Serve, Served
from tests.timers.desk import Desk, command, in_seconds
from tests.worker.running_worker import until

MANY, TRIALS = 30, 4


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LONGEST", 0.2)


def lines(caplog: pytest.LogCaptureFixture, act: str) -> list[Line]:
    told = [record.msg for record in caplog.records if isinstance(record.msg, Line) and record.levelno >= logging.INFO]
    return [line for line in told if line.act == act and line.facts.get("channel") == TIMER]


async def tried_in_vain(served: Served) -> None:
    """It is down, and has been tried some times."""
    await until(lambda: served.told.of(ChannelDown), "it is down")
    many = len(served.told.of(GivenBack))
    await until(lambda: len(served.told.of(GivenBack)) >= many + TRIALS, "it is tried again")


def many_at_once(served: Served) -> int:
    """Of the last claims, how many were made at most before one of them came back."""
    most = under_way = 0
    told = [signal for signal in served.told.all if isinstance(signal, Claimed | GivenBack)]
    for signal in told[-2 * TRIALS :]:
        under_way += isinstance(signal, Claimed)
        under_way = max(0, under_way - isinstance(signal, GivenBack))
        most = max(most, under_way)
    return most


async def test_a_stream_that_is_full_is_one_outage_and_one_line(
    desk: Desk, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "duly")
    await desk.stream.add_stream(
        StreamConfig(
            name="TIMER_EVENTS", subjects=[EVENTS], max_msgs=1, discard=DiscardPolicy.NEW, duplicate_window=7200
        )
    )
    await desk.stream.publish(EVENTS, b"the one that it takes")
    async with serve() as served:
        await desk.send(*(command(f"s{number}") for number in range(MANY)))
        await tried_in_vain(served)
        await tried_in_vain(served)
        assert many_at_once(served) == 1
        assert len(lines(caplog, "channel.down")) == 1
        assert not lines(caplog, "channel.up")
        room = StreamConfig(name="TIMER_EVENTS", subjects=[EVENTS], max_msgs=1000, duplicate_window=7200)
        await desk.stream.update_stream(room)
        await until(lambda: len(served.told.of(Completed)) == MANY, "all are published")
        assert {event.status for event in await served.duly.events.find(limit=MANY)} == {Status.COMPLETED}
    assert (len(lines(caplog, "channel.down")), len(lines(caplog, "channel.up"))) == (1, 1)
    assert not served.told.of(Retried)


async def fill(desk: Desk, subject: str) -> None:
    """Until not even something small has room."""
    for size in (5000, 500, 10):
        with contextlib.suppress(APIError):
            while True:
                await desk.stream.publish(subject, b"x" * size)


async def test_an_account_that_is_full_makes_no_dead_letter(serve: Serve) -> None:
    account = "accounts { SHOP { users: [{ user: ada, password: x }], jetstream: { max_disk: 30000 } } }"
    with NatsServer(more=account) as server:
        url = server.url.replace("://", "://ada:x@")
        async with Desk(url) as desk, serve(broker_url=url) as served:
            await desk.send(*(command(f"s{number}", in_seconds(3)) for number in range(MANY)))
            await until(desk.nothing_is_left, "they are stored")
            await desk.stream.add_stream(StreamConfig(name="OTHERS", subjects=["others"]))
            await fill(desk, "others")
            await tried_in_vain(served)
            await desk.stream.delete_stream("OTHERS")
            await until(lambda: len(served.told.of(Completed)) == MANY, "all are published")
            assert not served.told.of(Retried)


async def test_a_user_who_may_not_publish_events_is_told_once(serve: Serve) -> None:
    denied = 'permissions: { publish: { deny: "timer.events" } }'
    users = f"[{{ user: ada, password: x, {denied} }}, {{ user: desk, password: x }}]"
    with NatsServer(more=f"authorization {{ users: {users} }}") as server:
        async with (
            Desk(server.url.replace("://", "://desk:x@")) as desk,
            serve(broker_url=server.url.replace("://", "://ada:x@")) as served,
        ):
            await desk.send(*(command(f"s{number}") for number in range(MANY)))
            await tried_in_vain(served)
            [down] = [signal for signal in served.told.of(ChannelDown) if signal.channel == TIMER]
            assert 'permissions violation for publish to "timer.events"' in down.reason.lower()
            assert not served.told.of(ChannelUp)
            assert not served.told.of(DeadLettered)
