"""The role under which requests of the API run, and its few privileges. The rows that it can see are defined by the
policies of the tables, which a migration creates.

The user in the database URL is the *login*: it takes the role for each request. Often it may not create roles; then an
administrator has to run the statements that it cannot run itself.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import asyncpg

from duly.errors import ApiNotReady

ROLE = "duly_api"
"""The name of the role unless DULY_API_ROLE says another one."""

RIGHTS = {
    "events": ("SELECT", "INSERT", "UPDATE"),
    "journal": ("SELECT", "INSERT"),
    "history": ("SELECT",),
    "schedules": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "users": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "type_settings": ("SELECT", "INSERT", "UPDATE"),
    "templates": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "targets": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "destinations": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "requests": ("SELECT", "INSERT", "UPDATE"),
    "fired_keys": ("SELECT", "DELETE"),
    "ended_runs": ("SELECT",),
    "roll_ups": ("SELECT",),
}
"""The privileges of the role, by table."""

RIGHTS_OF_LOGIN = {
    "migrations": ("SELECT",),
    "history": ("SELECT",),
    "events": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "journal": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "api_keys": ("SELECT", "INSERT", "UPDATE"),
    "sessions": ("SELECT", "INSERT", "DELETE"),
    "schedules": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "users": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "type_settings": ("SELECT", "INSERT", "UPDATE"),
    "templates": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "targets": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "destinations": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "requests": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "fired_keys": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "workers": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "lanes": ("SELECT", "INSERT", "UPDATE"),
    "upkeep": ("SELECT", "INSERT", "UPDATE"),
    "ended_runs": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "roll_ups": ("SELECT", "INSERT", "UPDATE", "DELETE"),
}
"""The privileges of a login that does not own the tables, to be a worker, a server and a caller."""

FUNCTIONS = ("duly.confined()", "duly.api_roles()", "duly.sees(uuid)", "duly.tells(uuid)", "duly.searchable(json)")
"""The functions that the policies and the queries of requests call. Everybody may call them, unless a database was
restored without its privileges."""

CONFINED_TABLES = tuple(table for table in RIGHTS if table != "history")
"""The tables with a row-level policy; history is a view over them."""

LEAST_VERSION = 15
"""The oldest supported version of PostgreSQL: in earlier versions, a view cannot use the privileges of its caller, and
would show the rows of all tenants."""

MOST_TRIES = 5
"""Attempts to create the role, because another server may be creating it at the same time."""

ADVICE = (
    "An administrator (a superuser; or a user with CREATEROLE for the role, and the owner of the tables for its "
    "privileges) has to run this once in the database {database}; servers notice it by themselves"
)

RIGHTS_OF_ROLE = """
SELECT c.relname, p.privilege
FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS p (privilege)
WHERE c.relnamespace = to_regnamespace('duly') AND c.relkind IN ('r', 'v', 'p', 'm')
  AND has_table_privilege($1::name, c.oid, p.privilege)
"""

FACTS = """
SELECT current_database() AS database, quote_ident(l.rolname) AS login, quote_ident($1) AS role, r.oid,
    l.rolsuper OR pg_has_role(n.nspowner, 'USAGE') AS owns,
    l.rolsuper OR l.rolcreaterole AND (r.oid IS NULL OR $4) OR coalesce(pg_has_role(r.oid, $3), false) AS may_create,
    coalesce(pg_has_role(r.oid, 'MEMBER'), false) AS is_member,
    coalesce(pg_has_role(r.oid, $2), false) AS may_take,
    coalesce(has_schema_privilege(r.oid, n.oid, 'USAGE'), false) AS has_schema,
    ARRAY(
        SELECT f FROM unnest($5::text[]) AS f
        WHERE r.oid IS NOT NULL AND NOT has_function_privilege(r.oid, f, 'EXECUTE')
    ) AS functions,
    $1 = ANY (duly.api_roles()) AS is_confined
