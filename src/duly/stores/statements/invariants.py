"""The queries that check the invariants of the rows."""

from duly.ports import MOST_VIOLATIONS, NEWEST_EXAMINED, Examined, Violation
from duly.stores.queries import INVARIANTS, names_in
from duly.stores.query_base import QueryBase

COUNTING = "examined"
"""The query in invariants.sql that counts events, and checks none."""


class InvariantQueries(QueryBase):
    dialect: str
    no_limit: int | None  # the value of LIMIT that means all rows

    async def invariants(self, examine: int | None = NEWEST_EXAMINED) -> Examined:
        rows = self.no_limit if examine is None else examine
        [(many,)] = await self.ask(COUNTING, examine=rows if examine is None else examine + 1)
        found: list[Violation] = []
        for name in names_in(INVARIANTS, self.dialect):
            if name != COUNTING:
                told = await self.ask(name, examine=rows, most=MOST_VIOLATIONS)
                found += [Violation(name, *row) for row in told]
        every = examine is None or many <= examine
        return Examined(found, many if every else many - 1, every)
