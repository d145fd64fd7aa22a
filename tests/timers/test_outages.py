"""What is down keeps nothing else from working, costs no attempt, and is told of once."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import DiscardPolicy, StreamConfig

from duly import Event, Status
from duly.channels.brokers import channel, nats_commands, nats_streams
from duly.channels.brokers.nats_commands import NatsCommands
from duly.channels.brokers.nats_streams import EVENTS, FOR_EVENTS
from duly.observers.logs import Line, observe_with_logs
from duly.signals import ChannelDown, ChannelUp, CommandsTaken, Completed, GivenBack, Retried, StoreDown
from duly.stores.sqlite.store import SqliteStore
from duly.timer_service import service
from tests.brokers import NatsServer
from tests.servers import Postgres
from tests.timers.conftest import Serve, Served, consuming, outage
from tests.timers.desk import Desk, command, in_seconds
from tests.worker.running_worker import until

LATER = 3600


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds between tries to connect would be for people to wait for."""
    monkeypatch.setattr(channel, "LONGEST", 0.3)


async def rows(served: Served) -> list[Event]:
    found: list[Event] = await served.duly.events.find(limit=1000)
    return sorted(found, key=lambda event: event.due)


async def stored(served: Served, many: int) -> list[Event]:
    async def all_of_them() -> list[Event]:
        found = await rows(served) if served.has_started else []
        return found if len(found) == many else []

    found: list[Event] = await until(all_of_them, f"{many} timers are stored")
    return found


async def past(instant: datetime) -> None:
    await asyncio.sleep(max(0.0, (instant - datetime.now(UTC)).total_seconds()))


def lines(caplog: pytest.LogCaptureFixture, act: str, level: int = logging.INFO) -> list[Line]:
    told = [record for record in caplog.records if record.levelno >= level and isinstance(record.msg, Line)]
    return [record.msg for record in told if isinstance(record.msg, Line) and record.msg.act == act]


# -- the broker


async def test_a_broker_that_is_down_costs_no_attempt_and_one_line_and_all_is_caught_up_in_order(
    server: NatsServer, desk: Desk, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "duly")
    many = 150
    async with serve() as served:
        await consuming(desk)
        first = in_seconds(5)
        dues = [first + timedelta(milliseconds=number) for number in range(many)]
        await desk.send(*(command(f"s{number:03}", due) for number, due in enumerate(dues)))
        await stored(served, many)
        async with outage(server):
            await until(lambda: len(served.told.of(ChannelDown)) == 2, "both connections are known to be lost")
            await past(dues[-1] + timedelta(seconds=0.5))  # all are due, and would be tried again and again
            waiting = await rows(served)
            assert {event.status for event in waiting} == {Status.PENDING}
            assert {event.attempts for event in waiting} == {0}
        events = await desk.events(many)
        await until(lambda: len(served.told.of(Completed)) == many, "all are settled")
        await until(lambda: len(served.told.of(ChannelUp)) == 2, "both connections are back")
    assert [event["payload"]["serviceCallId"] for event in events] == [f"s{number:03}" for number in range(many)]
    assert {event.attempts for event in waiting} == {0}
    assert [line.facts["channel"] for line in lines(caplog, "channel.down")].count("timer") == 1
    assert sorted(line.facts["channel"] for line in lines(caplog, "channel.up")) == ["timer", "timer.commands"]
    assert not lines(caplog, "event.given_back"), "not at a level that anybody reads"
    assert not served.told.of(Retried)


async def test_an_event_under_way_when_the_broker_is_lost_is_given_back_and_comes_once(
    server: NatsServer, desk: Desk, serve: Serve
) -> None:
    """The server is frozen, so that it has the messages and has not said so; then it is killed."""
    many = 20
    async with serve() as served:
        await consuming(desk)
        due = in_seconds(4)
        await desk.send(*(command(f"s{number}", due) for number in range(many)))
        await stored(served, many)
        server.pause()
        await until(lambda: in_processing(served, many), "all are under way")
        async with outage(server):
            await until(lambda: len(served.told.of(GivenBack)) == many, "all are given back")
            assert all(signal.told for signal in served.told.of(GivenBack))
        events = await desk.events(many)
        await until(lambda: len(served.told.of(Completed)) == many, "all are settled")
        assert {event.attempts for event in await rows(served)} == {1}
        assert len(await desk.events()) == len({event["id"] for event in events}) == many


