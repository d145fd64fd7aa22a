"""SQLAlchemy's ORM in the transaction of a transactional handler, on PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from duly.errors import Misuse
from duly.ports import Transaction

JSON_TYPES = ("json", "jsonb")
"""The types for which SQLAlchemy gives each connection codecs of its own."""

_connection: ContextVar[Any] = ContextVar("duly_sqlalchemy_connection")


@asynccontextmanager
async def session_in(tx: Transaction, **options: Any) -> AsyncIterator[AsyncSession]:
    """An ``AsyncSession`` in the transaction of a transactional handler, or of ``duly.transaction()``. It is flushed at
    the end, and committed with the rest of that transaction; its own commits and rollbacks are of savepoints. The
    options are those of ``AsyncSession``."""
    driver: Any = getattr(tx, "connection", None)
    if type(driver).__module__.partition(".")[0] == "apsw" or not hasattr(driver, "set_type_codec"):
        raise Misuse(
            f"session_in() got a {type(tx).__name__}: it takes the transaction of a transactional handler or of "
            "duly.transaction(), on PostgreSQL"
        )
    token = _connection.set(_Lent(driver))
    try:
        async with AsyncSession(_engine(), **options) as session:
            yield session
            await session.commit()
    finally:
        _connection.reset(token)
        if not driver.is_closed():
            for name in JSON_TYPES:
                await driver.reset_type_codec(name, schema="pg_catalog")


class _Lent:
    """A connection that SQLAlchemy may use and not close."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def close(self, **_: Any) -> None: ...


async def _lent() -> Any:
    return _connection.get()


@cache
def _engine() -> AsyncEngine:
    """One engine for all transactions, because it keeps what it has compiled of statements."""
    return create_async_engine("postgresql+asyncpg://", async_creator=_lent, poolclass=NullPool)
