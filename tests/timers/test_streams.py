"""The streams that the service makes, and what it makes of those that are there; and what ends it."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from duly import Misuse
from duly.channels.brokers import nats_commands
from duly.channels.brokers.channel import BrokerDown
from duly.channels.brokers.nats_streams import COMMANDS, DUPLICATES, EVENTS, REJECTED, sorted_refusals
from duly.errors import StoreError
from duly.timer_service.messages import RETRY
from duly.timer_service.service import TimerService, TimerSettings
from tests.brokers import NatsServer
from tests.timers.conftest import Serve, consuming
from tests.timers.desk import Desk, command
from tests.worker.running_worker import until

WINDOW = DUPLICATES.total_seconds()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The store does not matter here."""
    return f"sqlite:///{tmp_path}/timers.db"


async def test_streams_are_made_for_commands_events_and_what_is_rejected(server: NatsServer, serve: Serve) -> None:
    async with Desk(server.url) as desk:
        await desk.stream.delete_stream("TIMER_COMMANDS")
        async with serve():
            await until(lambda: three(desk), "they are made")
            made = {one.config.name: one.config for one in await desk.stream.streams_info()}
    assert {name: config.subjects for name, config in made.items()} == {
        "TIMER_COMMANDS": [COMMANDS],
        "TIMER_EVENTS": [EVENTS],
        "TIMER_REJECTED": [REJECTED],
    }
    assert made["TIMER_COMMANDS"].retention == "workqueue"
    assert made["TIMER_EVENTS"].duplicate_window == WINDOW
    assert all(config.storage == "file" for config in made.values())


async def three(desk: Desk) -> bool:
    return len(await desk.stream.streams_info()) == 3


def test_the_duplicate_window_of_a_stream_is_longer_than_an_event_is_tried() -> None:
    longest = sum((RETRY.wait(attempt, 1) for attempt in range(1, RETRY.max_attempts)), start=DUPLICATES * 0)
    assert longest < DUPLICATES / 2


async def published(desk: Desk) -> None:
    await desk.send(command("s1"))
    await until(lambda: has_events(desk), "an event is published")


async def has_events(desk: Desk) -> bool:
    name = await desk.stream.find_stream_name_by_subject(EVENTS)
    return bool((await desk.stream.stream_info(name)).state.messages)


async def test_an_own_stream_with_a_short_duplicate_window_gets_a_longer_one_and_no_other_change(
    desk: Desk, serve: Serve
) -> None:
    before = StreamConfig(
        name="TIMER_EVENTS", subjects=[EVENTS, "timer.more"], max_msgs=1000, description="ours", duplicate_window=120
    )
    await desk.stream.add_stream(before)
    async with serve():
        await published(desk)
    after = (await desk.stream.stream_info("TIMER_EVENTS")).config
    assert after.duplicate_window == WINDOW
    assert (after.subjects, after.max_msgs, after.description) == ([EVENTS, "timer.more"], 1000, "ours")


