"""Whoever replays many may die at any moment: what was replayed stays so, and the next call replays the rest."""

import asyncio
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter

import pytest

from duly import Duly, Event
from tests.dead_letters import dead
from tests.make import make_new

REPLAY = """if True:
    import asyncio, sys, time
    from duly import Duly
    from duly.verbs.events import dead_letters

    dead_letters.LETTERS_PER_TRANSACTION = 20

    def tell(done):
        print(done.events, flush=True)
        if done.events >= 240:
            time.sleep(3600)  # until it is killed, however late

    async def replay():
        async with Duly(sys.argv[1]) as duly:
            await duly.events.replay_all(rate=100_000, progress=tell)

    asyncio.run(replay())
"""
LETTERS, KILLS = 2000, 8


async def replay_and_die(url: str) -> int:
    """How many it had told of when it was killed, wherever it was by then."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", REPLAY, url, stdin=DEVNULL, stdout=PIPE)
    assert process.stdout is not None
    told = b"0"
    for _ in range(random.randint(1, 6)):
        told = await asyncio.wait_for(process.stdout.readline(), 60)
    await asyncio.sleep(random.uniform(0, 0.01))
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    return int(told)


@pytest.mark.timeout(300)
async def test_kills_in_the_middle_of_a_replay_lose_nothing_and_repeat_nothing(app: Duly, url: str) -> None:
    greeted: Counter[str] = Counter()

    @app.on("greet")
    async def greet(event: Event) -> None:
        greeted[event.id] += 1

    ids = [id for _ in range(LETTERS // 1000) for id in await dead(app.store, 1000)]
    others = await app.store.add([make_new(type="other")])
    told = sum([await replay_and_die(url) for _ in range(KILLS)])
    left = (await app.events.dead_letters()).events
    assert 0 < left <= LETTERS - told, "what was told of is stored"

    assert (await app.events.replay_all()).events == left
    for id in ids:
        assert [entry.act for entry in await app.events.history(id)] == ["rejected", "replayed"]
    await app.tick()
    assert greeted == Counter(ids)
    assert await app.events.history(others[0]) == []
