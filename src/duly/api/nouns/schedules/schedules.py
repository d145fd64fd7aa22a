"""Schedules over HTTP."""

from collections.abc import Iterable
from typing import Any

import msgspec

from duly.api.description import examples
from duly.api.description.filter_schemas import QUERY_OF_SCHEDULES as FILTERS
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import (
    REASON,
    anything,
    choice,
    each_maybe,
    given_instant,
    instant_or_span,
    maybe,
    name,
    reason,
    ref,
    taken,
    whole,
)
from duly.api.description.schemas import COUNTING, PAGING, PAGING_BY_NAME
from duly.api.protocol.all_problems import together
from duly.api.protocol.dry_run import QUERY, DryRun
from duly.api.protocol.etags import etag, expected
from duly.api.protocol.fields import Kind, look_at_fields, read_fields
from duly.api.protocol.long_poll import until_ended
from duly.api.protocol.pages import page_of_history, page_of_these
from duly.api.protocol.query_string import BOOLEANS, RequestedPage, name_place, read_boolean
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.series.pauses import read_until
from duly.errors import Conflict, Invalid, NotFound, Problem, Stale
from duly.records.etags import schedule_tag
from duly.records.event import EVENT_JSON, lane_of
from duly.records.filters import read_filter_of
from duly.records.finding.schedules import ScheduleFilter
from duly.records.history import HISTORY_PAGE
from duly.records.results import Backfilled
from duly.records.schedule import SCHEDULE_JSON, SCHEDULE_PAGE, Schedule
from duly.records.wire.answers import RESUMED, DeletedSchedule
from duly.records.wire.schedule_reader import editable, read_schedule
from duly.values.instants import read_instant
from duly.verbs.schedules.runs import MOST_BACKFILLED, UNCHANGED

operations = Operations("schedules")

SCHEDULE = DescribedResponse("The schedule", SCHEDULE_JSON.struct, examples.SCHEDULE, tagged=True)
MERGED = ("misfire", "retry", "dst", "depends_on")
"""Objects of which a change may set single fields."""

MOST_TRIES = 30
"""Merges of a change that are tried, while other requests change the same schedule."""


def _shown(schedule: Schedule, status: int = 200, warnings: Iterable[str] = (), **headers: str) -> ApiResponse:
    body = SCHEDULE_JSON.write(schedule)
    body["warnings"] = [*body["warnings"], *warnings]
    return ApiResponse(body, status, {**etag(schedule_tag(schedule)), **headers})


def _acted(schedule: Schedule, dry: DryRun, there: Schedule | None = None) -> ApiResponse:
    """The schedule after an act. After a dry run the ETag is that of the schedule as it is: with it in If-Match, the
    act itself is done only while that is still so."""
    if not dry.asked:
        return _shown(schedule)
    return ApiResponse(SCHEDULE_JSON.write(dry.told(schedule)), headers=etag(schedule_tag(there)) if there else {})


async def _there(ask: ApiRequest) -> Schedule | None:
    try:
        return await ask.own.schedules.get(ask.named("name"), tenant=ask.tenant)
    except NotFound:
        return None


@operations.add(
    "PUT",
    "/v1/schedules/{name}",
    {
        201: DescribedResponse(
            "The schedule was created", SCHEDULE_JSON.struct, examples.SCHEDULE, tagged=True, located=True
        ),
        200: DescribedResponse(
            "The schedule was replaced, or was unchanged; or it would be, with dry_run=true",
            SCHEDULE_JSON.struct,
            examples.SCHEDULE,
            tagged=True,
        ),
    },
    takes=RequestBody(ref("NewSchedule"), examples.NEW_SCHEDULE),
    query=QUERY,
    conflicts=True,
    guarded=True,
)
async def put_schedule(ask: ApiRequest) -> ApiResponse:
    """Create or replace a schedule.

    A changed rule or zone moves the next event. It does not move if the rule and zone are unchanged, or if it is
    already due. Occurrences that are passed over are listed in `passed_over`. Without `enabled`, a paused schedule
    stays paused. The answer of a GET can be sent back unchanged. With `dry_run=true`, nothing changes: the answer is
    the schedule as it would be, with the `consequence`, and the ETag of the schedule as it is.
    """
    there = await _there(ask)
    dry = DryRun(ask)
    with together(dry.problems):
        draft = read_schedule(ask.body, name=ask.named("name"), tenant=ask.tenant, channels=ask.own.channels)
    tag = expected(ask, None if there is None else schedule_tag(there))
    stored = await ask.own.schedules.put(**draft, by=ask.by, expected=tag, dry_run=dry.asked)
    if dry.asked:
        return _acted(stored, dry, there)
    created = there is None and stored.created == stored.updated  # otherwise, another request has just created it
    warnings = await ask.own.duly.workers.warnings([lane_of(stored.type, stored.target)])
    return _shown(stored, 201, warnings, Location=ask.address) if created else _shown(stored, warnings=warnings)


