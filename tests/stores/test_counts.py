"""Counts are exact while they are small, else estimates that say so; none examines more than it may."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.records.event import Status
from duly.records.finding import counts as records
from duly.records.finding.counts import Count, counted
from duly.records.specs import Everything, InStatus, OfTenant, OfType, Overdue, Spec
from duly.stores.finding import counts
from tests.conftest import AnyStore
from tests.make import HOUR, START, make_event
from tests.stores.rows import keep, write
from tests.stores.test_waiting_order import Facts, facts, made, specs, tenants

pytestmark = pytest.mark.broken_rows("its rows are written by hand")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(told=st.lists(facts, max_size=12), spec=specs, tenant=tenants)
async def test_a_small_count_is_exact(store: AnyStore, told: list[Facts], spec: Spec, tenant: str | None) -> None:
    crowd = made(told)
    await write(store, "DELETE FROM duly.events")
    await keep(store, *crowd)
    asked = spec if tenant is None else spec & OfTenant(tenant)
    expected = sum(asked.matches(one, START) for one in crowd)
    assert await store.count_events(asked) == Count(expected, exact=True)


async def test_overdue_events_are_counted_by_the_clock_of_the_store(store: AnyStore) -> None:
    await keep(store, make_event(due=START - 3 * HOUR), make_event(due=START + HOUR))
    assert await store.count_events(Overdue(hours=1)) == Count(1, exact=True)


@pytest.mark.parametrize(
    "spec", [Everything(), InStatus("PENDING"), InStatus("PENDING") & OfType("greet"), OfType("greet")]
)
async def test_a_count_beyond_what_is_counted_or_examined_says_that_it_is_an_estimate(
    store: AnyStore, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_COUNTED", 20)
    monkeypatch.setattr(counts, "MOST_COUNTED", 20)
    monkeypatch.setattr(counts, "COUNT_EXAMINED", 30)
    await keep(store, *(make_event(due=START + n * HOUR) for n in range(40)))
    await write(store, "ANALYZE")
    found = await store.count_events(spec)
    assert found == Count(40, exact=False)


async def test_of_what_is_rare_the_share_among_those_that_were_examined_is_told(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "COUNT_EXAMINED", 100)
    status = (Status.COMPLETED, Status.SKIPPED)
    await keep(store, *(make_event(status=status[n % 4 == 0], type=("a", "b")[n % 10 == 0]) for n in range(400)))
    await write(store, "ANALYZE")
    found = await store.count_events(OfType("b"))
    assert (found.exact, 30 <= found.value <= 50) == (False, True)


def test_an_estimate_is_rounded_and_no_less_than_what_was_counted() -> None:
    assert counted(7, whole=True, estimate=0) == Count(7, exact=True)
    assert counted(10_001, whole=True, estimate=1_234_567) == Count(1_200_000, exact=False)
    assert counted(10_001, whole=True, estimate=3) == Count(10_000, exact=False)
    assert counted(80, whole=False, estimate=1_234) == Count(1_200, exact=False)
    assert counted(0, whole=False, estimate=0) == Count(0, exact=False)


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (Count(10_000, exact=True), "10,000"),
        (Count(12_000, exact=False), "about 12,000"),
        (Count(990_000, exact=False), "about 990,000"),
        (Count(1_200_000, exact=False), "about 1.2 million"),
        (Count(12_000_000, exact=False), "about 12 million"),
        (Count(120_000_000, exact=False), "about 120 million"),
        (Count(3_000_000_000, exact=False), "about 3 billion"),
    ],
)
def test_a_count_is_told_in_words(count: Count, told: str) -> None:
    assert str(count) == told
