"""Event types over HTTP: those that the server knows, and what the tenant has set for them."""

from collections.abc import Mapping
from typing import Any

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import ref
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.calendars.type_settings import FIELDS
from duly.errors import Invalid, Problem
from duly.records.calendar.type_settings import TYPE_SETTINGS_JSON
from duly.records.event import HANDLER
from duly.records.wire.answers import KnownTypes

operations = Operations("event types")

SETTINGS = DescribedResponse("What the tenant has set", TYPE_SETTINGS_JSON.struct, examples.TYPE_SETTINGS)
SHOWN = frozenset(TYPE_SETTINGS_JSON.types) - set(FIELDS)
"""Read-only fields: ignored when they are sent back."""


@operations.add(
    "GET",
    "/v1/event-types",
    {200: DescribedResponse("The registered event types", KnownTypes, examples.EVENT_TYPES)},
)
async def list_event_types(ask: ApiRequest) -> ApiResponse:
    """List registered event types: those of users' calendars, and those with handlers here."""
    duly = ask.own.duly
    calendar: list[Mapping[str, Any]] = [
        {"name": type.name, "source": "calendar", "depends_on": sorted(type.depends_on)} for type in duly.event_types
    ]
    prefix = f"{HANDLER}:"
    handlers = [
        {"name": lane.removeprefix(prefix), "source": "handler", "depends_on": []}
        for lane in duly.routes()
        if lane.startswith(prefix)
    ]
    return ApiResponse({"event_types": sorted([*calendar, *handlers], key=lambda one: (one["name"], one["source"]))})


@operations.add("GET", "/v1/event-types/{type}", {200: SETTINGS})
async def get_event_type(ask: ApiRequest) -> ApiResponse:
    """Read what the tenant has set for an event type of users' calendars: texts and the default target."""
    settings = await ask.own.event_types.settings(ask.named("type"), tenant=ask.tenant)
    return ApiResponse(TYPE_SETTINGS_JSON.write(settings))


@operations.add(
    "PUT",
    "/v1/event-types/{type}",
    {200: SETTINGS},
    takes=RequestBody(
        ref("TypeChanges"),
        {"texts": {"de": "Alles Gute, {first_name}!"}, "target": {"webhook": "https://hooks.example.com"}},
    ),
)
async def change_event_type(ask: ApiRequest) -> ApiResponse:
    """Change what the tenant has set for an event type of users' calendars; what is not given stays.

    Of `texts`, the given languages change, and null removes one; `default` is for all other languages. `target` is
    where events of users go who have no target of their own. Waiting events follow; those of many users do so in the
    background: `following` tells whether some are left.
    """
    body = ask.body
    if not isinstance(body, dict):
        raise Invalid([Problem("settings", f"expected an object with {', '.join(FIELDS)}")])
    changes: Any = {field: value for field, value in body.items() if field not in SHOWN}
    settings = await ask.own.event_types.update(ask.named("type"), changes, tenant=ask.tenant)
    return ApiResponse(TYPE_SETTINGS_JSON.write(settings))
