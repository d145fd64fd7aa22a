"""How much of a server's processor one tenant may take by what is costly: rules to evaluate, and long answers.

What an ordinary request takes is limited by the rate of its key. A preview may take half a second, and a page of 9 MB
or of a thousand events takes 30 ms, so a few loops that ask for them again and again would leave nothing to the others.
"""

from asyncio import sleep, timeout
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from duly.api.protocol.problems import RefusedRequest
from duly.engine.rule_threads import SPENT, Spent
from duly.keyed_semaphore import KeyedSemaphore

SHARE = 0.2
"""Of a core, over time, for the costly work of one tenant."""

BURST = 1.0
"""Seconds of such work that are not waited for."""

PATIENCE = 10.0
"""Seconds for which a request waits until its tenant's work is paid for."""

ADVANCE = 0.02
"""Seconds that each request costs while its tenant's account is overdrawn."""

LONG = 65_536
"""Bytes; a shorter answer costs nothing."""

PER_BYTE = 3e-9
"""Seconds of processor time to read and write a byte of an answer."""

PER_ITEM = 30e-6
"""The same for an item of a page, whatever its size."""

MOST_KEPT = 10_000


class TenantBudget:
    """Each tenant has an account that refills at SHARE. While it is overdrawn, its requests begin one by one, each when
    what came before is paid for."""

    def __init__(self) -> None:
        self._paid_at: OrderedDict[str, float] = OrderedDict()  # when all is paid for, by time.monotonic
        self._queue = KeyedSemaphore(1)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[Spent]:
        """While a request is answered: what it spends is put to its tenant's account."""
        if self._wait(tenant) > 0:
            await self._wait_until_paid(tenant)
        spent = Spent()
        token = SPENT.set(spent)
        try:
            yield spent
        finally:
            SPENT.reset(token)
            if spent.seconds:
                self._spend(tenant, spent.seconds)

    async def _wait_until_paid(self, tenant: str) -> None:
        try:
            async with timeout(PATIENCE), self._queue.one(tenant):
                await sleep(self._wait(tenant))
                self._spend(tenant, ADVANCE)  # or all that wait would begin together
        except TimeoutError:
            told = "the rules and pages that were asked for take more than one tenant's share of this server"
            raise RefusedRequest(
                429, f"{told}: ask more slowly", headers={"Retry-After": str(round(PATIENCE))}
            ) from None

    def _wait(self, tenant: str) -> float:
        return self._paid_at.get(tenant, 0.0) - BURST / SHARE - monotonic()

    def _spend(self, tenant: str, seconds: float) -> None:
        now = monotonic()
        self._paid_at[tenant] = max(self._paid_at.pop(tenant, now), now) + seconds / SHARE
        while len(self._paid_at) > MOST_KEPT or (self._paid_at and next(iter(self._paid_at.values())) <= now):
            self._paid_at.popitem(last=False)


def long_answer(size: int, items: int = 0) -> float:
    """Seconds that an answer of so many bytes has cost."""
    return size * PER_BYTE + items * PER_ITEM if size > LONG else 0.0
