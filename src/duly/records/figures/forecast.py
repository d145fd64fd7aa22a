"""The forecast: how many events are known to become due in each step of a range."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from duly.records.marks import FromOne, FromZero, Instant, told
from duly.records.wire.forms import JsonForm, OneField, as_utc

OTHER_TYPES = "other"
"""The name under which ``by_type`` counts the events of rarer types together."""


class ForecastStep(msgspec.Struct, frozen=True):
    """The events that become due from an instant on, for the length of a step."""

    at: Instant
    count: FromZero
    by_type: Mapping[str, FromOne]


class Forecast(msgspec.Struct, frozen=True):
    """How many events are known to become due in each step of a range."""

    from_: datetime
    to: datetime
    step: timedelta
    steps: tuple[ForecastStep, ...]
    complete: Annotated[bool, told("False if rules were left out; then warnings say which, and what to ask instead")]
    warnings: Annotated[tuple[str, ...], told("What the counts leave out")] = ()

    @property
    def count(self) -> int:
        """The number of events in the whole range."""
        return sum(step.count for step in self.steps)

    @property
    def by_type(self) -> dict[str, int]:
        """The number of events of each type in the whole range, the most frequent first."""
        total: dict[str, int] = {}
        for step in self.steps:
            for type, many in step.by_type.items():
                total[type] = total.get(type, 0) + many
        return dict(sorted(total.items(), key=lambda one: (-one[1], one[0])))


FORECAST_JSON = JsonForm(
    Forecast,
    parts={
        "from_": OneField("from_", "from", Instant, as_utc),
        "to": OneField("to", "to", Instant, as_utc),
    },
)