FROM pg_roles AS l JOIN pg_namespace AS n ON n.nspname = 'duly' LEFT JOIN pg_roles AS r ON r.rolname = $1
WHERE l.rolname = current_user
"""
"""Of the login, of the role, and of both."""

_COLLISIONS = (
    asyncpg.DuplicateObjectError,  # the role was created meanwhile, for another database of the same server
    asyncpg.UniqueViolationError,
    asyncpg.InternalServerError,  # "tuple concurrently updated"
)

_REFUSALS = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedObjectError,  # of a role that could not be created
    asyncpg.InvalidGrantOperationError,
)
"""Errors after which an administrator has to run the statement."""


class Missing(NamedTuple):
    """Something that the role lacks, the statement that remedies it, and whether the login may run it."""

    found: str
    statement: str
    allowed: bool


class ExaminedRole(NamedTuple):
    """A role, and all that it lacks."""

    name: str
    database: str
    missing: list[Missing]

    def not_ready(self) -> ApiNotReady:
        found = f"the database role {self.name}, under which API requests run, is not ready: "
        found += "; ".join(one.found for one in self.missing if one.found)
        return ApiNotReady(found, ADVICE.format(database=self.database), [one.statement for one in self.missing])


async def prepare(connection: Any, role: str, lock: int) -> bool:
    """Does what is missing as far as the login may; then checks that the privileges are exactly right. Returns whether
    anything was missing."""
    for left in reversed(range(MOST_TRIES)):
        examined = await examine(connection, role)
        try:
            if any(one.allowed for one in examined.missing):
                await _remedy(connection, role, lock)
            break
        except _COLLISIONS:
            if not left:
                raise
    left_over = await examine(connection, role)
    if left_over.missing:
        raise left_over.not_ready()
    await _require_confined(connection, role)
    return bool(examined.missing)


async def require_ready(connection: Any, role: str) -> None:
    """Checks that the role is ready, but for what the login may do itself when a server starts. Changes nothing."""
    examined = await examine(connection, role)
    if not all(one.allowed for one in examined.missing):
        raise examined.not_ready()
    if not examined.missing:
        await _require_confined(connection, role)


async def _remedy(connection: Any, role: str, lock: int) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
        for one in (await examine(connection, role)).missing:
            if one.allowed:
                with suppress(*_REFUSALS):
                    async with connection.transaction():  # a savepoint: the other statements do not depend on this one
                        await connection.execute(one.statement)


async def examine(connection: Any, role: str) -> ExaminedRole:
    version = connection.get_server_version().major
    if version < LEAST_VERSION:
        raise ApiNotReady(
            f"this is PostgreSQL {version}, and the API needs {LEAST_VERSION} or newer to keep tenants apart",
            "Workers and the command line work with older versions; for one tenant, DULY_API_ROLE=off does without",
        )
    can_set = version >= 16
    facts = await connection.fetchrow(
        FACTS,
        role,
        "SET" if can_set else "MEMBER",
        "MEMBER WITH ADMIN OPTION",
        not can_set,  # before PostgreSQL 16, CREATEROLE was enough to grant any role
        list(FUNCTIONS),
    )
    has = await _rights(connection, role) if facts["oid"] is not None else set()
    return ExaminedRole(facts["role"], facts["database"], list(_missing(facts, role, has, can_set=can_set)))


def _missing(facts: Any, role: str, has: set[tuple[str, str]], *, can_set: bool) -> Iterator[Missing]:
    named, login, exists = facts["role"], facts["login"], facts["oid"] is not None

    def missing(found: str, statement: str, allowed: bool) -> Missing:
        return Missing(found if exists else "", statement, allowed)

    if not exists:
        yield Missing(f"the role {named} does not exist", f"CREATE ROLE {named} NOLOGIN", facts["may_create"])
    if not facts["may_take"]:
        found = f"{login} is not a member of {named}"
        if facts["is_member"]:
            found = f"{login} is a member of {named}, but without the option SET"
        options = " WITH INHERIT FALSE, SET TRUE" if can_set else ""
        yield missing(found, f"GRANT {named} TO {login}{options}", facts["may_create"])
    if not facts["has_schema"]:
        yield missing(
            f"{named} has no USAGE on the schema duly", f"GRANT USAGE ON SCHEMA duly TO {named}", facts["owns"]
        )
    lacking = ((table, [right for right in rights if (table, right) not in has]) for table, rights in RIGHTS.items())
    for on in _grants(lacking):
        yield missing(f"{named} has no {on.replace(' ON ', ' on ')}", f"GRANT {on} TO {named}", facts["owns"])
    if functions := ", ".join(facts["functions"]):
        statement = f"GRANT EXECUTE ON FUNCTION {functions} TO {named}"
        yield missing(f"{named} has no EXECUTE on {functions}", statement, facts["owns"])
    if not facts["is_confined"]:
        statement = f"SELECT duly.add_api_role('{role}')"
        yield missing(f"row-level security does not confine {named}", statement, facts["owns"])


def script(role: str | None, login: str) -> str:
    """SQL for an administrator, in a transaction of its own: creates the role if it is missing, lets the login take it,
    and grants the privileges of both. None: without a role."""
    statements, rights_by_grantee = ["BEGIN;"], {quoted(login): RIGHTS_OF_LOGIN}
    if role is not None:
        statements.append(_creation(role, quoted(login)))
        rights_by_grantee[quoted(role)] = RIGHTS
        if role != ROLE:
            statements.append(f"SELECT duly.add_api_role('{role}');")
    statements.append(f"GRANT USAGE ON SCHEMA duly TO {', '.join(rights_by_grantee)};")
    for grantee, rights in rights_by_grantee.items():
        statements += [f"GRANT {on} TO {grantee};" for on in _grants(rights.items())]
    told = "-- The role of API requests, and what the user of servers and workers needs unless it owns the tables."
    return "\n".join([told, *statements, "COMMIT;", ""])


def _creation(role: str, login: str) -> str:
    """Creates the role if it is missing: roles belong to the whole server."""
    return _CREATION.format(role=role, login=login, login_in_text=login.replace("'", "''"))


_CREATION = """\
DO $do$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
        CREATE ROLE "{role}" NOLOGIN;
    END IF;
    IF current_setting('server_version_num')::int < 160000 THEN
        GRANT "{role}" TO {login};
    ELSE
        EXECUTE 'GRANT "{role}" TO {login_in_text} WITH INHERIT FALSE, SET TRUE';
    END IF;
