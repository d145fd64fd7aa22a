"""Marks on the fields of records: which are no column of the row, and which are not in the JSON."""

from datetime import datetime
from enum import Enum
from typing import Annotated, TypeVar

import msgspec

T = TypeVar("T")


class Mark(Enum):
    """What is special about a field of a record."""

    NOT_STORED = "not stored"
    INTERNAL = "internal"


LookedUp = Annotated[T, Mark.NOT_STORED]
"""A field that no column has: it is filled by whoever looked the record up, or by the act that answers with it."""

Internal = Annotated[T, Mark.INTERNAL]
"""A field that only Duly itself needs: it is in no JSON, so a client does not know it."""

Id = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
"""A UUID, as text."""

Instant = Annotated[datetime, msgspec.Meta(description="A UTC instant", tz=True)]
FromZero = Annotated[int, msgspec.Meta(ge=0)]
FromOne = Annotated[int, msgspec.Meta(ge=1)]


def told(description: str) -> msgspec.Meta:
    """What a field says, for people who read the description of the API."""
    return msgspec.Meta(description=description)


Warnings = Annotated[list[str], told("What can be used as it is, and is seldom what was meant")]
