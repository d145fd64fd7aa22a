"""Workers are killed in the middle of sending. The receiver has every event, and what it has twice was under way in a
kill."""

import asyncio
import random
import signal
from datetime import timedelta

import pytest

from duly import Duly, InStatus, Status, Timer, webhook
from duly.decide.targets.targets import origin_of
from duly.records.specs import Compare
from tests.crash.conftest import Supervise
from tests.crash.consistency import Comparison
from tests.crash.supervisor import Supervisor
from tests.receivers.healthy import Healthy

EVENTS, KILLS, IN_FLIGHT = 10_000, 6, 200
PLACES = 300
LEASE = timedelta(seconds=6)
OPTIONS = {
    "webhook_allow": "127.0.0.0/8",
    "secret_key": "k" * 40,
    "lease": "6s",
    "concurrency": PLACES,
    "batch_size": PLACES,
    "poll_interval": "500ms",
}


async def under_way(app: Duly, worker: str) -> list[str]:
    its_own = InStatus(Status.PROCESSING) & Compare("worker", "=", worker)  # those before it have left many behind
    return [event.id for event in await app.events.find(its_own, limit=1000)]


async def kill_in_full_flight(app: Duly, supervisor: Supervisor, healthy: Healthy) -> set[str]:
    """Start a worker, and end it while it is sending, with so many under way; what it had."""
    before = healthy.stats().posts
    worker = supervisor.start()
    await supervisor.until(lambda: healthy.stats().posts > before, f"{worker} sends")
    await asyncio.sleep(random.uniform(0, 0.2))
    had: set[str] = set()

    async def is_in_full_flight() -> bool:
        supervisor.signal(worker, signal.SIGCONT)
        await asyncio.sleep(random.uniform(0, 0.05))
        supervisor.signal(worker, signal.SIGSTOP)
        had.clear()
        had.update(await under_way(app, worker))
        return len(had) >= IN_FLIGHT

    await supervisor.until(is_in_full_flight, f"{worker} has {IN_FLIGHT} under way")
    supervisor.kill(worker)
    return had


@pytest.mark.timeout(300)
async def test_kills_lose_no_webhook_and_repeat_only_what_was_under_way(app: Duly, supervise: Supervise) -> None:
    with Healthy() as healthy:
        await app.targets.limit(origin_of(healthy.url), concurrency=PLACES)
        ids = await app.add_many(Timer(timedelta(), "hook", n, target=webhook(healthy.url)) for n in range(EVENTS))
        supervisor = supervise(**OPTIONS)
        had = [await kill_in_full_flight(app, supervisor, healthy) for _ in range(KILLS)]
        await supervisor.finish(patience=200)  # what was under way is delivered one by one
        arrivals = healthy.arrivals()

    told = f"after {len(supervisor.killed)} kills with {sum(map(len, had)):,} under way"
    assert len(supervisor.killed) == KILLS, told
    assert set(arrivals) == set(ids), told
    comparison = await Comparison.of_suspects(app)
    assert len(comparison.events) == len(comparison.in_status(Status.COMPLETED)) == EVENTS, told
    comparison.only_kills_interrupted(supervisor.killed, LEASE)
    interrupted = {id: comparison.events[id].interruptions for id in comparison.history}
    repeated = {id: arrival.posts - 1 for id, arrival in arrivals.items() if arrival.posts > 1}
    assert all(times <= interrupted.get(id, 0) for id, times in repeated.items()), f"repeated without a kill {told}"
    assert set(repeated) <= set().union(*had), f"repeated, and not under way in a kill {told}"
    assert sum(repeated.values()) <= sum(map(len, had)), told
    assert repeated, f"no kill came between sending and settling {told}"
