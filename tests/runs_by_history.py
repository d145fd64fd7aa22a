"""What statistics have to tell, computed from the events and their histories alone."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import pytest

from duly import Duly, Event, Status
from duly.records.figures.stats import Percentiles, RunStats
from duly.records.history import Entry
from duly.records.specs import Everything

EXACT = 0.05
"""How far a percentile may be from the exact one: half the width of a bucket."""

SHORTEST_S = 0.001
"""Seconds: shorter ones are told as this."""


class Run(NamedTuple):
    """A run, or an event that was skipped, as its history tells of it."""

    event: Event
    at: datetime
    status: Status
    duration: timedelta | None
    lateness: timedelta | None


async def runs_of(app: Duly) -> list[Run]:
    found = await app.store.find(Everything(), limit=100_000)
    return [run for event in found for run in _runs(event, await app.events.history(event.id))]


def _runs(event: Event, history: Sequence[Entry]) -> Iterable[Run]:
    ends = [*pairwise(history), *((entry, None) for entry in history[-1:])]
    for entry, following in ends:
        last = following is None or following.act in ("replayed", "discarded")
        if entry.act in ("skipped", "shadowed"):
            yield Run(event, entry.at, Status.SKIPPED, None, None)
        elif entry.act == "delivered":
            yield _ended(event, entry, Status.COMPLETED)
        elif entry.act == "rejected" or (entry.act == "failed" and last and event.status is not Status.PENDING):
            yield _ended(event, entry, Status.FAILED)


def _ended(event: Event, entry: Entry, status: Status) -> Run:
    if entry.claimed is None:  # interrupted too often: nobody knows how long it ran
        return Run(event, entry.at, status, None, None)
    return Run(event, entry.at, status, entry.at - entry.claimed, max(entry.claimed - event.due, timedelta()))


def agree(told: RunStats, runs: Sequence[Run]) -> None:
    """The figures are those of these runs."""
    many = Counter(run.status for run in runs)
    ended = many[Status.COMPLETED] + many[Status.FAILED]
    assert (told.runs, told.completed, told.failed, told.skipped) == (
        ended,
        many[Status.COMPLETED],
        many[Status.FAILED],
        many[Status.SKIPPED],
    )
    assert told.success_rate == (many[Status.COMPLETED] / ended if ended else None)
    _agree(told.duration, [run.duration for run in runs if run.duration is not None])
    _agree(told.lateness, [run.lateness for run in runs if run.lateness is not None])


def _agree(told: Percentiles, spans: Sequence[timedelta]) -> None:
    ordered = [max(span.total_seconds(), SHORTEST_S) for span in sorted(spans)]
    for share, found in zip((0.5, 0.95, 0.99), (told.p50, told.p95, told.p99), strict=True):
        exact = ordered[math.ceil(share * len(ordered)) - 1] if ordered else None
        near = found == (None if exact is None else pytest.approx(exact, rel=EXACT))
        assert near, f"p{share:g}: {found} instead of {exact}"


async def stats_are_those_of_the_histories(app: Duly, runs: Sequence[Run] | None = None) -> None:
    """Of the last 400 days: together, by day, by type and by lane, and of each schedule."""
    runs = await runs_of(app) if runs is None else runs
    until = await app.now() + timedelta(seconds=1)
    found = await app.stats(until - timedelta(days=399), until, by="type")
    agree(found.total, runs)
    by_day: dict[object, list[Run]] = defaultdict(list)
    for run in runs:
        by_day[run.at.date()].append(run)
    for day in found.days:
        agree(day, by_day.pop(day.day, []))
    assert not by_day
    for group in found.groups:
        agree(group, [run for run in runs if run.event.type == group.name])
    assert {group.name for group in found.groups} == {run.event.type for run in runs}
    for group in (await app.stats(until - timedelta(days=399), until, by="lane")).groups:
        agree(group, [run for run in runs if run.event.lane == group.name])
    for schedule in await app.schedules.list(limit=1000):
        own = await app.schedules.stats(schedule.name, until - timedelta(days=399), until, tenant=schedule.tenant)
        agree(own.total, [run for run in runs if run.event.series == schedule.series])
