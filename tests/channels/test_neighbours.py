"""Whoever delivers to a healthy receiver does not notice that others deliver to hostile ones."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from duly import Duly, Timer, webhook
from tests.receivers.healthy import Healthy
from tests.receivers.hostile import Hostile
from tests.worker.watching import working

DELIVERIES, APART = 400, timedelta(milliseconds=10)
EACH = 40
"""Deliveries to each hostile address, spread over the same time: together, far more than a worker starts at once."""

NOTICED = 0.25
"""Seconds that a busy machine adds by itself. Whoever waits for a hostile receiver waits for seconds."""

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


async def test_hostile_receivers_do_not_delay_the_others(hostile: Hostile, healthy: Healthy) -> None:
    urls = [hostile.url(path, door) for path, door in HOSTILE]
    for _ in range(2):  # the machine may have had something else to do
        # In memory: the disk of a busy machine makes some wait longer than any receiver could.
        app = Duly("sqlite://", webhook_allow="127.0.0.0/8", shutdown_grace="100ms")
        async with app, working(app):
            await lateness(app, healthy, 100)  # connections are open, and everything is imported
            alone = await lateness(app, healthy, DELIVERIES)
            beside = await lateness(app, healthy, DELIVERIES, urls)
        if beside <= (limit := max(2 * alone, alone + NOTICED)):
            break
    assert beside <= limit, f"99 % arrived within {alone:.3f} s alone, {beside:.3f} s beside"
    assert hostile.connections().accepted > len(HOSTILE), "somebody was there"


async def lateness(app: Duly, healthy: Healthy, many: int, beside: Sequence[str] = ()) -> float:
    """How late deliveries to the healthy receiver arrive, in seconds: 99 % of them are no later."""
    healthy.reset()
    first = datetime.now(UTC) + timedelta(seconds=0.5)
    dues = [first + number * APART for number in range(many)]
    stalling = itertools.product(dues[:: many // EACH], beside)
    await app.add_many(Timer(due, "stall", target=webhook(url)) for due, url in stalling)
    ids = await app.add_many(Timer(due, "ping", target=webhook(healthy.url)) for due in dues)
    await asyncio.to_thread(healthy.wait_for, many)
    arrivals = healthy.arrivals()
    late = sorted(arrivals[id].at - due.timestamp() for id, due in zip(ids, dues, strict=True))
    assert late[0] >= 0, "nothing is early"
    return late[many * 99 // 100]
