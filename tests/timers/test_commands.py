"""Commands in: stored before they are acknowledged, once, and never lost to a bad neighbour."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, StreamConfig

from duly import Duly, Event, Status
from duly.channels.brokers import nats_commands
from duly.channels.brokers.nats_commands import Taken
from duly.channels.brokers.nats_streams import COMMANDS, FOR_EVENTS, FOR_REJECTED, REJECTED
from duly.engine import schedule
from duly.errors import StoreError
from duly.signals import CommandRejected, CommandsTaken, CommandStuck
from duly.stores.statements.statements import StoreQueries
from duly.timer_service import commands
from tests.brokers import NatsServer
from tests.conftest import AnyStore
from tests.timers.conftest import Serve, Served, consuming
from tests.timers.desk import TENANT, Desk, command, encode, in_seconds
from tests.worker.running_worker import until

LATER = 3600


@pytest.fixture
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not acknowledged comes again after half a second, as it usually does after ten."""
    monkeypatch.setattr(nats_commands, "ACKNOWLEDGED_WITHIN", nats_commands.ACKNOWLEDGED_WITHIN / 20)


class Unheard:
    """Acknowledgements that never arrive, for as long as that is so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = True
        self.many = 0
        really = Taken.ack

        async def ack(taken: Taken) -> None:
            if self.on:
                self.many += 1
            else:
                await really(taken)

        monkeypatch.setattr(Taken, "ack", ack)


async def timer(served: Served, key: str, tenant: str = TENANT) -> Event | None:
    return await served.duly.store.by_key(tenant, key)


async def acts(served: Served, event: Event) -> list[str]:
    return [entry.act for entry in await served.duly.events.history(event.id)]


async def stored(served: Served, key: str, tenant: str = TENANT) -> Event:
    async def found() -> Event | None:
        return await timer(served, key, tenant) if served.has_started else None

    event: Event = await until(found, f"{key} is stored")
    return event


async def test_a_command_becomes_a_row_and_then_an_event(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        due = in_seconds(0.5)
        await desk.send(command("s1", due, correlationId="trace-7"))
        row = await stored(served, "s1")
        assert (row.due, row.tenant, row.correlation_id) == (due, TENANT, "trace-7")
        [event] = await desk.events(1)
        assert event["type"] == "DueTimeReached"
        assert (event["id"], event["tenantId"], event["correlationId"]) == (row.id, TENANT, "trace-7")
        assert event["payload"]["serviceCallId"] == "s1"
        assert event["payload"]["reachedAt"] >= due.isoformat()[:23]
        [message] = await desk.stored(FOR_EVENTS)
        assert (message.headers or {})["Nats-Msg-Id"] == row.id
        await until(desk.nothing_is_left, "the command is acknowledged")


async def test_no_command_is_acknowledged_before_it_is_committed(desk: Desk, serve: Serve) -> None:
    may_commit = asyncio.Event()

    class Slow:
        """The store, whose transactions commit when they may."""

        def __init__(self, served: Served) -> None:
            self._store: AnyStore = served.duly.store
            served.duly.store = self  # type: ignore[assignment]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        @asynccontextmanager
        async def begin(self) -> Any:
            async with self._store.begin() as tx:
                yield tx
                await may_commit.wait()

    async with serve(Slow) as served:
        await desk.send(command("s1", in_seconds(LATER)))
        await until(desk.unacknowledged, "the command is delivered")
        await asyncio.sleep(0.1)  # there is no condition for what does not happen
        assert await desk.unacknowledged() == 1
        may_commit.set()
        await until(desk.nothing_is_left, "it is acknowledged")
        assert await timer(served, "s1")


async def test_a_redelivered_command_changes_nothing(
    desk: Desk, serve: Serve, soon_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    unheard = Unheard(monkeypatch)
    async with serve() as served:
        await desk.send(command("s1", in_seconds(LATER)))
        row = await stored(served, "s1")
        await until(lambda: unheard.many == 3, "it has come three times")
        unheard.on = False
        await until(desk.nothing_is_left, "it is acknowledged")
        assert await timer(served, "s1") == row
        assert await acts(served, row) == []


async def test_duplicate_commands_change_nothing(desk: Desk, serve: Serve) -> None:
    again = command("s1", in_seconds(LATER))
    async with serve() as served:
        await desk.send(again)
        row = await stored(served, "s1")
        await desk.send(*[again] * 5)
        await until(desk.nothing_is_left, "all are acknowledged")
        assert await timer(served, "s1") == row
        assert await acts(served, row) == []


async def test_a_new_due_time_moves_a_timer_that_is_pending(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await desk.send(command("s1", in_seconds(LATER)))
        row = await stored(served, "s1")
        sooner = in_seconds(0.3)
        await desk.send(command("s1", sooner))
        [event] = await desk.events(1)
        assert event["id"] == row.id
        await until(lambda: completed(served, "s1"), "it is settled")
        assert await acts(served, row) == ["moved", "delivered"]
        moved = await timer(served, "s1")
        assert moved is not None
        assert moved.due == sooner


async def test_a_command_that_comes_again_does_not_undo_a_newer_one(
    desk: Desk, serve: Serve, soon_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between the commit and the acknowledgement: what is new comes first."""
    unheard = Unheard(monkeypatch)
    async with serve() as served:
        await desk.send(command("s1", in_seconds(LATER)))
        await until(lambda: unheard.many == 1, "the first one is stored")
        newer = in_seconds(2 * LATER)
        await desk.send(command("s1", newer))
        await until(lambda: unheard.many >= 4, "both have come again")
        unheard.on = False
        await until(desk.nothing_is_left, "they are acknowledged")
        row = await timer(served, "s1")
        assert row is not None
        assert row.due == newer
        assert await acts(served, row) == ["moved"]


