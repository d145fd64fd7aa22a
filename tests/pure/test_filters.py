"""A filter means the same however it is written: in an address, in a body, as a spec and as command-line options."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.api.description.filter_schemas import BODY, QUERY
from duly.cli.events.filters import NAMES, ListFilters
from duly.errors import Problem
from duly.records.event import Status
from duly.records.filters import FIELDS, EventFilter, filter_of, read_filter
from duly.records.specs import ExecutedLate, Stuck

ID = "019a8f2e-6c00-7abc-8def-0123456789ab"
INSTANTS = st.timedeltas(timedelta(), timedelta(days=40_000)).map(
    lambda since: datetime(1970, 1, 1, tzinfo=UTC) + since
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "status": st.lists(st.sampled_from(list(Status)), min_size=1, unique=True).map(lambda some: tuple(sorted(some))),
    "type": st.sampled_from(["x", "a b", "ä&?="]),
    "key": st.sampled_from(["x", "a,b"]),
    "user_id": st.just(ID),
    "schedule": st.just(ID),
    "destination": st.sampled_from(["shop", "https://hooks.example"]),
    "error": st.sampled_from(["503", "100% wrong_"]),
    "due_from": INSTANTS,
    "due_to": INSTANTS,
    "failed_from": INSTANTS,
    "failed_to": INSTANTS,
    "late_by": st.timedeltas(timedelta(), timedelta(days=1000)),
    "stuck": st.just(True),
}
FILTERS = st.fixed_dictionaries({}, optional=VALUES).map(lambda fields: EventFilter(**fields))


@given(FILTERS)
def test_a_filter_is_read_as_it_was_written(which: EventFilter) -> None:
    assert read_filter(which.query()) == (which, [])
    assert read_filter(which.body()) == (which, [])
    assert all(isinstance(value, str) for value in which.query().values())


@given(FILTERS.filter(lambda which: not (which.failed_from or which.failed_to)))
def test_a_spec_leads_back_to_its_filter(which: EventFilter) -> None:
    by = Stuck().by if which.stuck and which.late_by is None else which.late_by
    status = tuple(status for status in Status if status in which.status)
    fields = {name: value for name, _, value in which.given()} | {"late_by": by, "status": status}
    assert filter_of(which.spec(), None) == EventFilter(**fields)


def test_a_filter_by_time_of_failure_finds_dead_letters_only() -> None:
    which = EventFilter(failed_from=datetime(2026, 1, 1, tzinfo=UTC))
    assert filter_of(which.spec(), None) == EventFilter(failed_from=which.failed_from, status=(Status.FAILED,))


def test_the_filter_late_by_finds_events_stuck_for_so_long() -> None:
    span = timedelta(minutes=5)
    assert filter_of(Stuck(span), None).spec() == EventFilter(stuck=True, late_by=span).spec()
    assert filter_of(ExecutedLate(span), None).spec() == EventFilter(late_by=span).spec()


def test_a_filter_by_url_looks_for_its_origin() -> None:
    [which, _] = read_filter({"destination": "https://Hooks.example:443/a?b"})
    assert which.spec() == EventFilter(destination="https://hooks.example").spec()


@pytest.mark.parametrize("path", ["", "filter."])
def test_all_problems_of_a_filter_are_told_at_once_and_left_out(path: str) -> None:
    wrong: dict[str, Any] = {"status": "LOST", "type": "", "due_to": "today", "colour": "red"}
    which, problems = read_filter({**wrong, "key": "k"}, path)
    assert which == EventFilter(key="k")
    assert [problem.path for problem in problems] == [f"{path}{field}" for field in wrong]


def test_a_filter_that_is_no_object_is_refused() -> None:
    assert read_filter([], "filter.") == (
        EventFilter(),
        [Problem("filter", f"expected an object with some of {', '.join(FIELDS)}")],
    )


def test_every_field_of_a_filter_is_described_and_is_an_option() -> None:
    assert list(VALUES) == list(FIELDS) == list(QUERY) == list(BODY)
    assert {NAMES.get(field, field) for field in FIELDS} <= set(ListFilters.__dataclass_fields__)
    for field in FIELDS:
        assert QUERY[field]["description"].startswith(FIELDS[field].told)
