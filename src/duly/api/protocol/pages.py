"""Lists, a page at a time."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from duly.api.protocol.listing import Listed
from duly.api.protocol.query_string import Place, RequestedPage, any_place, link_to_next
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.errors import Invalid, Problem
from duly.ports import PAGE_BYTES, CutShort
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
    """*after* is where the next page begins; None at the end. *more* is answered beside the items."""
    cursor = None if after is None else page.cursor(after)
    headers = {} if cursor is None else {"Link": link_to_next(ask.address, ask.query, cursor)}
    return ApiResponse(Listed(name, items, show, {"next_cursor": cursor, **more}), headers=headers)


def page_of_these(
    ask: ApiRequest,
    page: RequestedPage,
    name: str,
    found: Sequence[Item],
    show: Callable[[Item], Any],
    place: Callable[[Item], str],
) -> ApiResponse:
    """The same, where one more than fits was looked for: then there is a next page, after the last one's *place*."""
    fits = found[: page.limit]
    more = len(found) > page.limit or isinstance(found, CutShort)
    return page_of(ask, page, name, fits, show, place(fits[-1]) if more else None)


async def page_of_history(ask: ApiRequest, subject: str, before: Sequence[Entry] = ()) -> ApiResponse:
    """Entries never change and are only added at the end: so a cursor is how many came before. *before* are those that
    are not in the history itself."""
    page = asked_page(ask)
    entries, after = await entries_of(ask, subject, page, before)
    return page_of(ask, page, "history", entries, ENTRY_JSON.write, after)


async def entries_of(
    ask: ApiRequest, subject: str, page: RequestedPage, before: Sequence[Entry] = ()
) -> tuple[Sequence[Entry], str | None]:
    """Those of a page, and where the next page begins."""
    passed = _passed(page)
    entries: list[Entry] = list(before[passed : passed + page.limit + 1])
    room = page.limit + 1 - len(entries)
    found = await ask.own.store.history(subject, skip=max(0, passed - len(before)), limit=room, within=PAGE_BYTES)
    entries += found
    fits = entries[: page.limit]
    more = len(entries) > page.limit or isinstance(found, CutShort)
    return fits, str(passed + len(fits)) if more else None


def _passed(page: RequestedPage) -> int:
    if page.after is None:
        return 0
    if not page.after.isdecimal() or len(page.after) > 9:
        raise Invalid([Problem("cursor", "is not one that this list gave")])
    return int(page.after)
