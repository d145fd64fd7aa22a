"""What became of the recent occurrences of schedules: as many figures of an event as a chart needs."""

from datetime import datetime, timedelta

import msgspec

from duly.records.event import Status

TRIGGERED = "trigger:"
BACKFILLED = "backfill:"
"""The beginnings of the names of occurrences that people have added beside the rule."""


class Run(msgspec.Struct, frozen=True):
    """One event of a schedule that is not its next one any more."""

    series: str
    id: str
    status: Status
    due: datetime
    executed: datetime | None
    occurrence: str
    scheduled: datetime | None  # the instant by the rule; of a backfill, that of the occurrence that it fills in
    stands_for: int
    reason: str | None  # why it failed, or does not fire; None if it was completed or is on its way

    @property
    def lateness(self) -> timedelta | None:
        return None if self.executed is None else self.executed - self.due

    @property
    def at(self) -> datetime:
        """The instant that it belongs to on a calendar."""
        return self.due if self.scheduled is None or self.occurrence.startswith(TRIGGERED) else self.scheduled

    @property
    def missed(self) -> int:
        """Occurrences that did not fire because this event stands for them."""
        return self.stands_for - 1 if self.status is not Status.SKIPPED else 0
