"""Options that are spans of time: their bounds and their meaning, declared beside the field that has them.

    jitter: Annotated[timedelta, SpanOption(timedelta(), timedelta(days=1), "Fire up to so much later")]

Readers, the description of the API, the client and the command line find them there.
"""

from datetime import timedelta
from typing import Any, NamedTuple, get_type_hints

from duly.durations import format_duration, parse_duration
from duly.errors import Invalid, Problem


class SpanOption(NamedTuple):
    """A span from *least* to *most*, both included."""

    least: timedelta
    most: timedelta
    told: str  # what it means, for people
    note: str = ""  # what else holds, which bounds cannot say

    def read(self, path: str, given: Any) -> timedelta:
        """From a timedelta, from seconds, or from text such as ``1h``; Invalid for anything else."""
        span = given
        if isinstance(given, str):
            try:
                span = parse_duration(given)
            except ValueError as error:
                raise Invalid([Problem(path, str(error))]) from None
        elif isinstance(given, int | float) and not isinstance(given, bool):
            try:
                span = timedelta(seconds=given)
            except (OverflowError, ValueError):
                span = None
        if not isinstance(span, timedelta) or not self.least <= span <= self.most:
            bounds = f"{format_duration(self.least)} to {format_duration(self.most)}"
            raise Invalid([Problem(path, f"must be {bounds}, not {given!s:.50}")])
        return span


def span_options(record: type) -> dict[str, SpanOption]:
    """Those of a struct, by their fields."""
    hints = get_type_hints(record, include_extras=True)
    return {
        field: mark
        for field, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, SpanOption)
    }
