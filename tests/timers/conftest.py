"""The timer service in this process, on each store, with a real nats-server, and somebody who sends it commands."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from duly.signals import WorkerStarted
from duly.timer_service.service import TimerService, TimerSettings
from tests.brokers import NatsServer
from tests.crash.conftest import url
from tests.timers.desk import Desk
from tests.worker.running_worker import PATIENCE, Told, until

__all__ = ["url"]


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
async def desk(server: NatsServer) -> AsyncIterator[Desk]:
    async with Desk(server.url) as desk:
        yield desk


class Served:
    """A service that runs, and what it tells."""

    def __init__(self, settings: TimerSettings) -> None:
        self.service = TimerService(settings)
        self.duly = self.service.duly
        self.told = Told(self.duly)
        self.running: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        return bool(self.told.of(WorkerStarted))

    async def stop(self) -> None:
        assert self.running is not None
        self.service.stop()
        await asyncio.wait([self.running], timeout=PATIENCE)
        assert self.running.done(), f"the service did not stop within {PATIENCE:g} s"
        self.running.result()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(url: str, server: NatsServer) -> Serve:
    """Runs a service beside what follows, on the test's database and server, and stops it in good order after that."""

    @asynccontextmanager
    async def serve(prepare: Callable[[Served], Any] | None = None, **settings: Any) -> AsyncIterator[Served]:
        served = Served(TimerSettings(**({"database_url": url, "broker_url": server.url} | settings)))
        if prepare is not None:
            prepare(served)
        served.running = asyncio.create_task(served.service.run(signals=False), name=f"service {random.random()}")
        try:
            yield served
        except BaseException:
            if served.running.done() and not served.running.cancelled() and (error := served.running.exception()):
                raise error  # noqa: B904  (why all else fails)
            served.running.cancel()
            await asyncio.gather(served.running, return_exceptions=True)
            raise
        await served.stop()

    return serve


@asynccontextmanager
async def outage(server: NatsServer) -> AsyncIterator[None]:
    """Whatever becomes of the test, the server runs again after it."""
    await asyncio.to_thread(server.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(server.start)


async def consuming(desk: Desk) -> None:
    """Return when a service takes commands."""
    await until(desk.is_consumed, "the service takes commands")
