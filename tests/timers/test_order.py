"""The latest command counts, whichever stream brought it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from duly.channels.brokers.nats_commands import Taken
from tests.brokers import NatsServer
from tests.timers.conftest import Serve
from tests.timers.desk import TENANT, Desk, command, in_seconds
from tests.worker.running_worker import until

WHEN = 1_796_115_600_123_456_789  # nanoseconds, as the server says it


def taken(place: int, when: int = WHEN, deliveries: int = 1, *, domain: bool = False) -> Taken:
    stream = "hub.account.TIMER_COMMANDS" if domain else "TIMER_COMMANDS"
    reply = f"$JS.ACK.{stream}.duly-timer-service.{deliveries}.{place}.7.{when}.0{'.token' if domain else ''}"
    message: Any = SimpleNamespace(reply=reply, data=b"")
    puller: Any = None
    return Taken(message, puller)


@pytest.mark.parametrize("domain", [False, True])
def test_a_command_knows_its_place_in_the_stream_and_how_often_it_came(domain: bool) -> None:
    one = taken(42, deliveries=3, domain=domain)
    assert (one.place, one.deliveries) == ("42", 3)
    assert one.order == taken(42, deliveries=9).order, "the same when it comes again"
    assert one.order < 1 << 63, "it fits into the column"


def test_the_time_of_a_command_counts_before_its_place_in_the_stream() -> None:
    assert taken(900_000).order < taken(1, WHEN + 1_000_000).order
    assert taken(8, WHEN).order < taken(9, WHEN).order
    assert taken(1_000_000).order < taken(1_000_001).order


async def test_commands_of_another_server_count_however_old_its_stream_is(serve: Serve, server: NatsServer) -> None:
    """A service that moves, such as to a server whose streams were made before those of the one it leaves."""
    async with Desk(server.url) as before:
        await asyncio.sleep(0.01)
        with NatsServer() as other:
            async with Desk(other.url) as now, serve(broker_url=other.url):
                await now.send(*(command("s1", in_seconds(3600 + number)) for number in range(10)))
                await until(now.nothing_is_left, "all are stored")
        newest = in_seconds(7200)
        async with serve() as served:
            await before.send(command("s1", newest))
            await until(before.nothing_is_left, "it is stored")
            row = await served.duly.store.by_key(TENANT, "s1")
            assert row is not None
            assert row.due == newest
