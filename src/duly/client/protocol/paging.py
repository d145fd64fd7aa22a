"""Lists over HTTP, a page at a time or completely."""

from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import msgspec

from duly.client.protocol.connection import ServerConnection
from duly.decide.checks import MOST_LISTED, check_page
from duly.records.finding.counts import Count
from duly.records.history import HISTORY_PAGE, Entry
from duly.records.wire.forms import PageForm, RecordPage

R = TypeVar("R", bound=msgspec.Struct)


async def one_page(
    connection: ServerConnection,
    path: str,
    reads: PageForm[R],
    *,
    limit: int,
    after: str | None = None,
    filters: Mapping[str, str] | None = None,
) -> RecordPage[R]:
    """The page of a list that begins after the item with the id or name *after*."""
    check_page(limit)
    query = {**(filters or {}), "limit": str(limit)}
    if after is not None:
        query["after"] = after
    return await connection.ask("GET", path, reads=reads, query=query)


async def up_to(
    limit: int,
    connection: ServerConnection,
    path: str,
    reads: PageForm[R],
    *,
    after: str | None = None,
    filters: Mapping[str, str] | None = None,
) -> list[R]:
    """At most *limit* items of a list, from as many pages as necessary: a page of large items has fewer of them than
    requested."""
    page = await one_page(connection, path, reads, limit=limit, after=after, filters=filters)
    found = page.items
    while page.next_cursor is not None and len(found) < limit:
        query = {**(filters or {}), "limit": str(limit - len(found)), "cursor": page.next_cursor}
        page = await connection.ask("GET", path, reads=reads, query=query)
        found += page.items
    return found


async def whole_history(connection: ServerConnection, path: str) -> list[Entry]:
    return [entry async for page in all_pages(connection, path, HISTORY_PAGE) for entry in page.items]


async def all_pages(
    connection: ServerConnection, path: str, reads: PageForm[R], filters: Mapping[str, str] | None = None
) -> AsyncIterator[RecordPage[R]]:
    query = {**(filters or {}), "limit": str(MOST_LISTED)}
    while True:
        page = await connection.ask("GET", path, reads=reads, query=query)
        yield page
        if page.next_cursor is None:
            return
        query["cursor"] = page.next_cursor


async def count_of(
    connection: ServerConnection, path: str, reads: PageForm[R], filters: Mapping[str, str] | None = None
) -> Count:
    """How many items a list has."""
    page = await connection.ask("GET", path, reads=reads, query={**(filters or {}), "limit": "1", "count": "true"})
    counted: Count = page.told.count
    return counted
