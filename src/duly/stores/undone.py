"""Transactions, and parts of transactions, that are always rolled back. A dry run carries its act out in one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from duly.stores.queries import Query

T = TypeVar("T")

SAVEPOINT = Query("savepoint", "SAVEPOINT duly_undone", reads=False)
BACK_TO_SAVEPOINT = Query("back_to_savepoint", "ROLLBACK TO SAVEPOINT duly_undone", reads=False)
RELEASE = Query("release_savepoint", "RELEASE SAVEPOINT duly_undone", reads=False)


class _RollBack(Exception):
    """Ends a transaction or savepoint that has not failed."""


@asynccontextmanager
async def rolled_back(begun: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """A transaction or savepoint that is rolled back at its end. It is left with an error, so its owner neither
    commits, nor announces events, nor wakes workers."""
    try:
        async with begun as transaction:
            yield transaction
            raise _RollBack
    except _RollBack:
        pass


@asynccontextmanager
async def savepoint(run: Callable[[Query, dict[str, Any]], Awaitable[Any]]) -> AsyncIterator[None]:
    """A savepoint of PostgreSQL, by statements alone: a caller's transaction may have been begun in any way."""
    await run(SAVEPOINT, {})
    try:
        yield
    except BaseException:
        await run(BACK_TO_SAVEPOINT, {})
        await run(RELEASE, {})
        raise
    await run(RELEASE, {})
