"""Statistics of runs over HTTP."""

from typing import Any

import msgspec

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.description.schema_words import choice, given_instant
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.figures.stats import BY
from duly.errors import Invalid, Problem
from duly.records.figures.stats import STATS_JSON, Stats
from duly.values.instants import read_instant

operations = Operations("stats")

ANSWER = DescribedResponse("The statistics", STATS_JSON.struct, examples.STATS)
RANGE = {"from": given_instant, "to": given_instant}


@operations.add("GET", "/v1/stats", {200: ANSWER}, query={**RANGE, "by": choice(*BY)})
async def tell_stats(ask: ApiRequest) -> ApiResponse:
    """Tell what has become of the tenant's events: how many runs, how they ended, how long they took, and how late they
    began.

    By day, in UTC, of the end of a run. Without `to`, the range ends now; without `from`, it has 30 days; at most 400
    days. It is rounded outwards to whole hours, and to whole days where it is older than 15 days. `by` adds the
    figures of each type or lane.
    """
    since, until = _range(ask)
    return _answer(await ask.own.stats(since, until, by=ask.query.get("by")))


@operations.add("GET", "/v1/schedules/{name}/stats", {200: ANSWER}, query=RANGE)
async def tell_stats_of_schedule(ask: ApiRequest) -> ApiResponse:
    """Tell what has become of the events of a schedule: how many runs, how they ended, how long they took, and how late
    they began.

    The range is that of the statistics of all events.
    """
    since, until = _range(ask)
    return _answer(await ask.own.schedules.stats(ask.named("name"), since, until, tenant=ask.tenant))


def _range(ask: ApiRequest) -> tuple[Any, Any]:
    given = [read_instant(name, ask.query[name]) if name in ask.query else None for name in RANGE]
    if problems := [value for value in given if isinstance(value, Problem)]:
        raise Invalid(problems)
    return given[0], given[1]


def _answer(found: Stats) -> ApiResponse:
    return ApiResponse(msgspec.Raw(msgspec.json.encode(STATS_JSON.write(found))))
