"""Events over HTTP: what is promised, what has become of it, and what people do to it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from duly.api.description import examples
from duly.api.description.operations import NOTHING, DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import REASON, given_instant, ref, taken
from duly.api.description.schemas import FILTERS, PAGING
from duly.api.nouns.dead_letter_batches import discard_some, replay_some
from duly.api.nouns.filters import FIELDS, read_filter
from duly.api.protocol.all_problems import gathered
from duly.api.protocol.fields import Kind, look_at_fields, read_fields
from duly.api.protocol.pages import entries_of, page_of, page_of_history
from duly.api.protocol.query_string import RequestedPage
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.checks import MOST_LISTED, check_id
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid, NotFound, Problem
from duly.instants import read_instant
from duly.records.event import EVENT_JSON, Event
from duly.records.history import ENTRY_JSON
from duly.records.specs import Everything, Spec

operations = Operations("events")

EVENT = DescribedResponse("The event as it is now", ref("Event"), examples.EVENT)
FIRST_ENTRIES = RequestedPage({"limit": str(MOST_LISTED)})


async def list_page(ask: ApiRequest, spec: Spec | None, page: RequestedPage) -> ApiResponse:
    after = None if page.after is None else check_id(page.after, "an event's", "cursor")
    found = await ask.own.events.page(spec, tenant=ask.tenant, limit=page.limit, after=after)
    schedules = await ask.own.events.schedules_of(found.events)
    return page_of(
        ask,
        page,
        "events",
        found.events,
        lambda event: EVENT_JSON.write(event) | {"schedule": schedules.get(event.id)},
        found.next,
    )


async def _shown(ask: ApiRequest, event: Event) -> dict[str, Any]:
    schedules = await ask.own.events.schedules_of([event])
    return EVENT_JSON.write(event) | {"schedule": schedules.get(event.id)}


async def _answer(ask: ApiRequest, event: Event) -> ApiResponse:
    return ApiResponse(await _shown(ask, event))


@operations.add(
    "GET",
    "/v1/events",
    {200: DescribedResponse("A page, the newest first", ref("Events"), examples.page("events", examples.EVENT))},
    query={**FILTERS, **PAGING},
)
async def list_events(ask: ApiRequest) -> ApiResponse:
    """List events.

    All filters that are given must hold. A page may have fewer events than its limit, even none: the list goes on for
    as long as there is a `next_cursor`. What is created meanwhile is newer, and does not disturb the pages.
    """
    page = RequestedPage(ask.query)
    given = {field: value for field, value in ask.query.items() if field in FIELDS}
    problems = list(page.problems)
    spec = None
    try:
        spec = await read_filter(ask, given) if given else None
    except Invalid as error:
        problems += error.problems
    if problems:
        raise Invalid(problems)
    return await list_page(ask, spec, page)


@operations.add(
    "GET",
    "/v1/events/{id}",
    {
        200: DescribedResponse(
            "The event",
            ref("EventWithHistory"),
            {**examples.EVENT, "history": [examples.ENTRY], "history_cursor": None},
        )
    },
)
async def get_event(ask: ApiRequest) -> ApiResponse:
    """Read an event, with every attempt and every human act.

    Where there are more than 1,000 of them, `history_cursor` is the `cursor` of the next ones in its `/history`.
    """
    event = await _found(ask)
    entries, after = await entries_of(ask, event.id, FIRST_ENTRIES)
    history = [ENTRY_JSON.write(entry) for entry in entries]
    cursor = None if after is None else FIRST_ENTRIES.cursor(after)
    return ApiResponse({**await _shown(ask, event), "history": history, "history_cursor": cursor})


@operations.add(
    "GET",
    "/v1/events/{id}/history",
    {200: DescribedResponse("A page, the oldest first", ref("History"), examples.page("history", examples.ENTRY))},
    query=PAGING,
)
async def event_history(ask: ApiRequest) -> ApiResponse:
    """List every attempt and every human act."""
    return await page_of_history(ask, (await _found(ask)).id)


async def _found(ask: ApiRequest) -> Event:
    return await ask.own.events.get(id_of(ask), tenant=ask.tenant)


def id_of(ask: ApiRequest) -> str:
    """What is no id is nobody's."""
    try:
        return str(UUID(ask.named("id")))
    except ValueError:
        raise NotFound(f"there is nothing with the id {ask.named('id')!r:.60}: expected a UUID") from None


@operations.add(
    "POST",
    "/v1/events/{id}/cancel",
    {200: EVENT},
    takes=RequestBody(REASON, {"reason": "the invoice was paid"}, required=False),
    conflicts=True,
)
async def cancel_event(ask: ApiRequest) -> ApiResponse:
    """Cancel an event that has not been started. Its series goes on with the occurrence after it."""
    why = read_fields(ask.body, {"reason": str})["reason"]
    return await _answer(ask, await ask.own.events.cancel(id_of(ask), tenant=ask.tenant, by=ask.by, reason=why))


