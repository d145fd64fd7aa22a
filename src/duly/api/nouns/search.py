"""The search over HTTP: one request that finds events, users, schedules and targets."""

from typing import Any

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.description.schema_words import whole
from duly.api.protocol.all_problems import gathered
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.errors import Invalid, Problem
from duly.records.finding.search import MOST_FOUND, USUALLY_FOUND, SearchResults, check_most, read_search

operations = Operations("search")


@operations.add(
    "GET",
    "/v1/search",
    {200: DescribedResponse("What was found, the best match first", SearchResults, examples.SEARCH_RESULTS)},
    query={
        "q": {
            "type": "string",
            "minLength": 1,
            "description": "An id, a webhook-id, a key, or the beginning of a name; blanks and quotes around it are no "
            "part of it",
            "examples": ["019a8f2e-6c00-7abc-8def-0123456789ab"],
        },
        "limit": {**whole(1, MOST_FOUND), "description": "Results at most", "default": USUALLY_FOUND},
    },
    must_have=("q",),
)
async def search_anything(ask: ApiRequest) -> ApiResponse:
    """Find events, users, schedules and targets of the tenant with one request.

    Events are found by their id, which is the `webhook-id`, or by their key; users by id, key or the beginning of a
    name, in either order and any letter case; schedules and targets by the beginning of their name.
    """
    problems: list[Problem] = []
    written = ask.query.get("limit", str(USUALLY_FOUND))
    limit: Any = int(written) if written.isascii() and written.isdigit() and len(written) < 6 else written
    with gathered(problems):
        check_most(limit)
    with gathered(problems):
        if "q" not in ask.query:
            raise Invalid([Problem("q", "is missing: give an id, a key or the beginning of a name")])
        read_search(ask.query["q"], "q")
    if problems:
        raise Invalid(problems)
    return ApiResponse(SearchResults(await ask.own.search(ask.query["q"], limit)))
