from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules import exclusions
from duly.rules.exclusions import rests_on
from duly.rules.notation import cron, every, rrule, yearly
from duly.rules.policies import (
    DEFAULT,
    MISFIRES,
    MODES,
    OVERLAPS,
    DependsOn,
    Misfire,
    Policies,
    policies_text,
    read_policies,
    stored_policies,
)
from duly.rules.recurrence import Dst
from duly.rules.timetable import Timetable
from duly.rules.wall import GAPS
from duly.rules.wall import OVERLAPS as TWICE
from duly.rules.zones import to_wall
from tests.make import DAY, HOUR, MINUTE, START

spans = st.integers(0, 86_400_000_000).map(lambda micros: timedelta(microseconds=micros))
instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
policies = st.builds(
    Policies,
    misfire=st.builds(Misfire, st.sampled_from(MISFIRES), spans, st.integers(1, 1000)),
    overlap=st.sampled_from(OVERLAPS),
    max_concurrent=st.none() | st.integers(1, 10_000),
    depends_on=st.none() | st.builds(DependsOn, st.just("load"), spans.map(lambda span: span + timedelta(seconds=1))),
    start=st.none() | instants.filter(lambda at: at.year < 2050),
    end=st.none() | instants.filter(lambda at: at.year >= 2050),
    dst=st.builds(Dst, st.none() | st.sampled_from(GAPS), st.none() | st.sampled_from(TWICE)),
    jitter=spans,
    exclude=st.lists(
        st.sampled_from(["SAT", "SUN", "2026-12-24", "12-25", "holidays:BE", "2026-07-01/2026-07-31"]), unique=True
    ).map(tuple),
    mode=st.sampled_from(MODES),
)


@given(policies)
def test_policies_are_read_as_they_were_written(given: Policies) -> None:
    assert read_policies(given.to_json(), None) == given
    assert stored_policies(policies_text(given)) == given


def test_policies_equal_to_their_defaults_are_not_stored() -> None:
    assert policies_text(DEFAULT) is None
    assert policies_text(read_policies({"overlap": "queue", "mode": "live"}, None)) == '{"overlap":"queue"}'
    assert stored_policies(None) == DEFAULT


def test_policies_are_written_as_the_interface_shows_them() -> None:
    assert DEFAULT.to_json() == {
        "misfire": {"policy": "latest", "tolerance": "30s", "limit": 100},
        "overlap": "allow",
        "max_concurrent": None,
        "depends_on": None,
        "start": None,
        "end": None,
        "dst": {},
        "jitter": "0s",
        "exclude": [],
        "mode": "live",
        "expires": None,
    }
    given = read_policies(
        {"depends_on": {"schedule": "load", "within": "1h"}, "end": "2026-12-01T09:00:00+01:00"}, None
    )
    assert given.to_json()["depends_on"] == {"schedule": "load", "within": "1h"}
    assert given.to_json()["end"] == "2026-12-01T08:00:00Z"


def test_policies_may_be_given_in_types_of_python() -> None:
    given = read_policies(
        {
            "misfire": Misfire("all", limit=7),
            "depends_on": DependsOn("load", HOUR),
            "jitter": timedelta(minutes=5),
            "exclude": [date(2026, 12, 24), "Sunday"],
            "dst": Dst("skip"),
            "start": date(2026, 3, 29),
            "end": datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - on the wall, in a gap
        },
        "Europe/Brussels",
    )
    assert (given.misfire.limit, given.depends_on, given.jitter) == (7, DependsOn("load", HOUR), 5 * MINUTE)
    assert (given.exclude, given.dst) == (("2026-12-24", "SUN"), Dst("skip"))
    assert given.start == datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert given.end == datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "as much later as the gap is long"


@pytest.mark.parametrize(
    ("overlap", "most", "room"),
    [("allow", None, None), ("allow", 3, 3), ("queue", None, 1), ("skip", None, 1), ("queue", 2, 2), ("skip", 5, 5)],
)
def test_the_number_of_concurrent_events_follows_from_overlap_and_limit(
    overlap: str, most: int | None, room: int | None
) -> None:
    assert read_policies({"overlap": overlap, "max_concurrent": most}, None).room == room


@pytest.mark.parametrize("given", [None, [], "latest", 7])
def test_a_policy_that_is_no_object_is_refused(given: Any) -> None:
    with pytest.raises(Invalid, match="expected an object"):
        read_policies(given, None)


# -- days of rest