async def test_a_duplicate_window_is_not_longer_than_messages_are_kept(
    desk: Desk, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.stream.add_stream(
        StreamConfig(name="TIMER_EVENTS", subjects=[EVENTS], max_age=600, duplicate_window=120)
    )
    async with serve():
        await published(desk)
    assert (await desk.stream.stream_info("TIMER_EVENTS")).config.duplicate_window == 600
    assert "stream.forgetful" not in caplog.text


async def test_a_short_duplicate_window_of_somebody_elses_stream_is_warned_of(
    desk: Desk, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.stream.add_stream(StreamConfig(name="THEIRS", subjects=[EVENTS, "more"], duplicate_window=120))
    async with serve():
        await published(desk)
    assert (await desk.stream.stream_info("THEIRS")).config.duplicate_window == 120
    [record] = [record for record in caplog.records if record.getMessage().startswith("stream.forgetful")]
    assert record.levelno == logging.WARNING
    assert "stream=THEIRS duplicate_window=120s wanted=7200s" in record.getMessage()


async def test_a_longer_duplicate_window_is_left_alone(
    desk: Desk, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.stream.add_stream(StreamConfig(name="TIMER_EVENTS", subjects=[EVENTS], duplicate_window=2 * WINDOW))
    async with serve():
        await published(desk)
    assert (await desk.stream.stream_info("TIMER_EVENTS")).config.duplicate_window == 2 * WINDOW
    assert "stream.forgetful" not in caplog.text


# -- what is critical

PASSWORD = "authorization { user: ada, password: lovelace }"


async def end_of(url: str, broker: str) -> BaseException:
    service = TimerService(TimerSettings(database_url=url, broker_url=broker))
    with pytest.raises(Exception) as raised:  # noqa: PT011  (the test looks at it)
        await asyncio.wait_for(service.run(signals=False), 30)
    return raised.value


async def test_a_server_without_jetstream_ends_the_service_with_advice(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_commands, "STARTING", 0.5)
    with NatsServer(jetstream=False) as server:
        error = await end_of(url, server.url)
    assert isinstance(error, Misuse)
    assert str(error) == (
        "this NATS server has no JetStream: start it with -js, or set TIMER_BROKER_URL to a server that has it"
    )


async def test_a_jetstream_that_comes_a_little_later_is_waited_for(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when its node restarts, and can be connected to already."""
    monkeypatch.setattr(nats_commands, "STARTING", 60)
    with NatsServer(jetstream=False) as server:
        async with serve(broker_url=server.url) as served:
            await until(lambda: "intake.failed" in caplog.text, "the service has found none")
            assert "has no JetStream" in caplog.text
            assert served.running
            assert not served.running.done()
            await asyncio.to_thread(server.kill)
            with (server.folder / "configuration").open("a") as configuration:
                configuration.write(f"\njetstream {{ store_dir: {json.dumps(str(tmp_path))} }}")
            await asyncio.to_thread(server.start)
            async with Desk(server.url) as desk:
                await desk.send(command("s1"))
                await desk.events(1)


async def test_a_cluster_with_too_few_servers_is_waited_for() -> None:
    client: Any = None
    with pytest.raises(BrokerDown, match="no suitable peers"):
        async with sorted_refusals(client):
            raise APIError(code=400, err_code=10005, description="no suitable peers for placement")


async def test_wrong_credentials_end_the_service_with_advice(url: str) -> None:
    with NatsServer(more=PASSWORD) as server:
        error = await end_of(url, server.url.replace("://", "://ada:byron@"))
    assert isinstance(error, Misuse)
    assert "refuses the credentials in its URL" in str(error)
    assert "byron" not in str(error)


async def test_credentials_that_turn_out_wrong_when_the_server_comes_end_the_service(url: str) -> None:
    with NatsServer(more=PASSWORD) as server:
        await asyncio.to_thread(server.kill)
        service = TimerService(TimerSettings(database_url=url, broker_url=server.url))
        running = asyncio.create_task(service.run(signals=False))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(server.start)
        with pytest.raises(Misuse, match="refuses the credentials"):
            await asyncio.wait_for(running, 30)


async def test_right_credentials_start_the_service(url: str, serve: Serve) -> None:
    with NatsServer(more=PASSWORD) as server:
        allowed = server.url.replace("://", "://ada:lovelace@")
        async with serve(broker_url=allowed):
            connection = await nats.connect(server.url, user="ada", password="lovelace")
            await until(lambda: is_made(connection), "the service works")
            await connection.close()


async def is_made(connection: Any) -> bool:
    return len(await connection.jetstream().streams_info()) == 3


async def test_a_user_who_may_not_make_streams_ends_the_service_with_what_is_missing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.channels.brokers.nats.ANSWERED_WITHIN", 0.5)
    permissions = 'permissions: { publish: { deny: "$JS.API.STREAM.>" } }'
    denied = f"authorization {{ users: [{{ user: ada, password: x, {permissions} }}] }}"
    with NatsServer(more=denied) as server:
        error = await end_of(url, server.url.replace("://", "://ada:x@"))
    assert isinstance(error, Misuse)
    assert "permissions violation" in str(error).lower()


async def test_a_stream_in_the_way_ends_the_service_with_the_reason(desk: Desk, server: NatsServer, url: str) -> None:
    await desk.stream.delete_stream("TIMER_COMMANDS")
    await desk.stream.add_stream(StreamConfig(name="TIMER_COMMANDS", subjects=["other"]))
    error = await end_of(url, server.url)
    assert isinstance(error, Misuse)
    assert "stream name already in use with a different configuration" in str(error)


async def test_a_database_that_cannot_be_opened_for_good_ends_the_service(server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("this is no database\n" * 1000)
    error = await end_of(f"sqlite:///{tmp_path}/notes.txt", server.url)
    assert isinstance(error, StoreError)
    assert "is not a Duly database" in str(error)


async def test_a_server_that_turns_strange_later_is_waited_for(server: NatsServer, desk: Desk, serve: Serve) -> None:
    """It has worked before: somebody is at it."""
    async with serve() as served:
        await consuming(desk)
        await desk.stream.delete_stream("TIMER_COMMANDS")
        await desk.stream.add_stream(StreamConfig(name="TIMER_COMMANDS", subjects=["other"]))
        await asyncio.sleep(1)
        assert served.running
        assert not served.running.done()
        await desk.stream.delete_stream("TIMER_COMMANDS")
        await until(desk.is_consumed, "it is consumed again")
