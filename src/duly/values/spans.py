"""Options that are spans of time. Their bounds and meaning are declared in the annotation of the field:

    jitter: Annotated[timedelta, SpanOption(timedelta(), timedelta(days=1), "Fire up to so much later")]

The JSON readers, the OpenAPI description, the client and the command line all read them from there.
"""

from datetime import timedelta
from typing import Any, NamedTuple, get_type_hints

from duly.errors import Invalid, Problem
from duly.values.durations import format_duration, parse_duration


class SpanOption(NamedTuple):
    """A span of time from *least* to *most*, both included."""

    least: timedelta
    most: timedelta
    told: str  # the meaning, as shown to users
    note: str = ""  # a further rule that the bounds cannot express, as shown to users

    def read(self, path: str, given: Any) -> timedelta:
        """Reads a timedelta, a number of seconds, or text such as ``1h``; raises Invalid for any other value."""
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
    """The span options of a struct, by field name."""
    hints = get_type_hints(record, include_extras=True)
    return {
        field: mark
        for field, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, SpanOption)
    }
