"""Measures how long the next occurrence takes, and checks which library is right when clocks change: Duly, cronsim and
croniter."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from benchmarks.crew import Broken
from benchmarks.peers import Peer
from benchmarks.workloads import Figures
from duly.rules.cron import readings_of
from duly.rules.notation import cron
from duly.rules.recurrence import Occurrence

BRUSSELS = "Europe/Brussels"
EXPRESSIONS = ("0 9 29 2 *", "@yearly", "*/5 9-17 * * MON-FRI", "* * * * *", "0 9 L * *", "0 9 * * FRI#2")
FIRST = datetime(2020, 1, 1, tzinfo=UTC)  # the earliest start
DAYS = 20 * 365  # from the earliest to the latest start
STEPS = 10  # occurrences from each start
CHUNK = 20  # evaluations of one library, then of the next, so that noise affects all alike
UNSEEN = 20  # times that the rule is parsed again


def rules(_peer: Peer, _url: str, which: int, starts: int) -> Figures:
    """Measures the microseconds from a stored instant to the next occurrence, over consecutive occurrences from many
    starts: the median of averages over 20 evaluations.

    A parsed expression can be kept, so parsing is not timed: croniter is called with ``start_time=``, and a CronSim,
    which has a single start, is created for each instant before the timing begins.
    """
    expression = EXPRESSIONS[which]
    instants = list(_walks(expression, starts))
    took: dict[str, list[float]] = {name: [] for name in ASKING}
    for start in range(0, len(instants), CHUNK):
        answers = {}
        for name, ask in ASKING.items():
            asked = ask(expression, BRUSSELS, instants[start : start + CHUNK])
            began = time.perf_counter()
            answers[name] = [answer() for answer in asked]
            took[name].append(1e6 * (time.perf_counter() - began) / len(asked))
        _compare(expression, instants[start : start + CHUNK], *answers.values())
    return {
        **{f"{name}_us": statistics.median(averages) for name, averages in took.items()},
        "unseen_us": statistics.median(_unseen(expression, instants)),
    }


def _walks(expression: str, starts: int) -> Iterator[datetime]:
    rule, luck = cron(expression, timezone=BRUSSELS), random.Random(expression)
    for _ in range(starts):
        instant = FIRST + timedelta(seconds=luck.randrange(DAYS * 86400))
        for _ in range(STEPS):
            yield instant
            following = rule.after(instant)
            assert following
            instant = following.at


def _compare(expression: str, instants: list[datetime], own: list[Any], *others: list[Any]) -> None:
    """Raises `Broken` unless at least one other library agrees with Duly on each occurrence. When clocks change the
    others may be wrong, but not all of them at once."""
    for instant, occurrence, *answers in zip(instants, own, *others, strict=True):
        if occurrence.at not in answers:
            said = ", ".join(map(str, answers))
            raise Broken(f"after {instant}, {expression} is at {occurrence.at}, but others say {said}")


def _unseen(expression: str, instants: list[datetime]) -> Iterator[float]:
    """The times including parsing, as for an expression that is new to this process in a zone that is not."""
    for instant in instants[:: max(1, len(instants) // UNSEEN)]:
        readings_of.cache_clear()
        began = time.perf_counter()
        cron(expression, timezone=BRUSSELS).after(instant)
        yield 1e6 * (time.perf_counter() - began)


# -- the three libraries: the most direct calls that their interfaces allow

Answers = list[Callable[..., Any]]
"""Each is called with nothing; its instant is a default."""


def _duly(expression: str, timezone: str, instants: Sequence[datetime]) -> Answers:
    rule = cron(expression, timezone=timezone)
    return [lambda instant=instant: rule.after(instant) for instant in instants]


def _cronsim(expression: str, timezone: str, instants: Sequence[datetime]) -> Answers:
    from cronsim import CronSim

    written = expression.replace("@yearly", "0 0 1 1 *")  # cronsim has no aliases
    return [CronSim(written, instant.astimezone(ZoneInfo(timezone))).__next__ for instant in instants]


def _croniter(expression: str, timezone: str, instants: Sequence[datetime]) -> Answers:
    from croniter import croniter

    rule = croniter(expression, ret_type=datetime)
    local = [instant.astimezone(ZoneInfo(timezone)) for instant in instants]
    return [lambda instant=instant: rule.get_next(start_time=instant) for instant in local]


ASKING = {"duly": _duly, "cronsim": _cronsim, "croniter": _croniter}


# -- when clocks change


class Change(NamedTuple):
    """A rule over a clock change, with the correct instants after a start."""

    title: str
    expression: str
    timezone: str
    start: str
    right: tuple[str, ...]


CHANGES = (
    Change("a gap", "30 2 * * *", BRUSSELS, "2026-03-28T23:30Z", ("2026-03-29T01:00Z", "2026-03-30T00:30Z")),
    Change("an overlap", "30 2 * * *", BRUSSELS, "2026-10-24T22:30Z", ("2026-10-25T00:30Z", "2026-10-26T01:30Z")),
    Change("from the repeated hour on", "30 2 * * *", BRUSSELS, "2026-10-25T01:10Z", ("2026-10-26T01:30Z",)),
    Change("a gap", "0 */2 * * *", BRUSSELS, "2026-03-28T23:30Z", ("2026-03-29T02:00Z", "2026-03-29T04:00Z")),
    Change(
        "an overlap of half an hour",
        "0 */2 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T13:30Z",
        ("2026-04-04T15:30Z", "2026-04-04T17:30Z"),
    ),
    Change(
        "an overlap at midnight",
        "0 */2 * * *",
        "America/St_Johns",
        "2006-10-29T01:00Z",
        ("2006-10-29T02:30Z", "2006-10-29T03:30Z", "2006-10-29T05:30Z"),
    ),
)


def changes(_peer: Peer, _url: str) -> Figures:
    """Checks which libraries are right about each of CHANGES: 1 or 0."""
    return {name: [float(_answers(ask, change) == change.right) for change in CHANGES] for name, ask in ASKING.items()}


def _answers(ask: Callable[[str, str, Sequence[datetime]], Answers], change: Change) -> tuple[str, ...]:
    instant, answers = datetime.fromisoformat(change.start), []
    for _ in change.right:
        [answer] = ask(change.expression, change.timezone, [instant])
        found = answer()
        local = found.at if isinstance(found, Occurrence) else found
        instant = local.astimezone(UTC)
        answers.append(instant.strftime("%Y-%m-%dT%H:%MZ"))
    return tuple(answers)
