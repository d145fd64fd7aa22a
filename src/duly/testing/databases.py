"""Databases on PostgreSQL that belong to tests: made if they are missing, brought up to date, and emptied before each
test."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

from duly.errors import Misuse

NEW_FROM_PAGES = 64
"""Pages of a table from which it is truncated; deleting the rows of a smaller one is quicker."""

TABLES = """\
SELECT format('%I.%I', schemaname, tablename), pg_relation_size(format('%I.%I', schemaname, tablename)) / 8192
FROM pg_tables WHERE schemaname = 'duly' AND tablename <> 'migrations'
"""

_MIGRATED: set[str] = set()
"""The URLs of the databases whose tables this process has brought up to date."""


def require_test_database(url: str) -> None:
    """Raises Misuse unless the name of the database says that it is for tests: all its events will be deleted."""
    name = urlsplit(url).path.removeprefix("/")
    if "test" not in name.lower():
        raise Misuse(
            f"the database {name!r} may be a real one: Duly's tables in it are emptied before each test, so its name "
            f"must contain 'test', such as {name or 'app'}_test"
        )


def prepare(url: str) -> None:
    """Makes the database if there is none, and deletes all of Duly's rows in it."""
    require_test_database(url)
    _wait_for(_prepare(url))


async def _prepare(url: str) -> None:
    import asyncpg

    try:
        connection = await asyncpg.connect(url)
    except asyncpg.InvalidCatalogNameError:
        await _create(url)
        connection = await asyncpg.connect(url)
    try:
        if url not in _MIGRATED:
            await _migrate(url)
            _MIGRATED.add(url)
        tables = await connection.fetch(TABLES)
        acts = [f"TRUNCATE {table}" if pages > NEW_FROM_PAGES else f"DELETE FROM {table}" for table, pages in tables]
        if acts:
            await connection.execute("; ".join(acts))
    finally:
        await connection.close()


async def _migrate(url: str) -> None:
    from duly.stores.postgres.store import PostgresStore

    store = PostgresStore(url)
    await store.open(migrate=True)
    await store.close()


async def _create(url: str) -> None:
    import asyncpg

    parts = urlsplit(url)
    connection = await asyncpg.connect(parts._replace(path="/postgres").geturl())
    try:
        name = parts.path.removeprefix("/").replace('"', '""')
        await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()


def _wait_for(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in a thread of its own: an event loop may run in this one."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="duly-testing")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
