"""SIGTERM is heard from the first moment to the last."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duly.records.event import Delivered, Event
from duly.timer_service.service import TimerBroker, TimerService, TimerSettings
from tests.worker.running_worker import PATIENCE

HEARD_BY_NOBODY = (signal.SIG_DFL, None)


class Silent:
    """A broker that says nothing while somebody connects, and what happens then."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.heard: list[str] = []

    def signalled(self, when: str) -> None:
        """Somebody sends SIGTERM, if that does not end the tests."""
        if signal.getsignal(signal.SIGTERM) not in HEARD_BY_NOBODY:
            self.heard.append(when)
            os.kill(os.getpid(), signal.SIGTERM)

    # -- as a channel

    async def prepare(self) -> None:
        if self._silent:
            self.signalled("connecting")
            await asyncio.Event().wait()

    async def deliver(self, _event: Event) -> Delivered:
        return Delivered()

    # -- as a source of commands

    async def take(self, _most: int, _within: float) -> Sequence[Any]:
        self.signalled("waiting")
        await asyncio.sleep(0.1)
        return []

    async def reject(self, _command: Any, *_rejections: bytes) -> str | None:
        return None

    async def release(self) -> None:
        self.signalled("finishing")

    async def close(self) -> None:
        pass


async def served(broker: Silent, tmp_path: Path) -> None:
    both: Any = broker
    settings = TimerSettings(database_url=f"sqlite:///{tmp_path}/timers.db")
    running = asyncio.create_task(TimerService(settings, TimerBroker(both, both)).run())
    ended, _ = await asyncio.wait([running], timeout=PATIENCE)
    if not ended:
        running.cancel()
    assert ended, "it does not stop"
    running.result()


async def test_a_broker_that_does_not_answer_does_not_keep_the_service_from_stopping(tmp_path: Path) -> None:
    broker = Silent(silent=True)
    await served(broker, tmp_path)
    assert broker.heard[0] == "connecting"


async def test_a_second_signal_does_not_end_the_shutdown_early(tmp_path: Path) -> None:
    broker = Silent(silent=False)
    await served(broker, tmp_path)
    assert broker.heard[0] == "waiting"
    assert broker.heard[-1] == "finishing", "after the worker has ended"
