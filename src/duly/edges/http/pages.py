"""Lists, a page at a time."""

from collections.abc import Sequence
from typing import Any

from duly.edges.http.asking import Answer, Ask
from duly.edges.http.queries import Page, link_to_next


def page_of(ask: Ask, page: Page, name: str, items: Sequence[Any], after: str | None) -> Answer:
    """*after* is where the next page begins; None at the end."""
    cursor = None if after is None else page.cursor(after)
    headers = {} if cursor is None else {"Link": link_to_next(ask.address, ask.query, cursor)}
    return Answer({name: items, "next_cursor": cursor}, headers=headers)
