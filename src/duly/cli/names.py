"""What people mean by a word: an id, or the name that they gave it themselves."""

import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duly.errors import NotFound

DEFAULT_TENANT = "default"

T = TypeVar("T")


async def find(word: str, by_id: Callable[[str], Awaitable[T]], by_name: Callable[[str], Awaitable[T]]) -> T:
    """The thing with this id or name. What is no UUID is a name. What is one may be a name all the same, as other
    systems have ids as well; if it is neither, it is missed as an id."""
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
    """Whether it is a UUID, in any writing."""
    try:
        uuid.UUID(word)
    except ValueError:
        return False
    return True
