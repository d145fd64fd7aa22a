"""The statements that find events: in the order of their ids, a page at a time."""

from duly.ports import PAGE_BYTES, PAGE_EXAMINED, CutShort, Page
from duly.records.event import Event
from duly.records.specs import Compare, Spec
from duly.stores.filters.index_choice import USUAL_TENANT, index_choice
from duly.stores.query_base import LAST_ID, QueryBase, each


class PageQueries(QueryBase):
    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        return await self._find(spec, limit, after, None)

    async def _find(self, spec: Spec, limit: int, after: str | None, within: int | None) -> list[Event]:
        older = spec & Compare("id", "<", after) if after else spec
        asked = self.statement("find", limit=limit, within=within)
        return each(self.readers.event.read, await self.search(asked, older, index_choice(spec).also))

    async def page(self, spec: Spec, *, limit: int, after: str | None = None, examine: int = PAGE_EXAMINED) -> Page:
        bound = await self.page_bound(spec, after, examine)
        # Bounded on both sides, also on the first page: otherwise a table without statistics would be scanned.
        within = spec if bound is None else spec & Compare("id", ">=", bound) & Compare("id", "<", after or LAST_ID)
        found = await self._find(within, limit + 1, after if bound is None else None, PAGE_BYTES)
        page = found[:limit]
        return Page(page, page[-1].id if len(found) > limit or isinstance(found, CutShort) else bound)

    async def page_bound(self, spec: Spec, after: str | None, examine: int) -> str | None:
        """The id of the oldest event that a page examines, counted from the newest; None if no more events than
        *examine* are left, or if the index finds only matching events."""
        lead = index_choice(spec)
        if not lead.leaves:
            return None
        if lead.tenant == USUAL_TENANT:
            [row] = await self.ask("page_bound_of_all", before=after or LAST_ID, skipped=examine - 1)
            return row[0]  # type: ignore[no-any-return]
        older = lead.spec & Compare("id", "<", after) if after else lead.spec
        rows = await self.search(self.statement("page_bound", skipped=examine - 1), older, lead.also)
        return rows[0][0] if len(rows) > 1 else None

    async def lanes_of(self, spec: Spec, *, examine: int) -> list[str]:
        bound = await self.page_bound(spec, None, examine)
        within = spec if bound is None else spec & Compare("id", ">=", bound)
        return [row[0] for row in await self.search(self.statement("lanes_of"), within, index_choice(spec).also)]