@operations.add(
    "GET",
    "/v1/schedules",
    {
        200: DescribedResponse(
            "A page of schedules, ordered by name", SCHEDULE_PAGE.struct, examples.page("schedules", examples.SCHEDULE)
        )
    },
    query={**FILTERS, **PAGING_BY_NAME, **COUNTING},
)
async def list_schedules(ask: ApiRequest) -> ApiResponse:
    """List schedules. All given filters must match."""
    page = RequestedPage(ask.query, name_place)
    asked = {field: value for field, value in ask.query.items() if field in FILTERS}
    which, problems = read_filter_of(ScheduleFilter, asked)
    if problems := [*page.problems, *problems]:
        raise Invalid(problems)
    found = await ask.own.schedules.page(which, tenant=ask.tenant, limit=page.limit, after=page.after)
    more = {"count": await ask.own.schedules.count(which, tenant=ask.tenant)} if page.counts else {}
    return page_of_these(ask, page, "schedules", found, SCHEDULE_JSON.write, lambda one: one.name, **more)


@operations.add("GET", "/v1/schedules/{name}", {200: SCHEDULE})
async def get_schedule(ask: ApiRequest) -> ApiResponse:
    """Read a schedule and when it fires next."""
    return _shown(await ask.own.schedules.get(ask.named("name"), tenant=ask.tenant))


@operations.add(
    "PATCH",
    "/v1/schedules/{name}",
    {200: SCHEDULE},
    takes=RequestBody(ref("ScheduleChanges"), {"rule": {"cron": "0 10 * * MON"}, "misfire": {"policy": "skip"}}),
    query=QUERY,
    conflicts=True,
    guarded=True,
)
async def change_schedule(ask: ApiRequest) -> ApiResponse:
    """Change some fields of a schedule.

    The given fields replace the old values; null resets a field to its default. `misfire`, `retry`, `dst` and
    `depends_on` may be given with single fields, which may also be null.
    """
    dry = DryRun(ask)
    with together(dry.problems):
        if not isinstance(ask.body, dict):
            raise Invalid([Problem("schedule", "expected an object with the fields that change")])
        if "template" in ask.body:
            raise Invalid([Problem("template", "fills in a whole schedule: it can only be given with PUT")])
    for _ in range(MOST_TRIES):
        there = await ask.own.schedules.get(ask.named("name"), tenant=ask.tenant)
        tag = schedule_tag(there)
        wanted = expected(ask, tag)
        merged = _merged(there, ask.body)
        draft = read_schedule(merged, name=there.name, tenant=ask.tenant, channels=ask.own.channels)
        if ask.body.get("enabled") is None and there.paused_until is not None:
            draft.pop("enabled", None)  # the pause may have ended by itself since it was read
        try:
            stored = await ask.own.schedules.put(**draft, by=ask.by, expected=tag, dry_run=dry.asked)
            return _acted(stored, dry, there)
        except Stale:  # another request changed it first; without If-Match, merge again
            if wanted is not None:
                raise
    raise Conflict(f"schedule {there.name!r} is being changed by other requests at the moment: try again")


def _merged(there: Schedule, changes: dict[str, Any]) -> dict[str, Any]:
    shown, stored = msgspec.json.decode(msgspec.json.encode(SCHEDULE_JSON.write(there))), editable(there)
    for field, value in changes.items():
        if field == "tags" and value is None:
            value = []  # without tags, a schedule keeps those that it has
        inner = stored.get(field) if field in MERGED else None
        if isinstance(inner, dict) and isinstance(value, dict):
            default = {own for own, said in value.items() if said is None and own in shown[field]}
            value = {own: said for own, said in {**inner, **value}.items() if own not in default}
        stored[field] = value
    return stored


