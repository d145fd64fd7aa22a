"""A spec means the same in memory and in SQL, whatever it is made of and whatever the rows hold."""

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from duly.ids import new_id
from duly.records import specs
from duly.records.event import Event, Status
from duly.records.specs import (
    NULLABLE,
    ORDERED,
    Compare,
    DueBetween,
    ErrorLike,
    Everything,
    ExecutedLate,
    FailedBetween,
    Gap,
    InSeriesOf,
    InStatus,
    NamedSpec,
    Now,
    OfDestination,
    OfSeries,
    OfTenant,
    OfType,
    OfUser,
    OneOf,
    Overdue,
    Ready,
    Spec,
    Stuck,
    WithKey,
)
from duly.stores.filters.specs import compile_spec
from duly.stores.sqlite.codec import SPECS
from tests.conftest import AnyStore
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START, make_event
from tests.stores.rows import keep, write

pytestmark = pytest.mark.broken_rows("its rows have all that columns can hold, in any combination")

# Few values and close neighbours, so that rows and questions often meet.
TEXTS = [
    "a",
    "ab",
    "b",
    "A",
    "user:a:birthday",
    "user:a",
    "user:ab:x",
    "",
    "é",
    "it's",
    "%",
    "100%",
    ":now",
    "$1",
    "{where}",
    "null",
    "🎂",
    "É",
    "İ",
    "ẞ",
    "a_b",
    "HTTP 503: Éa",
    "a ",
    "\\",
]
SPANS = [
    sign * span + off * MICROSECOND
    for span in (timedelta(), MINUTE, HOUR, DAY, 40 * DAY)
    for sign in (-1, 1)
    for off in (-1, 0, 1)
]
IDS = sorted(new_id() for _ in range(12))
INSTANTS = ("due", "ready", "created", "claimed", "executed")
PARTS = ["503", "http", "HTTP", "éa", "ÉA", "_", "A_B", "s", "i", "\x00", "\ud800"]

