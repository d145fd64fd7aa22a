"""Numbers as JSON has them, which knows no difference between 3 and 3.0."""

from typing import Any


def as_whole(number: Any) -> Any:
    """A whole number as an int, however it is written; anything else as it is."""
    return int(number) if type(number) is float and number.is_integer() else number
