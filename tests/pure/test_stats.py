"""Histograms, and which roll-ups tell of a range."""

import math
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duly.decide.figures.alike import alike
from duly.decide.figures.histogram import LEAST_S, bucket, percentile, seconds
from duly.decide.figures.roll_up import ALL, EndedRuns, RunCounts, Span, roll_up
from duly.decide.figures.stats import days_of, read_stats_range, whole_days
from tests.make import DAY, HOUR, MINUTE, START, make_event

CLAIMS = (START, START + HOUR)
YEAR_S = 366 * 86400.0
spans = st.floats(LEAST_S, YEAR_S)


@given(st.lists(spans, min_size=1), st.sampled_from((0.01, 0.5, 0.95, 0.99, 1.0)))
def test_a_percentile_is_within_5_percent_of_the_exact_one(durations: list[float], share: float) -> None:
    counts: dict[int, int] = {}
    for duration in durations:
        counts[bucket(duration)] = counts.get(bucket(duration), 0) + 1
    exact = sorted(durations)[math.ceil(share * len(durations)) - 1]
    found = percentile(counts, share)
    assert found is not None
    assert abs(found - exact) <= 0.05 * exact


@given(spans)
def test_what_a_bucket_stands_for_is_in_that_bucket(duration: float) -> None:
    assert bucket(seconds(bucket(duration))) == bucket(duration)


def test_all_that_is_shorter_than_a_millisecond_is_told_as_one() -> None:
    assert [seconds(bucket(one)) for one in (-1.0, 0.0, 1e-9, LEAST_S)] == [LEAST_S] * 4
    assert bucket(LEAST_S * 1.001) == 1
    assert bucket(YEAR_S) == 281


def test_no_durations_have_no_percentile() -> None:
    assert percentile({}, 0.5) is None


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(("s1", None)), spans, st.integers(1, 9))))
def test_however_runs_are_divided_their_roll_ups_add_up_to_the_same(
    given: list[tuple[int, str | None, float, int]],
) -> None:
    def ended(hour: int, schedule: str | None, took: float, many: int) -> EndedRuns:
        return EndedRuns(START + hour * HOUR, "t", schedule, "x", "l", "COMPLETED", took, None, many)

    whole = roll_up(ended(*one) for one in given)
    parts: dict[object, RunCounts] = {}
    for one in given:
        for key, counts in roll_up([ended(*one)]).items():
            parts.setdefault(key, RunCounts()).merge(counts)
    assert {key: (counts.statuses, counts.duration) for key, counts in whole.items()} == {
        key: (counts.statuses, counts.duration) for key, counts in parts.items()
    }
    of_all = sum(counts.completed for key, counts in whole.items() if (key.schedule, key.span) == (ALL, Span.DAY))
    assert of_all == sum(many for *_, many in given)


facts = st.tuples(
    st.sampled_from(("a", "b")),
    st.sampled_from((None, "schedule:s1", "user:u1:x")),
    st.sampled_from(("x", "y")),
    st.sampled_from(CLAIMS),
    st.floats(-1, 1e6) | st.sampled_from((0.0, 0.001, 0.00109, 1.0, 60.0)),
)
of_one_type = facts.map(lambda given: ("a", None, "x", CLAIMS[0], given[-1]))


@given(st.lists(facts, min_size=1) | st.lists(of_one_type, min_size=1))
def test_a_batch_is_counted_as_its_events_would_be_one_by_one(
    batch: list[tuple[str, str | None, str, datetime, float]],
) -> None:
    events = [
        make_event(tenant=tenant, series=series, type=type, claimed=claimed, due=claimed - timedelta(seconds=late))
        for tenant, series, type, claimed, late in batch
    ]
    one_by_one = Counter(group[:-1] for one in events for group in alike([one]))
    together: Counter[tuple[Any, ...]] = Counter()
    for group in alike(events):
        together[group[:-1]] += group.many
    assert together.total() == len(batch)
    for key in together.keys() - one_by_one.keys():  # an event at the very end of a bucket may be in the next one
        assert any(other[:-1] == key[:-1] and 0.9 < other[-1] / key[-1] < 1.1 for other in one_by_one)
    for claimed in CLAIMS:
        assert sum(many for key, many in together.items() if key[4] == claimed) == [one[3] for one in batch].count(
            claimed
        )


@given(st.integers(0, 10**6), st.integers(1, 400 * 1440), st.integers(0, 10**6))
def test_hours_and_days_tell_of_each_moment_of_a_range_once(begin: int, long: int, now: int) -> None:
    start, today = START + begin * MINUTE, START + now * MINUTE
    since, until = read_stats_range(start, start + long * MINUTE, today)
    assert since <= start < start + long * MINUTE <= until
    day, last = whole_days(since, until)
    assert since <= day <= last <= until
    assert (day - START) % DAY == (last - START) % DAY == timedelta() or day == last == until
    assert day == last or day - since < DAY > until - last
    days = days_of(since, until)
    assert days[0] <= since < days[0] + DAY
    assert days[-1] < until <= days[-1] + DAY
