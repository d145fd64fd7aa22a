"""A hundred thousand users: imported by their keys, and each greeted once by a receiver that knows them by these."""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import pytest
import uvicorn

from duly import webhook
from duly.api.server.server import address_of, listen
from duly.inbox import Inbox, Message
from duly.testing import ManualClock, travel
from tests.conftest import OpenDuly
from tests.make import START

EXHAUSTIVE = bool(os.environ.get("DULY_EXHAUSTIVE"))

USERS = 100_000 if EXHAUSTIVE else 3_000
"""Sender and receiver share one event loop here: each thousand takes them about a second."""

ZONES = ("Europe/Brussels", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "America/Los_Angeles")


def rows() -> Iterator[dict[str, Any]]:
    for number in range(USERS):
        born = date(1980, 1, 1) + timedelta(days=number % 366)
        yield {
            "key": f"customer-{number}",
            "first_name": "Ada",
            "last_name": f"Lovelace {number}",
            "date_of_birth": born.isoformat(),
            "timezone": ZONES[number % len(ZONES)],
        }


@asynccontextmanager
async def greeting(listening: socket.socket, secret: str) -> AsyncIterator[Counter[str]]:
    """A receiver of webhooks: how often it has greeted each user, by the key that its own system has for them."""
    greeted: Counter[str] = Counter()

    async def greet(message: Message) -> None:
        greeted[message.event["user"]["key"]] += 1

    server = uvicorn.Server(uvicorn.Config(Inbox(secret).asgi(greet), log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield greeted
    finally:
        server.should_exit = True
        await task


@pytest.mark.timeout(1800 if EXHAUSTIVE else 240)
async def test_each_of_many_users_is_greeted_once_a_year_by_a_receiver_that_knows_their_keys(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly(secret_key="a key of at least thirty-two characters", webhook_allow="127.0.0.0/8")
    with listen("127.0.0.1", 0) as listening:
        shop = await app.targets.put("shop", address_of(listening))
        assert shop.secret is not None
        await app.event_types.update("birthday", target=webhook(target="shop"))
        imported = await app.users.import_(rows())
        assert (imported.added, imported.refused) == (USERS, 0)
        again = await app.users.import_(rows())
        assert (again.added, again.unchanged) == (0, USERS)
        async with greeting(listening, shop.secret) as greeted, travel(app, START) as time:
            await time.to(START + timedelta(days=365))
    assert greeted == {f"customer-{number}": 1 for number in range(USERS)}
