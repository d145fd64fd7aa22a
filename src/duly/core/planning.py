"""Where events are made: from a timer, from a schedule's rule, and as the successor of a head."""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.core.checks import due_problems, timer_problems, write_json
from duly.core.model import Event, NewEvent, Schedule, Timer, lane_of
from duly.core.retry import retry_text
from duly.core.rules import Occurrence, Rule, parse_rule
from duly.errors import Invalid, Problem

NewId = Callable[[], str]


def plan(timers: Iterable[object], channels: Collection[str], new_id: NewId) -> list[NewEvent]:
    """Events for one-shot timers; Invalid with every problem of every one of them."""
    planned: list[NewEvent] = []
    problems: list[Problem] = []
    single = isinstance(timers, tuple) and len(timers) == 1
    sound: set[tuple[object, ...]] = set()  # what a batch repeats is checked once
    for index, timer in enumerate(timers):
        at = "" if single else f"[{index}]."
        if not isinstance(timer, Timer):
            problems.append(Problem(at.rstrip("."), f"expected a Timer, not {type(timer).__name__}"))
            continue
        found = list(due_problems(timer.due, at))
        payload = write_json(timer.payload, f"{at}payload")
        target = None if timer.target is None else write_json(timer.target, f"{at}target")
        repeated = (timer.type, timer.tenant, timer.key, timer.correlation_id, target, id(timer.retry))
        if not _among(repeated, sound):
            found += timer_problems(timer, channels, at)
        found += [written for written in (payload, target) if isinstance(written, Problem)]
        if found:
            problems += found
        else:
            sound.add(repeated)
            planned.append(_from_timer(timer, str(payload), target and str(target), new_id()))
    if problems:
        raise Invalid(problems)
    return planned


def _among(repeated: tuple[object, ...], sound: set[tuple[object, ...]]) -> bool:
    try:
        return repeated in sound
    except TypeError:  # a field that cannot even be looked up is certainly not sound
        return False


def _from_timer(timer: Timer, payload_json: str, target_json: str | None, id: str) -> NewEvent:
    due = timer.due
    return NewEvent(
        id=id,
        tenant=timer.tenant,
        type=timer.type,
        lane=lane_of(timer.type, timer.target),
        due=due.astimezone(UTC) if isinstance(due, datetime) else None,
        delay=due if isinstance(due, timedelta) else None,
        payload_json=payload_json,
        key=timer.key,
        target_json=target_json,
        retry_json=retry_text(timer.retry),
        correlation_id=timer.correlation_id,
    )


def head_of(schedule: Schedule, occurrence: Occurrence, new_id: NewId) -> NewEvent:
    """The next occurrence of a schedule, as the event that will be its head."""
    target = None if schedule.target_json is None else msgspec.json.decode(schedule.target_json)
    return NewEvent(
        id=new_id(),
        tenant=schedule.tenant,
        type=schedule.type,
        lane=lane_of(schedule.type, target),
        due=occurrence.due,
        payload_json=schedule.payload_json,
        target_json=schedule.target_json,
        retry_json=schedule.retry_json,
        series=schedule.series,
        occurrence=occurrence.name,
        head=True,
    )


class Succession(NamedTuple):
    """What a claimed head fires as, and what follows it."""

    fires: Occurrence  # the head itself, or the latest of those that downtime missed
    stands_for: int
    next: Occurrence | None


def succeed(head: Event, rule: Rule, now: datetime) -> Succession:
    """The misfire policy ``latest``: of all that is due by now, only the most recent one fires."""
    fires, stands_for = Occurrence(head.occurrence or "", head.due), 1
    following = rule.after(head.due)
    if following is not None and following.due <= now:
        fires, count = rule.latest(following.due, now)
        stands_for += count
        following = rule.after(fires.due)
    return Succession(fires, stands_for, following)


def rule_of(schedule: Schedule) -> Rule:
    return parse_rule(msgspec.json.decode(schedule.rule_json))
