"""Marks on the fields of records: which are no column of the row, and which are not in the JSON."""

from enum import Enum
from typing import Annotated, TypeVar

T = TypeVar("T")


class Mark(Enum):
    """What is special about a field of a record."""

    NOT_STORED = "not stored"
    INTERNAL = "internal"


LookedUp = Annotated[T, Mark.NOT_STORED]
"""A field that no column has: it is filled by whoever looked the record up, or by the act that answers with it."""

Internal = Annotated[T, Mark.INTERNAL]
"""A column that only Duly itself needs: it is in no JSON, so a client does not know it."""
