"""Lists, a page at a time."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from duly.edges.http.asking import Answer, Ask
from duly.edges.http.queries import Page, link_to_next
from duly.errors import Invalid

Item = TypeVar("Item")


def asked_page(ask: Ask) -> Page:
    page = Page(ask.query)
    if page.problems:
        raise Invalid(page.problems)
    return page


def page_of(ask: Ask, page: Page, name: str, items: Sequence[Any], after: str | None) -> Answer:
    """*after* is where the next page begins; None at the end."""
    cursor = None if after is None else page.cursor(after)
    headers = {} if cursor is None else {"Link": link_to_next(ask.address, ask.query, cursor)}
    return Answer({name: items, "next_cursor": cursor}, headers=headers)


def page_of_these(
    ask: Ask, page: Page, name: str, found: Sequence[Item], show: Callable[[Item], Any], place: Callable[[Item], str]
) -> Answer:
    """The same, where one more than fits was looked for: then there is a next page, after the last one's *place*."""
    fits = found[: page.limit]
    return page_of(ask, page, name, [show(one) for one in fits], place(fits[-1]) if len(found) > page.limit else None)
