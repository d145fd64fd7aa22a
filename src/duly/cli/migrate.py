"""``duly migrate``: bring the tables up to date, show whether they are, or print the SQL for someone else to run."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.api_role import found, tell, to_json, user_of
from duly.cli.invocation import Hidden, Invocation, require_file
from duly.cli.output import note, print_json, screen, without_password
from duly.duly import Duly
from duly.errors import Misuse, NotFound, StoreError
from duly.stores.migrations import Migration, migrations, pending


def register(commands: App) -> None:
    commands.command(migrate)


def migrate(
    *,
    sql: Annotated[bool, Parameter(help="Print the SQL for psql or sqlite3, and change nothing")] = False,
    status: Annotated[bool, Parameter(help="Show which migrations are applied and which are pending")] = False,
    invocation: Hidden,
) -> int:
    """Migrate the database: bring its tables up to date.

    Workers do this automatically when they start.
    """
    if sql and status:
        raise Misuse("--sql and --status cannot be used together: give one of them")
    duly = Duly(settings=invocation.duly().settings)
    if sql:
        return asyncio.run(_print_sql(duly, invocation))
    return asyncio.run(_print_status(duly, invocation) if status else _apply(duly, invocation))


async def _apply(duly: Duly, invocation: Invocation) -> int:
    async with _connected(duly):
        before = await duly.store.applied()
        applied = await duly.store.migrate()
        version = await duly.store.applied()
        not_ready = await found(duly.store.prepare_rls_role())
    if invocation.json:
        print_json({"applied": applied, "version": version, "api_not_ready": to_json(not_ready)})
        return 0
    for name in applied:
        screen().print(f"applied {name}")
    for migration in pending(duly.store.dialect, before) if before else ():
        if migration.note:
            note(f"note: {migration.note}")
    if not applied:
        screen().print(f"nothing to apply: the database is at migration {version}")
    tell(not_ready)
    return 0


async def _print_status(duly: Duly, invocation: Invocation) -> int:
    require_file(duly)
    async with _connected(duly):
        version = await duly.store.applied()
    known = migrations(duly.store.dialect)
    missing = pending(duly.store.dialect, version)
    if invocation.json:
        listed = [{"name": _name(migration), "applied": migration not in missing} for migration in known]
        print_json({"version": version, "current": not missing, "migrations": listed})
        return 0
    console = screen()
    for migration in known:
        state = ("pending", "yellow") if migration in missing else ("applied", "green")
        console.print(Text.assemble(state, f"  {_name(migration)}"))
    if version > known[-1].version:
        console.print(f"the database is at migration {version}: a newer Duly made it; this version can work with it")
    if missing:
        note("run `duly migrate` to apply the pending migrations, or `duly migrate --sql` to see it")
    return 0


async def _print_sql(duly: Duly, invocation: Invocation) -> int:
    not_ready = None
    try:
        require_file(duly)
        async with _connected(duly):
            version, login = await duly.store.applied(), await _login(duly)
            if not pending(duly.store.dialect, version):
                not_ready = await found(duly.store.require_rls_role())
    except (StoreError, NotFound) as error:
        note(f"note: this is the SQL for an empty database, because the database cannot be read: {error}")
        version, login = 0, user_of(duly.settings.database_url)
    missing = pending(duly.store.dialect, version)
    parts = [script(duly.store.dialect, missing)]
    if missing or (not_ready is not None and not_ready.sql):
        parts.append(duly.store.rls_role_script(login))
    else:
        tell(not_ready)
    written = "\n".join(filter(None, parts))
    if invocation.json:
        print_json({"from": version, "sql": written})
    elif written:
        sys.stdout.write(written)
    else:
        note(f"nothing to apply: {without_password(duly.settings.database_url)} is at migration {version}")
    return 0


async def _login(duly: Duly) -> str:
    """The user of the database, for whom the SQL is; empty on SQLite."""
    if duly.one_writer:
        return ""
    async with duly.store.begin() as tx:
        return str(await tx.fetchval("SELECT current_user"))


def script(dialect: str, missing: Sequence[Migration]) -> str:
    """SQL for one transaction that does the same as ``duly migrate``; empty when no migration is missing."""
    if not missing:
        return ""
    if dialect == "sqlite":
        from duly.stores.sqlite.store import MIGRATIONS_TABLE

        begin, now = ["BEGIN IMMEDIATE;"], "CAST(strftime('%s', 'now') AS integer) * 1000000"
        record = "INSERT INTO migrations (version, name, applied) VALUES ({version}, '{name}', {now});"
    else:
        from duly.stores.postgres.store import MIGRATION_LOCK, MIGRATIONS_TABLE

        begin, now = ["BEGIN;", f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK});"], "now()"
        record = "INSERT INTO duly.migrations (version, name, applied) VALUES ({version}, '{name}', {now});"
    guard = (_GUARD_SQLITE if dialect == "sqlite" else _GUARD_POSTGRES).format(first=missing[0].version)
    parts = [
        f"-- The tables of Duly, by `duly migrate --sql`. {_RUN[dialect]}",
        *begin,
        MIGRATIONS_TABLE.strip(),
        guard,
    ]
    for migration in missing:
        recorded = record.format(version=migration.version, name=migration.name, now=now)
        parts += ["", f"-- {_name(migration)}", migration.sql.strip(), recorded]
    return "\n".join([*parts, "COMMIT;", ""])


_APPLIED = "these migrations are applied already: there is nothing to do, and nothing was changed"

_GUARD_POSTGRES = f"""\
DO $$ BEGIN
    IF EXISTS (SELECT FROM duly.migrations WHERE version >= {{first}}) THEN RAISE EXCEPTION '{_APPLIED}'; END IF;
END $$;"""

# (SQLite raises errors of one's own in triggers alone, but it tells the name of a constraint.)
_GUARD_SQLITE = f"""\
CREATE TEMP TABLE duly_guard (applied integer CONSTRAINT "{_APPLIED}" CHECK (NOT applied));
INSERT INTO duly_guard SELECT EXISTS (SELECT 1 FROM migrations WHERE version >= {{first}});
DROP TABLE duly_guard;"""

_RUN = {
    "sqlite": "Run it once, with `sqlite3 -bail FILE`.",
    "postgres": "Run it once, with `psql -v ON_ERROR_STOP=1`.",
}


@asynccontextmanager
async def _connected(duly: Duly) -> AsyncIterator[None]:
    await duly.store.connect()
    try:
        yield
    finally:
        await duly.store.close()


def _name(migration: Migration) -> str:
    return f"{migration.version:04}_{migration.name}"
