"""Waits between tries get longer, up to a longest one, and begin anew when something has worked."""

from collections.abc import Callable

import pytest

from duly.backoff import Backoff


def test_each_wait_of_a_backoff_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.next() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_backoff_grows_by_the_factor_of_the_caller() -> None:
    backoff = Backoff(1.0, 60.0, factor=5)
    assert [backoff.next() for _ in range(4)] == [1.0, 5.0, 25.0, 60.0]


def test_a_backoff_begins_with_the_first_wait_after_a_reset() -> None:
    backoff = Backoff(1.0, 8.0)
    first = [backoff.next() for _ in range(5)]
    backoff.reset()
    assert [backoff.next() for _ in range(5)] == first


@pytest.mark.parametrize(("spread", "waits"), [(min, [0.5, 1.0, 2.0]), (max, [1.0, 2.0, 4.0])])
def test_jitter_spreads_a_wait_over_its_second_half_and_does_not_add_up(
    spread: Callable[[float, float], float], waits: list[float]
) -> None:
    backoff = Backoff(1.0, 8.0, spread=spread)
    assert [backoff.next() for _ in range(3)] == waits
