"""Pages of histories."""

from collections.abc import Sequence
from typing import Protocol

from duly.decide.checks import check_page
from duly.ports import PAGE_BYTES, CutShort, ListPage
from duly.records.history import Entry


class HistoryReader(Protocol):
    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]: ...


async def history_page(
    store: HistoryReader, subject: str, *, skip: int, limit: int, before: Sequence[Entry] = ()
) -> ListPage[Entry]:
    """A page of a history, the oldest entry first, without the first *skip* entries. *before* are earlier entries that
    are not stored in the history itself."""
    check_page(limit)
    entries = [*before[skip : skip + limit + 1]]
    room = limit + 1 - len(entries)
    found = await store.history(subject, skip=max(0, skip - len(before)), limit=room, within=PAGE_BYTES)
    entries += found
    return ListPage(entries[:limit], len(entries) > limit or isinstance(found, CutShort))