async def test_a_command_for_a_timer_that_has_fired_does_nothing(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await desk.send(command("s1"))
        await desk.events(1)
        await until(lambda: completed(served, "s1"), "it is settled")
        row = await timer(served, "s1")
        await desk.send(command("s1", in_seconds(0)), command("s1", in_seconds(LATER), correlationId="late"))
        await until(desk.nothing_is_left, "they are acknowledged")
        assert await timer(served, "s1") == row
        assert len(await desk.events()) == 1


async def completed(served: Served, key: str) -> bool:
    row = await timer(served, key)
    return row is not None and row.status is Status.COMPLETED


async def test_a_command_for_a_key_that_belongs_to_an_event_of_another_type_is_rejected(
    desk: Desk, serve: Serve, url: str
) -> None:
    async with Duly(url) as app:
        theirs = await app.at(in_seconds(LATER), "invoice.overdue", key="s1", tenant=TENANT)
    async with serve() as served:
        await desk.send(command("s1"), command("s2", in_seconds(LATER)))
        [told] = await desk.rejected(1)
        assert "a timer of type 'DueTimeReached' needs another key" in told["reason"]
        await until(desk.nothing_is_left, "both are acknowledged")
        assert await timer(served, "s1") == theirs
        assert await timer(served, "s2") is not None


async def test_one_tenant_cannot_touch_the_timer_of_another(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        due, other = in_seconds(LATER), in_seconds(2 * LATER)
        await desk.send(command("s1", due, tenant="a"), command("s1", other, tenant="b"))
        assert (await stored(served, "s1", "a")).due == due
        assert (await stored(served, "s1", "b")).due == other


# -- what cannot be carried out

BAD: Sequence[tuple[Any, str]] = (
    ({"type": "ScheduleTimer", "payload": {"serviceCallId": "x", "dueAt": "2026-12-01T09:00:00Z"}}, "tenantId"),
    (command("x", "next week"), "payload.dueAt"),
    (command("x") | {"type": "CancelTimer"}, "type"),
    (command("x") | {"tenantId": "somebody else"}, "payload.tenantId"),
    (b"\xff\xfe not JSON", "message"),
    (b"[]", "message"),
    (b"", "message"),
    (b"x" * 70_000, "message"),
)


async def test_a_command_that_cannot_be_carried_out_is_kept_with_the_reason_and_affects_no_other(
    desk: Desk, serve: Serve
) -> None:
    """The good ones come before, between and after the bad ones, in one batch."""
    later = in_seconds(LATER)
    mixed = [command("first", later)]
    for number, (bad, _) in enumerate(BAD):
        mixed += [bad, command(f"after-{number}", later)]
    await desk.send(*mixed)
    async with serve() as served:
        rejections = await desk.rejected(len(BAD))
        await until(desk.nothing_is_left, "all are acknowledged")
        for name in ["first", *(f"after-{number}" for number in range(len(BAD)))]:
            assert await timer(served, name), name
        assert await timer(served, "x") is None
        assert len(await desk.rejected()) == len(BAD), "none came twice"
        for (bad, path), told in zip(BAD, rejections, strict=True):
            assert path in [error["path"] for error in told["errors"]]
            assert told["reason"].startswith(told["errors"][0]["path"])
            assert told["command"] == encode(bad)[:65_536].decode(errors="backslashreplace")
        reasons = [signal.reason for signal in served.told.of(CommandRejected)]
        assert reasons == [told["reason"] for told in rejections]
        taken = served.told.of(CommandsTaken)
        assert sum(signal.many for signal in taken) == len(mixed)
        assert sum(signal.refused for signal in taken) == len(BAD)


async def test_an_empty_command_that_looks_like_a_status_is_a_command(desk: Desk, serve: Serve) -> None:
    await desk.stream.publish(COMMANDS, b"", headers={"Status": "408", "Description": "Request Timeout"})
    async with serve():
        [told] = await desk.rejected(1)
        assert told["command"] == ""
        await until(desk.nothing_is_left, "it is acknowledged")


async def test_a_command_whose_rejection_cannot_be_kept_stays_and_keeps_nobody_waiting(
    desk: Desk, serve: Serve, soon_again: None
) -> None:
    full = FOR_REJECTED.evolve(max_msgs=1, discard=DiscardPolicy.NEW)
    async with serve() as served:
        await consuming(desk)
        await desk.stream.update_stream(full)
        await desk.stream.publish(REJECTED, b'{"command": "an older one"}')
        await desk.send(b"bad", command("good", in_seconds(LATER)))
        await stored(served, "good")
        await until(lambda: served.told.of(CommandStuck), "it is told")
        assert not await desk.nothing_is_left()
        assert not served.told.of(CommandRejected)
        await desk.stream.update_stream(full.evolve(max_msgs=-1))
        [_, told] = await desk.rejected(2)
        assert told["command"] == "bad"
        await until(desk.nothing_is_left, "it is acknowledged")
        assert "maximum messages exceeded" in served.told.of(CommandStuck)[0].reason


async def test_a_stream_for_rejections_that_somebody_deletes_is_made_again(desk: Desk, serve: Serve) -> None:
    async with serve() as served:
        await consuming(desk)
        await desk.stream.delete_stream(str(FOR_REJECTED.name))
        await desk.send(b"bad")
        [told] = await desk.rejected(1)
        assert told["command"] == "bad"
        await until(desk.nothing_is_left, "it is acknowledged")
        assert not served.told.of(CommandStuck)


async def test_a_rejection_that_is_too_large_for_the_server_is_shortened(serve: Serve) -> None:
    with NatsServer(more="max_payload: 8KB") as narrow:
        async with Desk(narrow.url) as desk, serve(broker_url=narrow.url):
            await desk.send(b"\xff" * 7000)
            [told] = await desk.rejected(1)
            await until(desk.nothing_is_left, "it is acknowledged")
            assert (told["bytes"], told["command"]) == (7000, "\\xff" * 1024)


async def test_a_command_that_the_store_alone_refuses_is_rejected_alone(
    desk: Desk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such command is known. If there is one, it must not keep all others from being stored."""
    really = schedule.put_ordered_timers

    async def put_ordered_timers(store: AnyStore, wishes: Any, *args: Any) -> None:
        if any(wish.timer.key == "cursed" for wish in wishes):
            raise ValueError("the driver cannot write it")
        await really(store, wishes, *args)

    monkeypatch.setattr(commands, "put_ordered_timers", put_ordered_timers)
    later = in_seconds(LATER)
    await desk.send(command("one", later), command("cursed", later), command("two", later))
    async with serve() as served:
        [told] = await desk.rejected(1)
        assert told["reason"] == "message: ValueError: the driver cannot write it"
        await until(desk.nothing_is_left, "all are acknowledged")
        assert await timer(served, "one")
        assert await timer(served, "two")


async def test_an_error_that_affects_all_commands_rejects_none_of_them(
    desk: Desk, serve: Serve, soon_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, failures = schedule.put_ordered_timers, 0

    async def put_ordered_timers(*args: Any) -> None:
        nonlocal failures
        if failures < 5:
            failures += 1
            raise ValueError("no such table: events")
        await really(*args)

    monkeypatch.setattr(commands, "put_ordered_timers", put_ordered_timers)
    await desk.send(command("one", in_seconds(LATER)), command("two", in_seconds(LATER)))
    async with serve() as served:
        await until(desk.nothing_is_left, "they are stored in the end")
        assert await timer(served, "one")
        assert await timer(served, "two")
        assert await desk.rejected() == []


async def test_a_command_that_can_never_be_stored_is_rejected_in_the_end_also_if_it_is_alone(
    desk: Desk, serve: Serve, soon_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def put_ordered_timers(*_: Any) -> None:
        nonlocal tries
        tries += 1
        raise ValueError("the driver cannot write it")

    monkeypatch.setattr(commands, "put_ordered_timers", put_ordered_timers)
    await desk.send(command("cursed", in_seconds(LATER)))
    async with serve() as served:
        [told] = await desk.rejected(1)
        assert told["reason"] == "message: ValueError: the driver cannot write it"
        assert tries >= commands.DELIVERIES_BEFORE_REJECTION, "not at once: it may have been something else"
        await until(desk.nothing_is_left, "it is acknowledged")
        assert await served.duly.events.find(limit=10) == [], "what showed that the store works is not there"


@pytest.mark.parametrize("error", [ValueError("no such column"), StoreError("grant it")], ids=["unknown", "known"])
async def test_a_store_that_takes_nothing_rejects_no_command_however_often_it_is_redelivered(
    desk: Desk, serve: Serve, soon_again: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(commands, "DELIVERIES_BEFORE_REJECTION", 2)
    really, rounds, broken = StoreQueries.put, 0, True

    async def put(self: StoreQueries, events: Any) -> Any:
        nonlocal rounds
        if broken:
            rounds += events[0].asked is not None
            raise error
        return await really(self, events)

    monkeypatch.setattr(StoreQueries, "put", put)
    await desk.send(command("one", in_seconds(LATER)))
    async with serve() as served:
        await until(lambda: rounds >= 4, "it has come often")
        assert await desk.rejected() == []
        broken = False
        await until(desk.nothing_is_left, "it is stored")
        assert await timer(served, "one")
        assert await desk.rejected() == []


# -- bursts


@pytest.mark.timeout(300)
async def test_a_burst_of_ten_thousand_commands_is_absorbed(desk: Desk, serve: Serve) -> None:
    later = in_seconds(LATER)
    many = 10_000
    await desk.send(*(command(f"s{number}", later) for number in range(many)))
    async with serve() as served:
        await until(desk.nothing_is_left, "all are acknowledged")
        taken = served.told.of(CommandsTaken)
        assert sum(signal.many for signal in taken) == many
        assert len(taken) <= many // 50, "they are stored many at a time"
        [(_, status, count, _)] = await served.duly.store.overview()
        assert (status, count) == (Status.PENDING, many)


async def test_the_consumer_that_is_there_already_is_told_how_long_to_wait(desk: Desk, serve: Serve) -> None:
    """Such as one that an older version has made."""
    await desk.stream.add_consumer(
        "TIMER_COMMANDS",
        ConsumerConfig(
            durable_name=nats_commands.DURABLE,
            filter_subject=COMMANDS,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=60,
        ),
    )
    async with serve() as served:
        await desk.send(command("s1", in_seconds(LATER)))
        await stored(served, "s1")
        info = await desk.stream.consumer_info("TIMER_COMMANDS", nats_commands.DURABLE)
        assert info.config.ack_wait == nats_commands.ACKNOWLEDGED_WITHIN.total_seconds()


async def test_an_existing_stream_for_all_subjects_is_used(server: NatsServer, serve: Serve) -> None:
    connection = await nats.connect(server.url)
    try:
        stream = connection.jetstream()
        await stream.add_stream(StreamConfig(name="EVERYTHING", subjects=["timer.>"]))
        await stream.publish(COMMANDS, encode(command("s1")))
        await stream.publish(COMMANDS, b"bad")
        async with serve():

            async def subjects() -> bool:
                info = await stream.stream_info("EVERYTHING", subjects_filter=">")
                return info.state.subjects == {COMMANDS: 2, REJECTED: 1, "timer.events": 1}

            await until(subjects, "the event and the rejection are there")
        assert [one.config.name for one in await stream.streams_info()] == ["EVERYTHING"]
        assert json.loads((await stream.get_last_msg("EVERYTHING", REJECTED)).data or b"")["command"] == "bad"
    finally:
        await connection.close()