END
$do$;"""


def quoted(name: str) -> str:
    """The name of a role in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _grants(wanted: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """The privileges and their tables, as GRANT names them: those with the same privileges together."""
    tables: dict[str, list[str]] = {}
    for table, rights in wanted:
        if rights:
            tables.setdefault(", ".join(rights), []).append(f"duly.{table}")
    return [f"{rights} ON {', '.join(named)}" for rights, named in tables.items()]


class LackingRights(NamedTuple):
    """What a login lacks of RIGHTS_OF_LOGIN, and the statements that grant it."""

    found: list[str]
    statements: tuple[str, ...] = ()


async def lacking_rights(connection: Any) -> LackingRights:
    login = await connection.fetchval("SELECT current_user::text")
    has = await _rights(connection, login)
    grants = _grants(
        (table, [right for right in rights if (table, right) not in has]) for table, rights in RIGHTS_OF_LOGIN.items()
    )
    found = [on.replace(" ON ", " on ") for on in grants]
    return LackingRights(found, tuple(f"GRANT {on} TO {quoted(login)};" for on in grants))


async def _rights(connection: Any, role: str) -> set[tuple[str, str]]:
    return {(row[0], row[1]) for row in await connection.fetch(RIGHTS_OF_ROLE, role)}


async def _require_confined(connection: Any, role: str) -> None:
    """Checks that row-level security really confines the role. A lock that does not lock is worse than no lock: nobody
    would look for the hole."""
    wanted = {(table, right) for table, rights in RIGHTS.items() for right in rights}
    if more := sorted(await _rights(connection, role) - wanted):
        told = ", ".join(f"{right} on duly.{table}" for table, right in more[:10])
        raise ApiNotReady(
            f"the role {role}, under which API requests run, has rights that it must not have: {told}",
            "Revoke them from it, from PUBLIC and from roles that it is a member of",
        )
    async with _as_role(connection, role):
        if not await connection.fetchval("SELECT duly.confined()"):
            raise ApiNotReady(f"row-level security does not confine {role}", f"Name another role than {role}")
        for table in CONFINED_TABLES:
            if not await connection.fetchval("SELECT row_security_active($1::regclass)", f"duly.{table}"):
                raise ApiNotReady(
                    f"row-level security does not apply to {role} on duly.{table}",
                    f"Make another role the owner of the tables, remove BYPASSRLS from {role}, and run ALTER TABLE "
                    f"duly.{table} ENABLE ROW LEVEL SECURITY",
                )


@asynccontextmanager
async def _as_role(connection: Any, role: str) -> AsyncIterator[None]:
    async with connection.transaction():
        await connection.execute(f'SET LOCAL ROLE "{role}"')
        yield
