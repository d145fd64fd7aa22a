"""Makes events from timers."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import msgspec

from duly.decide.checks import name_problems, timer_problems, when_problems, write_json
from duly.decide.own_checks import OwnChecks, checks_of
from duly.decide.retry import DEFAULT, retry_text
from duly.decide.targets.targets import destination_of
from duly.errors import Invalid, Problem
from duly.records.event import TIMER_SPANS, NewEvent, Timer, lane_of
from duly.values.instants import read_due

spans_of = attrgetter(*TIMER_SPANS)
NO_SPANS = spans_of(Timer(timedelta(), ""))
"""What a timer has that gives none."""

NewIds = Callable[[int], Sequence[str]]

Kinds = dict[tuple[object, ...], tuple[str, str | None, str | None]]
"""A cache within one batch: timers of the same kind (type, tenant, target, retry) share one check, and their lane,
retry policy and destination."""


def plan(timers: Sequence[object], channels: Collection[str], new_ids: NewIds) -> list[NewEvent]:
    """The events of one-shot timers; raises Invalid with every problem of every timer."""
    planned: list[NewEvent] = []
    problems: list[Problem] = []
    kinds: Kinds = {}
    via: str | None = getattr(channels, "via", None)  # the origin, for timers of an HTTP request
    checks = checks_of(channels)
    for index, (timer, new_id) in enumerate(zip(timers, new_ids(len(timers)), strict=True)):
        made = _made(timer, new_id, channels, kinds, via, checks)
        if isinstance(made, NewEvent):
            planned.append(made)
        elif isinstance(timers, tuple) and len(timers) == 1:
            problems += made
        else:
            problems += [Problem(f"[{index}].{path}".rstrip("."), message) for path, message in made]
    if problems:
        raise Invalid(problems)
    return planned


def _made(
    timer: object, new_id: str, channels: Collection[str], kinds: Kinds, via: str | None, checks: OwnChecks | None
) -> NewEvent | list[Problem]:
    if not isinstance(timer, Timer):
        return [Problem("", f"expected a Timer, not {type(timer).__name__}")]
    if isinstance(timer.due, str | int | float):
        timer = msgspec.structs.replace(timer, due=read_due(timer.due))
    payload = write_json(timer.payload, "payload")
    target = None if timer.target is None else write_json(timer.target, "target")
    if isinstance(payload, Problem) or isinstance(target, Problem) or _own_problems(timer):
        unwritten = [written for written in (payload, target) if isinstance(written, Problem)]
        return _with_own([*timer_problems(timer, channels), *unwritten], timer, checks)
    kind = (timer.type, timer.tenant, target, id(timer.retry))
    common = _known(kind, kinds)
    if common is None:
        if found := list(timer_problems(timer, channels)):
            return _with_own(found, timer, checks)
        retry = None if timer.retry is DEFAULT else retry_text(timer.retry)
        common = kinds[kind] = lane_of(timer.type, timer.target), retry, destination_of(timer.target)
    if checks is not None and (own := checks.problems(timer)):
        return own
    lane, retry, destination = common
    due = timer.due
    event = NewEvent(
        id=new_id,
        tenant=timer.tenant,
        type=timer.type,
        lane=lane,
        due=due.astimezone(UTC) if isinstance(due, datetime) else None,
        delay=due if isinstance(due, timedelta) else None,
        payload_json=payload,
        key=timer.key,
        target_json=target,
        retry_json=retry,
        correlation_id=timer.correlation_id,
        destination=destination,
        via=via,
        once=timer.once is not False,
    )
    return event if spans_of(timer) == NO_SPANS else _with_spans(event, timer, channels)


def _with_own(found: list[Problem], timer: Timer, checks: OwnChecks | None) -> list[Problem]:
    return found if checks is None else [*found, *checks.problems(timer, found)]


def _with_spans(event: NewEvent, timer: Timer, channels: Collection[str]) -> NewEvent | list[Problem]:
    """The event with the spans of its timer: apart from the others, because hardly any timer has one."""
    given = {name: getattr(timer, name) for name in TIMER_SPANS}
    try:
        spans = {name: TIMER_SPANS[name].read(name, span) for name, span in given.items() if span is not None}
    except Invalid:
        return list(timer_problems(timer, channels))
    if (quiet := spans.get("quiet")) is None:
        return msgspec.structs.replace(event, **spans)
    delay = min(quiet, spans.get("max_wait", quiet))  # of the first call
    return msgspec.structs.replace(event, **spans, delay=delay, once=False)


def _known(kind: tuple[object, ...], kinds: Kinds) -> tuple[str, str | None, str | None] | None:
    try:
        return kinds.get(kind)
    except TypeError:  # a field that cannot be hashed: the checks find what is wrong with it
        return None


def _own_problems(timer: Timer) -> bool:
    """Whether the fields that timers of one kind do not share have problems."""
    return bool(
        when_problems(timer)
        or not (timer.once is None or type(timer.once) is bool)
        or (timer.once and timer.quiet is not None)
        or (timer.key is not None and name_problems("key", timer.key))
        or (timer.correlation_id is not None and name_problems("correlation_id", timer.correlation_id))
    )
