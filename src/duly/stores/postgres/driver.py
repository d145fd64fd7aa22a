"""Runs queries on asyncpg's connections, and says in Duly's words what goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncpg

from duly.errors import Conflict, Misuse, SchemaMismatch, StoreError, StoreUnavailable
from duly.stores.queries import Query, load

TRANSIENT = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver lost its place when the connection broke
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, crash of a neighbour, starting up
    asyncpg.InsufficientResourcesError,  # disk full, too many connections
    asyncpg.TransactionRollbackError,  # deadlock, serialisation
    asyncpg.ReadOnlySQLTransactionError,  # a standby, during fail-over
    asyncpg.LockNotAvailableError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # a database that takes no connections for a while
)

SEARCHES = frozenset({"find", "floor", "floor_of_all", "find_dead", "count_dead"})
"""Which index fits these depends on the values, so they are planned anew each time."""


class NotLetIn(StoreUnavailable):
    """There is no such database, or not for this user. At the start, that is for people to mend; later it passes: a
    database is renamed for a moment, or a password is changed."""


def opened(pool: asyncpg.Pool | None) -> asyncpg.Pool:
    if pool is None:
        raise Misuse("this Duly is not open: use `async with duly:` around your calls")
    return pool


async def run_query(connection: Any, query: Query, parameters: dict[str, Any]) -> list[Any]:
    sql, names = _prepared(query)
    return await connection.fetch(sql, *[parameters[name] for name in names])  # type: ignore[no-any-return]


_cache: dict[str, tuple[str, tuple[str, ...]]] = {}


def _prepared(query: Query) -> tuple[str, tuple[str, ...]]:
    found = _cache.get(query.name)
    if found is None:
        found = query.numbered(), query.parameters
        if load("postgres").get(query.name) is query:  # not one that was built for a spec
            _cache[query.name] = found
    return found


def is_open(connection: Any) -> bool:
    try:
        return connection is not None and not connection.is_closed()
    except asyncpg.InterfaceError:  # the pool has taken it back
        return False


def terminate(connection: Any) -> None:
    with suppress(asyncpg.InterfaceError):  # the pool has taken it back already
        connection.terminate()


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except (StoreError, Misuse):
        raise
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
        raise SchemaMismatch(f"{error}: this database has no (or older) Duly tables; run `duly migrate`") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise NotLetIn(f"{error}: create the database first") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise NotLetIn(f"{error}: check the user and password in the database URL") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(f"{error}: grant it to the user in the database URL, or name another user") from error
    except asyncpg.UniqueViolationError as error:
        raise Conflict(f"{error}: somebody else has just stored the same; try again") from error
    except (TimeoutError, *TRANSIENT) as error:
        raise StoreUnavailable(f"PostgreSQL: {str(error) or type(error).__name__}") from error
