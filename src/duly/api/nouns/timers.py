"""Timers over HTTP: an event that fires once, at an instant."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import MOST_BULK, ref
from duly.api.nouns.events import CANCELLED, cancelled, has_fired
from duly.api.protocol.bodies import BULK_BODY_BYTES
from duly.api.protocol.problems import errors_of
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.keys import key_refused
from duly.engine.destinations.target_references import key_of, targets_missing
from duly.engine.schedule import accepted
from duly.errors import Invalid, Problem
from duly.records.event import EVENT_JSON, FIRED, NewEvent, Timer
from duly.records.results import PutChange
from duly.records.wire.answers import EVENT_WITH_CHANGE, TimerResults
from duly.records.wire.timer_reader import read_timer

operations = Operations("timers")
TIMERS_PER_SLICE = 100
"""Timers that are checked before other tasks of the event loop get their turn."""

CHANGES = {PutChange.MOVED: "changed"}
"""Names of changes that differ between the store and the API."""

NO_CHANGE = (PutChange.UNCHANGED, PutChange.ALREADY_FIRED, PutChange.REFUSED)


@operations.add(
    "PUT",
    "/v1/timers/{key}",
    {
        201: DescribedResponse("The timer was created", EVENT_WITH_CHANGE, examples.NEW_TIMER, located=True),
        200: DescribedResponse(
            "The timer existed: it was moved, is unchanged, or has already fired",
            EVENT_WITH_CHANGE,
            {**examples.NEW_TIMER, "change": "changed"},
        ),
    },
    takes=RequestBody(ref("Timer"), examples.TIMER),
    conflicts=True,
    # Where nothing was to be changed, a second statement reads the existing timer. A transaction would make that no
    # safer: each statement sees what was committed before it began.
    one_statement=True,
)
async def put_timer(ask: ApiRequest) -> ApiResponse:
    """Create or move a timer.

    You choose the key; it is unique among the timers of your tenant. Once the timer has started, nothing changes, and
    the answer shows its present state. A cancelled timer frees its key.

    A key that has fired stays fired: with the same due time, the timer is `unchanged`; with another one, the answer
    says `already_fired`, unless `once` is false. With `quiet` instead of a due time, the timer is due so long after the
    last call, at most `max_wait` after the first. 409 if the key belongs to an open timer of another type. `warnings`
    tells of a type that no worker has ever served.
    """
    timer = read_timer(ask.body, ask.tenant, ask.own.channels, key=ask.named("key"))
    events = ask.own.plan((timer,))
    [added] = accepted(events, await ask.own.put(events))
    body = EVENT_JSON.write(added.event) | {"change": CHANGES.get(added.change, added.change)}
    body["warnings"] = await ask.own.duly.workers.warnings([added.event.lane])
    if added.change is not PutChange.CREATED:
        return ApiResponse(body)
    return ApiResponse(body, 201, {"Location": ask.address})


@operations.add("GET", "/v1/timers/{key}", {200: DescribedResponse("The timer", EVENT_JSON.struct, examples.EVENT)})
async def get_timer(ask: ApiRequest) -> ApiResponse:
    """Read a timer: the open one with this key, or else the latest."""
    return ApiResponse(EVENT_JSON.write(await ask.own.events.by_key(ask.named("key"), tenant=ask.tenant)))


@operations.add(
    "DELETE",
    "/v1/timers/{key}",
    CANCELLED,
    conflicts=True,
)
async def cancel_timer(ask: ApiRequest) -> ApiResponse:
    """Cancel a timer. Its key is free again.

    A timer that runs is asked to stop: it ends CANCELLED, unless it completes first. 404 if there is no such timer or
    it was cancelled before, 409 if it has fired.
    """
    event = await ask.own.events.by_key(ask.named("key"), tenant=ask.tenant)
    if event.status in FIRED:
        raise has_fired(event)
    return await cancelled(ask, event.id)


@operations.add(
    "POST",
    "/v1/timers",
    {200: DescribedResponse("The result for each timer, in the same order", TimerResults, examples.TIMER_RESULTS)},
    takes=RequestBody(
        ref("Timers"), {"timers": [{**examples.TIMER, "key": "invoice-7"}, {"type": "x", "due_at": 5}]}, BULK_BODY_BYTES
    ),
)
async def put_timers(ask: ApiRequest) -> ApiResponse:
    """Create many timers, with or without keys. An invalid timer does not affect the others.

    Of several timers with the same key, the last one is stored. `warnings` tells of types that no worker has served.
    """
    written = ask.body.get("timers") if isinstance(ask.body, dict) else None
    if not isinstance(written, list) or not 1 <= len(written) <= MOST_BULK or set(ask.body) != {"timers"}:
        message = f'expected an object {{"timers": [...]}} with 1 to {MOST_BULK:,} of them, and nothing else'
        raise Invalid([Problem("timers", message)])
    results: list[dict[str, Any]] = [{}] * len(written)
    events = await _aimed(ask, await _planned(ask, written, results), written, results)
    keyless = [(index, event) for index, event in events if event.key is None]
    if keyless:
        for (index, _), id in zip(keyless, await ask.own.add([event for _, event in keyless]), strict=True):
            results[index] = _result("created", id)
    wishes = _wishes(events)
    if wishes:
        put = await ask.own.put([wished[-1][1] for wished in wishes])
        for wished, added in zip(wishes, put, strict=True):
            for (index, event), change in zip(wished, _changes(wished, added.change), strict=True):
                results[index] = _result(change, added.event.id, event.key)
                if added.change is PutChange.REFUSED:
                    problem = Problem("type", str(key_refused(event.type, added.event)))
                    results[index] = _result(change, None, event.key, errors_of([problem]))
    became = Counter(result["status"] for result in results)
    counts = {word: became[word] for word in ("created", "changed", "unchanged", "already_fired", "refused")}
    stored = {event.lane for index, event in events if results[index]["status"] != "refused"}
    warnings = await ask.own.duly.workers.warnings(stored)
    return ApiResponse(counts | {"results": results, "warnings": warnings})


Numbered = tuple[int, NewEvent]


async def _planned(ask: ApiRequest, written: Sequence[Any], results: list[dict[str, Any]]) -> list[Numbered]:
    """The events of the valid timers, with their positions; stores the errors of each invalid timer as its result."""
    events: list[Numbered] = []
    for place in range(0, len(written), TIMERS_PER_SLICE):
        timers: list[tuple[int, Timer]] = []
        for index, one in enumerate(written[place : place + TIMERS_PER_SLICE], place):
            try:
                timers.append((index, read_timer(one, ask.tenant, ask.own.channels)))
            except Invalid as error:
                results[index] = _refused(one, error)
        try:
            planned = ask.own.plan([timer for _, timer in timers])
            events += [(index, event) for (index, _), event in zip(timers, planned, strict=True)]
        except Invalid:
            events += _planned_singly(ask, timers, written, results)
        await asyncio.sleep(0)
    return events


async def _aimed(
    ask: ApiRequest, events: Sequence[Numbered], written: Sequence[Any], results: list[dict[str, Any]]
) -> Sequence[Numbered]:
    """The events whose stored target exists, or that name none; stores the errors of each other event as its result."""
    gone = await ask.own.missing_targets(event for _, event in events)
    if not gone:
        return events
    for index, event in events:
        if key_of(event) in gone:
            results[index] = _refused(written[index], Invalid(targets_missing([event], gone)))
    return [(index, event) for index, event in events if key_of(event) not in gone]


def _planned_singly(
    ask: ApiRequest, timers: Sequence[tuple[int, Timer]], written: Sequence[Any], results: list[dict[str, Any]]
) -> list[Numbered]:
    events: list[Numbered] = []
    for index, timer in timers:
        try:
            events += [(index, event) for event in ask.own.plan((timer,))]
        except Invalid as error:
            results[index] = _refused(written[index], error)
    return events


def _wishes(events: Sequence[Numbered]) -> list[list[Numbered]]:
    """The events grouped by key and type, in order. Only the last event of a group is stored: thousands for one timer
    would need as many statements, and other transactions would wait for them."""
    wishes: dict[tuple[str, str], list[Numbered]] = {}
    for index, event in events:
        if event.key is not None:
            wishes.setdefault((event.key, event.type), []).append((index, event))
    return list(wishes.values())


def _changes(wished: Sequence[Numbered], change: PutChange) -> Iterator[str]:
    """The result of each event for one timer: each but the first changes the one before it, unless both are the
    same. If the last one has changed nothing, neither have the others."""
    yield CHANGES.get(change, change)
    for (_, before), (_, event) in pairwise(wished):
        same = msgspec.structs.replace(event, id=before.id) == before
        yield change if change in NO_CHANGE else "unchanged" if same else "changed"


def _result(status: str, id: str | None, key: Any = None, errors: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    return {"status": status, "id": id, "key": key, "errors": list(errors)}


def _refused(written: Any, error: Invalid) -> dict[str, Any]:
    key = written.get("key") if isinstance(written, dict) else None
    return _result("refused", None, key, errors_of(error.problems))
