"""The role under which requests of the API run, and its few privileges. The rows that it can see are defined by the
policies of the tables, which a migration creates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from duly.errors import StoreError

ROLE = "duly_api"

RIGHTS = {
    "events": ("SELECT", "INSERT", "UPDATE"),
    "journal": ("SELECT", "INSERT"),
    "history": ("SELECT",),
    "schedules": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "users": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "targets": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "destinations": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "requests": ("SELECT", "INSERT", "UPDATE"),
}
"""The privileges of the role, by table."""

CONFINED_TABLES = tuple(table for table in RIGHTS if table != "history")
"""The tables with a row-level policy; history is a view over them."""

LEAST_VERSION = 15
"""The oldest supported version of PostgreSQL: in earlier versions, a view cannot use the privileges of its caller, and
would show the rows of all tenants."""

MOST_TRIES = 5
"""Attempts to create the role, because another server may be creating it at the same time."""

Right = tuple[str, str]

RIGHTS_OF_ROLE = """
SELECT c.relname, p.privilege
FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS p (privilege)
WHERE c.relnamespace = to_regnamespace('duly') AND c.relkind IN ('r', 'v', 'p', 'm')
  AND has_table_privilege($1::name, c.oid, p.privilege)
"""

_COLLISIONS = (
    asyncpg.DuplicateObjectError,  # the role was created meanwhile, for another database of the same server
    asyncpg.UniqueViolationError,
    asyncpg.InternalServerError,  # "tuple concurrently updated"
)


async def prepare(connection: Any, lock: int) -> None:
    """Creates the role and grants the missing privileges; then checks that the privileges are exactly right."""
    version = connection.get_server_version()
    if version.major < LEAST_VERSION:
        raise StoreError(
            f"this is PostgreSQL {version.major}, and the API needs {LEAST_VERSION} or newer to keep "
            "tenants apart; workers and the command line work with older versions"
        )
    for left in reversed(range(MOST_TRIES)):
        try:
            if await _missing(connection):
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
                    for statement in await _missing(connection):
                        await connection.execute(statement)
            break
        except asyncpg.InsufficientPrivilegeError:
            break  # an administrator must grant the rest
        except _COLLISIONS:
            if not left:
                raise
    if missing := await _missing(connection):
        user = await connection.fetchval("SELECT current_user")
        raise StoreError(
            f"API requests run under the role {ROLE}, and the user {user} has no right to prepare it. Ask "
            "an administrator to run this once, in this database:\n\n" + "\n".join(f"{one};" for one in missing)
        )
    await _check(connection)


async def _missing(connection: Any) -> list[str]:
    """The statements that create the role and grant the missing privileges."""
    user, exists = await connection.fetchrow(
        "SELECT quote_ident(current_user), EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", ROLE
    )
    statements = [] if exists else [f"CREATE ROLE {ROLE} NOLOGIN"]
    member, options = ("SET", " WITH INHERIT FALSE, SET TRUE")
    if connection.get_server_version().major < 16:
        member, options = ("MEMBER", "")
    if not exists or not await connection.fetchval("SELECT pg_has_role($1, $2)", ROLE, member):
        statements.append(f"GRANT {ROLE} TO {user}{options}")
    if not exists or not await connection.fetchval("SELECT has_schema_privilege($1, 'duly', 'USAGE')", ROLE):
        statements.append(f"GRANT USAGE ON SCHEMA duly TO {ROLE}")
    has = await _rights(connection) if exists else set()
    by_rights: dict[str, list[str]] = {}
    for table, rights in RIGHTS.items():
        if wanted := [right for right in rights if (table, right) not in has]:
            by_rights.setdefault(", ".join(wanted), []).append(f"duly.{table}")
    return statements + [f"GRANT {rights} ON {', '.join(tables)} TO {ROLE}" for rights, tables in by_rights.items()]


async def _rights(connection: Any) -> set[Right]:
    return {(row[0], row[1]) for row in await connection.fetch(RIGHTS_OF_ROLE, ROLE)}


async def _check(connection: Any) -> None:
    """Checks that row-level security really confines the role. A lock that does not lock is worse than no lock: nobody
    would look for the hole."""
    wanted = {(table, right) for table, rights in RIGHTS.items() for right in rights}
    if more := sorted(await _rights(connection) - wanted):
        told = ", ".join(f"{right} on duly.{table}" for table, right in more[:10])
        raise StoreError(
            f"the role {ROLE}, under which API requests run, has rights that it must not have: {told}. Revoke "
            "them from it, from PUBLIC and from roles that it is a member of."
        )
    async with _as_role(connection):
        for table in CONFINED_TABLES:
            if not await connection.fetchval("SELECT row_security_active($1::regclass)", f"duly.{table}"):
                raise StoreError(
                    f"row-level security does not apply to {ROLE} on duly.{table}: make another role the "
                    f"owner of the tables, remove BYPASSRLS from {ROLE}, and run ALTER TABLE duly.{table} "
                    "ENABLE ROW LEVEL SECURITY"
                )


@asynccontextmanager
async def _as_role(connection: Any) -> AsyncIterator[None]:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL ROLE {ROLE}")
        yield
