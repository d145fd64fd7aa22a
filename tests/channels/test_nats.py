"""Publishing to JetStream: what it takes, what it does not, and what it will never."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, StreamConfig

from duly import Misuse
from duly.channels.brokers import nats as module
from duly.channels.brokers.channel import BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.channels.brokers.nats import Nats, PublishForbidden
from tests.brokers import NatsServer
from tests.worker.running_worker import until


@asynccontextmanager
async def opened(server: NatsServer, *credentials: str) -> AsyncIterator[Nats]:
    client = Nats(server.url.replace("://", f"://{':'.join(credentials)}@") if credentials else server.url)
    client.lost = lambda reason: None
    try:
        await client.open()
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client() -> AsyncIterator[Nats]:
    with NatsServer(more="max_payload: 4KB") as server:
        async with opened(server) as client:
            await client.stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.*"], max_msg_size=1000))
            yield client


async def publish(
    client: Nats, subject: str = "orders.due", body: bytes = b"{}", id: str = "1", **headers: str
) -> None:
    async with asyncio.timeout(5):
        await client.publish({"subject": subject}, BrokerMessage(id, body, headers))


async def messages(client: Nats, stream: str = "ORDERS") -> int:
    return (await client.stream.stream_info(stream)).state.messages


async def test_a_published_message_is_stored_under_its_id_and_with_its_headers(client: Nats) -> None:
    await publish(client, body=b"hello", id="event-1", Colour="green")
    stored = await client.stream.get_msg("ORDERS", 1)
    assert stored.data == b"hello"
    assert stored.headers == {"Nats-Msg-Id": "event-1", "Colour": "green"}


async def test_a_message_with_the_same_id_is_stored_once(client: Nats) -> None:
    for _ in range(3):
        await publish(client, id="event-1")
    await publish(client, id="event-2")
    assert await messages(client) == 2


async def test_many_messages_under_way_at_once_stay_in_order(client: Nats) -> None:
    await asyncio.gather(*(publish(client, body=str(number).encode(), id=str(number)) for number in range(500)))
    stored = [(await client.stream.get_msg("ORDERS", number)).data for number in range(1, 501)]
    assert stored == [str(number).encode() for number in range(500)]
    assert not client.under_way


async def test_a_subject_that_no_stream_has_is_worth_another_try(client: Nats) -> None:
    with pytest.raises(MessageDeferred, match=r"no stream has the subject 'invoices\.due': create a stream with it"):
        await publish(client, "invoices.due")


async def test_a_message_larger_than_the_stream_takes_is_refused(client: Nats) -> None:
    with pytest.raises(MessageRefused, match="message size exceeds maximum allowed"):
        await publish(client, body=b"x" * 2000)


@pytest.mark.parametrize(("body", "header"), [(5000, 1), (4060, 100), (1, 5000)])
async def test_a_message_larger_than_the_server_takes_is_refused_and_others_are_not_cut_off(
    client: Nats, body: int, header: int
) -> None:
    with pytest.raises(MessageRefused, match="than the server accepts"):
        await publish(client, body=b"x" * body, Note="x" * header)
    await publish(client)
    assert await messages(client) == 1


async def test_the_largest_message_that_the_server_takes_keeps_the_connection(client: Nats) -> None:
    """It is too large for the stream, and the server says so."""
    with pytest.raises(MessageRefused, match="message size exceeds maximum allowed"):
        await publish(client, body=b"x" * (4096 - len("NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n")))
    await publish(client)


async def test_a_stream_that_is_full_is_worth_another_try(client: Nats) -> None:
    full = StreamConfig(name="FULL", subjects=["full"], max_msgs=1, discard=DiscardPolicy.NEW)
    await client.stream.add_stream(full)
    await publish(client, "full")
    with pytest.raises(MessageDeferred, match="maximum messages exceeded"):
        await publish(client, "full", id="2")


@pytest.mark.parametrize("subject", ["orders due", "orders..due", ""])
async def test_text_that_is_no_subject_is_refused(client: Nats, subject: str) -> None:
    with pytest.raises((MessageRefused, MessageDeferred)):
        await publish(client, subject)
    await publish(client)


async def test_a_subject_that_is_not_permitted_is_refused_and_others_are_taken() -> None:
    permissions = 'permissions: { publish: { deny: ["secret.*"] } }'
    with NatsServer(more=f"authorization {{ users: [{{ user: ada, password: x, {permissions} }}] }}") as server:
        async with opened(server, "ada", "x") as client:
            await client.stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.*", "secret.*"]))
            one = asyncio.create_task(publish(client, "secret.plans"))
            await publish(client, "orders.due")
            with pytest.raises(MessageRefused, match="secret"):
                await one


async def test_a_message_under_way_when_the_server_goes_is_known_to_be_lost() -> None:
    with NatsServer() as server:
        async with opened(server) as client:
            await client.stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.*"]))
            reasons: list[str] = []
            client.lost = reasons.append
            server.pause()
            under_way = [asyncio.create_task(publish(client, id=str(number))) for number in range(10)]
            await until(lambda: len(client.under_way) == 10, "all are under way")
            await asyncio.to_thread(server.kill)
            for ended in await asyncio.gather(*under_way, return_exceptions=True):
                assert isinstance(ended, BrokerDown)
            with pytest.raises(BrokerDown):
                await publish(client)
            assert reasons


async def test_a_connection_whose_end_the_library_keeps_to_itself_is_found_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does so if the server goes while something is being sent."""
    monkeypatch.setattr(module, "CHECK_INTERVAL", 0.05)
    with NatsServer() as server:
        async with opened(server) as client:
            reasons: list[str] = []
            client.lost = reasons.append
            client.connection._closed_cb = None  # as if it had failed before it came to that
            await asyncio.to_thread(server.kill)
            await until(lambda: reasons, "it is found lost")


