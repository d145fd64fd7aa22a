"""The baseline of the claims of due schedules: fifty connections that do the same on the smallest possible table.

A claim is the same statement in its shortest form: it takes the oldest due rows that nobody has locked, and inserts the
successor of each. There are no policies, leases, fences, tenants or history, and two indexes instead of eighteen.
"""

from collections.abc import Sequence
from typing import Any

import asyncpg

TABLE = """\
CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ready timestamptz, claimed boolean DEFAULT false,
                   payload json);
CREATE INDEX bare_ready ON bare (ready) WHERE NOT claimed;
"""

CLAIM = """\
WITH picked AS MATERIALIZED (
    SELECT id FROM bare WHERE NOT claimed AND ready <= $1 ORDER BY ready LIMIT $2 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE bare SET claimed = true WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *
), planted AS (
    INSERT INTO bare (ready, payload) SELECT ready + interval '1 hour', payload FROM taken
)
SELECT id, ready, payload FROM taken
"""


class BareClaimer:
    """One connection that claims rows."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        settings = {"plan_cache_mode": "force_generic_plan", "jit": "off"}
        self._connection = await asyncpg.connect(self._url, server_settings=settings)

    async def close(self) -> None:
        await self._connection.close()

    async def stock(self, first: Any, rows: int) -> None:
        await self._connection.execute(TABLE)
        await self._connection.execute(
            "INSERT INTO bare (ready, payload) SELECT $1::timestamptz, '{\"n\": 1}' FROM generate_series(1, $2)",
            first,
            rows,
        )

    async def claim(self, now: Any, limit: int) -> Sequence[Any]:
        return await self._connection.fetch(CLAIM, now, limit)

    async def count(self) -> int:
        return int(await self._connection.fetchval("SELECT count(*) FROM bare WHERE claimed"))
