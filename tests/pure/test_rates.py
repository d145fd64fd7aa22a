from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.targets.rates import read_rate, show_rate
from duly.errors import Invalid
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, SECOND


@pytest.mark.parametrize(
    ("rate", "gap"),
    [
        (50, SECOND / 50),
        ("50", SECOND / 50),
        ("50/s", SECOND / 50),
        (" 50 / s ", SECOND / 50),
        (0.5, 2 * SECOND),
        (0.1, 10 * SECOND),
        ("600/m", MINUTE / 600),
        ("1000/h", HOUR / 1000),
        ("1/d", DAY),
        ("2.5/s", 0.4 * SECOND),
        ("3/s", timedelta(microseconds=333_334)),
        (1_000_000, MICROSECOND),
    ],
)
def test_a_rate_is_the_time_from_one_event_to_the_next(rate: Any, gap: timedelta) -> None:
    assert read_rate(rate) == gap


@pytest.mark.parametrize(
    "rate",
    [
        *(0, -1, 1_000_001, 10**400, 1e-300, 0.9 / 86_400, float("nan"), float("inf"), True, None, [], b"50", SECOND),
        *("0/s", "-5/s", "fast", "", "50/w", "/s", "5/ms", "1e3", "\u0665/s", "1/2d"),
    ],
    ids=lambda rate: f"{rate!r:.20}",
)
def test_text_that_is_no_rate_is_refused_with_examples_or_bounds(rate: Any) -> None:
    with pytest.raises(Invalid, match=r"^rate: ") as refused:
        read_rate(rate)
    assert "50/s" in str(refused.value) or "1/d to 1,000,000/s" in str(refused.value)


@given(st.integers(1, 1_000_000), st.sampled_from(["s", "m", "h", "d"]))
def test_no_rate_is_exceeded_and_none_is_missed_by_more_than_a_microsecond(number: int, unit: str) -> None:
    span = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}[unit]
    gap = read_rate(f"{number}/{unit}")
    assert gap * number >= span
    assert (gap - MICROSECOND) * number < span


def test_a_higher_rate_is_never_slower() -> None:
    gaps = [read_rate(rate) for rate in range(1, 2000)]
    assert all(after <= before for before, after in pairwise(gaps))


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(10.0, "10/s"), (0.5, "30/m"), (1 / 60, "1/m"), (1 / 3600, "1/h"), (1 / 86_400, "1/d"), (2.5, "150/m")],
)
def test_a_rate_is_shown_in_the_unit_in_which_it_is_whole(rate: float, shown: str) -> None:
    assert show_rate(rate) == shown
    assert 1 / read_rate(shown).total_seconds() == pytest.approx(rate, rel=1e-4)
