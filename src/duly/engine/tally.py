"""Passes: what a worker settles from one idle time to the next, in figures."""

import time
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from duly.records.event import Settlement, Status
from duly.signals import PassEnded, Signals

NONE = timedelta()

LONGEST = 60.0
"""Seconds after which a pass that does not end is told of, and another begins: monitoring shall see figures."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What became of claims. Tallies add up."""

    processed: int = 0
    retried: int = 0
    failed: int = 0
    attempts: int = 0  # all of these, but for those that failed unstarted: interrupted too often
    late: int = 0
    lateness: timedelta = NONE  # of all attempts together
    greatest: timedelta = NONE  # of one

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            processed=self.processed + other.processed,
            retried=self.retried + other.retried,
            failed=self.failed + other.failed,
            attempts=self.attempts + other.attempts,
            late=self.late + other.late,
            lateness=self.lateness + other.lateness,
            greatest=max(self.greatest, other.greatest),
        )


NOTHING, DEAD = Tally(), Tally(failed=1)


def tally_of(settled: Sequence[Settlement], late_after: timedelta) -> Tally:
    """A batch at once, because every event is in one. What was given back was no attempt."""
    attempts = [one for one in settled if one.verdict.counts]
    became = [one.verdict.status for one in attempts]
    claims = [one.event for one in attempts]
    # What was reserved ahead is claimed a little before its instant, and is not late.
    late = [span for event in claims if (span := (event.claimed or event.due) - event.due) > NONE]
    greatest = max(late, default=NONE)
    return Tally(
        processed=became.count(Status.COMPLETED),
        retried=became.count(Status.PENDING),
        failed=became.count(Status.FAILED),
        attempts=len(attempts),
        late=sum(span > late_after for span in late) if greatest > late_after else 0,
        lateness=sum(late, NONE),
        greatest=greatest,
    )


class PassTally:
    """Those of one worker, one after another."""

    def __init__(self, worker: str, signals: Signals) -> None:
        self.signals = signals
        self._worker = worker
        self._tally = NOTHING
        self._under_way = False
        self._began = self._settled = 0.0  # and when something was settled last, by time.monotonic

    def begin(self) -> None:
        """There is something to do. That begins a pass, unless one is under way."""
        if not self._under_way:
            self._under_way, self._began = True, time.monotonic()

    def count(self, tally: Tally) -> None:
        self.begin()
        self._tally += tally
        self._settled = time.monotonic()

    def look(self, *, idle: bool) -> None:
        """End a pass whose worker is idle, or which has gone on for long. If nothing was settled, nothing is told."""
        if self._tally != NOTHING and (idle or time.monotonic() - self._began > LONGEST):
            self.end(self._settled)
        if idle:
            self._under_way = False

    def end(self, at: float) -> PassEnded:
        """Tell of it. The next one begins there, unless the worker is idle."""
        counted, began = self._tally, self._began
        self._tally, self._began = NOTHING, at
        ended = PassEnded(
            worker=self._worker,
            processed=counted.processed,
            retried=counted.retried,
            failed=counted.failed,
            late=counted.late,
            average_lateness=counted.lateness / max(1, counted.attempts),
            greatest_lateness=counted.greatest,
            duration=timedelta(seconds=at - began),
        )
        self.signals.emit(ended)
        return ended
