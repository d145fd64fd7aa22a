"""Pages of lists."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from duly.api.protocol.listing import Listed
from duly.api.protocol.query_string import Place, RequestedPage, any_place, link_to_next
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.errors import Invalid, Problem
from duly.ports import ListPage
from duly.records.history import ENTRY_JSON, Entry

Item = TypeVar("Item")


def asked_page(ask: ApiRequest, place: Place = any_place) -> RequestedPage:
    page = RequestedPage(ask.query, place)
    if page.problems:
        raise Invalid(page.problems)
    return page


def page_of(
    ask: ApiRequest,
    page: RequestedPage,
    name: str,
    items: Sequence[Item],
    show: Callable[[Item], Any],
    after: str | None,
    **more: Any,
) -> ApiResponse:
    """The answer with a page. *after* is the place where the next page begins, None at the end; *more* are fields
    beside the items."""
    cursor = None if after is None else page.cursor(after)
    headers = {} if cursor is None else {"Link": link_to_next(ask.address, ask.query, cursor)}
    return ApiResponse(Listed(name, items, show, {"next_cursor": cursor, **more}), headers=headers)


def page_of_these(
    ask: ApiRequest,
    page: RequestedPage,
    name: str,
    found: ListPage[Item],
    show: Callable[[Item], Any],
    place: Callable[[Item], str],
    **more: Any,
) -> ApiResponse:
    """The same for a page whose next one begins after the *place* of its last item."""
    return page_of(ask, page, name, found.items, show, place(found.items[-1]) if found.more else None, **more)


async def page_of_history(ask: ApiRequest, read: Callable[[int, int], Awaitable[ListPage[Entry]]]) -> ApiResponse:
    """The answer with a page of a history. Entries never change and are only appended, so the cursor is the number of
    entries before the page. *read* takes that offset and a limit."""
    page = asked_page(ask)
    passed = _passed(page)
    found = await read(passed, page.limit)
    return page_of(ask, page, "history", found.items, ENTRY_JSON.write, where_next(found, passed))


def where_next(found: ListPage[Entry], passed: int = 0) -> str | None:
    """The cursor of the next page of a history, None at the end."""
    return str(passed + len(found.items)) if found.more else None


def _passed(page: RequestedPage) -> int:
    if page.after is None:
        return 0
    if not page.after.isdecimal() or len(page.after) > 9:
        raise Invalid([Problem("cursor", "is not a cursor of this list: send next_cursor unchanged")])
    return int(page.after)
