"""A connection to a broker is made when it is needed, and made again when it is lost. With a real server."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest

from duly import Misuse
from duly.channels.brokers import channel
from duly.channels.brokers.channel import BrokerConnection, BrokerDown
from duly.channels.brokers.nats import Nats
from tests.brokers import NatsServer
from tests.worker.running_worker import until


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


class Watched:
    """A link, how many clients it has made, and what it has said."""

    def __init__(self, url: str) -> None:
        self.made: list[Nats] = []
        self.made_at: list[float] = []
        self.said: list[str | None] = []
        self._url = url
        self.link = BrokerConnection(self._make)
        self.link.watch(lambda: self.said.append(self.link.down))

    def _make(self) -> Nats:
        self.made.append(Nats(self._url))
        self.made_at.append(time.monotonic())
        return self.made[-1]

    async def lose(self) -> None:
        """Lose a connection that works, and wait for the next one."""
        client: Any = await self.link.client()
        client.give_up("the broker takes nothing")
        await until(lambda: self.link.down is None, "there is another one")


@pytest.fixture
async def watched(server: NatsServer) -> AsyncIterator[Watched]:
    watched = Watched(server.url)
    yield watched
    await watched.link.close()


async def test_a_connection_is_opened_when_it_is_first_needed_and_only_once(watched: Watched) -> None:
    assert not watched.made
    clients = await asyncio.gather(*(watched.link.client() for _ in range(20)))
    assert len(watched.made) == 1
    assert set(map(id, clients)) == {id(watched.made[0])}
    assert watched.link.down is None
    assert not watched.said


async def test_a_lost_connection_is_told_once_and_made_again(server: NatsServer, watched: Watched) -> None:
    before = await watched.link.client()
    await asyncio.to_thread(server.kill)
    await until(lambda: watched.link.down, "it is known to be lost")
    with pytest.raises(BrokerDown, match="the connection is lost"):
        await watched.link.client()
    await asyncio.sleep(1)
    await asyncio.to_thread(server.start)
    await until(lambda: watched.link.down is None, "it is there again")
    after = await watched.link.client()
    assert after is not before
    assert [said is None for said in watched.said] == [False, True]


async def test_a_server_that_is_not_there_is_down_at_once_and_found_when_it_comes(
    server: NatsServer, watched: Watched
) -> None:
    await asyncio.to_thread(server.kill)
    async with asyncio.timeout(20):
        with pytest.raises(BrokerDown, match="Connect call failed"):
            await watched.link.client()
    with pytest.raises(BrokerDown, match="Connect call failed"):
        await watched.link.client()
    await asyncio.to_thread(server.start)
    await until(lambda: watched.link.down is None, "it is there")
    assert await watched.link.client()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a link that is made after this waits: at most a second, and always all of it."""
    waits: list[float] = []

    def longest(_low: float, high: float) -> float:
        waits.append(high)
        return high

    monkeypatch.setattr(channel, "LONGEST", 1.0)
    monkeypatch.setattr(random, "uniform", longest)
    return waits


async def test_reconnecting_backs_off_and_resets_after_something_has_worked(
    server: NatsServer, waits: list[float], watched: Watched
) -> None:
    """A broker that takes nothing is not tried ten times a second, even if one can always connect to it."""
    await asyncio.to_thread(server.kill)
    with pytest.raises(BrokerDown):
        await watched.link.client()
    await until(lambda: len(watched.made) >= 6, "it was tried some times")
    assert waits[:5] == [0.1, 0.2, 0.4, 0.8, 1.0]
    gaps = [later - earlier for earlier, later in pairwise(watched.made_at)]
    assert all(gap >= wait for gap, wait in zip(gaps, waits, strict=False))
    await asyncio.to_thread(server.start)
    await until(lambda: watched.link.down is None, "it is there")
    await watched.lose()
    assert waits[-1] == 1.0
    watched.link.worked()
    await watched.lose()
    assert waits[-1] == 0.1


async def test_the_error_of_a_caller_has_the_cause_why_the_connection_cannot_be_opened(server: NatsServer) -> None:
    with NatsServer(more="authorization { token: secret }") as closed:
        watched = Watched(closed.url)
        for _ in range(2):
            with pytest.raises(BrokerDown) as raised:
                await watched.link.client()
            assert isinstance(raised.value.__cause__, Misuse)
        await watched.link.close()


class Deaf(Nats):
    """One that, like `wait_for` at times, does not say that it was cancelled."""

    ends: type[OSError] | None = OSError

    async def open(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if self.ends is not None:
            raise self.ends


class DeafAndWell(Deaf):
    ends = None


@pytest.mark.parametrize("kind", [Deaf, DeafAndWell])
@pytest.mark.parametrize("first", [True, False])
async def test_a_connection_is_closed_even_if_its_library_does_not_notice(
    kind: type[Deaf], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Nats] = []

    def make() -> Nats:
        made.append(kind("nats://127.0.0.1:1") if first or made else Nats("nats://127.0.0.1:1"))
        return made[-1]

    link = BrokerConnection(make)
    opening = asyncio.create_task(link.client())
    await until(lambda: made and isinstance(made[-1], Deaf), "it is being opened")
    async with asyncio.timeout(30):
        await link.close()
    many = len(made)
    with pytest.raises(BrokerDown if not first else asyncio.CancelledError):
        await opening
    await asyncio.sleep(0.3)  # there is no condition for what does not happen
    assert len(made) == many
    assert link.down is None


async def test_a_closed_connection_tries_no_more_and_can_be_used_again(server: NatsServer, watched: Watched) -> None:
    await asyncio.to_thread(server.kill)
    with pytest.raises(BrokerDown):
        await watched.link.client()
    await watched.link.close()
    many = len(watched.made)
    await asyncio.to_thread(server.start)
    await asyncio.sleep(0.5)
    assert len(watched.made) == many
    assert watched.link.down is None
    assert await watched.link.client()


async def test_losing_a_connection_that_was_replaced_already_changes_nothing(
    server: NatsServer, watched: Watched
) -> None:
    first: Any = await watched.link.client()
    first.give_up("gone")
    await until(lambda: watched.link.down is None and len(watched.made) == 2, "it is replaced")
    first.give_up("gone again")
    assert watched.link.down is None
    assert len(watched.said) == 2


class Stubborn:
    """A client whose library keeps to itself that it is cancelled."""

    lost: Any

    def __init__(self) -> None:
        self.opening, self.over = asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        self.opening.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.over.wait()
        await self.over.wait()

    async def publish(self, *_: Any) -> None: ...

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


async def test_a_library_that_cannot_be_cancelled_does_not_keep_a_connection_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 600)
    monkeypatch.setattr(channel, "CLOSED_WITHIN", 0.1)
    client = Stubborn()
    link = BrokerConnection(lambda: client)
    using = asyncio.create_task(link.client())
    await client.opening.wait()
    async with asyncio.timeout(20):
        await link.close()
    client.over.set()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert link.down is None
