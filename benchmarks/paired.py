"""Whether one of two is slower, from rounds in which both were measured, one right after the other. Pure.

The machine's speed varies by half from minute to minute, and hardly between two runs in a row: so each round gives one
ratio, and what counts is the median of the ratios. How sure that is does not depend on how the noise looks: a ratio
lies above the true median as often as below it, as a coin falls, so coins tell which of the ratios bound it.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

TOLERATED = 0.05
"""By how much the new one may be worse before that counts."""

CONFIDENCE = 0.95
"""How often, at least, the interval has the true median in it."""

LEAST_ROUNDS = 7
"""With five or fewer, not even the least and the most of the ratios bound the median so surely."""

WORSE = f"worse by more than {TOLERATED:.0%}".replace("%", " %")
A_LITTLE_WORSE = "worse, by how much is not shown"
SAME = "no difference shown"
TOO_FEW = "too few rounds to tell"
BETTER = "better"


class Compared(NamedTuple):
    base: float  # medians
    new: float
    ratio: float  # the median of new / base, round by round
    low: float  # where the true one lies
    high: float
    sure: bool = True  # that it lies there; with few rounds it may not

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
    """The rounds of both, in the same order."""
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
    """How many of the sorted ratios may be left out at each end, so that those that remain still bound the median. It
    lies outside of them only if, of so many throws of a coin, no more than that show one side."""
    left_out = 0
    for few in range((rounds - 1) // 2):
        if 2 * sum(math.comb(rounds, heads) for heads in range(few + 1)) / 2**rounds > 1 - CONFIDENCE:
            break
        left_out = few
    return left_out
