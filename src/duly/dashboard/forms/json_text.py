"""JSON that people write into forms. Its text is kept: numbers stay as they are written."""

from typing import Any

import msgspec

from duly.errors import Invalid, Problem

JSON_SHOWN = 200_000
"""Characters of JSON that are laid out; longer ones are shown as they are stored."""


def read_json_text(text: str, field: str) -> Any:
    """The value of a JSON text; raises Invalid with the field."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Invalid([Problem(field, f"is not valid JSON: {error}")]) from None


def pretty(text: str) -> str:
    """JSON laid out for people, or the text itself if it is no JSON."""
    if len(text) > JSON_SHOWN:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
