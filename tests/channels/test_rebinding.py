"""A name means what it means at the moment of connecting, whatever it meant before."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from duly.channels.http.sender import OutgoingRequest, Sender
from duly.decide.targets.addresses import Network
from duly.records.event import Delivered, Failed, Rejected
from tests.channels.conftest import LOOPBACK
from tests.receivers.hostile import Hostile
from tests.receivers.resolving import Names

Knowing = Callable[..., Sender]


@pytest.fixture
async def knowing() -> AsyncIterator[Knowing]:
    """Makes senders for whom ``hooks.example`` has these addresses, one answer after the other."""
    async with AsyncExitStack() as stack:

        def knowing(*answers: str | Sequence[str], allowed: Sequence[Network] = LOOPBACK) -> Sender:
            sender = Sender(allowed, resolver=Names({"hooks.example": answers}))
            stack.push_async_callback(sender.close)
            return sender

        yield knowing


@pytest.fixture
def request_to_name(hostile: Hostile) -> OutgoingRequest:
    return OutgoingRequest("POST", hostile.url("/ok", host="hooks.example"), {}, b"{}")


async def test_a_name_that_comes_to_mean_a_closed_network_is_blocked(
    knowing: Knowing, hostile: Hostile, request_to_name: OutgoingRequest, caplog: pytest.LogCaptureFixture
) -> None:
    sender = knowing("127.0.0.1", "10.0.0.1")
    assert await sender.send(request_to_name) == Delivered()
    await sender.close()  # with its connections, and what it remembers of names
    outcome = await sender.send(request_to_name)
    assert isinstance(outcome, Rejected)
    assert "10.0.0.1 is a private network" in caplog.text
    assert "10.0.0.1" not in outcome.error
    assert len(hostile.requests()) == 1


async def test_a_name_for_loopback_is_blocked_before_it_is_connected_to(
    knowing: Knowing, hostile: Hostile, request_to_name: OutgoingRequest, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await knowing("127.0.0.1", allowed=()).send(request_to_name)
    assert isinstance(outcome, Rejected)
    assert "127.0.0.1 is loopback" in caplog.text
    assert "127.0.0.1" not in outcome.error
    assert hostile.connections().accepted == 0


async def test_of_several_addresses_an_open_one_is_taken(
    knowing: Knowing, hostile: Hostile, request_to_name: OutgoingRequest
) -> None:
    assert await knowing(["10.0.0.1", "127.0.0.1"]).send(request_to_name) == Delivered()


async def test_a_name_that_does_not_exist_fails_and_is_told(knowing: Knowing, hostile: Hostile) -> None:
    outcome = await knowing("127.0.0.1").send(OutgoingRequest("POST", hostile.url("/ok", host="nowhere.example"), {}))
    assert isinstance(outcome, Failed)
    assert "its host name cannot be resolved" in outcome.error
    assert "nowhere.example" in outcome.error