texts = st.sampled_from(TEXTS)
spans = st.sampled_from(SPANS)
instants = spans.map(lambda span: START + span)
operators = st.sampled_from(sorted(specs.OPERATORS))


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any row that the tables allow, also those that Duly itself takes long to write."""
    status = draw(st.sampled_from(list(Status)))
    ready = draw(st.none() | instants)
    free = draw(st.none() | texts)
    held = "waiting" if free is None and ready is None and status in (Status.PENDING, Status.PROCESSING) else free
    return make_event(
        id=IDS[0],
        status=status,
        ready=ready,
        held=held,
        type=draw(texts),
        tenant=draw(texts),
        due=draw(instants),
        attempts=draw(st.integers(0, 3)),
        interruptions=draw(st.integers(0, 2)),
        key=draw(st.none() | texts),
        series=draw(st.none() | texts),
        correlation_id=draw(st.none() | texts),
        last_error=draw(st.none() | texts),
        created=draw(instants),
        claimed=draw(st.none() | instants),
        executed=draw(st.none() | instants),
        worker=draw(st.none() | texts),
        destination=draw(st.none() | texts),
    )


def told_apart(events: list[Event]) -> list[Event]:
    """Each with an id of its own, and no key twice in a tenant."""
    keys = {(event.tenant, event.key): n for n, event in enumerate(events)}
    return [
        replace(event, id=IDS[n], occurrence=None if event.series is None else str(n))
        for n, event in enumerate(events)
        if event.key is None or keys[event.tenant, event.key] == n
    ]


populations = st.lists(events(), min_size=4, max_size=len(IDS)).map(told_apart)


def values_of(field: str) -> st.SearchStrategy[Any]:
    if field in INSTANTS:
        return instants | spans.map(Now)
    if field == "attempts":
        return st.integers(-1, 4)
    if field == "id":
        return st.sampled_from(IDS)
    if field == "status":
        return st.sampled_from(list(Status))
    return texts | st.sampled_from(["nowhere", "nul\x00", "\ud800"])  # the last two are in no database


def plain_values_of(field: str) -> st.SearchStrategy[Any]:
    return instants if field in INSTANTS else values_of(field)


@st.composite
def comparisons(draw: st.DrawFn) -> Spec:
    field = draw(st.sampled_from(sorted(NULLABLE)))
    return Compare(field, draw(operators) if field in ORDERED else "=", draw(values_of(field)))


@st.composite
def one_ofs(draw: st.DrawFn) -> Spec:
    field = draw(st.sampled_from(sorted(NULLABLE)))
    return OneOf(field, tuple(draw(st.lists(plain_values_of(field), max_size=4))))


gaps = st.builds(Gap, st.sampled_from(INSTANTS), st.sampled_from(INSTANTS), operators, spans)
named = st.one_of(
    st.builds(Ready),
    st.builds(OfType, texts),
    st.builds(OfTenant, texts),
    st.builds(OfSeries, texts),
    st.builds(OfUser, texts),
    st.builds(OfDestination, texts),
    st.builds(InSeriesOf, texts),
    st.builds(WithKey, texts),
    st.builds(InStatus, st.sampled_from(list(Status))),
    st.builds(Overdue, st.sampled_from([0, 1 / 60, 1, 24, -1, 0.5])),
    st.builds(DueBetween, st.none() | instants, st.none() | instants),
    st.builds(FailedBetween, st.none() | instants, st.none() | instants),
    st.builds(ErrorLike, texts | st.sampled_from(PARTS)),
    st.builds(ExecutedLate, spans),
    st.builds(Stuck, spans),
)
leaves = st.one_of(comparisons(), one_ofs(), gaps, named, st.just(Everything()))
combined = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda spec: ~spec)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(population=populations, asked=st.lists(combined, min_size=10, max_size=20))
async def test_a_spec_gives_the_same_answer_in_memory_and_in_sql(
    store: AnyStore, population: list[Event], asked: list[Spec]
) -> None:
    await write(store, "DELETE FROM duly.events")
    await keep(store, *population)
    now = await store.now()
    for spec in asked:
        expected = {event.id for event in population if spec.matches(event, now)}
        found = {event.id for event in await store.find(spec, limit=100)}
        assert found == expected, f"{spec} in SQL and in memory"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(population=populations)
async def test_events_come_back_from_the_store_as_they_were_written(store: AnyStore, population: list[Event]) -> None:
    await write(store, "DELETE FROM duly.events")
    await keep(store, *population)
    found = await store.find(Everything(), limit=100)
    assert sorted(found, key=lambda event: event.id) == sorted(population, key=lambda event: event.id)


@pytest.mark.parametrize("field", [field for field, nullable in NULLABLE.items() if nullable])
async def test_a_spec_on_an_empty_field_is_false_and_its_negation_true(store: AnyStore, field: str) -> None:
    empty = make_event(status=Status.CANCELLED)
    await keep(store, empty)
    value: Any = START if field in INSTANTS else "a"
    for spec in (Compare(field, "=", value), OneOf(field, (value,)), OneOf(field, ())):
        assert await store.find(spec, limit=10) == []
        assert await store.find(~spec, limit=10) == [empty]
        assert await store.find(~~spec, limit=10) == []


async def test_a_spec_of_no_values_finds_nothing_in_memory_and_in_sql(store: AnyStore) -> None:
    """A comparison with nothing is false, also where the field is empty."""
    empty = make_event(status=Status.CANCELLED)
    await keep(store, empty)
    for spec in (Compare("key", "=", None), OneOf("key", (None,)), Compare("ready", "<", None)):
        assert not spec.matches(empty, START)
        assert await store.find(spec, limit=10) == []


async def test_a_spec_of_a_hundred_parts_is_one_query(store: AnyStore) -> None:
    events = await keep(store, *(make_event(type=f"t{n}") for n in range(5)))
    spec: Spec = OfType("t3")
    for n in range(100):
        spec = spec | OfType(f"no-{n}") & OfTenant(f"t{n}") if n % 2 else ~(~spec & ~WithKey(f"k{n}"))
    assert await store.find(spec, limit=10) == [events[3]]


@pytest.mark.parametrize("one", list(Status))
async def test_events_of_a_tenant_in_one_of_two_statuses_are_found_and_counted(store: AnyStore, one: Status) -> None:
    """SQLite plans such a query with its values at hand, and must not fail at it."""
    events = await keep(store, *(make_event(status=status) for status in Status))
    for other in Status:
        expected = {event.id for event in events if event.status in (one, other)}
        either: Spec = InStatus(one) | InStatus(other)
        for statuses in (OneOf("status", (one, other)), either, ~~either, ~(~InStatus(one) & ~InStatus(other))):
            for spec in (statuses & OfTenant("default"), statuses & OfTenant("default") & DueBetween(end=START + DAY)):
                found = await store.find(spec, limit=10)
                assert {event.id for event in found} == expected
                assert (await store.count_events(spec)).value == len(expected)


BEFORE_ALL = datetime.min.replace(tzinfo=timezone(timedelta(hours=12)))
AFTER_ALL = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (Overdue(hours=24 * 366 * 10_000), False),
        (Overdue(hours=1e300), False),
        (Overdue(hours=-math.inf), False),
        (Stuck(by=timedelta.max), False),
        (Stuck(by=timedelta.min), False),
        (ExecutedLate(by=timedelta(weeks=99_999_999)), False),
        (ExecutedLate(by=timedelta.min), True),
        (DueBetween(BEFORE_ALL, AFTER_ALL), True),
        (DueBetween(AFTER_ALL, None), False),
        (Compare("attempts", "<", 10**30), True),
        (Compare("attempts", "<", -(10**30)), False),
        (OneOf("attempts", (10**30,)), False),
        (Compare("id", "=", "no id"), False),
        (OneOf("id", ("no id",)), False),
    ],
)
async def test_a_spec_with_values_out_of_range_is_answered(store: AnyStore, spec: Spec, found: bool) -> None:
    event = make_event(status=Status.COMPLETED, executed=START, claimed=START)
    await keep(store, event)
    assert spec.matches(event, START) is found
    assert await store.find(spec, limit=10) == ([event] if found else [])


def test_every_kind_of_spec_is_compiled() -> None:
    """A new kind of spec is either named, or known to both sides and to the strategies above."""
    basics = {"Both", "Either", "Not", "Everything", "Compare", "OneOf", "Gap", "InSeriesOf", "ErrorLike"}
    kinds = {name for name, kind in vars(specs).items() if isinstance(kind, type) and issubclass(kind, Spec)}
    tried = {"Ready", "OfUser", "OfType", "OfTenant", "OfSeries", "WithKey", "InStatus", "Overdue", "DueBetween"}
    tried |= {"OfDestination"}
    assert kinds - {"Spec", "NamedSpec"} - basics == tried | {"ExecutedLate", "FailedBetween", "Stuck"}
    assert all(issubclass(getattr(specs, name), NamedSpec) for name in tried)


def test_an_unknown_kind_of_spec_is_refused_by_name() -> None:
    class Odd(Spec):
        pass

    with pytest.raises(TypeError, match="Odd cannot be compiled"):
        compile_spec(Odd(), SPECS)


def test_values_never_reach_the_text_of_the_query() -> None:
    where, parameters = compile_spec(
        OfType("'; DROP TABLE events; --") & DueBetween(end=datetime.fromisoformat("2026-01-01T00:00Z")), SPECS
    )
    assert "DROP" not in where
    assert "'; DROP TABLE events; --" in parameters.values()
