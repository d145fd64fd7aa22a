"""The occurrences of rules in each step of a range, without events: those that follow the heads of series."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duly.decide.error_text import describe
from duly.decide.series.due_head import Fire, HeadFacts, catch_up, continues_after, due_of, head_of
from duly.decide.series.pauses import PausedTime
from duly.errors import Invalid, Problem
from duly.records.event import Event, NewEvent
from duly.records.series import Series
from duly.rules.timetable import BEFORE
from duly.values.durations import format_duration
from duly.values.instants import instant_problems
from duly.values.spans import SpanOption

MOST_STEPS = 2000
"""Steps of one forecast: a day by the minute, or five years by the day."""

LONGEST_RANGE = timedelta(days=3660)
"""The longest range: ten years."""

STEP = SpanOption(timedelta(seconds=1), timedelta(days=366), "Length of a step")

USUAL_STEPS = 24
"""Steps of a forecast that was asked for without an end."""

USUAL_STEP = timedelta(hours=1)
"""The step of a forecast that was asked for without a step or an end."""

FEW_STEPS = 60
"""A forecast that was asked for without a step has at most so many, if ROUND_STEPS allow it: they can be read."""

DAY = timedelta(days=1)
ROUND_STEPS = tuple(
    timedelta(**one)
    for one in (
        {"minutes": 1},
        {"minutes": 5},
        {"minutes": 15},
        {"hours": 1},
        {"hours": 6},
        {"days": 1},
        {"days": 7},
        {"days": 30},
        {"days": 90},
    )
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StepRange(NamedTuple):
    """A range of time, from *start* up to, not including, *end*, in steps. The last step may be shorter."""

    start: datetime
    end: datetime
    step: timedelta

    @property
    def many(self) -> int:
        return -((self.start - self.end) // self.step)

    def begin(self, index: int) -> datetime:
        return self.start + index * self.step

    def after(self, index: int) -> datetime:
        """The end of a step."""
        return self.end if index + 1 >= self.many else self.begin(index + 1)

    def step_at(self, at: datetime) -> int:
        """The step that an instant is in."""
        return (at - self.start) // self.step


def read_range(start: Any, end: Any, step: Any, now: datetime) -> StepRange:
    """The range of a forecast; raises Invalid with every problem. Without a start, it begins with the step that is
    under way; without an end, it has USUAL_STEPS; without a step, it has about FEW_STEPS."""
    problems = [*instant_problems("from", start), *instant_problems("to", end)]
    span: timedelta | None = None
    try:
        span = None if step is None else STEP.read("step", step)
    except Invalid as error:
        problems += error.problems
    if problems:
        raise Invalid(problems)
    begins = now if start is None else start.astimezone(UTC)
    if span is None:
        span = USUAL_STEP if end is None else _round_step(end - begins)
    if start is None:
        begins -= (now - EPOCH) % min(span, DAY)
    try:
        ends = begins + USUAL_STEPS * span if end is None else end.astimezone(UTC)
    except OverflowError:
        raise Invalid([Problem("to", "is missing, and 24 steps would end after the last possible instant")]) from None
    return _checked(StepRange(begins, ends, span))


def _round_step(span: timedelta) -> timedelta:
    return next((one for one in ROUND_STEPS if span <= FEW_STEPS * one), ROUND_STEPS[-1])


def _checked(asked: StepRange) -> StepRange:
    if asked.end <= asked.start:
        raise Invalid([Problem("to", "must be after the start of the range")])
    if asked.end - asked.start > LONGEST_RANGE:
        raise Invalid([Problem("to", f"must be at most {LONGEST_RANGE.days:,} days after the start of the range")])
    if asked.many > MOST_STEPS:
        allowed = (asked.end - asked.start) / MOST_STEPS
        enough = next(one for one in ROUND_STEPS if one >= allowed)
        told = f"gives {asked.many:,} steps, and {MOST_STEPS:,} are allowed: {format_duration(enough)} would do"
        raise Invalid([Problem("step", told)])
    return asked


class Continuation(NamedTuple):
    """A head whose series goes on; it stands for *many* heads alike."""

    series: Series
    head: Event | NewEvent
    many: int = 1
    paused: PausedTime | None = None  # until the pause ends, the head is held; no row counts it


class Expanded(NamedTuple):
    """The occurrences that follow heads: their numbers by step and type, and what is missing in them."""

    counts: Counter[tuple[int, str]]
    left_out: int  # series that were not evaluated, or not to the end
    failed: dict[str, str]  # errors of rules, by the name of their series


def expand(
    continuations: Iterable[Continuation],
    asked: StepRange,
    now: datetime,
    enough: Callable[[], bool],
) -> Expanded:
    """Counts the occurrences to come, until *enough* returns true."""
    known: dict[tuple[str, str, str | None, str | None, datetime], Counter[int]] = {}
    counts: Counter[tuple[int, str]] = Counter()
    failed: dict[str, str] = {}
    left_out = 0
    for series, head, many, paused in continuations:
        if enough():
            left_out += many
            continue
        try:
            after: datetime | None = continues_after(head, series)
            if paused is not None:
                fired, after = _resumed(series, head, paused)
                inside = (max(at, now) for at in fired)
                counts.update((asked.step_at(at), series.type) for at in inside if asked.start <= at < asked.end)
                if after is None:
                    continue
            assert after is not None
            alike = (series.rule_json, series.timezone, series.policies_json, series.earlier_json, after)
            steps = known.get(alike)
            if steps is None:
                steps = _by_step(series, after, asked, now, enough)
                if not series.timetable.longest_jitter:  # with jitter, each series has its own instants
                    known[alike] = steps
        except Exception as error:  # nothing follows the head of a rule that raises
            failed[series.name] = describe(error)
            continue
        for index, count in steps.items():
            counts[index, series.type] += count * many
        if enough():  # perhaps in the middle
            left_out += many
    return Expanded(counts, left_out, failed)


def _resumed(series: Series, head: Event | NewEvent, paused: PausedTime) -> tuple[list[datetime], datetime | None]:
    """When the held head of a paused schedule fires, and perhaps others by the misfire policy at the end of the pause;
    and the instant after which the series continues, or None if nothing follows."""
    due = head.due or paused.until
    if due > paused.until:
        return [due], continues_after(head, series)
    if paused.fires_at(due) is None:
        return [], paused.until
    fired: list[datetime] = []
    at_end: Any = head
    while True:
        decision = catch_up(at_end, series, HeadFacts(paused.until))
        fired += [paused.until] if isinstance(decision, Fire) else []
        following = decision.next
        if following is None:
            return fired, None
        if due_of(series, following) > paused.until:
            return fired, following.at - BEFORE
        at_end = head_of(series, following, lambda: "")


def _by_step(
    series: Series, after: datetime, asked: StepRange, now: datetime, enough: Callable[[], bool]
) -> Counter[int]:
    """The number of occurrences in each step. Frequent ones are counted by the step, sparse ones one by one: either
    way, it takes about as many calls of the rule as there are steps."""
    table, first = series.timetable, _first(asked, now)
    found: Counter[int] = Counter()
    visited = 0
    following = table.after(max(after, first - table.longest_jitter - BEFORE))
    while following is not None and following.at < asked.end and not enough():
        if visited > asked.many and following.at >= first:
            return found + _counted(series, following.at, asked, enough)
        due = due_of(series, following)
        if first <= due < asked.end:
            found[asked.step_at(due)] += 1
        visited += 1
        following = table.after(following.at)
    return found


def _counted(series: Series, start: datetime, asked: StepRange, enough: Callable[[], bool]) -> Counter[int]:
    """The number of occurrences in each step, for those from *start* on. Those that jitter may move into a later step
    are visited one by one."""
    table, jitter = series.timetable, series.timetable.longest_jitter
    found: Counter[int] = Counter()
    for index in range(asked.step_at(start), asked.many):
        if enough():
            break
        low, ends = max(asked.begin(index), start), asked.after(index)
        sure = ends - max(jitter, BEFORE)
        if low <= sure:
            found[index] += table.count(low, sure)
            low = sure + BEFORE
        following = table.after(low - BEFORE) if jitter else None
        while following is not None and following.at < ends:
            if (due := due_of(series, following)) < asked.end:
                found[asked.step_at(due)] += 1
            following = table.after(following.at)
    return found


def _first(asked: StepRange, now: datetime) -> datetime:
    """The first instant at which occurrences without an event are counted. Those that have been missed are up to the
    misfire policy."""
    return max(asked.start, now + BEFORE)
