"""Acts over HTTP on everything that a filter matches: schedules and events, a portion in each request."""

from collections.abc import Mapping
from typing import Any

import msgspec

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, RequestBody
from duly.api.description.schema_words import (
    BOOLEAN,
    choice,
    each_maybe,
    given_cursor,
    instant_or_span,
    maybe,
    reason,
    ref,
    taken,
)
from duly.api.nouns.events import operations as of_events
from duly.api.nouns.schedules.schedules import operations as of_schedules
from duly.api.protocol.all_problems import together
from duly.api.protocol.fields import Kind, look_at_fields
from duly.api.protocol.query_string import BOOLEANS, read_boolean
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.checks import is_id, name_problems
from duly.decide.series.pauses import read_until
from duly.errors import Invalid, Problem
from duly.records.filters import EventFilter, FilterRecord, read_filter_of
from duly.records.finding.acts import ActedOn, Portion
from duly.records.finding.cursors import read_cursor, write_cursor
from duly.records.finding.schedules import ScheduleFilter
from duly.records.wire.answers import ACTED_ON

MOST_SCHEDULES = 200
"""Schedules that one request changes: a request is one transaction, on which others wait for a second at most."""

MOST_EVENTS = 2_000
"""Events that one request cancels."""

ANSWER = {200: DescribedResponse("How many", ACTED_ON, examples.ACTED_ON)}
DRY_RUN = {"dry_run": choice(*BOOLEANS)}
PASSED = maybe(choice("skip", "fire"))


def _body(of: str, **more: Any) -> Any:
    return taken({"filter": ref(of), **each_maybe({"everything": BOOLEAN, "cursor": given_cursor}), **more}, "filter")


async def _read(
    ask: ApiRequest, record: type[FilterRecord], kinds: Mapping[str, Kind]
) -> tuple[FilterRecord, dict[str, Any], bool]:
    """The filter in the body, the other fields, and whether it is a dry run; raises Invalid with every problem."""
    said, problems = look_at_fields(ask.body, {"filter": dict, "everything": bool, "cursor": str, **kinds}, "filter")
    which, wrong = read_filter_of(record, {} if said["filter"] is None else said["filter"], "filter.")
    problems += wrong
    dry_run = read_boolean("dry_run", ask.query.get("dry_run", "false"))
    if isinstance(dry_run, Problem):
        problems.append(dry_run)
    if problems:
        raise Invalid(problems)
    if not any(True for _ in which.given()) and not said["everything"]:
        raise Invalid([Problem("filter", 'is empty, so it matches everything: say so with "everything": true')])
    return which, said, dry_run is True


def same(body: Mapping[str, Any]) -> dict[str, str]:
    """The fields that must be sent again, unchanged, for a cursor to be valid."""
    return {
        field: msgspec.json.encode(value, order="sorted").decode()
        for field, value in body.items()
        if field != "cursor" and value is not None
    }


def _place(ask: ApiRequest, cursor: str | None, *, of_events: bool) -> str | None:
    if cursor is None:
        return None
    try:
        place = read_cursor(same(ask.body), cursor)
        if not (is_id(place) if of_events else not list(name_problems("name", place))):
            raise ValueError("is not a cursor of this request: send next_cursor unchanged")
    except ValueError as error:
        raise Invalid([Problem("cursor", str(error))]) from None
    return place


def _answer(ask: ApiRequest, done: ActedOn, rest: str | None) -> ApiResponse:
    cursor = None if rest is None else write_cursor(same(ask.body), rest)
    return ApiResponse({**msgspec.to_builtins(done), "next_cursor": cursor})


async def _on_schedules(ask: ApiRequest, act: str, kinds: Mapping[str, Kind]) -> ApiResponse:
    which, said, dry_run = await _read(ask, ScheduleFilter, kinds)
    assert isinstance(which, ScheduleFilter)
    portion = Portion(MOST_SCHEDULES, _place(ask, said["cursor"], of_events=False))
    with together(()):
        done, rest = await ask.own.schedules.act_on(
            act,
            which,
            portion,
            {field: said[field] for field in kinds},
            everything=said["everything"] is True,
            dry_run=dry_run,
            tenant=ask.tenant,
            by=ask.by,
        )
    return _answer(ask, done, rest)


@of_schedules.add(
    "POST",
    "/v1/schedules/pause",
    ANSWER,
    takes=RequestBody(
        _body("ScheduleFilter", reason=maybe(reason), until=maybe(instant_or_span), passed=PASSED),
        {"filter": {"tag": "nightly"}, "reason": "migration", "until": "2h"},
    ),
    query=DRY_RUN,
)
async def pause_schedules(ask: ApiRequest) -> ApiResponse:
    """Pause the enabled schedules that match a filter; those that are paused already stay as they are.

    An empty filter is refused without `"everything": true`. With `dry_run=true`, nothing changes: the answer has how
    many it would be, and of which kinds. A request pauses 200 at most: if there is a `next_cursor`, repeat the request
    with it as `cursor` for the rest.
    """
    return await _on_schedules(ask, "pause", {"reason": str, "until": read_until, "passed": str})


@of_schedules.add(
    "POST",
    "/v1/schedules/resume",
    ANSWER,
    takes=RequestBody(_body("ScheduleFilter", passed=PASSED), {"filter": {"tag": "nightly"}}),
    query=DRY_RUN,
)
async def resume_schedules(ask: ApiRequest) -> ApiResponse:
    """Resume the paused schedules that match a filter. The rest is as with pausing many."""
    return await _on_schedules(ask, "resume", {"passed": str})


@of_schedules.add(
    "POST",
    "/v1/schedules/trigger",
    ANSWER,
    takes=RequestBody(_body("ScheduleFilter"), {"filter": {"tag": "nightly", "last_status": "FAILED"}}),
    query=DRY_RUN,
)
async def trigger_schedules(ask: ApiRequest) -> ApiResponse:
    """Trigger the schedules that match a filter, also paused ones. The rest is as with pausing many."""
    return await _on_schedules(ask, "trigger", {})


@of_events.add(
    "POST",
    "/v1/events/cancel",
    ANSWER,
    takes=RequestBody(
        _body("Filter", reason=maybe(reason)), {"filter": {"type": "newsletter"}, "reason": "a wrong price"}
    ),
    query=DRY_RUN,
)
async def cancel_events(ask: ApiRequest) -> ApiResponse:
    """Cancel the waiting and running events that match a filter, the newest first.

    What runs is asked to stop; schedules go on with their next occurrences. An empty filter is refused without
    `"everything": true`. With `dry_run=true`, nothing changes. A request cancels 2,000 at most: if there is a
    `next_cursor`, repeat the request with it as `cursor` for the rest.
    """
    which, said, dry_run = await _read(ask, EventFilter, {"reason": str})
    assert isinstance(which, EventFilter)
    portion = Portion(MOST_EVENTS, _place(ask, said["cursor"], of_events=True))
    with together((), {"schedule": "filter.schedule"}):
        done, rest = await ask.own.events.cancel_batch(
            which,
            portion,
            reason=said["reason"],
            everything=said["everything"] is True,
            dry_run=dry_run,
            tenant=ask.tenant,
            by=ask.by,
        )
    return _answer(ask, done, rest)
