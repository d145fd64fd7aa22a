"""``duly.forecast``: how many events are known to become due, and when."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from duly.decide.checks import name_problems
from duly.decide.series.forecast import Continuation, Expanded, StepRange, expand, read_range
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.ports import CountedRows, DueWindow, ForecastPort, RepeatingHeads, ScheduledHead
from duly.records.event import SCHEDULE, USER, NewEvent
from duly.records.figures.forecast import OTHER_TYPES, Forecast, ForecastStep
from duly.records.series import Series
from duly.values.instants import FIRST_YEAR, write_instant

FIRST_WINDOW = 64
"""The share of the range, as a divisor, that the first query counts; less than a tenth of a second's work for most."""

MOST_WINDOWS = 1000
"""Queries that count the rows of one forecast, about: events that are all due at once are not divided further."""

BEGINNING = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
"""No event is due before."""

MOST_TYPES = 50
"""Types that are told by themselves: the most frequent."""

MOST_TYPES_COUNTED = 500
"""Types of waiting events that the database counts by themselves. More than MOST_TYPES: rules add to them."""

MOST_HEADS = 50_000
"""Schedules whose rules one forecast evaluates at most, and different rules of users."""


class Limits(NamedTuple):
    """What one forecast may cost."""

    count_s: float  # seconds to count rows; then the range is refused
    evaluation_s: float  # seconds to evaluate rules; then the rest is left out


USUAL_LIMITS = Limits(count_s=60.0, evaluation_s=5.0)
LIMITS_OVER_HTTP = Limits(count_s=5.0, evaluation_s=1.0)


MOST_NAMED = 3
"""Schedules that the warnings name."""


class Ahead(NamedTuple):
    """The heads whose rules bring further events into the range."""

    schedules: Sequence[ScheduledHead]
    users: Sequence[RepeatingHeads]

    @property
    def cut(self) -> bool:
        """Whether there are more of them."""
        return len(self.schedules) > MOST_HEADS or len(self.users) > MOST_HEADS

    def continuations(self) -> Iterator[Continuation]:
        for one in self.schedules[:MOST_HEADS]:
            series = Series(
                name=f"{SCHEDULE}{one.id}",
                tenant=one.tenant,
                type=one.type,
                rule_json=one.rule_json,
                timezone=one.timezone,
                policies_json=one.policies_json,
                earlier_json=one.earlier_json,
                owner=one.name,
            )
            yield Continuation(series, _head(one.due, one.scheduled, one.occurrence), paused=one.paused)
        for each in self.users[:MOST_HEADS]:
            shared = Series(
                name=f"{USER}:{each.type}", tenant="", type=each.type, rule_json=each.rule_json, timezone=each.timezone
            )
            yield Continuation(shared, _head(each.after, each.after, ""), each.many)


def _head(due: datetime, scheduled: datetime, occurrence: str) -> NewEvent:
    return NewEvent(id="", tenant="", type="", lane="", due=due, scheduled=scheduled, occurrence=occurrence)


async def forecast(
    store: ForecastPort, start: Any, end: Any, step: Any, tenant: str | None, limits: Limits = USUAL_LIMITS
) -> Forecast:
    """The forecast of one tenant, or of all; raises Invalid for a range that cannot be used or takes too long to count.

    The queries see no common snapshot: an event that fires or moves between them may be counted twice, or be missing.
    """
    if tenant is not None and (problems := name_problems("tenant", tenant)):
        raise Invalid(problems)
    now = await store.now()
    asked = read_range(start, end, step, now)
    rows, users = await _rows(store, tenant, asked, now, limits.count_s)
    schedules = await store.scheduled_heads(tenant, asked.end, limit=MOST_HEADS + 1) if asked.end > now else ()
    ahead, found = Ahead(schedules, users), Expanded(Counter(), 0, {})
    if schedules or users:
        found = await evaluated(expand, ahead.continuations(), asked, now, _enough_after(limits.evaluation_s))
    return _told(asked, rows, found, _warnings(ahead, found))


async def _rows(
    store: ForecastPort, tenant: str | None, asked: StepRange, now: datetime, limit_s: float
) -> tuple[list[CountedRows], list[RepeatingHeads]]:
    """The rows in the range, and the heads of users that go on in it. They are read window by window: first what is
    overdue, then as much at once as the database counts in ``window_s``."""
    rows, users = list[CountedRows](), list[RepeatingHeads]()
    since, until = BEGINNING, min(asked.start, now)
    whole, enough = asked.end - until, _enough_after(limit_s)
    width = whole / FIRST_WINDOW
    while since < asked.end:
        began, window = time.monotonic(), DueWindow(tenant, since, until)
        found = await store.count_due(window, asked, types=MOST_TYPES_COUNTED)
        rows += found
        if asked.end > now and any(row.repeating for row in found) and len(users) <= MOST_HEADS:
            users += await store.repeating_heads(window, asked.end, limit=MOST_HEADS + 1 - len(users))
        width *= store.window_s / min(max(time.monotonic() - began, store.window_s / 4), store.window_s * 4)
        width = min(max(width, whole / MOST_WINDOWS), whole)
        since, until = until, until + min(width, asked.end - until)
        if since < asked.end and enough():
            told = (
                f"those until {write_instant(since)} were counted in {limit_s:g} s: ask for a range that ends by then"
            )
            raise Invalid([Problem("to", f"too many events wait in this range; {told}")])
    return rows, users


def _enough_after(seconds: float) -> Callable[[], bool]:
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() > ends


def _warnings(ahead: Ahead, found: Expanded) -> Iterator[str]:
    if ahead.cut or found.left_out:
        many = f"more than {MOST_HEADS:,}" if ahead.cut else f"{found.left_out:,}"
        yield (
            f"the rules of {many} schedules or users were not evaluated, because it takes too long: of these, only "
            "the next event is counted. Ask for a range that ends earlier"
        )
    names = {f"{SCHEDULE}{one.id}": f"schedule {one.name!r}" for one in ahead.schedules if found.failed}
    for nth, (series, error) in enumerate(found.failed.items()):
        if nth == MOST_NAMED:
            yield f"so it is with {len(found.failed) - nth:,} more"
            break
        whose = names.get(series) or f"events of type {series.removeprefix(f'{USER}:')!r}"
        yield f"the rule of {whose} cannot be evaluated here, only its next event is counted: {error}"


def _told(asked: StepRange, rows: Sequence[CountedRows], found: Expanded, warnings: Iterable[str]) -> Forecast:
    counts = found.counts
    for row in rows:
        if row.step is not None:
            counts[row.step, row.type or OTHER_TYPES] += row.many
    total: Counter[str] = Counter()
    for (_, type), many in counts.items():
        total[type] += many
    del total[OTHER_TYPES]
    frequent = {type for type, _ in total.most_common(MOST_TYPES)}
    steps = [Counter[str]() for _ in range(asked.many)]
    for (index, type), many in counts.items():
        steps[index][type if type in frequent else OTHER_TYPES] += many
    left_out = tuple(warnings)
    return Forecast(
        asked.start,
        asked.end,
        asked.step,
        tuple(
            ForecastStep(asked.begin(index), by_type.total(), dict(sorted(by_type.items())))
            for index, by_type in enumerate(steps)
        ),
        complete=not left_out,
        warnings=left_out,
    )
