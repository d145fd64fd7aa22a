"""Decides whether one of two versions is slower, from rounds in which both were measured right after each other. Pure.

The machine's speed varies by half from minute to minute, but hardly between two consecutive runs. So each round gives
one ratio, and the median of the ratios decides. Its confidence interval needs no assumption about the noise: a ratio
lies above the true median as often as below it, like a coin toss, so the binomial distribution says which of the sorted
ratios bound the median (the sign test).
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

TOLERATED = 0.05
"""The share by which the new version may be worse before it counts as a regression."""

CONFIDENCE = 0.95
"""The probability, at least, with which the interval contains the true median."""

LEAST_ROUNDS = 7
"""Rounds for a verdict. With five or fewer, not even the smallest and largest ratio bound the median with this
confidence."""

WORSE = f"worse by more than {TOLERATED:.0%}".replace("%", " %")
A_LITTLE_WORSE = "worse, by how much is not shown"
SAME = "no difference shown"
TOO_FEW = "too few rounds to tell"
BETTER = "better"


class Compared(NamedTuple):
    base: float  # the median of the old version
    new: float  # the median of the new version
    ratio: float  # the median of new / base, round by round
    low: float  # the lower bound of the true ratio
    high: float  # the upper bound of the true ratio
    sure: bool = True  # whether the bounds have the required confidence; with few rounds they may not

    @property
    def verdict(self) -> str:
        if not self.sure:
            return TOO_FEW
        if self.low > 1 + TOLERATED:
            return WORSE
        if self.low > 1:
            return A_LITTLE_WORSE
        return BETTER if self.high < 1 else SAME


def compare(base: Sequence[float], new: Sequence[float]) -> Compared:
    """Compares the rounds of both versions, given in the same order."""
    if len(base) != len(new) or len(base) < 1:
        raise ValueError(f"these are no pairs: {len(base)} rounds of one, {len(new)} of the other")
    ratios = sorted(after / before for before, after in zip(base, new, strict=True))
    left_out = outside(len(ratios))
    return Compared(
        statistics.median(base),
        statistics.median(new),
        statistics.median(ratios),
        ratios[left_out],
        ratios[-1 - left_out],
        sure=len(ratios) >= LEAST_ROUNDS,
    )


def outside(rounds: int) -> int:
    """The number of sorted ratios that may be dropped at each end, so that the remaining ones still bound the median.
    The median lies outside only if, of *rounds* coin tosses, at most this number show one side."""
    left_out = 0
    for few in range((rounds - 1) // 2):
        if 2 * sum(math.comb(rounds, heads) for heads in range(few + 1)) / 2**rounds > 1 - CONFIDENCE:
            break
        left_out = few
    return left_out
