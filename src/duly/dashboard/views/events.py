"""The pages of events: the list, and one event."""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import RedirectResponse, Response

from duly.dashboard.acts.events import add_acts
from duly.dashboard.events.filter_form import (
    AT_HAND,
    NOT_OF_DEAD_LETTERS,
    AskedFilter,
    inputs,
    read_asked,
    status_choices,
)
from duly.dashboard.events.timeline import timeline
from duly.dashboard.events.words import timing
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit, part, problems_by_field
from duly.decide.checks import is_id
from duly.decide.error_text import first_line
from duly.errors import Invalid
from duly.records.event import Event, Status
from duly.records.filters import EventFilter
from duly.records.finding.counts import Count
from duly.records.finding.sorting import DUE, LATEST_DUE, NEWEST
from duly.values.instants import write_instant

pages = Pages()
add_acts(pages)

PAGE_SIZE = 50
"""Events of a page."""

SHOWN_ENTRIES = 200
"""Entries of an event's history that its page shows at once."""

SHOWN_NEIGHBOURS = 5
"""Other events of the same series, on the page of an event."""

LONGEST_JSON = 50_000
"""Characters of a payload or a target that a page shows, at most."""

SORTS = ((NEWEST, "newest first"), (DUE, "next due first"), (LATEST_DUE, "last due first"))
"""The orders of the list, and their words."""

CONTENT_LANES = ("http", "command")
"""Channels whose targets may repeat what a payload says."""


@pages.get("/events")
async def events(visit: Visit) -> Response:
    """The list of events that match a filter."""
    asked = await read_asked(visit, visit.query)
    sort = visit.query.get("sort") or NEWEST
    own = {} if sort == NEWEST else {"sort": sort}
    if not asked.problems and (wanted := _canonical(visit, asked.which.query() | own)) is not None:
        return RedirectResponse(wanted, 303)
    try:
        if asked.problems:
            raise Invalid(asked.problems)
        return await _listed(visit, asked, sort)
    except Invalid as error:
        return _refused(visit, asked._replace(problems=error.problems), sort)


def _canonical(visit: Visit, wanted: dict[str, str]) -> str | None:
    """The address to share, if it is not the one that was asked for: times in UTC, and no empty fields."""
    if visit.is_live:
        return None
    after = visit.query.get("after")
    wanted |= {"after": after} if after else {}
    asked = parse_qsl(visit.request.url.query, keep_blank_values=True)
    return None if sorted(asked) == sorted(wanted.items()) else visit.url("/events", **wanted)


async def _listed(visit: Visit, asked: AskedFilter, sort: str) -> Response:
    own, after = visit.own.events, visit.query.get("after") or None
    page = await own.page(asked.which, tenant=visit.tenant, limit=PAGE_SIZE, after=after, sort=sort)
    return visit.live_page(
        "events.html",
        "events_live.html",
        events=page.events,
        counts=visit.url("/counts/events", **asked.which.query()),
        next=visit.here(after=page.next, live=None) if page.next else None,
        first=visit.here(after=None, live=None) if after else None,
        **_around(visit, asked, sort),
    )


@pages.get("/counts/events")
async def count_events(visit: Visit) -> Response:
    """How many events match, asked for by the list once it is shown: counting may take longer than the list itself."""
    asked = await read_asked(visit, visit.query)
    if asked.problems:
        raise Invalid(asked.problems)
    count = await visit.own.events.count(asked.which, tenant=visit.tenant)
    return shown_count(visit, count, "event", visit.url("/events", **asked.which.query()))


def shown_count(visit: Visit, count: Count, noun: str, listed: str) -> Response:
    """A count, as a part of the list or as a page of its own."""
    template = "parts/count.html" if visit.is_fragment else "count.html"
    return visit.page(template, here_is=f"{noun}s", count=count, noun=noun, listed=listed)


def _refused(visit: Visit, asked: AskedFilter, sort: str) -> Response:
    """The list with a filter that cannot be: the form says why."""
    known = {one.name for one in inputs(visit, asked) if one.kind != "statuses"}
    told = problems_by_field([problem for problem in asked.problems if problem.path not in known])
    return visit.page("events.html", status=422, live=None, counts=None, others=told, **_around(visit, asked, sort))


