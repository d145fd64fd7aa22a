"""Libraries that keep to themselves that they are cancelled: they keep nobody from stopping."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duly.cli.demo import broker
from duly.signals import Signals
from duly.timer_service import service
from duly.timer_service.service import TimerBroker, TimerService, TimerSettings
from tests.worker.running_worker import PATIENCE


class Stubborn:
    def __init__(self) -> None:
        self.begun, self.over = asyncio.Event(), asyncio.Event()

    async def swallow(self) -> None:
        """The first time somebody cancels this, nothing happens."""
        self.begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.over.wait()

    async def take(self, _most: int, _within: float) -> list[Any]:
        await self.swallow()
        return []

    async def close(self) -> None: ...

    async def release(self) -> None: ...


async def test_the_demo_stops_its_intake_of_commands() -> None:
    stubborn: Any = Stubborn()
    duly: Any = SimpleNamespace(store=None, signals=Signals())
    demo = broker.DemoBroker("nats-server", "acme", lambda _: None)
    demo.broker = TimerBroker(stubborn, stubborn)
    taking = asyncio.create_task(demo.take_in(duly))
    await stubborn.begun.wait()
    taking.cancel()
    await asyncio.wait([taking], timeout=PATIENCE)
    stubborn.over.set()
    assert taking.cancelled()


async def test_a_worker_that_does_not_end_keeps_the_service_for_so_long_and_not_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DULY_SHUTDOWN_GRACE", "100ms")
    monkeypatch.setattr(service, "LAST_ROUND", 0.1)
    monkeypatch.setattr(service, "ENDED_WITHIN", 0.1)
    stubborn: Any = Stubborn()
    timers = TimerService(
        TimerSettings(database_url=f"sqlite:///{tmp_path}/timers.db"), TimerBroker(stubborn, stubborn)
    )

    async def run(**_: Any) -> None:
        await stubborn.swallow()
        await stubborn.over.wait()

    monkeypatch.setattr(timers.duly, "run", run)
    running = asyncio.create_task(timers.run(signals=False))
    await stubborn.begun.wait()
    timers.stop()
    ended, _ = await asyncio.wait([running], timeout=PATIENCE)
    stubborn.over.set()
    assert ended
    running.result()
    assert "service.stuck task=firing" in caplog.text
