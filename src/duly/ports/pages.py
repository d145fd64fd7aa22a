"""The size of a page: a limit in bytes, regardless of the number of rows that are asked for."""

from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of rows that fit into one page; the last row may exceed them. A payload has up to 1 MB: without this limit, a
page of 1,000 events took 2.7 GB of memory."""


class CutShort(list[Item]):
    """The beginning of a list, cut off at the limit of bytes."""


class ListPage(NamedTuple, Generic[Item]):
    """A part of a list that fits into the limits, and whether more items follow."""

    items: list[Item]
    more: bool


def page_of(found: list[Item], limit: int) -> ListPage[Item]:
    """A page of *limit* items, made from a query that asked for one item more."""
    return ListPage(found[:limit], len(found) > limit or isinstance(found, CutShort))
