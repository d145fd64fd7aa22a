"""The policies of a schedule in words."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from duly.dashboard.times import Times, short
from duly.decide.retry import Retry
from duly.records.schedule import Schedule
from duly.rules.notation import parse_rule, usual_dst
from duly.rules.policies import SHADOW, Policies

GAPS = {
    "after": "a time that the clocks skip fires right after the gap",
    "shift": "a time that the clocks skip fires later, by the length of the gap",
    "skip": "a time that the clocks skip does not fire",
}
OVERLAPS = {
    "first": "one that they show twice fires the first time",
    "second": "one that they show twice fires the second time",
    "both": "one that they show twice fires both times",
}
MOST_WAITS = 3
"""Waits between attempts that are named."""


class PolicyWords(NamedTuple):
    """A policy, and what it says."""

    name: str
    said: str


def policies_in_words(schedule: Schedule, times: Times) -> list[PolicyWords]:
    """What the policies of a schedule say; nothing if they cannot be read, because somebody has edited the row."""
    try:
        return [PolicyWords(name, said) for name, said in _said(schedule, schedule.policies, times)]
    except Exception:  # the page has to be shown; `halted` has the error
        return []


def _said(schedule: Schedule, policies: Policies, times: Times) -> Iterator[tuple[str, str]]:
    if policies.mode == SHADOW:
        yield "Mode", "shadow: it records what would have fired, and delivers nothing"
    yield "Missed", _misfire(policies)
    yield "Overlap", _overlap(policies)
    yield "Retries", retries(schedule.retry)
    if policies.expires is not None:
        yield "Expires", f"an event that cannot begin within {short(policies.expires)} after it is due is skipped"
    if policies.jitter:
        yield "Jitter", f"each event fires up to {short(policies.jitter)} later, by a different amount for each"
    if (on := policies.depends_on) is not None:
        yield "Depends on", f"it fires only if {on.schedule} has succeeded within {short(on.within)} before"
    if policies.exclude:
        yield "Excluded", ", ".join(policies.exclude)
    if policies.start is not None:
        yield "Start", f"nothing before {times.words(policies.start)}"
    if policies.end is not None:
        yield "End", f"nothing after {times.words(policies.end)}"
    if (clocks := _clocks(schedule, policies)) is not None:
        yield "Clock changes", clocks


def _misfire(policies: Policies) -> str:
    match policies.misfire.policy:
        case "all":
            return f"each missed occurrence fires, the oldest first, at most {policies.misfire.limit:,} of them"
        case "skip":
            return f"an occurrence that is found more than {short(policies.misfire.tolerance)} late is skipped"
    return "after an outage only the latest missed occurrence fires, once for all of them"


def _overlap(policies: Policies) -> str:
    many = policies.max_concurrent
    if policies.overlap == "skip":
        return f"while {'one runs' if many in (None, 1) else f'{many:,} run'}, the next one is skipped"
    if policies.overlap == "queue":
        return f"while {'one runs' if many in (None, 1) else f'{many:,} run'}, the next ones wait for their turn"
    return "any number may run at once" if many is None else f"at most {many:,} run at once, others wait"


def retries(retry: Retry) -> str:
    """How often and when a failed event is tried again."""
    if retry.max_attempts == 1:
        return "one attempt, without a retry"
    waits = [short(retry.least(attempt)) for attempt in range(1, min(retry.max_attempts, MOST_WAITS + 1))]
    more = " and so on" if retry.max_attempts > MOST_WAITS + 1 else ""
    longest = f", at most {short(retry.max)} apart" if more and retry.max < timedelta.max else ""
    return f"{retry.max_attempts:,} attempts; after a failure it waits {', then '.join(waits)}{more}{longest}"


def _clocks(schedule: Schedule, policies: Policies) -> str | None:
    usual = usual_dst(parse_rule(schedule.rule, schedule.timezone))
    gap, overlap = policies.dst.gap or usual["gap"], policies.dst.overlap or usual["overlap"]
    return None if gap is None or overlap is None else f"{GAPS[gap]}; {OVERLAPS[overlap]}"
