"""All that a database holds, as text: to find out whether something is still there."""

from typing import Any

from tests.conftest import AnyStore

TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    "postgres": "SELECT 'duly.' || tablename FROM pg_tables WHERE schemaname = 'duly' ORDER BY tablename",
}


async def everything_stored(store: AnyStore) -> dict[str, str]:
    """Every value of every table, by table."""
    async with store.begin() as tx:
        names = [row[0] for row in await tx.fetch(TABLES[store.dialect])]
        return {name: "\n".join(map(_told, await tx.fetch(f"SELECT * FROM {name}"))) for name in names}


async def tables_with(store: AnyStore, word: str) -> list[str]:
    """The tables in which a text is found, in any letter case."""
    return [name for name, told in (await everything_stored(store)).items() if word.lower() in told.lower()]


def _told(row: Any) -> str:
    return " | ".join(value.decode() if isinstance(value, bytes) else str(value) for value in row)
