"""The statements that count events, users and schedules, at a cost that does not grow with their number."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from duly.ports import COUNT_EXAMINED
from duly.records.finding.acts import ActKind
from duly.records.finding.counts import MOST_COUNTED, Count, counted
from duly.records.finding.schedules import EVERY_SCHEDULE, ScheduleFilter
from duly.records.finding.users import UserSearch
from duly.records.specs import Compare, Spec
from duly.stores.filters.index_choice import index_choice
from duly.stores.filters.schedules import schedules_where
from duly.stores.filters.users import Condition, users_where
from duly.stores.filters.waiting import waiting_part
from duly.stores.finding.pages import PageQueries
from duly.stores.finding.waiting import ASCENDING, FIRST, LAST, WaitingQueries
from duly.stores.queries import Query

HIDDEN_BY_POLICY = 0.5
"""The share of rows that PostgreSQL's planner believes to pass a row-level policy, whatever the policy is."""


class CountQueries(PageQueries, WaitingQueries):
    dialect: str

    @abstractmethod
    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]: ...

    async def count_events(self, spec: Spec) -> Count:
        found, whole = await (self._waiting(spec) if waiting_part(spec).asks else self._found(spec))
        if whole and found <= MOST_COUNTED:
            return counted(found, whole=True, estimate=found)
        asked = self.statement("estimate_events", examined=COUNT_EXAMINED)
        return counted(found, whole=whole, estimate=await self._estimate(await self.search(asked, spec)))

    async def event_kinds(self, spec: Spec, *, most: int) -> list[ActKind]:
        bound = await self.page_bound(spec, None, COUNT_EXAMINED)
        within = spec if bound is None else spec & Compare("id", ">=", bound)
        asked = self.statement("event_kinds", examined=MOST_COUNTED, most=most)
        return [ActKind(*row) for row in await self.search(asked, within, index_choice(spec).also)]

    async def _found(self, spec: Spec) -> tuple[int, bool]:
        """How many events match among those that are examined, the newest, and whether these are all."""
        bound = await self.page_bound(spec, None, COUNT_EXAMINED)
        within = spec if bound is None else spec & Compare("id", ">=", bound)
        asked = self.statement("count_events", most=MOST_COUNTED + 1)
        [(found,)] = await self.search(asked, within, index_choice(spec).also)
        return found, bound is None

    async def _waiting(self, spec: Spec) -> tuple[int, bool]:
        """The same among waiting events, which have an index by due time; the earliest are examined."""
        part, within, bound = waiting_part(spec), spec, []
        if part.leaves:
            asked = self.statement(
                "waiting_bound", tenant=part.tenant, examined=COUNT_EXAMINED, **self.between(FIRST, LAST)
            )
            bound = await self.in_order(asked, ASCENDING, part.due)
        if bound:
            within &= Compare("due", "<=", self.read_instant(bound[0][0]))
        asked = self.statement("count_waiting", tenant=part.tenant, most=MOST_COUNTED + 1)
        [(found,)] = await self.search(asked, within)
        return found or 0, not bound

    async def count_users(self, tenant: str | None, which: UserSearch) -> Count:
        where = users_where(tenant, which, self.dialect)
        [(found,)] = await self._of_these(self.statement("count_users", most=MOST_COUNTED + 1), where)
        if found <= MOST_COUNTED:
            return counted(found, whole=True, estimate=found)
        rows = await self._of_these(self.statement("estimate_users", examined=COUNT_EXAMINED), where)
        return counted(found, whole=False, estimate=await self._estimate(rows))

    async def _of_these(self, asked: tuple[Query, dict[str, Any]], where: Condition) -> list[Any]:
        (query, values), (sql, more) = asked, where
        return await self.run(Query(query.name, query.sql.replace("{where}", sql), query.reads), values | more)

    async def count_schedules(self, tenant: str | None, which: ScheduleFilter = EVERY_SCHEDULE) -> Count:
        where = schedules_where(which, self.dialect)
        [(found,)] = await self._of_these(
            self.statement("count_schedules", tenant=tenant, most=MOST_COUNTED + 1), where
        )
        if found <= MOST_COUNTED:
            return counted(found, whole=True, estimate=found)
        rows = await self._of_these(self.statement("estimate_schedules", tenant=tenant), where)
        return counted(found, whole=False, estimate=await self._estimate(rows))

    async def _estimate(self, rows: Sequence[Any]) -> int:
        """The estimate in the rows of a query: a share of the newest rows and the number of all, on SQLite; the
        planner's own, on PostgreSQL."""
        if self.dialect == "sqlite":
            matches, examined, many = rows[0]
            return int(matches / max(examined, 1) * max(many or 0, examined))
        [(planned,)] = rows
        [plan] = msgspec.json.decode(planned) if isinstance(planned, str) else planned
        [(confined,)] = await self.ask("is_confined")
        expected: float = plan["Plan"]["Plan Rows"]
        return round(expected / HIDDEN_BY_POLICY if confined else expected)
