"""The metrics of the timer service alone, in the names of its own."""

from collections.abc import Iterator

from duly.observers.metrics.snapshots import Sample, Snapshot
from duly.signals import CommandsTaken, Signals


class TimerCounts:
    """The commands that were taken in; and what else is known of timers, from the counts of all events."""

    def __init__(self, signals: Signals) -> None:
        self._taken = self._rejected = 0
        signals.observe(self._commands_taken, CommandsTaken)

    def _commands_taken(self, signal: CommandsTaken) -> None:
        self._taken += signal.many
        self._rejected += signal.refused

    def samples(self, of_events: Snapshot) -> Iterator[Sample]:
        yield Sample("timer_commands_received", (), self._taken)
        yield Sample("timer_commands_rejected", (), self._rejected)
        completed = sum(sample.value for sample in of_events if sample.name == "duly_events_completed")
        yield Sample("timer_schedules_processed", (), completed)
        for sample in of_events:
            if sample.name == "duly_claim_transaction_seconds":
                yield Sample("timer_polling_duration_seconds", (), sample.value, sample.buckets)
