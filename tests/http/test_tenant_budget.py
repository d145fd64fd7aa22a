"""What one tenant's costly requests take of a server is its own to wait for."""

import asyncio
import time
from typing import Any

import pytest

from duly.api.access import tenant_budget
from duly.api.access.tenant_budget import BUDGET_TIMEOUT_S, BURST_S, TENANT_CORE_SHARE, TenantBudget, long_answer
from duly.api.protocol.problems import RefusedRequest
from duly.engine.series.rule_threads import SPENT, Spent, evaluated
from tests.http.calling import Caller

PREVIEW = {"rule": {"cron": "0 9 * * *"}, "count": 3}


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(tenant_budget, "monotonic", lambda: self.now)
        monkeypatch.setattr(tenant_budget, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock_of_pace(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def spend(kept: TenantBudget, tenant: str, seconds: float) -> None:
    async with kept.turn(tenant) as spent:
        spent.seconds += seconds


async def test_a_burst_is_free_and_more_time_is_waited_for_first(clock_of_pace: Clock) -> None:
    kept, began = TenantBudget(), clock_of_pace.now
    await spend(kept, "acme", BURST_S)
    await spend(kept, "acme", 0.5)
    assert clock_of_pace.now == began
    await spend(kept, "acme", 0.0)
    assert clock_of_pace.now - began == pytest.approx(0.5 / TENANT_CORE_SHARE)


async def test_over_time_a_tenant_uses_its_share_and_another_tenant_does_not_wait(clock_of_pace: Clock) -> None:
    kept, began = TenantBudget(), clock_of_pace.now
    for _ in range(200):
        await spend(kept, "acme", 0.1)
        before = clock_of_pace.now
        await spend(kept, "globex", 0.0)
        assert clock_of_pace.now == before
    used = 200 * 0.1 / (clock_of_pace.now - began)
    assert TENANT_CORE_SHARE * 0.7 < used <= TENANT_CORE_SHARE * 1.1


async def test_cheap_requests_never_wait_for_the_budget(clock_of_pace: Clock) -> None:
    kept, began = TenantBudget(), clock_of_pace.now
    for _ in range(10_000):
        await spend(kept, "acme", long_answer(1000, 1))
    assert clock_of_pace.now == began
    assert long_answer(9_000_000, 9) == pytest.approx(0.027, rel=0.1)
    assert long_answer(700_000, 1000) == pytest.approx(0.032, rel=0.1), (
        "small events take long as well, if they are many"
    )


async def test_a_tenant_that_would_wait_too_long_is_refused() -> None:
    kept = TenantBudget()
    await spend(kept, "acme", BURST_S + 2 * BUDGET_TIMEOUT_S)
    began = time.monotonic()
    kept_patience, tenant_budget.BUDGET_TIMEOUT_S = tenant_budget.BUDGET_TIMEOUT_S, 0.01
    try:
        with pytest.raises(
            RefusedRequest, match="take more than its share of this server's processor time: send requests more slowly"
        ):
            await spend(kept, "acme", 0.0)
    finally:
        tenant_budget.BUDGET_TIMEOUT_S = kept_patience
    assert time.monotonic() - began < BUDGET_TIMEOUT_S


async def test_budgets_that_are_full_again_are_forgotten(clock_of_pace: Clock) -> None:
    kept = TenantBudget()
    for number in range(100):
        await spend(kept, f"t{number}", 0.001)
    clock_of_pace.now += 10
    await spend(kept, "last", 0.001)
    assert list(kept._paid_at) == ["last"]


async def test_time_in_threads_counts_for_the_tenant_that_asked() -> None:
    def computes() -> int:
        ends = time.thread_time() + 0.02
        while time.thread_time() < ends:
            pass
        return 7

    async def asked() -> float:
        spent = Spent()
        SPENT.set(spent)
        assert await evaluated(computes) == 7
        return spent.seconds

    for seconds in await asyncio.gather(asyncio.create_task(asked()), asyncio.create_task(asked())):
        assert 0.02 <= seconds < 0.2


async def test_previews_pages_and_rules_count_against_the_budget(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(TenantBudget, "_spend", lambda _, tenant, seconds: counted.append((tenant, seconds)))
    for method, path, body in (
        ("POST", "/v1/schedules/preview", PREVIEW),
        ("PUT", "/v1/schedules/daily", {"type": "x", "rule": PREVIEW["rule"]}),
        ("PUT", "/v1/timers/large", {"type": "x", "after": "1h", "payload": "x" * 500_000}),
        ("GET", "/v1/events", None),
    ):
        counted.clear()
        assert (await http(method, path, body)).is_success
        assert [(tenant, seconds > 0) for tenant, seconds in counted] == [("default", True)], path
    counted.clear()
    assert (await http("PUT", "/v1/timers/small", {"type": "x", "after": "1h"})).is_success
    assert counted == [], "an ordinary request is limited by its key's rate"
