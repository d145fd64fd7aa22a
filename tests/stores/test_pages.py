"""Pages that look at no more than so many events: together they tell of each event once, whatever the spec is."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from duly.ids import new_id
from duly.ports import Page
from duly.ports.events import EventPort
from duly.records.event import Event, NewEvent, Status
from duly.records.specs import Everything, InStatus, OfSeries, OfTenant, OfType, OfUser, Spec
from tests.conftest import AnyStore
from tests.make import make_event, make_new
from tests.stores.rows import keep, write
from tests.stores.test_specs import combined, populations

pytestmark = pytest.mark.broken_rows("its rows are written by hand")

LEADS: list[Spec] = [
    Everything(),
    OfTenant("a"),
    OfTenant("default"),
    InStatus("FAILED"),
    InStatus("FAILED") & OfTenant("a"),
    InStatus("FAILED") & OfTenant("default"),
    OfSeries("schedule:a"),
    OfSeries("schedule:a") & OfTenant("a"),
    OfUser("a"),
]
Meanwhile = Callable[[], Awaitable[None]]


async def nothing() -> None: ...


async def walk(store: EventPort, spec: Spec, *, limit: int, examine: int, meanwhile: Meanwhile = nothing) -> list[Page]:
    pages = [await store.page(spec, limit=limit, examine=examine)]
    while (after := pages[-1].next) is not None:
        assert len(pages) < 100, "they go on for ever"
        await meanwhile()
        pages.append(await store.page(spec, limit=limit, after=after, examine=examine))
    return pages


def ids(pages: list[Page]) -> list[str]:
    return [event.id for page in pages for event in page.events]


# -- whatever is asked


def among(events: list[Event], tenants: list[str], series: list[str | None]) -> list[Event]:
    """The same events, but more of them where the indexes lead."""
    return [
        replace(
            event, tenant=tenants[n % len(tenants)], series=own, occurrence=None if own is None else str(n), key=None
        )
        for n, event in enumerate(events)
        for own in [series[n % len(series)]]
    ]


crowds = st.builds(
    among,
    populations,
    st.lists(st.sampled_from(["a", "default", "b"]), min_size=1, max_size=3),
    st.lists(st.sampled_from([None, "schedule:a", "schedule:b", "user:a:birthday"]), min_size=1, max_size=3),
)
asked = st.builds(lambda lead, rest: lead & rest, st.sampled_from(LEADS), st.just(Everything()) | combined)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(
    crowd=crowds,
    specs=st.lists(asked | combined, min_size=5, max_size=10),
    limit=st.integers(1, 5),
    examine=st.integers(1, 6),
)
async def test_pages_together_contain_what_one_answer_contains(
    store: AnyStore, crowd: list[Event], specs: list[Spec], limit: int, examine: int
) -> None:
    await write(store, "DELETE FROM duly.events")
    await keep(store, *crowd)
    for spec in specs:
        pages = await walk(store, spec, limit=limit, examine=examine)
        whole = await store.find(spec, limit=100)
        assert [event for page in pages for event in page.events] == whole
        assert all(len(page.events) <= limit for page in pages)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(crowd=crowds, newcomers=crowds, spec=asked | combined, limit=st.integers(1, 4), examine=st.integers(1, 5))
async def test_events_added_meanwhile_neither_hide_nor_repeat_others(
    store: AnyStore, crowd: list[Event], newcomers: list[Event], spec: Spec, limit: int, examine: int
) -> None:
    """Newcomers are newer than all, or their ids lie anywhere among the others', as those of another process may."""
    await write(store, "DELETE FROM duly.events")
    await keep(store, *crowd)
    there = ids([Page(await store.find(spec, limit=100), None)])
    waiting = [
        replace(each, id=new_id() if n % 2 else _near(crowd[n % len(crowd)].id, n), occurrence=f"new {n}")
        for n, each in enumerate(newcomers)
    ]

    async def one_comes() -> None:
        if waiting:
            newcomer = waiting.pop()
            await keep(store, replace(newcomer, occurrence=None if newcomer.series is None else newcomer.occurrence))

    told = ids(await walk(store, spec, limit=limit, examine=examine, meanwhile=one_comes))
    assert told == sorted(set(told), reverse=True)
    assert [id for id in told if id in there] == there


def _near(id: str, n: int) -> str:
    return f"{id[:-4]}{n:04x}"


# -- how much is looked at


