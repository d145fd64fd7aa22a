"""``duly migrate``: applies, tells, and prints SQL that others can run."""

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from duly import Duly, StoreError
from duly.cli.migrate import script
from duly.errors import SchemaMismatch
from duly.stores.migrations import Migration, migrations
from tests.cli.conftest import Shell


async def works(url: str) -> str:
    """Use it without migrating: the id of an event that was stored and found."""
    async with Duly(url, migrate=False) as duly:
        event = await duly.at(await duly.store.now(), "greet")
        return (await duly.events.get(event.id)).id


def test_migrate_tells_what_it_applied_and_does_it_once(shell: Shell, empty_url: str) -> None:
    first, second = shell("migrate", "--db", empty_url), shell("migrate", "--db", empty_url)
    assert "applied 0001_events\n" in first.out
    assert second.out.startswith("nothing to apply")
    assert asyncio.run(works(empty_url))


def test_a_change_that_people_notice_is_told_when_an_existing_database_is_migrated(
    shell: Shell, tmp_path: Path
) -> None:
    older = [one for one in migrations("sqlite") if one.version < 8]
    with closing(apsw.Connection(str(tmp_path / "older.db"))) as connection:
        connection.execute(script("sqlite", older))
    upgraded = shell("migrate", "--db", f"sqlite:///{tmp_path}/older.db")
    assert "note: admin keys that were made before may still name any tenant" in upgraded.err.replace("\n", " ")
    assert "note:" not in shell("migrate", "--db", f"sqlite:///{tmp_path}/new.db").err


def test_migrate_tells_programs_in_json_what_it_applied(shell: Shell, empty_url: str) -> None:
    first, second = (shell("migrate", "--db", empty_url, "--json").json for _ in range(2))
    assert first["applied"][0] == "0001_events"
    assert second == {"applied": [], "version": first["version"], "api_not_ready": None}


def test_status_tells_what_is_pending_and_applies_nothing(shell: Shell, new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    for _ in range(2):
        done = shell("migrate", "--status", "--db", url)
        assert done.code == 0
        assert "pending  0001_events" in done.out
        assert "duly migrate" in done.err
    assert shell("migrate", "--status", "--db", url, "--json").json["current"] is False
    shell("migrate", "--db", url)
    assert "applied  0001_events" in shell("migrate", "--status", "--db", url).out
    assert shell("migrate", "--status", "--db", url, "--json").json["current"] is True


def test_commands_that_only_read_do_not_migrate(shell: Shell, new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    done = shell("events", "list", "--db", url)
    assert done.code == 1
    assert "run `duly migrate`" in done.err
    assert shell("migrate", "--status", "--db", url, "--json").json["version"] == 0


def test_the_printed_sql_makes_a_sqlite_database_that_duly_accepts(shell: Shell, tmp_path: Path) -> None:
    url = "sqlite:///by-hand.db"
    printed = shell("migrate", "--sql", "--db", url)
    assert printed.code == 0
    with closing(apsw.Connection(str(tmp_path / "by-hand.db"))) as connection:
        connection.execute(printed.out)
    assert asyncio.run(works(url))
    assert shell("migrate", "--db", url).out.startswith("nothing to apply")


def test_the_printed_sql_makes_a_postgres_database_that_duly_accepts(
    shell: Shell, new_postgres: Callable[[], str]
) -> None:
    url = new_postgres()
    printed = shell("migrate", "--sql", "--db", url)
    assert printed.code == 0
    with pytest.raises(SchemaMismatch):
        asyncio.run(works(url))  # printing it has changed nothing
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(printed.out.encode())
    assert asyncio.run(works(url))
    assert shell("migrate", "--db", url).out.startswith("nothing to apply")


def test_the_printed_sql_makes_the_tables_that_migrate_makes(shell: Shell, tmp_path: Path) -> None:
    shell("migrate", "--db", "sqlite:///a.db")
    with closing(apsw.Connection(str(tmp_path / "b.db"))) as connection:
        connection.execute(shell("migrate", "--sql", "--db", "sqlite:///b.db").out)
    tables = []
    for name in ("a.db", "b.db"):
        with closing(apsw.Connection(str(tmp_path / name))) as connection:
            tables.append(set(connection.execute("SELECT type, name, sql FROM sqlite_schema")))
            tables.append(set(connection.execute("SELECT version, name FROM migrations")))
    assert tables[:2] == tables[2:]


def test_the_printed_sql_says_when_it_was_applied_before(
    shell: Shell, tmp_path: Path, new_postgres: Callable[[], str]
) -> None:
    printed = shell("migrate", "--sql", "--db", "sqlite:///c.db").out
    with closing(apsw.Connection(str(tmp_path / "c.db"))) as connection:
        connection.execute(printed)
        before = set(connection.execute("SELECT sql FROM sqlite_schema"))
        with pytest.raises(apsw.ConstraintError, match="these migrations are applied already: there is nothing to do"):
            connection.execute(printed)
        connection.execute("ROLLBACK")
        assert set(connection.execute("SELECT sql FROM sqlite_schema")) == before
    url = new_postgres()
    printed = shell("migrate", "--sql", "--db", url).out
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(printed.encode())
        with pytest.raises(psycopg.errors.RaiseException, match="these migrations are applied already"):
            connection.execute(printed.encode())
    assert asyncio.run(works(url))


def test_the_printed_sql_of_a_current_database_is_empty(on: Shell) -> None:
    done = on("migrate", "--sql")
    assert (done.code, done.out) == (0, "")
    assert "nothing to apply" in done.err
    assert on("migrate", "--sql", "--json").json["sql"] == ""


def test_the_printed_sql_starts_from_the_version_the_database_has() -> None:
    missing = [Migration(2, "schedules", "CREATE TABLE more (id text);")]
    for dialect in ("sqlite", "postgres"):
        written = script(dialect, missing)
        assert "CREATE TABLE more" in written
        assert "(2, 'schedules', " in written
        assert "0001" not in written


def test_the_printed_sql_of_an_unreachable_database_is_for_an_empty_one(shell: Shell) -> None:
    done = shell("migrate", "--sql", "--db", "postgresql://127.0.0.1:1/x")
    assert done.code == 0
    assert "CREATE TABLE duly.events" in done.out
    assert "for an empty database" in done.err


def test_migrating_a_database_that_cannot_be_reached_fails(shell: Shell) -> None:
    done = shell("migrate", "--db", "postgresql://127.0.0.1:1/x")
    assert done.code == 1
    assert "check that the database is running" in done.err


def test_migrating_as_a_user_without_rights_says_so(shell: Shell, clean_postgres: str) -> None:
    with psycopg.connect(clean_postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS weak")
        connection.execute("CREATE ROLE weak LOGIN")
    url = clean_postgres.replace("postgres@", "weak@")
    shell("migrate", "--db", clean_postgres)
    for words in (["migrate"], ["events", "list"], ["at", "now", "--type", "greet"], ["doctor"]):
        done = shell(*words, "--db", url)
        assert done.code == 1
        assert "permission denied" in done.out + done.err
        assert "Traceback" not in done.err
    with pytest.raises(StoreError, match="permission denied"):
        asyncio.run(works(url))


@pytest.mark.skipif(subprocess.call(["which", "psql"], stdout=subprocess.DEVNULL) != 0, reason="psql is not installed")
def test_psql_runs_the_printed_sql(shell: Shell, new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    sql = shell("migrate", "--sql", "--db", url).out
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", url], input=sql, text=True, check=True, capture_output=True)
    assert asyncio.run(works(url))