def _around(visit: Visit, asked: AskedFilter, sort: str) -> dict[str, Any]:
    every = inputs(visit, asked)
    more = [one for one in every if one.name not in AT_HAND and one.kind != "statuses"]
    batch = {name: value for name, value in asked.which.query().items() if name not in NOT_OF_DEAD_LETTERS}
    dead = asked.which.status == (Status.FAILED,) and not asked.which.stuck and asked.which.late_by is None
    return {
        "here_is": "events",
        "asked": asked.which,
        "any_filter": any(True for _ in asked.which.given()),
        "at_hand": [one for one in every if one not in more],
        "more": more,
        "more_is_set": any(one.value for one in more),
        "statuses": status_choices(visit, asked.which),
        "sort": sort,
        "sorts": SORTS,
        "batch": batch if dead else None,
        "timing": partial(timing, now=visit.times.now, late_after=visit.settings.late_after),
        "first_line": first_line,
    }


# -- one event


@pages.get("/events/{id}")
async def event(visit: Visit) -> Response:
    """One event: all that is known of it, and why it has not fired."""
    skip = int(visit.query["skip"]) if visit.query.get("skip", "").isdecimal() and len(visit.query["skip"]) < 8 else 0
    found, history = await visit.own.events.get_with_history(
        visit.named("id"), tenant=visit.tenant, skip=skip, limit=SHOWN_ENTRIES
    )
    workers = visit.sees_system
    shows = visit.may_write or visit.query.get("payload") == "1"
    known = await _known(visit, found)
    moments = timeline(found, history.items, visit.times.now, workers=workers, contents=shows)
    why = await visit.own.events.why_told(found.id, tenant=visit.tenant, discreet=not workers) if known else None
    return visit.live_page(
        "event.html",
        "event_live.html",
        here_is="events",
        event=found,
        workers=workers,
        shows=shows,
        why=why,
        why_words="" if why is None else _sentence(why.message, found.last_error),
        moments=moments,
        more_history=visit.here(skip=skip + SHOWN_ENTRIES, live=None) if history.more else None,
        earlier_history=visit.here(skip=None, live=None) if skip else None,
        first_line=first_line,
        utc=write_instant,
        **({} if visit.is_live else await _beside(visit, found, shows=shows)),
    )


def _sentence(message: str, error: str | None) -> str:
    """The cause as a sentence of its own, with the first line of the last error; the page shows the rest below."""
    short = message if error is None else message.replace(error, first_line(error))
    return f"{short[0].upper()}{short[1:]}."


async def _known(visit: Visit, event: Event) -> bool:
    """Whether the event is still stored: of one that was deleted, only what its key remembers is left."""
    return is_id(visit.named("id")) or bool(
        await visit.own.events.find(EventFilter(key=event.key), tenant=visit.tenant, limit=1)
    )


async def _beside(visit: Visit, event: Event, *, shows: bool) -> dict[str, Any]:
    """What does not change from second to second: contents, and other events of the series."""
    same = _of_series(event)
    neighbours: list[Event] = []
    if same is not None:
        found = await visit.own.events.find(same, tenant=visit.tenant, limit=SHOWN_NEIGHBOURS + 1)
        neighbours = [one for one in found if one.id != event.id][:SHOWN_NEIGHBOURS]
    shows_target = shows or event.lane not in CONTENT_LANES
    return {
        "payload": _shortened(event.payload_json) if shows else None,
        "target": _shortened(event.target_json) if event.target_json is not None and shows_target else None,
        "neighbours": neighbours,
        "series_list": None if same is None else visit.url("/events", **same.query()),
        "target_page": None if event.stored_target is None else visit.url(f"/targets/{part(event.stored_target)}"),
        "timing": partial(timing, now=visit.times.now, late_after=visit.settings.late_after),
        "api": visit.url(f"/v1/events/{event.id}"),
    }


def _of_series(event: Event) -> EventFilter | None:
    """The filter of the events of the same series."""
    if event.schedule_id is not None:
        return EventFilter(schedule=event.schedule_id)
    if event.user_id is not None:
        return EventFilter(user_id=event.user_id, type=event.type)
    return None


class ShownJson(msgspec.Struct, frozen=True):
    """JSON as a page shows it."""

    text: str
    cut: bool  # whether there is more than this


def _shortened(written: str) -> ShownJson:
    text = str(msgspec.json.format(written, indent=2))
    return ShownJson(text[:LONGEST_JSON], len(text) > LONGEST_JSON)