async def in_processing(served: Served, many: int) -> bool:
    return sum(event.status is Status.PROCESSING for event in await rows(served)) == many


async def test_a_broker_that_does_not_answer_is_treated_as_lost(
    server: NatsServer, desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as served:
        await desk.send(command("first"))
        await until(lambda: len(served.told.of(Completed)) == 1, "the first is settled")
        await desk.send(command("s1", in_seconds(4)))
        await stored(served, 2)
        with monkeypatch.context() as impatient:
            impatient.setattr(nats_streams, "SILENT", 1.0)
            server.pause()
            try:
                down = await until(lambda: served.told.of(ChannelDown), "it is taken for lost")
            finally:
                server.resume()
        assert "no acknowledgement within 1 s" in down[0].reason
        await desk.events(2)
        await until(lambda: len(served.told.of(Completed)) == 2, "both are settled")
        assert {event.attempts for event in await rows(served)} == {1}
        assert not served.told.of(Retried)


async def test_a_service_waits_for_a_broker_that_is_not_there_yet(server: NatsServer, desk: Desk, serve: Serve) -> None:
    await desk.send(command("s1"))
    await asyncio.to_thread(server.kill)
    async with serve() as served:
        await until(lambda: len(served.told.of(ChannelDown)) == 2, "that of events and that of commands are told")
        down = served.told.of(ChannelDown)
        assert all("Connect call failed" in signal.reason for signal in down)
        assert sorted(signal.channel for signal in down) == ["timer", "timer.commands"]
        await asyncio.to_thread(server.start)
        await desk.events(1)


async def test_commands_are_taken_at_once_when_the_broker_is_back(
    server: NatsServer, desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT", 120.0)  # too long for this test to wait for
    async with serve() as served:
        await consuming(desk)
        await asyncio.sleep(0.2)  # it waits for commands
        async with outage(server):
            await until(lambda: served.told.of(ChannelDown), "it is told")
        await desk.send(command("s1", in_seconds(LATER)))
        await stored(served, 1)


async def test_a_stream_that_is_full_for_now_costs_no_attempt(
    desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = StreamConfig(
        name="TIMER_EVENTS", subjects=[EVENTS], max_msgs=5, discard=DiscardPolicy.NEW, duplicate_window=7200
    )
    await desk.stream.add_stream(full)
    async with serve() as served:
        await desk.send(*(command(f"s{number}") for number in range(8)))
        down = await until(lambda: served.told.of(ChannelDown), "it is told")
        assert "maximum messages exceeded" in down[0].reason
        await until(lambda: len(served.told.of(Completed)) == 5, "as many as there is room for are published")
        await desk.stream.purge_stream("TIMER_EVENTS")
        await until(lambda: len(served.told.of(Completed)) == 8, "the others are when there is room again")
        assert {event.attempts for event in await rows(served)} == {1}
        assert {event.status for event in await rows(served)} == {Status.COMPLETED}


async def test_a_stream_of_events_that_is_gone_is_made_again(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await desk.send(command("s1"))
        await desk.events(1)
        await desk.stream.delete_stream(str(FOR_EVENTS.name))
        await desk.send(command("s2"))
        [event] = await desk.events(1)
        assert event["payload"]["serviceCallId"] == "s2"
        await until(lambda: len(served.told.of(Completed)) == 2, "both are settled")
        assert {event.attempts for event in await rows(served)} == {1}


# -- the two halves


async def test_a_consumer_that_is_gone_is_made_again(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await desk.send(command("s1", in_seconds(LATER)))
        await stored(served, 1)
        await desk.stream.delete_consumer("TIMER_COMMANDS", nats_commands.DURABLE)
        await desk.send(command("s2", in_seconds(LATER)))
        await stored(served, 2)


async def test_a_stream_of_commands_that_is_made_anew_is_consumed_and_its_commands_count(
    desk: Desk, serve: Serve
) -> None:
    """Its numbers begin at 1 again; what they say is newer all the same."""
    async with serve() as served:
        await desk.send(*(command("s1", in_seconds(LATER + number)) for number in range(10)))
        await until(desk.nothing_is_left, "they are stored")
        await desk.stream.delete_stream("TIMER_COMMANDS")
        await until(desk.is_consumed, "it is made again")
        newest = in_seconds(2 * LATER)
        await desk.send(command("s1", newest))
        await until(desk.nothing_is_left, "it is stored")
        [event] = await rows(served)
        assert event.due == newest


async def test_a_broken_intake_does_not_stop_due_timers(
    desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as served:
        await desk.send(*(command(f"s{number}", in_seconds(1)) for number in range(10)))
        await stored(served, 10)

        async def take(*_: Any) -> Any:
            raise RuntimeError("a bug")

        with monkeypatch.context() as broken:
            broken.setattr(NatsCommands, "take", take)
            await desk.send(command("later", in_seconds(LATER)))
            await desk.events(10)
            await until(lambda: "intake.failed" in caplog.messages, "it is told")
            assert not served.running or not served.running.done()
        await stored(served, 11)


async def test_a_broken_channel_does_not_stop_the_intake(desk: Desk, serve: Serve) -> None:
    """Somebody else's stream has the subject of events, and takes nothing."""
    await desk.stream.add_stream(
        StreamConfig(name="CLOSED", subjects=[EVENTS], max_msgs=1, discard=DiscardPolicy.NEW, max_msg_size=-1)
    )
    await desk.stream.publish(EVENTS, b"the one that it takes")
    async with serve() as served:
        await desk.send(command("due"))
        await until(lambda: served.told.of(ChannelDown), "the channel is down")
        await desk.send(*(command(f"s{number}", in_seconds(LATER)) for number in range(20)))
        await stored(served, 21)
        await until(desk.nothing_is_left, "all are acknowledged")


# -- the database


async def test_a_full_disk_loses_no_command(desk: Desk, tmp_path: Path, serve: Serve) -> None:
    """SQLite is told that its file has reached its size."""
    async with serve(database_url=f"sqlite:///{tmp_path}/full.db") as served:
        await desk.send(command("s1", in_seconds(LATER)))
        await stored(served, 1)
        store = served.duly.store
        assert isinstance(store, SqliteStore)
        pages = await store._on_writer(store.writer.pragma, "page_count")
        await store._on_writer(store.writer.pragma, "max_page_count", pages)
        await desk.send(*(command(f"s{number}", in_seconds(LATER)) for number in range(2, 600)))
        await until(lambda: served.told.of(StoreDown), "the disk is full")
        assert not await desk.nothing_is_left()
        taken = sum(signal.many for signal in served.told.of(CommandsTaken))
        assert taken < 599
        await store._on_writer(store.writer.pragma, "max_page_count", 1_000_000)
        await until(desk.nothing_is_left, "all are stored")
        assert len(await stored(served, 599)) == 599


@asynccontextmanager
async def without(database: Postgres) -> AsyncIterator[None]:
    await asyncio.to_thread(database.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(database.start)


async def test_commands_wait_in_the_broker_while_the_database_is_down(desk: Desk, serve: Serve) -> None:
    with Postgres() as database:
        url = database.create_database(f"timers_{random.getrandbits(48):x}")
        async with serve(database_url=url) as served:
            await desk.send(command("s1", in_seconds(LATER)))
            await stored(served, 1)
            async with without(database):
                await desk.send(command("s2", in_seconds(LATER)))
                await until(lambda: served.told.of(StoreDown), "the outage is told")
                await asyncio.sleep(0.3)
                assert not await desk.nothing_is_left()
            await until(desk.nothing_is_left, "it is acknowledged")
            await stored(served, 2)
            assert not any(isinstance(signal, ChannelUp) for signal in served.told.of(ChannelUp))


def test_repeated_failures_of_an_outage_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    from duly.signals import Signals
    from tests.make import make_event

    signals = Signals()
    observe_with_logs(signals)
    caplog.set_level(logging.DEBUG, "duly")
    for told in (False, True):
        signals.emit(GivenBack(make_event(), "the broker is down", timedelta(), told))
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.DEBUG]
