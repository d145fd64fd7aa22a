"""The figures of passes. A pass is the work that a worker settles from one idle time to the next."""

import time
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from duly.records.event import Settlement, Status
from duly.signals import PassEnded, Signals

NONE = timedelta()

LONGEST_PASS_S = 60.0
"""Seconds after which a pass that does not end is reported and another begins, so that monitoring gets figures."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of settled claims. Tallies can be added."""

    processed: int = 0
    retried: int = 0
    failed: int = 0
    attempts: int = 0  # processed, retried and failed, except events that failed unstarted: interrupted too often
    late: int = 0
    lateness: timedelta = NONE  # the sum over all attempts
    greatest: timedelta = NONE  # the greatest lateness of one attempt

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


NOTHING = Tally()
DEAD = Tally(failed=1)
"""The tally of an event that failed unstarted: interrupted too often."""


def tally_of(settled: Sequence[Settlement], late_after: timedelta) -> Tally:
    """The tally of a settled batch. Events that were given back do not count as attempts. A whole batch is counted at
    once because this runs for every event."""
    attempts = [one for one in settled if one.verdict.counts]
    became = [one.verdict.status for one in attempts]
    claims = [one.event for one in attempts]
    # Reserved events are claimed a little before their instant, and are not late.
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
    """The tally of one worker's current pass."""

    def __init__(self, worker: str, signals: Signals) -> None:
        self.worker, self.signals = worker, signals
        self._tally = NOTHING
        self._under_way = False
        self._began = self._settled = 0.0  # when the pass began, and when an event was last settled, by time.monotonic

    def begin(self) -> None:
        """Begins a pass, unless one is under way."""
        if not self._under_way:
            self._under_way, self._began = True, time.monotonic()

    def count(self, tally: Tally) -> None:
        self.begin()
        self._tally += tally
        self._settled = time.monotonic()

    def look(self, *, idle: bool) -> None:
        """Ends the pass if the worker is idle or the pass has lasted more than LONGEST_PASS_S. A pass that settled
        nothing is not reported."""
        if self._tally != NOTHING and (idle or time.monotonic() - self._began > LONGEST_PASS_S):
            self.end(self._settled)
        if idle:
            self._under_way = False

    def end(self, at: float) -> PassEnded:
        """Emits the figures of the pass. The next pass begins at the same moment, unless the worker is idle."""
        counted, began = self._tally, self._began
        self._tally, self._began = NOTHING, at
        ended = PassEnded(
            worker=self.worker,
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
