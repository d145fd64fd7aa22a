"""Previews over HTTP: the next occurrences of a schedule, or of a rule without one."""

from collections.abc import Sequence

from duly.api.access.preview_places import PreviewBudget, a_turn
from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import given_instant, ref, whole
from duly.api.protocol.all_problems import together
from duly.api.protocol.fields import Kind, look_at_fields
from duly.api.protocol.query_string import read_whole
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.checks import MOST_LISTED
from duly.decide.series.preview import Preview
from duly.errors import Invalid, Problem
from duly.records.api_key import Scope
from duly.records.wire.answers import Occurrences
from duly.rules.recurrence import DEFAULT_ZONE
from duly.values.instants import read_instant

operations = Operations("schedules")


@operations.add(
    "GET",
    "/v1/schedules/{name}/preview",
    {200: DescribedResponse("The next occurrences", Occurrences, examples.OCCURRENCES)},
    query={"count": whole(1, MOST_LISTED), "after": given_instant},
)
async def preview_schedule(ask: ApiRequest) -> ApiResponse:
    """Preview when a schedule fires next, with notes about changes of clocks.

    If `complete` is false, finding the rest takes too long: send another request with `after` set to the last
    occurrence.
    """
    count = read_whole("count", ask.query.get("count", "10"), 1, MOST_LISTED)
    after = read_instant("after", ask.query["after"]) if "after" in ask.query else None
    problems = [found for found in (count, after) if isinstance(found, Problem)]
    if problems:
        raise Invalid(problems)
    async with a_turn(ask) as budget:
        found = await ask.own.schedules.preview(
            ask.named("name"),
            count=count,  # type: ignore[arg-type]
            after=after,  # type: ignore[arg-type]
            tenant=ask.tenant,
            enough=budget,
        )
    return _ahead(found, budget)


def _ahead(found: Sequence[Preview], budget: PreviewBudget) -> ApiResponse:
    return ApiResponse({"occurrences": found, "complete": not budget.spent})


@operations.add(
    "POST",
    "/v1/schedules/preview",
    {200: DescribedResponse("The next occurrences", Occurrences, examples.OCCURRENCES)},
    needs=Scope.READ,
    takes=RequestBody(ref("PreviewedRule"), examples.PREVIEW),
)
async def preview_rule(ask: ApiRequest) -> ApiResponse:
    """Preview when a rule would fire, without storing anything.

    If `complete` is false, finding the rest takes too long: send another request with `after` set to the last
    occurrence.
    """
    fields: dict[str, Kind] = {"rule": dict, "timezone": str, "dst": object, "after": read_instant, "count": int}
    fields |= dict.fromkeys(("start", "end", "exclude"), object)
    said, problems = look_at_fields(ask.body, fields, "rule")
    zone = DEFAULT_ZONE if any(problem.path == "timezone" for problem in problems) else said["timezone"]
    policies = {field: said[field] for field in ("dst", "start", "end", "exclude") if said[field] is not None}
    async with a_turn(ask) as budget:
        with together(problems):
            found = await ask.own.schedules.preview(
                said["rule"],
                count=10 if said["count"] is None else said["count"],
                after=said["after"],
                timezone=zone,
                enough=budget,
                **policies,
            )
    return _ahead(found, budget)
