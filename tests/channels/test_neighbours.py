"""Whoever delivers to a healthy receiver does not notice that others deliver to hostile ones."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, Timer, webhook
from tests.receivers.healthy import Healthy
from tests.receivers.hostile import Hostile
from tests.worker.running_worker import working

DELIVERIES, APART = 400, timedelta(milliseconds=10)
EACH = 40
"""Deliveries to each hostile address, spread over the same time: together, far more than a worker starts at once."""

NOTICED = 15.0
"""Seconds that no machine is too busy for. Whoever waits for a hostile receiver waits for half a minute; how much later
than alone the others are is printed, for people to read."""

HOSTILE = [
    ("/no-answer", "open"),
    ("/slow-headers", "open"),
    ("/never-reads", "open"),
    ("/big?status=500", "open"),
    ("/ok", "silent"),
    ("/ok", "unanswered"),
    ("/ok", "stalled"),
    ("/ok", "refused"),
    ("/ok", "resets"),
    ("/ok", "self-signed"),
]


async def test_hostile_receivers_do_not_delay_the_others(
    hostile: Hostile, healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [hostile.url(path, door) for path, door in HOSTILE]
    app = Duly("sqlite://", webhook_allow="127.0.0.0/8", shutdown_grace="100ms")
    async with app, working(app):
        alone, beside = await lateness(app, healthy), await lateness(app, healthy, urls)
    with capsys.disabled():
        print(f"\n99 % arrived within {1000 * alone:.0f} ms alone, {1000 * beside:.0f} ms beside hostile receivers")
    assert beside < NOTICED
    assert hostile.connections().accepted > len(HOSTILE), "somebody was there"


async def lateness(app: Duly, healthy: Healthy, beside: Sequence[str] = ()) -> float:
    """How late deliveries to the healthy receiver arrive, in seconds: 99 % of them are no later."""
    healthy.reset()
    first = datetime.now(UTC) + timedelta(seconds=0.5)
    dues = [first + number * APART for number in range(DELIVERIES)]
    stalling = itertools.product(dues[:: DELIVERIES // EACH], beside)
    await app.add_many(Timer(due, "stall", target=webhook(url, timeout="30s")) for due, url in stalling)
    ids = await app.add_many(Timer(due, "ping", target=webhook(healthy.url)) for due in dues)
    await asyncio.to_thread(healthy.wait_for, DELIVERIES)
    arrivals = healthy.arrivals()
    late = sorted(arrivals[id].at - due.timestamp() for id, due in zip(ids, dues, strict=True))
    assert late[0] >= 0, "nothing is early"
    return late[DELIVERIES * 99 // 100]
