import pytest

from duly.ids import new_id
from duly.records.event import Event, Status
from duly.records.specs import ErrorLike, Everything, InStatus, OfTenant, OfType, Overdue, Ready, WithKey
from duly.testing import ManualClock
from tests.conftest import AnyStore
from tests.make import DAY, HOUR, LEASE, START, make_event, make_new
from tests.stores.rows import keep


async def test_events_are_found_newest_first(store: AnyStore) -> None:
    ids = await store.add([make_new() for _ in range(5)])
    assert [event.id for event in await store.find(Everything(), limit=10)] == sorted(ids, reverse=True)


@pytest.mark.parametrize("page", [1, 3, 7, 10, 100])
async def test_pages_contain_each_event_once(store: AnyStore, page: int) -> None:
    ids = await store.add([make_new() for _ in range(10)])
    found: list[Event] = []
    while more := await store.find(OfType("greet"), limit=page, after=found[-1].id if found else None):
        assert len(more) <= page
        found += more
    assert [event.id for event in found] == sorted(ids, reverse=True)


async def test_events_that_arrive_meanwhile_do_not_shift_the_pages(store: AnyStore) -> None:
    ids = sorted(await store.add([make_new() for _ in range(4)]), reverse=True)
    first = await store.find(Everything(), limit=2)
    await store.add([make_new()])
    second = await store.find(Everything(), limit=2, after=first[-1].id)
    assert [event.id for event in first + second] == ids


async def test_a_spec_narrows_each_page(store: AnyStore) -> None:
    wanted = await store.add([make_new(type="birthday") for _ in range(3)])
    await store.add([make_new(type="other") for _ in range(3)])
    [newest, *_] = sorted(wanted, reverse=True)
    found = await store.find(OfType("birthday") & ~OfTenant("acme"), limit=10, after=newest)
    assert [event.id for event in found] == sorted(wanted, reverse=True)[1:]


async def test_the_stores_clock_decides_what_is_ready(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + HOUR)])
    assert await store.find(Ready(), limit=10) == []
    clock.advance(HOUR)
    assert len(await store.find(Ready(), limit=10)) == 1
    assert await store.find(Overdue(hours=1), limit=10) == []
    clock.advance(DAY)
    assert len(await store.find(Overdue(hours=1), limit=10)) == 1


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", list(Status))
async def test_each_status_can_be_looked_for(store: AnyStore, status: Status) -> None:
    events = await keep(store, *(make_event(status=status) for status in Status))
    [found] = await store.find(InStatus(status), limit=10)
    assert found == events[list(Status).index(status)]


@pytest.mark.parametrize(
    "text", ["it's", "100%", ":now", "$1", "{where}", "--", "ключ", "🎂", "\\", '"', "a;b", "nul\x00", "\ud800"]
)
async def test_any_text_in_a_search_is_only_text(store: AnyStore, text: str) -> None:
    await store.add([make_new(key="other")])
    assert await store.find(WithKey(text), limit=10) == []
    assert len(await store.find(~WithKey(text), limit=10)) == 1
    if text.isprintable():
        [added] = await store.put([make_new(key=text, tenant=text, type=text)])
        assert await store.find(WithKey(text) & OfTenant(text) & OfType(text), limit=10) == [added.event]
        assert await store.by_key(text, text) == added.event


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize(
    ("text", "found"),
    [("503", True), ("hTTP 503", True), ("100% ", True), ("50_", False), ("5%3", False), ("ÉtÉ", True), ("été", False)],
)
async def test_an_error_is_found_by_what_it_says(store: AnyStore, text: str, found: bool) -> None:
    """A to Z are found whatever their size, other letters as they are written, and no sign stands for another."""
    dead = make_event(status=Status.FAILED, last_error="HTTP 503: 100% of the ÉTÉ is over")
    await keep(store, dead, make_event(status=Status.FAILED, last_error=None), make_event())
    assert await store.find(ErrorLike(text), limit=10) == ([dead] if found else [])
    assert ErrorLike(text).matches(dead, START) is found


async def test_no_event_is_found_under_an_unknown_id(store: AnyStore) -> None:
    assert await store.get(new_id()) is None
    assert await store.lock(new_id()) is None


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_key_names_its_open_event_or_else_the_latest(store: AnyStore) -> None:
    [_, latest] = await keep(store, *(make_event(key="k", status=Status.CANCELLED) for _ in range(2)))
    assert await store.by_key("default", "k") == latest
    [added] = await store.put([make_new(key="k")])
    assert await store.by_key("default", "k") == added.event


@pytest.mark.broken_rows("its rows are written by hand")
async def test_the_overview_counts_events_that_are_not_done(store: AnyStore) -> None:
    await store.add([make_new(type="a", due=START - HOUR), make_new(type="a"), make_new(type="b", due=START + DAY)])
    await store.claim("w1", {"handler:b": 5}, LEASE)
    done = [make_event(type="a", status=status) for status in (Status.COMPLETED, Status.CANCELLED, Status.SKIPPED)]
    await keep(store, *done, make_event(type="a", status=Status.FAILED), make_event(type="b", held="paused"))
    assert await store.overview() == [
        ("handler:a", "FAILED", 1, START),
        ("handler:a", "PENDING", 2, START - HOUR),
        ("handler:b", "PENDING", 2, START),
    ]
