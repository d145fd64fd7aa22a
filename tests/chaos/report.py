"""Tells what has happened, so that a failed run can be understood from its message alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from duly import Event
from duly.records.history import Entry
from tests.chaos.consistency import Comparison, Problem
from tests.chaos.faults import FaultLog

MOST_TOLD = 12
"""Problems that are told with all that is known of them."""

MOST_NAMED = 60
"""Problems that are told at all."""

MOST_LINES = 40
"""Of one log."""

LONGEST_LINE = 300

DIGITS = "0123456789"


def summary(comparison: Comparison) -> str:
    statuses = Counter(event.status.value for event in comparison.events.values())
    calls = Counter(answer["outcome"] for answer in comparison.told.answered)
    faults = Counter(f"{fault.kind} {fault.victim.rstrip(DIGITS)}" for fault in comparison.told.faults)
    interrupted = sum(event.interruptions for event in comparison.events.values())
    begun = Counter(one["event"] for one in comparison.told.begun)
    posted = Counter(post.id for post in comparison.told.posts)
    repeats = sum(times - 1 for times in [*begun.values(), *posted.values()])
    return (
        f"faults {dict(faults)}, events {dict(statuses)}, calls {dict(calls)}, {interrupted} interruptions, "
        f"{repeats} begun again, {len(comparison.told.stalls)} stalls"
    )


def report(
    seed: str, log: FaultLog, logs: Mapping[str, str], problems: Sequence[Problem], comparison: Comparison | None = None
) -> str:
    parts = [
        f"DULY_CHAOS_SEED={seed} gives the same faults again. They were, in seconds:\n{log.told()}",
        f"{len(problems)} problems:",
    ]
    for problem in problems[:MOST_TOLD]:
        parts.append(f"* {problem.event or ''} {problem.told}")
        if problem.event is not None and comparison is not None:
            parts += _all_about(problem.event, comparison, logs)
    parts += [f"* {problem.event or ''} {problem.told}" for problem in problems[MOST_TOLD:MOST_NAMED]]
    for name, text in logs.items():
        warnings = [line for line in text.splitlines() if " WARNING " in line or " ERROR " in line]
        parts += [f"{name} warned:", *(line[:LONGEST_LINE] for line in warnings[-MOST_LINES:])]
    return "\n".join(parts)


def _all_about(id: str, comparison: Comparison, logs: Mapping[str, str]) -> list[str]:
    event, told = comparison.events.get(id), comparison.told
    known = [
        "it does not exist" if event is None else _fields(event),
        *(f"history: {_fields(entry)}" for entry in comparison.history.get(id, ())),
        *(str(one) for one in told.begun if one["event"] == id),
        *(str(one) for one in told.answered if id in (one.get("event"), *one.get("ids", ()))),
        *(str(post) for post in told.posts if post.id == id),
    ]
    for name, text in logs.items():
        known += [f"{name}: {line[:LONGEST_LINE]}" for line in text.splitlines() if id in line][:MOST_LINES]
    return [f"    {line}" for line in known]


def _fields(record: Event | Entry) -> str:
    """Those that say something."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value not in (None, False))
