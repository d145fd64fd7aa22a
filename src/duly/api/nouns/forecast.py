"""The forecast over HTTP: computed at most once in a few seconds, however many screens show it."""

from collections import OrderedDict
from time import monotonic
from typing import Any

import msgspec

from duly.api.access.preview_places import a_turn
from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.description.schema_words import given_instant, span
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.series.forecast import STEP
from duly.errors import Invalid, Problem
from duly.records.figures.forecast import FORECAST_JSON
from duly.values.instants import read_instant, read_span

CACHED_FOR_S = 10.0
"""Seconds for which the same question gets the same answer."""

MOST_CACHED = 100
"""Answers in the cache, of some 100 kB each at most."""

operations = Operations("forecast")

Question = tuple[str | None, ...]
"""The tenant, and the range and step as they were written."""


class ForecastCache:
    """The answers of the last seconds."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Question, tuple[float, msgspec.Raw]] = OrderedDict()

    def get(self, question: Question) -> msgspec.Raw | None:
        computed, answer = self._answers.get(question, (-CACHED_FOR_S, None))
        return answer if monotonic() - computed < CACHED_FOR_S else None

    def put(self, question: Question, answer: msgspec.Raw) -> None:
        self._answers[question] = monotonic(), answer
        self._answers.move_to_end(question)
        if len(self._answers) > MOST_CACHED:
            self._answers.popitem(last=False)


@operations.add(
    "GET",
    "/v1/forecast",
    {200: DescribedResponse("The forecast", FORECAST_JSON.struct, examples.FORECAST)},
    query={
        "from": given_instant,
        "to": given_instant,
        "step": span(STEP.least, STEP.most, told="Length of a step"),
    },
)
async def forecast_events(ask: ApiRequest) -> ApiResponse:
    """Forecast how many events of the tenant become due in each step of a range.

    It counts the events that wait, and those that follow by the rules of schedules and users. Without `from`, it begins
    with the step that is under way; without `to`, it has 24 steps; without `step`, the steps are an hour long, or as
    long as the range needs. At most 2,000 steps and ten years. If `complete` is false, `warnings` tell what is left
    out. The same question gets the same answer for ten seconds.
    """
    read = {"from": read_instant, "to": read_instant, "step": read_span}
    given: dict[str, Any] = {name: read[name](name, ask.query[name]) if name in ask.query else None for name in read}
    if problems := [value for value in given.values() if isinstance(value, Problem)]:
        raise Invalid(problems)
    cache: ForecastCache = ask.request.app.state.forecasts
    question = ask.tenant, *(ask.query.get(name) for name in read)
    if (known := cache.get(question)) is None:
        async with a_turn(ask):
            if (known := cache.get(question)) is None:  # not computed by another request meanwhile
                found = await ask.own.forecast(given["from"], given["to"], given["step"])
                known = msgspec.Raw(msgspec.json.encode(FORECAST_JSON.write(found)))
                cache.put(question, known)
    return ApiResponse(known)
