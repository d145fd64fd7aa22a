"""Options of the command line that are durations, derived from the fields of records."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from duly.values.spans import SpanOption

T = TypeVar("T")


def with_spans(spans: Mapping[str, SpanOption]) -> Callable[[type[T]], type[T]]:
    """Decorator that adds an option to a class for each of these fields."""

    def add(options: type[T]) -> type[T]:
        added = {
            name: Annotated[str | None, Parameter(help=f"{span.told}, such as 1h", metavar="SPAN")]
            for name, span in spans.items()
        }
        options.__annotations__ = {**inspect.get_annotations(options), **added}
        for name in added:
            setattr(options, name, None)
        return Parameter(name="*")(dataclass(frozen=True, kw_only=True)(options))

    return add


def given_spans(spans: Mapping[str, SpanOption], options: object) -> dict[str, str]:
    """The given durations, as they were written."""
    return {name: given for name in spans if (given := getattr(options, name)) is not None}
