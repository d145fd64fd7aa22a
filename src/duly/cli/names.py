"""Finds things by the word that a person typed: an id, or a name that they chose."""

import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duly.errors import NotFound

DEFAULT_TENANT = "default"

T = TypeVar("T")


async def find(word: str, by_id: Callable[[str], Awaitable[T]], by_name: Callable[[str], Awaitable[T]]) -> T:
    """The thing with this id or name. Text that is no UUID is a name. A UUID may be a name as well, because other
    systems use such ids; if it is neither, the error is that of the id."""
    if not is_id(word):
        return await by_name(word)
    try:
        return await by_id(word)
    except NotFound as missing:
        try:
            return await by_name(word)
        except NotFound:
            raise missing from None


def is_id(word: str) -> bool:
    """Whether the word is a UUID, in any notation."""
    try:
        uuid.UUID(word)
    except ValueError:
        return False
    return True
