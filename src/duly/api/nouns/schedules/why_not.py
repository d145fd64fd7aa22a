"""Why a schedule did not run at an instant, over HTTP."""

import re

from duly.api.access.preview_places import a_turn
from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.description.schema_words import moment
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.series.why_not import WhyNot
from duly.errors import Invalid, Problem

operations = Operations("schedules")

LOCAL = re.compile(r"\d{4}-\d\d-\d\d([Tt ][\d:.]*)?")
"""A date or local time: an instant has an offset."""

FIRST_YEAR = 1970
"""The first year of local times over HTTP, as for all that describe when something is due."""

LAST_YEAR = 9998
"""The last such year."""


@operations.add(
    "GET",
    "/v1/schedules/{name}/why-not",
    {200: DescribedResponse("The explanation", WhyNot, examples.WHY_NOT)},
    query={"at": moment},
    must_have=("at",),
)
async def why_not_schedule(ask: ApiRequest) -> ApiResponse:
    """Explain why a schedule did not run at an instant, or that it did.

    Without a zone, `at` is what the clocks in the schedule's zone showed, which may be a time that they skipped.
    `message` is a sentence for people; programs use `kind`. It names workers, hosts and numbers of events only for a
    key of all tenants.
    """
    if "at" not in ask.query:
        raise Invalid([Problem("at", "is missing: the instant or local time to explain, such as 2026-12-01T09:00:00Z")])
    if LOCAL.fullmatch(at := ask.query["at"].strip()) and not FIRST_YEAR <= int(at[:4]) <= LAST_YEAR:
        raise Invalid([Problem("at", f"{at:.30} is out of range: its year must be {FIRST_YEAR} to {LAST_YEAR}")])
    discreet = not ask.caller.all_tenants
    async with a_turn(ask):
        answer = await ask.own.schedules.why_not_told(
            ask.named("name"), ask.query["at"], tenant=ask.tenant, discreet=discreet
        )
    return ApiResponse(answer)