@pytest.mark.parametrize("tenant", ["default", "acme"])
async def test_a_page_ends_when_it_has_examined_enough_rows(store: AnyStore, tenant: str) -> None:
    await store.add([make_new(tenant="other", type="wanted") for _ in range(5)] if tenant != "default" else [])
    all_ids = sorted(await store.add([make_new(tenant=tenant) for _ in range(25)]), reverse=True)
    [wanted] = await store.add([make_new(tenant=tenant, type="wanted")])
    pages = await walk(store, OfType("wanted") & OfTenant(tenant), limit=10, examine=10)
    told = [([event.id for event in page.events], page.next and page.next[:33]) for page in pages]
    assert told == [([wanted], all_ids[8][:33]), ([], all_ids[18][:33]), ([], None)]


@pytest.mark.parametrize("tenant_session", [False, True])
async def test_the_default_tenant_is_told_no_ids_of_other_tenants(store: AnyStore, tenant_session: bool) -> None:
    """Pages of the usual tenant are counted among everybody's events, also where the others' cannot be seen."""

    def some() -> list[NewEvent]:
        return [make_new(id=f"{new_id()[:33]}abc", tenant="theirs") for _ in range(30)]

    theirs = await store.add(some())
    [own] = await store.add([make_new()])
    theirs += await store.add(some())
    await store.prepare_rls_role()
    async with store.tenant_session("default", writes=False) if tenant_session else nullcontext(store) as asked:
        pages = await walk(asked, OfTenant("default"), limit=10, examine=10)
    assert ids(pages) == [own]
    turned = {page.next for page in pages if page.next is not None}
    assert len(turned) == 6
    assert not turned & {*theirs, own}


async def test_a_tenant_session_reads_the_pages_of_its_tenant(store: AnyStore) -> None:
    await store.add([make_new(tenant="theirs", type="wanted") for _ in range(10)])
    own = await store.add([make_new(tenant="acme", type="wanted" if n % 5 else "other") for n in range(20)])
    await store.prepare_rls_role()
    async with store.tenant_session("acme", writes=False) as request:
        pages = await walk(request, OfType("wanted") & OfTenant("acme"), limit=3, examine=7)
        theirs = await walk(request, OfType("wanted") & OfTenant("theirs"), limit=3, examine=7)
    assert ids(pages) == sorted((id for n, id in enumerate(own) if n % 5), reverse=True)
    if store.dialect == "postgres":  # which has policies; elsewhere, the spec alone says whose they are
        assert ids(theirs) == []


@pytest.mark.parametrize("events", [9, 10, 11, 20, 21])
async def test_the_last_page_says_that_it_is_the_last(store: AnyStore, events: int) -> None:
    await store.add([make_new() for _ in range(events)])
    pages = await walk(store, OfType("wanted"), limit=10, examine=10)
    assert len(pages) == -(-events // 10)
    assert ids(pages) == []


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_full_page_that_is_the_last_says_so(store: AnyStore, limit: int) -> None:
    await store.add([make_new() for _ in range(limit)])
    page = await store.page(Everything(), limit=limit)
    assert (len(page.events), page.next) == (limit, None)
    assert await store.page(OfType("greet"), limit=limit, examine=limit) == page


@pytest.mark.parametrize("spec", [Everything(), OfTenant("acme"), InStatus("FAILED"), OfSeries("schedule:1")])
async def test_a_search_that_an_index_answers_alone_fills_every_page(store: AnyStore, spec: Spec) -> None:
    own: dict[str, Any] = {"tenant": "acme", "status": Status.FAILED, "series": "schedule:1"}
    await keep(store, *(make_event(**own, occurrence=str(n)) for n in range(10)))
    pages = await walk(store, spec, limit=4, examine=1)
    assert [len(page.events) for page in pages] == [4, 4, 2]


async def test_a_search_for_dead_letters_examines_only_dead_letters(store: AnyStore) -> None:
    """Not among all the others, of which there are many more."""
    dead = await keep(store, *(make_event(status=Status.FAILED, type=f"t{n}") for n in range(4)))
    await store.add([make_new() for _ in range(50)])
    spec = InStatus("FAILED") & OfTenant("default") & OfType("t0")
    pages = await walk(store, spec, limit=10, examine=2)
    assert [page.next for page in pages] == [dead[2].id, None]
    assert ids(pages) == [dead[0].id]
