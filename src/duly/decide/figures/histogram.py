"""Durations, counted in buckets of a fixed relative width. Histograms can be added, so percentiles of a month come from
the histograms of its days."""

import math
from collections.abc import Mapping

Histogram = Mapping[int, int]
"""How many durations each bucket has."""

LEAST_S = 0.001
"""Seconds: all that is shorter is in the first bucket, 0."""

WIDTH = 1.09
"""How many times as long as the beginning of a bucket its end is. The middle of a bucket is then less than 5 % away
from all that is in it, and the durations from a millisecond to a year fill 281 buckets."""

_PER_BUCKET = math.log(WIDTH)


def bucket(seconds: float) -> int:
    return max(0, math.ceil(math.log(max(seconds, LEAST_S) / LEAST_S) / _PER_BUCKET))


def seconds(bucket: int) -> float:
    """What a bucket stands for: its (geometric) middle, in seconds, to three digits."""
    return float(f"{LEAST_S * WIDTH ** (bucket - 0.5):.3g}") if bucket else LEAST_S


def percentile(histogram: Histogram, share: float) -> float | None:
    """The seconds that this share of the durations does not exceed; None if there are none."""
    wanted = math.ceil(share * sum(histogram.values()))
    for each in sorted(histogram):
        wanted -= histogram[each]
        if wanted <= 0:
            return seconds(each)
    return None