async def test_nothing_is_left_of_a_connection_that_the_library_could_not_end() -> None:
    """It does not if it fails to send what was left."""
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(str(told)))
    before = asyncio.all_tasks()
    await ended_in_the_middle()
    await until(lambda: asyncio.all_tasks() == before, "all its tasks have ended")
    gc.collect()
    assert not unheard


async def ended_in_the_middle() -> None:
    async def broken() -> None:
        raise ConnectionResetError("planted")

    with NatsServer() as server:
        async with opened(server) as client:
            library: Any = client.connection
            writer = library._transport._io_writer
            library._transport.drain = broken
            library._pending_data_size = 1  # something is left
            library._flush_queue.put_nowait(asyncio.get_running_loop().create_future())
            await until(lambda: library.is_closed, "it has given up")
            with pytest.raises(BrokerDown):
                await publish(client)
        assert writer.is_closing()


@pytest.mark.parametrize("credentials", [(), ("ada", "wrong"), ("token",)])
async def test_a_client_that_is_not_let_in_is_told_to_check_the_credentials(credentials: tuple[str, ...]) -> None:
    with NatsServer(more="authorization { user: ada, password: right }") as server:
        client = opened(server, *credentials)
        with pytest.raises(Misuse, match="refuses the credentials in its URL"):
            await client.__aenter__()


async def test_of_several_nats_servers_one_that_is_up_is_used() -> None:
    with NatsServer() as away, NatsServer() as server:
        await asyncio.to_thread(away.kill)
        for _ in range(5):
            client = Nats(f"{away.url}, {server.url}")
            client.lost = lambda reason: None
            await client.open()
            assert client.connection.is_connected
            await client.close()


async def test_an_account_that_is_full_is_worth_another_try() -> None:
    """Of what JetStream refuses, that is not this message's fault, whatever number it says it with."""
    account = "accounts { SHOP { users: [{ user: ada, password: x }], jetstream: { max_disk: 20000 } } }"
    with NatsServer(more=account) as server:
        async with opened(server, "ada", "x") as client:
            await client.stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.*"]))
            sent = [publish(client, body=b"x" * 1000, id=str(number)) for number in range(40)]
            with pytest.raises(MessageDeferred, match=r"resource limits exceeded for account \(10002\)"):
                await asyncio.gather(*sent)


async def test_a_client_that_may_not_publish_to_a_subject_may_publish_to_one_whose_name_contains_it() -> None:
    permissions = 'permissions: { publish: { deny: ["orders.due.Secret"] } }'
    with NatsServer(more=f"authorization {{ users: [{{ user: ada, password: x, {permissions} }}] }}") as server:
        async with opened(server, "ada", "x") as client:
            await client.stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>", "due"]))
            subjects = ["orders.due", "due", "orders.due.Secret", "orders.due", "due"]
            sent = [publish(client, subject, id=str(number)) for number, subject in enumerate(subjects)]
            answers = await asyncio.gather(*sent, return_exceptions=True)
            assert [type(answer) for answer in answers] == [
                type(None),
                type(None),
                PublishForbidden,
                type(None),
                type(None),
            ]


async def test_a_server_that_has_not_heard_the_credentials_in_time_is_worth_another_try() -> None:
    """It is busy, or the network is: the credentials may be right."""

    async def too_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.12.0", "max_payload": 1048576, "auth_required": true}\r\n')
        await reader.readline()
        writer.write(b"-ERR 'Authentication Timeout'\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(too_late, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = Nats(f"nats://ada:right@127.0.0.1:{port}")
        client.lost = lambda reason: None
        with pytest.raises(NatsError, match="Authentication Timeout"):
            await client.open()
        await client.close()
