"""Whether `make compare` finds what is slower, and does not cry wolf: on figures whose truth is known."""

import random
from collections import Counter

import pytest

from benchmarks.compare import ROUNDS
from benchmarks.paired import (
    A_LITTLE_WORSE,
    BETTER,
    CONFIDENCE,
    LEAST_ROUNDS,
    SAME,
    TOO_FEW,
    WORSE,
    Compared,
    compare,
    outside,
)

TRIALS = 400
COMMON, OWN = 0.3, 0.02
"""By how much the machine's speed varies between rounds, and between two runs in a row."""


def measured(chance: random.Random, slower: float, rounds: int = ROUNDS) -> Compared:
    """Both of them, on a machine whose speed both share."""
    speeds = [1 + chance.uniform(-COMMON, COMMON) for _ in range(rounds)]
    base = [40 * speed * chance.gauss(1, OWN) for speed in speeds]
    new = [40 * slower * speed * chance.gauss(1, OWN) for speed in speeds]
    return compare(base, new)


def verdicts(slower: float, rounds: int = ROUNDS) -> Counter[str]:
    chance = random.Random(1)
    return Counter(measured(chance, slower, rounds).verdict for _ in range(TRIALS))


def test_a_slowdown_of_a_tenth_is_found_in_noise_of_a_third() -> None:
    assert verdicts(1.1)[WORSE] > 0.9 * TRIALS
    assert verdicts(1.15, LEAST_ROUNDS)[WORSE] > 0.99 * TRIALS


@pytest.mark.parametrize("rounds", [LEAST_ROUNDS, ROUNDS])
def test_equal_commits_are_not_called_worse_more_often_than_tolerated(rounds: int) -> None:
    found = verdicts(1.0, rounds)
    assert found[WORSE] == 0
    assert found[SAME] > CONFIDENCE * TRIALS * 0.97


def test_a_tolerated_slowdown_is_seldom_refused_and_a_speedup_is_told() -> None:
    assert verdicts(1.05)[WORSE] < 0.05 * TRIALS
    assert verdicts(1.05)[A_LITTLE_WORSE] > 0.8 * TRIALS
    assert verdicts(0.9)[BETTER] > 0.99 * TRIALS


def test_medians_alone_call_equal_commits_worse() -> None:
    """Which is why rounds are compared pair by pair: the same figures, each side by itself."""
    chance = random.Random(1)
    found = [measured(chance, 1.0) for _ in range(TRIALS)]
    assert sum(one.new / one.base > 1.05 for one in found) > 0.01 * TRIALS
    assert all(one.ratio < 1.05 for one in found)


def test_the_confidence_interval_contains_the_true_ratio_as_often_as_it_says() -> None:
    chance = random.Random(1)
    found = [measured(chance, 1.1) for _ in range(TRIALS)]
    assert sum(one.low <= 1.1 <= one.high for one in found) > (CONFIDENCE - 0.02) * TRIALS


@pytest.mark.parametrize(("rounds", "left_out"), [(1, 0), (7, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5)])
def test_the_confidence_interval_leaves_out_as_many_rounds_as_the_sign_test_allows(rounds: int, left_out: int) -> None:
    assert outside(rounds) == left_out


def test_figures_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        compare([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="no pairs"):
        compare([], [])


def test_few_rounds_are_compared_and_decide_nothing() -> None:
    assert compare([10.0], [12.0]) == Compared(10.0, 12.0, 1.2, 1.2, 1.2, sure=False)
    assert set(verdicts(2.0, LEAST_ROUNDS - 1)) == {TOO_FEW}
    assert set(verdicts(2.0, LEAST_ROUNDS)) == {WORSE}
