"""Numbers of JSON, which does not distinguish 3 from 3.0."""

from typing import Any


def as_whole(number: Any) -> Any:
    """Converts a whole float to an int; returns any other value unchanged."""
    return int(number) if type(number) is float and number.is_integer() else number
