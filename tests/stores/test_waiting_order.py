"""Waiting events in the order of their due times: pages tell of each event once, and examine no more than they may."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.records.event import Event, Status
from duly.records.finding.sorting import DuePlace
from duly.records.specs import DueBetween, Everything, InStatus, OfTenant, OfType, Spec
from duly.stores.finding import waiting
from tests.conftest import AnyStore
from tests.make import HOUR, MINUTE, START, make_event
from tests.stores.rows import keep, write

pytestmark = pytest.mark.broken_rows("its rows are written by hand")

TENANTS = ("default", "a", "b")
TYPES = ("greet", "rare")

facts = st.tuples(
    st.sampled_from(TENANTS),
    st.sampled_from(TYPES),
    st.integers(0, 5),  # minutes: many are due at the same instant
    st.sampled_from([Status.PENDING, Status.PENDING, Status.COMPLETED, Status.FAILED]),
)
Facts = tuple[str, str, int, Status]
specs = st.sampled_from(
    [
        Everything(),
        OfType("rare"),
        InStatus("PENDING"),
        InStatus("FAILED"),
        DueBetween(START + MINUTE, START + 4 * MINUTE),
        DueBetween(START + MINUTE) & OfType("greet"),
        OfType("rare") | DueBetween(end=START + 2 * MINUTE),
    ]
)
tenants = st.sampled_from([None, *TENANTS, "nobody"])


def made(facts: list[Facts]) -> list[Event]:
    return [
        make_event(tenant=tenant, type=type, due=START + timedelta(minutes=minutes), status=status)
        for tenant, type, minutes, status in facts
    ]


async def walk(store: AnyStore, spec: Spec, *, limit: int, latest_first: bool) -> list[Event]:
    found: list[Event] = []
    after: DuePlace | None = None
    for _ in range(200):
        page = await store.page_by_due(spec, limit=limit, latest_first=latest_first, after=after)
        assert len(page.events) <= limit
        found += page.events
        if (after := page.next) is None:
            return found
    raise AssertionError("the pages go on for ever")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(
    told=st.lists(facts, max_size=12),
    spec=specs,
    tenant=tenants,
    limit=st.integers(1, 5),
    latest_first=st.booleans(),
    examined=st.integers(1, 6),
)
async def test_pages_by_due_time_together_contain_each_waiting_event_once_and_in_order(
    store: AnyStore, told: list[Facts], spec: Spec, tenant: str | None, limit: int, latest_first: bool, examined: int
) -> None:
    crowd = made(told)
    await write(store, "DELETE FROM duly.events")
    await keep(store, *crowd)
    asked = spec if tenant is None else spec & OfTenant(tenant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "DUE_EXAMINED", examined)
        found = await walk(store, asked, limit=limit, latest_first=latest_first)
    expected = [one for one in crowd if one.status is Status.PENDING and asked.matches(one, START)]
    expected.sort(key=lambda one: (one.due, one.id), reverse=latest_first)
    assert [one.id for one in found] == [one.id for one in expected]


async def test_an_event_that_comes_meanwhile_neither_hides_nor_repeats_others(store: AnyStore) -> None:
    first, second, third = (make_event(due=START + n * HOUR) for n in range(3))
    await keep(store, first, second, third)
    page = await store.page_by_due(Everything(), limit=2)
    await keep(store, make_event(due=START + MINUTE), late := make_event(due=START + 90 * MINUTE))
    rest = await store.page_by_due(Everything(), limit=5, after=page.next)
    assert [one.id for one in (*page.events, *rest.events)] == [first.id, second.id, late.id, third.id]