@operations.add(
    "POST",
    "/v1/events/{id}/reschedule",
    {200: EVENT},
    takes=RequestBody(taken({"due_at": given_instant}, "due_at"), {"due_at": "2026-12-01T10:00:00Z"}),
    conflicts=True,
)
async def reschedule_event(ask: ApiRequest) -> ApiResponse:
    """Move an event that has not been started."""
    due = read_fields(ask.body, {"due_at": read_instant}, "due_at")["due_at"]
    return await _answer(ask, await ask.own.events.reschedule(id_of(ask), due, tenant=ask.tenant, by=ask.by))


@operations.add("POST", "/v1/events/{id}/replay", {200: EVENT}, takes=NOTHING, conflicts=True)
async def replay_event(ask: ApiRequest) -> ApiResponse:
    """Let a dead letter be tried again, under the same id, with all its attempts anew."""
    read_fields(ask.body, {})
    return await _answer(ask, await ask.own.events.replay(id_of(ask), tenant=ask.tenant, by=ask.by))


@operations.add(
    "POST",
    "/v1/events/{id}/discard",
    {200: EVENT},
    takes=RequestBody(REASON, {"reason": "the shop is closed"}, required=False),
    conflicts=True,
)
async def discard_event(ask: ApiRequest) -> ApiResponse:
    """Put a dead letter away that nobody needs any more."""
    why = read_fields(ask.body, {"reason": str})["reason"]
    return await _answer(ask, await ask.own.events.discard(id_of(ask), tenant=ask.tenant, by=ask.by, reason=why))


# -- many dead letters at once


async def _which(ask: ApiRequest, kinds: Mapping[str, Kind]) -> tuple[Spec, dict[str, Any]]:
    """Which dead letters, and what else is said; Invalid with all that is wrong."""
    said, problems = look_at_fields(ask.body, kinds, "filter")
    spec: Spec = Everything()
    with gathered(problems):
        spec = spec if said["filter"] is None else await read_filter(ask, said["filter"], "filter.")
    with gathered(problems):
        if said.get("rate") is not None:
            read_rate(said["rate"])
    if said["limit"] is not None and said["limit"] < 1:
        problems.append(Problem("limit", f"must be a whole number from 1 on, not {said['limit']!r:.50}"))
    if problems:
        raise Invalid(problems)
    return spec, said


@operations.add(
    "POST",
    "/v1/events/replay",
    {200: DescribedResponse("How many", ref("Replayed"), examples.REPLAYED)},
    takes=RequestBody(ref("Replay"), {"filter": {"type": "invoice.overdue"}, "rate": "50/s"}),
)
async def replay_events(ask: ApiRequest) -> ApiResponse:
    """Let all dead letters that fit a filter be tried again, the oldest first.

    With a `rate`, they become ready one after the other at that rate. An empty filter means all of them. A request
    replays 10,000 at most: where there is a `next_cursor`, ask the same again with it as `cursor` for the rest.
    """
    spec, said = await _which(ask, {"filter": dict, "rate": str, "limit": int, "cursor": str})
    return ApiResponse(await replay_some(ask, spec, said))


@operations.add(
    "POST",
    "/v1/events/discard",
    {200: DescribedResponse("How many", ref("Discarded"), {"discarded": 12, "left_alone": 0, "next_cursor": None})},
    takes=RequestBody(ref("Discard"), {"filter": {"due_to": "2026-01-01T00:00:00Z"}, "reason": "too old"}),
)
async def discard_events(ask: ApiRequest) -> ApiResponse:
    """Put all dead letters away that fit a filter, the oldest first.

    An empty filter means all of them. A request puts 10,000 away at most: where there is a `next_cursor`, ask the same
    again with it as `cursor` for the rest.
    """
    spec, said = await _which(ask, {"filter": dict, "reason": str, "limit": int, "cursor": str})
    return ApiResponse(await discard_some(ask, spec, said))


@operations.add(
    "GET",
    "/v1/dead-letters",
    {
        200: DescribedResponse(
            "How many there are, and the most frequent kinds", ref("DeadLetters"), examples.DEAD_LETTERS
        )
    },
    query=FILTERS,
)
async def count_dead_letters(ask: ApiRequest) -> ApiResponse:
    """Count dead letters by kind: what a replay with the same filter would replay."""
    spec = await read_filter(ask, ask.query) if ask.query else None
    return ApiResponse(msgspec.to_builtins(await ask.own.events.dead_letters(spec, tenant=ask.tenant)))
