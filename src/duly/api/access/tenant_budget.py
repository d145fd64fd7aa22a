"""Limits on the processor time that one tenant's costly requests take: rules to evaluate, and long answers.

The rate limit of a key covers ordinary requests. But a preview may take half a second, and a page of 9 MB or of a
thousand events takes 30 ms, so a few clients that request them in a loop would leave nothing for other tenants.
"""

from asyncio import sleep, timeout
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from duly.api.protocol.problems import RefusedRequest
from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.engine.series.rule_threads import SPENT, Spent

TENANT_CORE_SHARE = 0.2
"""Share of a core, over time, for the costly work of one tenant."""

BURST_S = 1.0
"""Seconds of costly work that a tenant may use before its requests wait."""

BUDGET_TIMEOUT_S = 10.0
"""Seconds for which a request waits for its tenant's budget before it is refused."""

ADVANCE_CHARGE_S = 0.02
"""Seconds charged for each request that has waited, in advance."""

LONG_ANSWER_BYTES = 65_536
"""Bytes; a shorter answer costs nothing."""

CPU_S_PER_BYTE = 3e-9
"""Seconds of processor time to read and write a byte of an answer."""

CPU_S_PER_ITEM = 30e-6
"""Seconds of processor time for an item of a page, whatever its size."""

MOST_TENANTS_KEPT = 10_000
"""Tenants whose budgets are kept, to limit the memory."""


class TenantBudget:
    """The budget of each tenant, which refills at TENANT_CORE_SHARE. While it is overdrawn, the tenant's requests start
    one at a time, each when the work before it has been paid off."""

    def __init__(self) -> None:
        self._paid_at: OrderedDict[str, float] = OrderedDict()  # the time.monotonic at which the debt is paid off
        self._queue = KeyedSemaphore(1)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[Spent]:
        """Charges the processor time of the request inside to its tenant's budget; waits first if the budget is
        overdrawn."""
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
            async with timeout(BUDGET_TIMEOUT_S), self._queue.one(tenant):
                await sleep(self._wait(tenant))
                self._spend(tenant, ADVANCE_CHARGE_S)  # otherwise, all waiting requests would start together
        except TimeoutError:
            told = "the requests of this tenant take more than its share of this server's processor time"
            raise RefusedRequest(
                429, f"{told}: send requests more slowly", headers={"Retry-After": str(round(BUDGET_TIMEOUT_S))}
            ) from None

    def _wait(self, tenant: str) -> float:
        return self._paid_at.get(tenant, 0.0) - BURST_S / TENANT_CORE_SHARE - monotonic()

    def _spend(self, tenant: str, seconds: float) -> None:
        now = monotonic()
        self._paid_at[tenant] = max(self._paid_at.pop(tenant, now), now) + seconds / TENANT_CORE_SHARE
        while len(self._paid_at) > MOST_TENANTS_KEPT or (self._paid_at and next(iter(self._paid_at.values())) <= now):
            self._paid_at.popitem(last=False)


def long_answer(size: int, items: int = 0) -> float:
    """Seconds of processor time that an answer of *size* bytes has cost."""
    return size * CPU_S_PER_BYTE + items * CPU_S_PER_ITEM if size > LONG_ANSWER_BYTES else 0.0
