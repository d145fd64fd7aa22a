"""Marks on the fields of records: fields without a column, and fields that are left out of the JSON."""

from datetime import datetime
from enum import Enum
from typing import Annotated, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")


class Mark(Enum):
    """A special property of a field of a record."""

    NOT_STORED = "not stored"
    INTERNAL = "internal"


class Fallback(NamedTuple):
    """Another column, which has the value of the field where the field's own column is empty."""

    column: str


LookedUp = Annotated[T, Mark.NOT_STORED]
"""A field without a column: it is set by the code that looked the record up, or by the act that returns the record."""

Internal = Annotated[T, Mark.INTERNAL]
"""A field that only Duly itself needs: it is in no JSON, so clients do not see it."""

Id = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
"""A UUID, as text."""

Instant = Annotated[datetime, msgspec.Meta(description="Instant in UTC", tz=True)]
FromZero = Annotated[int, msgspec.Meta(ge=0)]
FromOne = Annotated[int, msgspec.Meta(ge=1)]


def told(description: str) -> msgspec.Meta:
    """The description of a field in the OpenAPI document."""
    return msgspec.Meta(description=description)


Warnings = Annotated[list[str], told("Warnings about values that are valid but probably not intended")]
