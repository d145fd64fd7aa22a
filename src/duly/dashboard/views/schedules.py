"""The pages of schedules: the list, and one schedule."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from starlette.responses import Response

from duly.dashboard.acts.schedules import add_acts
from duly.dashboard.charts.sparkline import BARS, outcome, sparkline, told
from duly.dashboard.pages import Pages
from duly.dashboard.rule_words import rule_in_words
from duly.dashboard.upcoming import following
from duly.dashboard.views import schedule_calendar, why_not
from duly.dashboard.visit import Visit
from duly.dashboard.words.policy_words import policies_in_words
from duly.dashboard.words.target_words import target_in_words
from duly.decide.targets.commands import is_command
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.figures.runs import Run
from duly.records.filters import read_filter_of
from duly.records.finding.schedules import SCHEDULE_FIELDS, ScheduleFilter
from duly.records.schedule import HaltKind, Schedule

pages = Pages()
add_acts(pages)

PAGE_SIZE = 50
"""Schedules of a page."""

RECENT = 20
"""Events and acts that the page of a schedule shows."""

UPCOMING = 10
"""Occurrences that follow, on the page of a schedule."""

STATE = "state"
STATES = {
    "enabled": {"enabled": "true"},
    "paused": {"enabled": "false"},
    "halted": {"halt_kind": HaltKind.ERROR.value},
    "ended": {"halt_kind": HaltKind.ENDED.value},
}
"""The states that the list is filtered by, and the filters of the API that they stand for."""

IN_THE_FORM = ("name_prefix", "type", "tag", "enabled", "halt_kind")
"""The filters of the API that the form has fields for. Others are kept from the address."""

OVERDUE = timedelta(seconds=60)
"""How long after its due time a next event that has not begun is called overdue."""

LONGEST_REASON = 90
"""Characters of a reason in the list, at most."""


class Row(NamedTuple):
    """A schedule in the list."""

    schedule: Schedule
    words: str
    state: str
    chart: Any
    mark: str | None  # the latest run that was skipped, failed or stands for missed ones
    reason: str | None
    is_overdue: bool


# -- the list


@pages.get("/schedules")
async def schedules(visit: Visit) -> Response:
    """The list of schedules."""
    which = _asked(visit)
    page = await visit.own.schedules.page(
        which, tenant=visit.tenant, limit=PAGE_SIZE, after=visit.query.get("after") or None
    )
    runs = await visit.own.schedules.recent_runs(page.items, limit=BARS)
    last = page.items[-1].name if page.more and page.items else None
    return visit.live_page(
        "schedules.html",
        "schedules_live.html",
        here_is="schedules",
        rows=[_row(visit, schedule, runs[schedule.id]) for schedule in page.items],
        filtered=bool(which),
        asked={name: visit.query.get(name, "") for name in SCHEDULE_FIELDS} | {STATE: _state(visit)},
        beside=[name for name in SCHEDULE_FIELDS if name not in IN_THE_FORM and visit.query.get(name)],
        states=[*STATES],
        count=None if visit.is_live else await visit.own.schedules.count(which, tenant=visit.tenant),
        first=visit.here(after=None, live=None) if visit.query.get("after") else None,
        next=visit.here(after=last, live=None) if last else None,
    )


def _asked(visit: Visit) -> ScheduleFilter:
    """What the query asks for, in the words of the API, and with the states of the list; raises Invalid with every
    problem of it."""
    given = {name: visit.query[name] for name in SCHEDULE_FIELDS if visit.query.get(name)}
    state, problems = visit.query.get(STATE, ""), list[Problem]()
    if state and state not in STATES:
        problems.append(Problem(STATE, f"must be one of {', '.join(STATES)}, not {state!r:.50}"))
    if not visit.query.get("after", "").isprintable():
        problems.append(Problem("after", "has a character that cannot be printed"))
    which, found = read_filter_of(ScheduleFilter, given | STATES.get(state, {}))
    if problems := [*problems, *found]:
        raise Invalid(problems)
    return which


def _state(visit: Visit) -> str:
    """The state that is asked for, in the words of the list or of the API."""
    query = visit.query
    said = (name for name, means in STATES.items() if all(query.get(one) == value for one, value in means.items()))
    return query.get(STATE) or next(said, "")


def _row(visit: Visit, schedule: Schedule, runs: Sequence[Run]) -> Row:
    marked = next((run for run in runs if run.missed or run.status in (Status.SKIPPED, Status.FAILED)), None)
    mark = None if marked is None else f"{marked.missed:,} missed" if marked.missed else outcome(marked)
    reason = None if marked is None or marked.reason is None else marked.reason[:LONGEST_REASON]
    return Row(schedule, rule_in_words(schedule), state_of(schedule), sparkline(runs, visit.times), mark, reason,
               is_overdue(visit, schedule))  # fmt: skip


def is_overdue(visit: Visit, schedule: Schedule) -> bool:
    """Whether its next event is due, and waits only for a worker."""
    due = schedule.next_at
    waits = schedule.enabled and schedule.held is None and due is not None
    return waits and due is not None and visit.times.now - due > OVERDUE


def state_of(schedule: Schedule) -> str:
    """The state of a schedule in one word."""
    if not schedule.enabled:
        return "paused"
    if schedule.halt_kind is HaltKind.ERROR:
        return "halted"
    if schedule.halt_kind is HaltKind.ENDED:
        return "ended"
    return "held" if schedule.held else "enabled"


# -- one schedule


@pages.get("/schedules/{name}")
async def schedule(visit: Visit) -> Response:
    """One schedule."""
    found = await visit.own.schedules.get(visit.named("name"), tenant=visit.tenant)
    more: Mapping[str, Any] = {} if visit.is_live else await _still_facts(visit, found)
    return visit.live_page(
        "schedule.html", "schedule_live.html", here_is="schedules", **await _live_facts(visit, found), **more
    )


async def _live_facts(visit: Visit, schedule: Schedule) -> Mapping[str, Any]:
    """What changes by itself."""
    runs = await visit.own.schedules.recent_runs([schedule], limit=RECENT)
    history = await visit.own.schedules.history(schedule.name, tenant=visit.tenant)
    return {
        "schedule": schedule,
        "state": state_of(schedule),
        "is_overdue": is_overdue(visit, schedule),
        "runs": [(run, outcome(run), told(run, visit.times)) for run in runs[schedule.id]],
        "chart": sparkline(runs[schedule.id], visit.times),
        "following": await following(visit, schedule, UPCOMING),
        "history": history[-RECENT:][::-1],
    }


async def _still_facts(visit: Visit, schedule: Schedule) -> Mapping[str, Any]:
    """What changes only by an edit."""
    hidden = not visit.may_write and visit.query.get("payload") != "1"
    return {
        "words": rule_in_words(schedule),
        "policies": policies_in_words(schedule, visit.times),
        "aim": target_in_words(schedule.target, schedule.type),
        "payload_hidden": hidden,
        "is_command": is_command(schedule.target),
    }


for subject in (schedule_calendar, why_not):
    for page in subject.pages:
        pages.add(page)
