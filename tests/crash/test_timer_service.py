"""The timer service and its broker are killed, one, the other or both, and come back in any order, again and
again. Every command that the broker has accepted ends as one event in the stream."""

import asyncio
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from duly import Duly, InStatus, Status
from duly.channels.brokers.nats_streams import COMMANDS, FOR_EVENTS
from tests.brokers import NatsServer
from tests.crash.forked import start_duly
from tests.crash.killed_worker import SPARED
from tests.timers.desk import Desk, command, encode, in_seconds
from tests.worker.running_worker import until

KILLS = 50
"""On each store, so a hundred in all."""

RATE = 100
"""Commands a second."""

SETTINGS = {"DULY_LEASE": "1s", "DULY_STORE_TIMEOUT": "950ms", "TIMER_POLLING_INTERVAL": "500"}


class Service:
    """`duly timer-service` in a process of its own, one after another."""

    def __init__(self, app: Duly, server: NatsServer, folder: Path) -> None:
        self._app, self._folder = app, folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DULY_", "TIMER_"))}
        self._environment = kept | SETTINGS | {"TIMER_BROKER_URL": server.url}
        self._words = ["timer-service", "--db", app.settings.database_url]
        self._process: ForkServerProcess | None = None
        self._started = 0

    def start(self) -> None:
        self._started += 1
        self._log(self._started).touch()
        self._process = start_duly(self._words, self._environment, self._log(self._started))

    def _log(self, number: int) -> Path:
        return self._folder / f"log-{number}"

    def logs(self) -> str:
        return "".join(self._log(number).read_text() for number in range(1, self._started + 1))

    async def up(self) -> None:
        await until(lambda: "worker.started" in self._log(self._started).read_text(), "it has started")

    async def kill(self) -> None:
        """But not while an event is under way that was in other crashes: five of those, and it would be taken for their
        cause."""
        process = self._process
        assert process is not None
        assert process.pid is not None
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            under_way = await self._app.events.find(InStatus(Status.PROCESSING), limit=1000)
            if not any(event.interruptions >= SPARED for event in under_way):
                break
            os.kill(process.pid, signal.SIGCONT)
            await asyncio.sleep(0.02)
        process.kill()
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
        self._process = None

    def check(self) -> None:
        """It has not ended by itself."""
        assert self._process is not None
        assert self._process.is_alive(), f"it ended with {self._process.exitcode}: {self.logs()[-5000:]}"

    def stop(self) -> int | None:
        assert self._process is not None
        self._process.terminate()
        self._process.join(30)
        code = self._process.exitcode
        self._process = None
        return code

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(30)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def service(app: Duly, server: NatsServer, tmp_path: Path) -> Iterator[Service]:
    service = Service(app, server, tmp_path)
    yield service
    service.end()


class Sender:
    """Sends commands all the time, and knows which were accepted."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.accepted: set[str] = set()
        self.sent = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        sending = asyncio.create_task(self._send())
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                group.create_task(self._send_one(f"s{number}"))
                self.sent += 1
                await asyncio.sleep(1 / RATE)

    async def _send_one(self, key: str) -> None:
        with suppress(Exception):  # the broker is away: whether it has this one, nobody knows
            await self._desk.stream.publish(COMMANDS, encode(command(key, in_seconds(random.uniform(0, 2)))), timeout=1)
            self.accepted.add(key)


async def kill_and_restart(service: Service, server: NatsServer) -> int:
    """How many were killed."""
    victims = random.choice([["service"], ["service", "server"], ["server"], ["server"], ["server"]])
    if "service" in victims and random.random() < 0.8:
        await service.up()  # or it is killed while it starts
    await asyncio.sleep(random.uniform(0, 0.2))
    for victim in random.sample(victims, len(victims)):
        await (service.kill() if victim == "service" else asyncio.to_thread(server.kill))
    await asyncio.sleep(random.choice([0, 0.1]))
    for victim in random.sample(victims, len(victims)):
        if victim == "service":
            service.start()
        else:
            await asyncio.to_thread(server.start)
    return len(victims)


@pytest.mark.timeout(300)
async def test_kills_in_any_order_lose_no_accepted_command_and_repeat_no_event(
    app: Duly, server: NatsServer, service: Service
) -> None:
    began, killed = time.monotonic(), 0
    async with Desk(server.url) as desk:
        sender = Sender(desk)
        service.start()
        await service.up()
        async with sender.at_work():
            while killed < KILLS:
                killed += await kill_and_restart(service, server)

        async def nothing_is_left() -> bool:
            service.check()
            return await desk.nothing_is_left() and await nothing_is_pending(app)

        await until(nothing_is_left, "every command is stored and every timer settled", patience=120)
        published = Counter(
            json.loads(message.data or b"")["payload"]["serviceCallId"] for message in await desk.stored(FOR_EVENTS)
        )
    assert service.stop() == 0
    told = f"{killed} kills in {time.monotonic() - began:.0f} s: {len(sender.accepted)} of {sender.sent} accepted"
    print(told)
    assert len(sender.accepted) > RATE, told
    assert not sender.accepted - set(published), f"lost, {told}"
    assert set(published.values()) == {1}, f"published twice, {told}"
    assert await by_state(app) == {"Reached": len(published)}, told
    assert "Traceback" not in service.logs()


async def by_state(app: Duly) -> dict[str, int]:
    view = "timer_schedules" if app.settings.database_url.startswith("sqlite") else "duly.timer_schedules"
    async with app.transaction() as tx:
        rows = await tx.fetch(f"SELECT state, count(*) FROM {view} GROUP BY state")
    return {row[0]: row[1] for row in rows}


async def nothing_is_pending(app: Duly) -> bool:
    return not any(status in (Status.PENDING, Status.PROCESSING) for _, status, _, _ in await app.store.overview())
