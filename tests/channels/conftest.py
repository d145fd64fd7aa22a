import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from duly.channels.sending import Sender
from duly.channels.webhook import Webhook
from duly.core.addresses import read_networks
from duly.core.model import Outcome
from duly.core.secrets import Keys
from duly.core.targets import webhook
from tests.make import make_event
from tests.receivers.conftest import healthy, healthy_process, hostile, hostile_process
from tests.receivers.hostile import Hostile

__all__ = ["healthy", "healthy_process", "hostile", "hostile_process"]

LOOPBACK = read_networks("127.0.0.0/8")
QUICK = "300ms"
"""What a receiver gets to answer, unless the test says otherwise."""

Deliver = Callable[..., Awaitable[Outcome]]


@pytest.fixture
async def sender(hostile: Hostile) -> AsyncIterator[Sender]:
    """Reaches loopback, and trusts the authority of the hostile receiver."""
    sender = Sender(LOOPBACK, tls=ssl.create_default_context(cafile=hostile.authority))
    yield sender
    await sender.close()


@pytest.fixture
def deliver(hostile: Hostile, sender: Sender) -> Deliver:
    """Delivers an event to the hostile receiver as a webhook: ``await deliver("/status/503")``."""
    no_directory: Any = None  # of stored targets: these are URLs
    channel = Webhook(sender, no_directory, Keys("k" * 32))

    async def deliver(path: str, door: str = "open", *, timeout: str = QUICK, **fields: Any) -> Outcome:
        target = webhook(hostile.url(path, door), timeout=timeout)
        return await channel.deliver(make_event(target=target, **fields))

    return deliver
