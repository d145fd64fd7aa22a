"""How much of a list is read at once: never more than some bytes, however many rows are asked for."""

from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of rows that one page has room for; the last row may reach beyond. A payload has up to 1 MB: a page of 1,000
events took 2.7 GB before there was this limit."""


class CutShort(list[Item]):
    """The beginning of a list, as far as there was room for the bytes of its rows."""


class ListPage(NamedTuple, Generic[Item]):
    """Some of a list, as far as there was room, and whether there are more of them."""

    items: list[Item]
    more: bool


def page_of(found: list[Item], limit: int) -> ListPage[Item]:
    """A page of so many, where one more than that was looked for."""
    return ListPage(found[:limit], len(found) > limit or isinstance(found, CutShort))
