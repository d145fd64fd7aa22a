"""What a process of the chaos suite is told, and what it does first."""

import asyncio
import ctypes
import logging
import signal
import sys
import time
from typing import Any

import msgspec

from tests.crash.forked import say_into
from tests.crash.killed_worker import Journal, end_with_supervisor
from tests.network import join

SIGNAL_OF_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)

BLINK_SECONDS = 0.2
"""How often a worker looks whether it could run."""

STALL_SECONDS = 1.0
"""A worker that could not run for longer says so: what it lost meanwhile is the machine's doing."""


class Orders(msgspec.Struct, frozen=True):
    url: str
    journal: str
    log: str
    name: str
    seed: str
    receiver: str  # the URL that webhooks go to
    namespace: str | None = None
    options: dict[str, Any] = {}

    @property
    def dialect(self) -> str:
        return self.url.partition(":")[0]


class LongJournal(Journal):
    SLOT = 512


def begin(orders: Orders) -> LongJournal:
    if sys.platform == "linux":  # a stopped process cannot end itself
        ctypes.CDLL(None).prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    if orders.namespace is not None:
        join(orders.namespace)
    end_with_supervisor()
    say_into(orders.log)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    return LongJournal(orders)


async def tell_of_stalls(journal: Journal) -> None:
    last = time.monotonic()
    while True:
        await asyncio.sleep(BLINK_SECONDS)
        now = time.monotonic()
        if now - last > STALL_SECONDS:
            journal.write("stalled", began=time.time() - (now - last), ended=time.time())
        last = now


def tell_tasks_on_signal() -> None:
    """SIGUSR1: say what every task waits for."""

    def tell() -> None:
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)
        sys.stderr.flush()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