@operations.add(
    "DELETE",
    "/v1/schedules/{name}",
    {200: DescribedResponse("The schedule was deleted", DeletedSchedule, {"name": "weekly-report", "cancelled": 1})},
    query=QUERY,
    conflicts=True,
    guarded=True,
)
async def delete_schedule(ask: ApiRequest) -> ApiResponse:
    """Delete a schedule. Events that have started run to their end; waiting events are cancelled.

    With `dry_run=true`, nothing is deleted: the answer has the `consequence`.
    """
    there = await ask.own.schedules.get(ask.named("name"), tenant=ask.tenant)
    tag = expected(ask, schedule_tag(there))
    dry = DryRun(ask)
    dry.require_valid()
    if dry.asked:
        told = await ask.own.schedules.delete(there.name, tenant=ask.tenant, by=ask.by, expected=tag, dry_run=True)
        deleted = DeletedSchedule(there.name, told.cancelled.count, dry.seen(told))
        return ApiResponse(deleted, headers=etag(schedule_tag(there)))
    cancelled = await ask.own.schedules.delete(there.name, tenant=ask.tenant, by=ask.by, expected=tag)
    return ApiResponse({"name": there.name, "cancelled": cancelled})


PAUSE_FIELDS: dict[str, Kind] = {"reason": str, "until": read_until, "passed": str}
PAUSE = taken(
    {
        "reason": maybe(reason),
        "until": maybe(instant_or_span),
        "passed": maybe(choice("skip", "fire")),
    }
)


@operations.add(
    "POST",
    "/v1/schedules/{name}/pause",
    {200: SCHEDULE},
    takes=RequestBody(PAUSE, {"reason": "the printer is out of paper", "until": "2h"}, required=False),
    query=QUERY,
    conflicts=True,
)
async def pause_schedule(ask: ApiRequest) -> ApiResponse:
    """Pause a schedule. No event of it starts until it is resumed.

    With `until`, an instant or a span from now, the pause ends by itself. Occurrences whose time comes during the pause
    are skipped; with `"passed": "fire"`, the misfire policy decides. A second pause that gives any field replaces all
    of them.
    """
    dry = DryRun(ask)
    said, problems = look_at_fields(ask.body, PAUSE_FIELDS)
    with together([*dry.problems, *problems]):
        paused = await ask.own.schedules.pause(
            ask.named("name"), tenant=ask.tenant, by=ask.by, dry_run=dry.asked, **said
        )
    return _acted(paused, dry)


@operations.add(
    "POST",
    "/v1/schedules/{name}/resume",
    {
        200: DescribedResponse(
            "The schedule was resumed", RESUMED, {**examples.SCHEDULE, "passed": 2, "fires": False}, tagged=True
        )
    },
    takes=RequestBody(taken({"passed": maybe(choice("skip", "fire"))}), {"passed": "skip"}, required=False),
    query=QUERY,
    conflicts=True,
)
async def resume_schedule(ask: ApiRequest) -> ApiResponse:
    """Resume a paused schedule.

    Occurrences that were missed during the pause are skipped, unless the pause has said otherwise. With `"passed":
    "fire"`, the misfire policy decides. A pause whose end has passed has ended then, as it had said.
    """
    dry = DryRun(ask)
    said, problems = look_at_fields(ask.body, {"passed": str})
    with together([*dry.problems, *problems]):
        resumed = await ask.own.schedules.resume(
            ask.named("name"), tenant=ask.tenant, by=ask.by, passed=said["passed"], dry_run=dry.asked
        )
    resumed = msgspec.structs.replace(resumed, schedule=dry.told(resumed.schedule))
    return ApiResponse(resumed.to_json(), headers={} if dry.asked else etag(schedule_tag(resumed.schedule)))


@operations.add(
    "POST",
    "/v1/schedules/{name}/trigger",
    {201: DescribedResponse("The event that fires now", EVENT_JSON.struct, examples.EVENT, located=True)},
    takes=RequestBody(
        taken({"payload": anything, "correlation_id": maybe(name("correlation_id"))}),
        {"payload": {"only": "today"}},
        required=False,
    ),
    conflicts=True,
    waits=until_ended,
)
async def trigger_schedule(ask: ApiRequest) -> ApiResponse:
    """Trigger a schedule now. Its next regular event stays where it is.

    With the header `Prefer: wait=10`, the answer comes when the event has ended or its first attempt has failed, but
    after ten seconds at most (the maximum is 60). If the answer has no `Preference-Applied`, too many requests were
    waiting or the server was stopping, and the answer shows the event as it was then.
    """
    said, problems = look_at_fields(ask.body, {"payload": object, "correlation_id": str})
    payload = ask.body.get("payload", UNCHANGED)
    with together(problems):
        event = await ask.own.schedules.trigger(
            ask.named("name"),
            tenant=ask.tenant,
            by=ask.by,
            payload=payload,
            correlation_id=said["correlation_id"],
        )
    prefix = ask.address.partition("/v1/")[0]
    return ApiResponse(
        EVENT_JSON.write(event) | {"schedule": ask.named("name")}, 201, {"Location": f"{prefix}/v1/events/{event.id}"}
    )


