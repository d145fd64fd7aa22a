"""The names of all metrics, with their kinds, labels and meanings."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

LATENESS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0, 86_400.0)
"""Upper bounds of buckets in seconds: from the precision of a worker to an outage of a day."""

DELIVERY_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of buckets in seconds: from a handler that computes to one that works for an hour."""

CLAIM_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of buckets in seconds. 0.1, 0.2 and 1 are thresholds of alert rules, which are exact only at a bound."""

PASS_S = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of buckets in seconds; a pass that does not end is reported every minute."""


class Kind(StrEnum):
    COUNTER = "counter"  # its samples are named with _total
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Family(NamedTuple):
    """A metric: what is measured, in how many series."""

    kind: Kind
    told: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()  # of the buckets of a histogram


def _counter(told: str, *labels: str) -> Family:
    return Family(Kind.COUNTER, told, labels)


def _gauge(told: str, *labels: str) -> Family:
    return Family(Kind.GAUGE, told, labels)


def _histogram(told: str, bounds: tuple[float, ...], *labels: str) -> Family:
    return Family(Kind.HISTOGRAM, told, labels, bounds)


OF_EVENTS = ("type", "lane")
"""The labels of figures of events."""

EVENTS: Mapping[str, Family] = {
    "duly_events_created": _counter("Events that this process has stored", *OF_EVENTS),
    "duly_events_claimed": _counter("Claims of events", *OF_EVENTS),
    "duly_events_completed": _counter("Events that were delivered", *OF_EVENTS),
    "duly_events_retried": _counter("Attempts that failed and are followed by another", *OF_EVENTS),
    "duly_events_failed": _counter("Events that became dead letters", *OF_EVENTS, "reason"),
    "duly_events_skipped": _counter("Events that a policy or their expiry has skipped", *OF_EVENTS),
    "duly_events_interrupted": _counter("Claims whose workers have vanished", *OF_EVENTS),
    "duly_lateness_seconds": _histogram("From the due time to the start of the first attempt", LATENESS_S, *OF_EVENTS),
    "duly_delivery_seconds": _histogram("Duration of attempts", DELIVERY_S, *OF_EVENTS),
}
"""Figures of events by type and lane, each from what this process has done."""

CLAIMS: Mapping[str, Family] = {
    "duly_claim_query_seconds": _histogram("Duration of the statements that claim", CLAIM_S),
    "duly_claim_transaction_seconds": _histogram(
        "Duration of claims, from asking for a connection to the last commit", CLAIM_S
    ),
}

PASSES: Mapping[str, Family] = {
    "duly_pass_processed": _counter("Events that passes have completed"),
    "duly_pass_retried": _counter("Failed attempts in passes that are followed by another"),
    "duly_pass_failed": _counter("Dead letters of passes"),
    "duly_pass_late": _counter("Attempts in passes that began later than DULY_LATE_AFTER"),
    "duly_pass_recovery": _counter("Passes that caught up on late events"),
    "duly_pass_duration_seconds": _histogram("Duration of passes", PASS_S),
    "duly_pass_average_lateness_seconds": _gauge("Average lateness of the attempts of the last pass"),
    "duly_pass_greatest_lateness_seconds": _gauge("Greatest lateness of an attempt of the last pass"),
}
"""The figures of ``PassEnded``, of the passes of this process."""

WORKER: Mapping[str, Family] = {
    "duly_poll_age_seconds": _gauge("Since the loop of this process's worker completed a pass"),
}

STORE: Mapping[str, Family] = {
    "duly_store_up": _gauge("1 if the database answers, otherwise 0"),
    "duly_events_pending": _gauge("Events that wait for their time"),
    "duly_events_due": _gauge("Events that could begin now", "lane"),
    "duly_oldest_overdue_seconds": _gauge("Since when the oldest event could have begun", "lane"),
    "duly_events_held": _gauge("Events that are held", "reason"),
    "duly_dead_letters": _gauge("Events that are FAILED"),
    "duly_workers": _gauge("Workers by their state", "state"),
    "duly_lane_served": _gauge("1 if a worker serves the lane, otherwise 0", "lane"),
    "duly_pass_age_seconds": _gauge("Since any worker or tick completed a pass, by the rows of workers"),
    "duly_clock_skew_seconds": _gauge("How far this machine's clock is ahead of the database's"),
    "duly_destinations_parked": _gauge("Targets and origins that are parked"),
    "duly_schedules_halted": _gauge("Schedules without a next event", "kind"),
}
"""What the database holds, the same in every process."""

TIMERS: Mapping[str, Family] = {
    "timer_commands_received": _counter("Commands that were taken from the broker"),
    "timer_commands_rejected": _counter("Commands that cannot be carried out"),
    "timer_schedules_processed": _counter("Timers for which DueTimeReached was published"),
    "timer_polling_duration_seconds": _histogram("Duration of the claims of due timers", CLAIM_S),
}
"""Figures of the timer service alone."""

FAMILIES: Mapping[str, Family] = {**EVENTS, **CLAIMS, **PASSES, **WORKER, **STORE, **TIMERS}
