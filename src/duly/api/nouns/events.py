"""Events over HTTP: list them, read them with their history, and act on them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from duly.api.description import examples
from duly.api.description.filter_schemas import QUERY as FILTERS
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import REASON, anything, choice, given_instant, ref, taken
from duly.api.description.schemas import PAGING, SORTED
from duly.api.nouns.dead_letter_batches import discard_some, replay_some, would_act
from duly.api.protocol.all_problems import gathered, together
from duly.api.protocol.fields import Kind, look_at_fields, read_fields
from duly.api.protocol.pages import page_of, page_of_history, where_next
from duly.api.protocol.query_string import BOOLEANS, RequestedPage, due_place, id_place, read_boolean
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.checks import MOST_LISTED
from duly.decide.targets.rates import read_rate
from duly.decide.why import Why
from duly.errors import Conflict, NotFound, Problem
from duly.ports import ListPage
from duly.records.event import EVENT_JSON, EVENT_PAGE, Event
from duly.records.filters import EventFilter, read_filter
from duly.records.finding.sorting import NEWEST
from duly.records.history import ENTRY_JSON, HISTORY_PAGE, Entry
from duly.records.results import CancelResult, DeadLetters, Discarded, Replayed
from duly.records.specs import Spec
from duly.records.wire.answers import DISCARDED, EVENT_WITH_HISTORY, REPLAYED
from duly.values.instants import read_instant
from duly.verbs.events.edited_replays import UNCHANGED

operations = Operations("events")

EVENT = DescribedResponse("The event as it is now", EVENT_JSON.struct, examples.EVENT)
CANCELLED = {
    200: DescribedResponse(
        "The event was cancelled", EVENT_JSON.struct, {**examples.EVENT, "status": "CANCELLED", "ready_at": None}
    ),
    202: DescribedResponse(
        "The event runs, and was asked to stop",
        EVENT_JSON.struct,
        {**examples.EVENT, "status": "PROCESSING", "stop_requested_at": "2026-12-01T09:00:02Z"},
    ),
}
DRY_RUN = {"dry_run": choice(*BOOLEANS)}
IN_FILTER = {"schedule": "filter.schedule"}
"""Names of fields that differ between the verbs and a body with a filter."""

FIRST_ENTRIES = RequestedPage({"limit": str(MOST_LISTED)})


async def list_page(
    ask: ApiRequest, which: Spec | EventFilter | None, page: RequestedPage, problems: Sequence[Problem] = ()
) -> ApiResponse:
    """A page of events; raises Invalid with the given *problems* and all others that are found."""
    sort = ask.query.get("sort", NEWEST)
    with together(problems, {}):
        found = await ask.own.events.page(which, tenant=ask.tenant, limit=page.limit, after=page.after, sort=sort)
    more = {"count": await ask.own.events.count(which, tenant=ask.tenant)} if page.counts else {}
    return page_of(ask, page, "events", found.events, _shown, found.next, next_after=found.next, **more)


def _shown(event: Event) -> dict[str, Any]:
    return EVENT_JSON.write(event)


@operations.add(
    "GET",
    "/v1/events",
    {
        200: DescribedResponse(
            "A page of events",
            EVENT_PAGE.struct,
            examples.page("events", examples.EVENT, next_after=None),
        )
    },
    query={**FILTERS, **SORTED},
)
async def list_events(ask: ApiRequest) -> ApiResponse:
    """List events, the newest first, or waiting ones in the order of their due times.

    All given filters must match. A page may have fewer events than its limit, even none: there are more pages as long
    as there is a `next_cursor`. Events that are created meanwhile are newer and do not appear on later pages.
    """
    page = RequestedPage(ask.query, id_place if ask.query.get("sort", NEWEST) == NEWEST else due_place)
    which, problems = read_filter({field: value for field, value in ask.query.items() if field not in SORTED})
    return await list_page(ask, which, page, [*page.problems, *problems])


def has_fired(event: Event) -> Conflict:
    """The error for an event that is to be cancelled, and has fired."""
    return Conflict(f"cannot cancel event {event.id}: it is {event.status}")


async def cancelled(ask: ApiRequest, name: str, reason: str | None = None) -> ApiResponse:
    """Cancels the event with this id or key. The status of the answer says what came of it."""
    result = await ask.own.events.cancel(name, tenant=ask.tenant, by=ask.by, reason=reason)
    if result is CancelResult.NOTHING:
        raise NotFound(
            f"there is no event {name!r:.60} to cancel in tenant {ask.tenant!r}: it does not exist, or was cancelled "
            "before"
        )
    event = await ask.own.events.get(name, tenant=ask.tenant)
    if result is CancelResult.FIRED:
        raise has_fired(event)
    return ApiResponse(_shown(event), 202 if result is CancelResult.RUNNING else 200)


@operations.add(
    "GET",
    "/v1/events/{id}",
    {
        200: DescribedResponse(
            "The event",
            EVENT_WITH_HISTORY,
            {**examples.EVENT, "history": [examples.ENTRY], "history_cursor": None},
        )
    },
)
async def get_event(ask: ApiRequest) -> ApiResponse:
    """Read an event with its history: every attempt and every act of a person.

    If the history has more than 1,000 entries, `history_cursor` is the `cursor` for the rest of its `/history`.
    """
    event, found = await ask.own.events.get_with_history(id_of(ask), tenant=ask.tenant, limit=FIRST_ENTRIES.limit)
    history, after = [ENTRY_JSON.write(entry) for entry in found.items], where_next(found)
    cursor = None if after is None else FIRST_ENTRIES.cursor(after)
    return ApiResponse({**_shown(event), "history": history, "history_cursor": cursor})


@operations.add(
    "GET",
    "/v1/events/{id}/why",
    {
        200: DescribedResponse(
            "The explanation",
            Why,
            {
                "id": examples.EVENT["id"],
                "status": "PENDING",
                "kind": "scheduled",
                "message": "it is due at 2026-12-01T09:00:00Z",
                "next_at": "2026-12-01T09:00:00Z",
            },
        )
    },
)
async def why_event(ask: ApiRequest) -> ApiResponse:
    """Explain why an event has not fired yet, or did not fire.

    `message` is a sentence for people; programs use `kind`. It names workers, hosts and numbers of events only for a
    key of all tenants.
    """
    discreet = not ask.caller.all_tenants
    return ApiResponse(await ask.own.events.why_told(id_of(ask), tenant=ask.tenant, discreet=discreet))


@operations.add(
    "GET",
    "/v1/events/{id}/history",
    {
        200: DescribedResponse(
            "A page of the history, oldest first", HISTORY_PAGE.struct, examples.page("history", examples.ENTRY)
        )
    },
    query=PAGING,
)
async def event_history(ask: ApiRequest) -> ApiResponse:
    """List the history of an event: every attempt and every act of a person."""

    async def read(skip: int, limit: int) -> ListPage[Entry]:
        return (await ask.own.events.get_with_history(id_of(ask), tenant=ask.tenant, skip=skip, limit=limit))[1]

    return await page_of_history(ask, read)


def id_of(ask: ApiRequest) -> str:
    """The id or key in the path."""
    return ask.named("id")


@operations.add(
    "POST",
    "/v1/events/{id}/cancel",
    CANCELLED,
    takes=RequestBody(REASON, {"reason": "the invoice was paid"}, required=False),
    conflicts=True,
)
async def cancel_event(ask: ApiRequest) -> ApiResponse:
    """Cancel an event. Its series continues with the next occurrence.

    An event that runs is asked to stop: it ends CANCELLED, unless it completes first. 404 if there is no such event or
    it was cancelled before, 409 if it has fired.
    """
    why = read_fields(ask.body, {"reason": str})["reason"]
    return await cancelled(ask, id_of(ask), why)


@operations.add(
    "POST",
    "/v1/events/{id}/reschedule",
    {200: EVENT},
    takes=RequestBody(taken({"due_at": given_instant}, "due_at"), {"due_at": "2026-12-01T10:00:00Z"}),
    conflicts=True,
)
async def reschedule_event(ask: ApiRequest) -> ApiResponse:
    """Reschedule an event that has not started."""
    due = read_fields(ask.body, {"due_at": read_instant}, "due_at")["due_at"]
    return ApiResponse(_shown(await ask.own.events.reschedule(id_of(ask), due, tenant=ask.tenant, by=ask.by)))


REPLAYED_AS_NEW = DescribedResponse(
    "The new event, which has the given payload",
    EVENT_JSON.struct,
    {**examples.EVENT, "key": None, "replay_of": examples.OTHER_EVENT_ID},
    located=True,
)


@operations.add(
    "POST",
    "/v1/events/{id}/replay",
    {200: EVENT, 201: REPLAYED_AS_NEW},
    takes=RequestBody(taken({"payload": anything}), {"payload": {"invoice": 8}}, required=False),
    conflicts=True,
)
async def replay_event(ask: ApiRequest) -> ApiResponse:
    """Replay a dead letter: it keeps its id and gets all its attempts again.

    With a `payload`, replay an event that has ended, whatever its status, as a new event with this payload: its
    `replay_of` names the old event, whose `replayed_as` names the new one. A dead letter ends CANCELLED then, other
    events keep their status.
    """
    read_fields(ask.body, {"payload": object})
    payload = ask.body.get("payload", UNCHANGED)
    event = await ask.own.events.replay(id_of(ask), payload=payload, tenant=ask.tenant, by=ask.by)
    if payload is UNCHANGED:
        return ApiResponse(_shown(event))
    return ApiResponse(_shown(event), 201, {"Location": f"{ask.address.partition('/v1/')[0]}/v1/events/{event.id}"})


@operations.add(
    "POST",
    "/v1/events/{id}/discard",
    {200: EVENT},
    takes=RequestBody(REASON, {"reason": "the shop is closed"}, required=False),
    conflicts=True,
)
async def discard_event(ask: ApiRequest) -> ApiResponse:
    """Discard a dead letter."""
    why = read_fields(ask.body, {"reason": str})["reason"]
    return ApiResponse(_shown(await ask.own.events.discard(id_of(ask), tenant=ask.tenant, by=ask.by, reason=why)))


# -- batches of dead letters


async def _which(ask: ApiRequest, kinds: Mapping[str, Kind]) -> tuple[EventFilter, dict[str, Any], bool]:
    """The filter in the body, the other fields, and whether it is a dry run; raises Invalid with every problem."""
    said, problems = look_at_fields(ask.body, kinds, "filter")
    which, wrong = read_filter({} if said["filter"] is None else said["filter"], "filter.")
    problems += wrong
    with gathered(problems):
        if said.get("rate") is not None:
            read_rate(said["rate"])
    if said["limit"] is not None and said["limit"] < 1:
        problems.append(Problem("limit", f"must be a whole number, at least 1, not {said['limit']!r:.50}"))
    dry_run = read_boolean("dry_run", ask.query.get("dry_run", "false"))
    if isinstance(dry_run, Problem):
        problems.append(dry_run)
    if problems:
        with together(problems, IN_FILTER):
            await ask.own.events.page(which, tenant=ask.tenant, limit=1)  # raises if the schedule does not exist
    return which, said, dry_run is True


@operations.add(
    "POST",
    "/v1/events/replay",
    {200: DescribedResponse("How many", REPLAYED, examples.REPLAYED)},
    takes=RequestBody(ref("Replay"), {"filter": {"type": "invoice.overdue"}, "rate": "50/s"}),
    query=DRY_RUN,
)
async def replay_events(ask: ApiRequest) -> ApiResponse:
    """Replay all dead letters that match a filter, the oldest first.

    With a `rate`, they become ready one after the other at that rate. An empty filter means all of them.
    With `dry_run=true`, nothing changes: the answer has how many it would be, and of which kinds. A request replays
    10,000 at most: if there is a `next_cursor`, repeat the request with it as `cursor` for the rest.
    """
    which, said, dry_run = await _which(ask, {"filter": dict, "rate": str, "limit": int, "cursor": str})
    with together((), IN_FILTER):
        if dry_run:
            return ApiResponse(await would_act(ask, which, said, Replayed()))
        return ApiResponse(await replay_some(ask, which, said))


@operations.add(
    "POST",
    "/v1/events/discard",
    {200: DescribedResponse("How many", DISCARDED, examples.DISCARDED)},
    takes=RequestBody(ref("Discard"), {"filter": {"due_to": "2026-01-01T00:00:00Z"}, "reason": "too old"}),
    query=DRY_RUN,
)
async def discard_events(ask: ApiRequest) -> ApiResponse:
    """Discard all dead letters that match a filter, the oldest first.

    An empty filter means all of them. With `dry_run=true`, nothing changes. A request discards 10,000 at most: if
    there is a `next_cursor`, repeat the
    request with it as `cursor` for the rest.
    """
    which, said, dry_run = await _which(ask, {"filter": dict, "reason": str, "limit": int, "cursor": str})
    with together((), IN_FILTER):
        if dry_run:
            return ApiResponse(await would_act(ask, which, said, Discarded()))
        return ApiResponse(await discard_some(ask, which, said))


@operations.add(
    "GET",
    "/v1/dead-letters",
    {
        200: DescribedResponse(
            "The number of dead letters, and the most frequent kinds", DeadLetters, examples.DEAD_LETTERS
        )
    },
    query=FILTERS,
)
async def count_dead_letters(ask: ApiRequest) -> ApiResponse:
    """Count dead letters by kind: what a replay with the same filter would replay."""
    which, problems = read_filter(ask.query)
    with together(problems, {}):
        return ApiResponse(msgspec.to_builtins(await ask.own.events.dead_letters(which, tenant=ask.tenant)))
