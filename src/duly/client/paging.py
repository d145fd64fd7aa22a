"""Lists, a page at a time or all of them."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol, TypeVar

import msgspec

from duly.client.connection import Connection
from duly.core.checks import MOST_LISTED, check_page
from duly.core.cursors import write_cursor


class Paged(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


P = TypeVar("P", bound=Paged)


async def one_page(
    connection: Connection,
    path: str,
    reads: msgspec.json.Decoder[P],
    *,
    limit: int,
    after: str | None = None,
    filters: Mapping[str, str] | None = None,
) -> P:
    """The one that follows what is called *after*, in this list."""
    check_page(limit)
    query = {**(filters or {}), "limit": str(limit)}
    if after is not None:
        query["cursor"] = write_cursor(filters or {}, after)
    return await connection.ask("GET", path, reads=reads, query=query)


async def all_pages(
    connection: Connection, path: str, reads: msgspec.json.Decoder[P], filters: Mapping[str, str] | None = None
) -> AsyncIterator[P]:
    query = {**(filters or {}), "limit": str(MOST_LISTED)}
    while True:
        page = await connection.ask("GET", path, reads=reads, query=query)
        yield page
        if page.next_cursor is None:
            return
        query["cursor"] = page.next_cursor