DUE = taken({"due_at": given_instant}, "due_at")


@operations.add(
    "POST",
    "/v1/schedules/{name}/reschedule",
    {200: DescribedResponse("The schedule", SCHEDULE_JSON.struct, examples.MOVED, tagged=True)},
    takes=RequestBody(DUE, {"due_at": "2026-12-01T10:00:00Z"}),
    query=QUERY,
    conflicts=True,
)
async def reschedule_next(ask: ApiRequest) -> ApiResponse:
    """Reschedule the next event of a schedule, only that one.

    Occurrences before the new time are passed over and listed in `passed_over`. If the event is moved back to an
    earlier time, they can fire again.
    """
    dry = DryRun(ask)
    with together(dry.problems):
        due = read_fields(ask.body, {"due_at": read_instant}, "due_at")["due_at"]
    moved = await ask.own.schedules.reschedule(ask.named("name"), due, tenant=ask.tenant, by=ask.by, dry_run=dry.asked)
    return _acted(moved, dry)


@operations.add(
    "POST",
    "/v1/schedules/{name}/skip",
    {200: DescribedResponse("The schedule", SCHEDULE_JSON.struct, examples.SKIPPED, tagged=True)},
    takes=RequestBody(REASON, {"reason": "a holiday"}, required=False),
    query=QUERY,
    conflicts=True,
)
async def skip_next(ask: ApiRequest) -> ApiResponse:
    """Skip the next event of a schedule, only that one."""
    dry = DryRun(ask)
    with together(dry.problems):
        why = read_fields(ask.body, {"reason": str})["reason"]
    skipped = await ask.own.schedules.skip(
        ask.named("name"), tenant=ask.tenant, by=ask.by, reason=why, dry_run=dry.asked
    )
    return _acted(skipped, dry)


@operations.add(
    "POST",
    "/v1/schedules/{name}/backfill",
    {200: DescribedResponse("The created events", Backfilled, examples.BACKFILLED)},
    takes=RequestBody(
        taken(
            {
                "from": given_instant,
                "to": {
                    **given_instant,
                    "description": f"{given_instant['description']}; after `from`, and not in the future",
                },
                **each_maybe({"limit": whole(1, MOST_BACKFILLED), "label": name("name")}),
            },
            "from",
            "to",
        ),
        {"from": "2025-11-01T00:00:00Z", "to": "2025-12-01T00:00:00Z", "limit": 100},
    ),
    query={"dry_run": choice(*BOOLEANS)},
    conflicts=True,
)
async def backfill_schedule(ask: ApiRequest) -> ApiResponse:
    """Backfill a past time range: fire each of its occurrences as an event of its own.

    With the same label, which is `default` unless one is given, no occurrence is fired twice. With `dry_run=true`,
    none is created at all: the answer has the `occurrences` that would fire.
    """
    kinds: dict[str, Kind] = {"from": read_instant, "to": read_instant, "limit": int, "label": str}
    said, problems = look_at_fields(ask.body, kinds, "from", "to")
    dry_run = read_boolean("dry_run", ask.query.get("dry_run", "false"))
    if isinstance(dry_run, Problem):
        problems.append(dry_run)
    more = {field: said[field] for field in ("limit", "label") if said[field] is not None}
    with together(problems, {"start": "from", "end": "to"}):
        done = await ask.own.schedules.backfill(
            ask.named("name"), said["from"], said["to"], dry_run=dry_run is True, tenant=ask.tenant, by=ask.by, **more
        )
    return ApiResponse(done)


@operations.add(
    "GET",
    "/v1/schedules/{name}/history",
    {
        200: DescribedResponse(
            "A page of the history, oldest first", HISTORY_PAGE.struct, examples.page("history", examples.ENTRY)
        )
    },
    query=PAGING,
)
async def schedule_history(ask: ApiRequest) -> ApiResponse:
    """List what people did to a schedule."""
    return await page_of_history(
        ask,
        lambda skip, limit: ask.own.schedules.history_page(
            ask.named("name"), tenant=ask.tenant, skip=skip, limit=limit
        ),
    )