@pytest.mark.parametrize(
    ("written", "rests", "works"),
    [
        ("2026-12-24", "2026-12-24", "2027-12-24"),
        ("2026-12-24/2027-01-02", "2027-01-02", "2027-01-03"),
        ("12-25", "2031-12-25", "2031-12-26"),
        ("02-29", "2028-02-29", "2027-02-28"),
        ("SAT", "2026-01-03", "2026-01-02"),
        ("holidays:BE", "2026-07-21", "2026-07-22"),
        ("holidays:US-CA", "2026-03-31", "2026-03-30"),
    ],
)
def test_an_excluded_day_is_left_out_and_others_are_not(written: str, rests: str, works: str) -> None:
    given = rests_on((written,))
    assert given(date.fromisoformat(rests))
    assert not given(date.fromisoformat(works))


@pytest.mark.parametrize(
    "written",
    ["2026-13-01", "2026-02-30", "02-30", "someday", "holidays:XX", "holidays:", "2026-01-02/2026-01-01", "SA"],
)
def test_an_exclusion_that_is_no_day_is_refused_with_examples(written: str) -> None:
    problem = exclusions.exclusion_problem(written)
    assert problem is not None
    assert "holidays:" in problem or "ends before it begins" in problem


def test_without_the_package_holidays_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "holidays", None)
    with pytest.raises(Invalid, match=r"pip install '\.\[holidays\]' in a checkout of Duly"):
        read_policies({"exclude": ["holidays:BE"]}, None)


# -- timetables

RULES = [
    every("7h", start=START),
    every(
        "50m",
        start=START,
    ),
    cron("*/20 * * * *", timezone="Europe/Brussels"),
    cron("30 2 * * *", timezone="Europe/Brussels"),
    cron("0 0 * * *", timezone="America/Sao_Paulo"),
    yearly("12-25", timezone="Asia/Tokyo"),
    rrule("FREQ=WEEKLY;BYDAY=SA,WE;BYHOUR=9", start=datetime(2014, 1, 1, 9), timezone="Europe/London"),  # noqa: DTZ001
]


@given(
    st.sampled_from(RULES),
    st.lists(st.sampled_from(["SAT", "SUN", "MON", "12-24", "2018-11-04", "2026-03-29", "10-25"]), unique=True),
    st.sampled_from(
        [datetime(2018, 10, 30, tzinfo=UTC), datetime(2026, 3, 25, tzinfo=UTC), datetime(2026, 10, 20, tzinfo=UTC)]
    ),
    st.none() | st.integers(0, 8),
)
def test_a_timetable_is_its_rule_without_the_excluded_days(
    rule: Any, exclude: list[str], start: datetime, ends_after: int | None
) -> None:
    end = None if ends_after is None else start + ends_after * DAY + 5 * MINUTE
    table = Timetable(rule, Policies(exclude=tuple(exclude), start=start, end=end))
    until = start + 12 * DAY
    rests = rests_on(tuple(exclude))
    expected, at = [], start - timedelta(microseconds=1)
    while (occurrence := rule.after(at)) is not None and occurrence.at <= until:
        at = occurrence.at
        if not rests(to_wall(at, rule.timezone or "UTC").date()) and (end is None or at <= end):
            expected.append(occurrence)
    found, at = [], datetime(2010, 1, 1, tzinfo=UTC)
    while (occurrence := table.after(at)) is not None and occurrence.at <= until:
        found.append(occurrence)
        at = occurrence.at
    assert found == expected
    assert table.count(datetime(2010, 1, 1, tzinfo=UTC), until) == len(expected)
    assert table.last(until) == (expected[-1] if expected else None)
    for one in expected:
        assert table.last(one.at) == one


def test_a_timetable_that_excludes_every_day_says_so() -> None:
    table = Timetable(cron("0 9 * * SAT"), Policies(exclude=("SAT",)))
    with pytest.raises(ValueError, match="no occurrence is left"):
        table.after(START)
    with pytest.raises(ValueError, match="no occurrence is left"):
        table.last(START)
    assert table.count(START, START + 30 * DAY) == 0


def test_stored_policies_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = msgspec.json.encode({"misfire": {"policy": "all"}}).decode()
    assert stored_policies(text) is stored_policies(text)


def test_whole_numbers_of_policies_may_be_written_with_a_fraction() -> None:
    read = read_policies({"max_concurrent": 2.0, "misfire": {"limit": 7.0}}, "UTC")
    assert (read.max_concurrent, read.misfire.limit) == (2, 7)
    with pytest.raises(Invalid, match="max_concurrent"):
        read_policies({"max_concurrent": 2.5}, "UTC")
