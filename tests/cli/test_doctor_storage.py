"""``duly doctor`` about tables: old snapshots, indexes, permissions, dead rows, zone data; and what it fixes."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly import Duly
from duly.cli.doctor import snapshot_checks, storage_checks
from duly.stores.indexes import indexes
from tests.brokers import NatsServer
from tests.cli.conftest import Shell
from tests.cli.test_doctor import break_rows, checks, every
from tests.modest import ModestDatabase
from tests.servers import Postgres, free_port


@pytest.fixture
def pg(shell: Shell, clean_postgres: str) -> Shell:
    shell.set(DULY_DATABASE_URL=clean_postgres)
    shell("migrate")
    return shell


# -- who holds the oldest snapshot


def test_a_transaction_that_stays_open_is_named_with_the_sql_that_ends_it(
    pg: Shell, clean_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_checks, "LONG", -snapshot_checks.LONG)
    with psycopg.connect(clean_postgres, application_name="report") as held:
        held.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        held.execute("SELECT 1")
        found = checks(pg)["snapshots"]
        pid = held.info.backend_pid
        assert found["level"] == "warn"
        assert found["found"].startswith(f"backend {pid} (postgres, report, idle in transaction, query: SELECT 1)")
        assert " has held a snapshot for " in found["found"]
        assert found["sql"] == [f"SELECT pg_terminate_backend({pid});"]
        with psycopg.connect(clean_postgres, autocommit=True) as admin:
            admin.execute(found["sql"][0])
        with pytest.raises(psycopg.OperationalError):
            held.execute("SELECT 1")
    assert checks(pg)["snapshots"]["found"].startswith("nobody has held one")


@pytest.fixture(scope="module")
def logical() -> Iterator[Postgres]:
    with Postgres(settings={"max_prepared_transactions": "2", "wal_level": "logical"}) as server:
        yield server


def test_prepared_transactions_and_replication_slots_are_named_too(
    shell: Shell, logical: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = logical.create_database("held")
    shell.set(DULY_DATABASE_URL=url)
    shell("migrate")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE TABLE t (x int)")
        admin.execute("BEGIN; INSERT INTO t VALUES (1)")
        admin.execute("PREPARE TRANSACTION 'it''s left'")
    monkeypatch.setattr(snapshot_checks, "LONG", -snapshot_checks.LONG)
    monkeypatch.setattr(snapshot_checks, "MANY_TRANSACTIONS", -1)
    [prepared] = every(shell, "snapshots")
    assert prepared["found"].startswith("prepared transaction it's left (postgres) has held a snapshot for ")
    assert prepared["sql"] == ["ROLLBACK PREPARED 'it''s left';"]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(prepared["sql"][0])
        admin.execute("SELECT pg_create_logical_replication_slot('copy', 'pgoutput')")
        [slot] = every(shell, "snapshots")
        assert slot["found"].startswith("replication slot copy (nobody reads from it) has held a snapshot")
        assert slot["sql"] == ["SELECT pg_drop_replication_slot('copy');"]
        admin.execute(slot["sql"][0])
    assert checks(shell)["snapshots"]["level"] == "ok"


# -- indexes


def test_the_indexes_of_the_migrations_are_those_of_a_database(on: Shell, url: str) -> None:
    async def there() -> set[str]:
        async with Duly(url) as duly, duly.transaction() as tx:
            if duly.one_writer:
                rows = await tx.fetch("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
            else:
                rows = await tx.fetch(
                    "SELECT indexname FROM pg_indexes WHERE schemaname = 'duly' AND indexname NOT IN "
                    "(SELECT conname FROM pg_constraint)"
                )
            return {row[0] for row in rows}

    assert set(indexes("sqlite" if url.startswith("sqlite") else "postgres")) == asyncio.run(there())


def test_a_missing_index_fails_and_its_statement_creates_it_again(on: Shell, url: str) -> None:
    assert checks(on)["indexes"]["level"] == "ok"
    break_rows(url, "DROP INDEX duly.events_waiting")
    found = checks(on)["indexes"]
    assert (found["level"], found["found"]) == ("fail", "events_waiting is missing")
    assert on("doctor").code == 1
    if url.startswith("sqlite"):
        assert "created events_waiting" in on("doctor", "--fix", "--json").json["fixed"]
    else:
        break_rows(url, *found["sql"])
    assert checks(on)["indexes"]["level"] == "ok"


def test_an_index_that_was_left_half_built_fails_with_how_to_build_it(pg: Shell, clean_postgres: str) -> None:
    with psycopg.connect(clean_postgres, autocommit=True) as admin:
        admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'duly.events_dead'::regclass")
        found = checks(pg)["indexes"]
        assert (found["level"], found["found"]) == ("fail", "events_dead is invalid")
        admin.execute(found["sql"][0])
    assert checks(pg)["indexes"]["level"] == "ok"


def test_claims_that_read_the_whole_table_are_a_warning(
    pg: Shell, clean_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks(pg)["claims"]["level"] == "ok"
    monkeypatch.setattr(storage_checks, "CLAIM", "SELECT id FROM {events}")
    monkeypatch.setattr(storage_checks, "ROWS_TO_ANALYSE", -2)
    found = checks(pg)["claims"]
    assert (found["level"], found["found"]) == ("warn", "a claim looks through the whole table of events")


# -- permissions


def test_a_user_without_a_privilege_is_told_which_with_the_sql_that_grants_it(
    shell: Shell, modest: ModestDatabase
) -> None:
    shell.set(DULY_DATABASE_URL=modest.admin)
    shell("migrate")
    assert checks(shell)["permissions"]["level"] == "ok"
    for given in ("USAGE ON SCHEMA duly", "SELECT ON ALL TABLES IN SCHEMA duly"):
        modest.as_admin(f"GRANT {given} TO {modest.user}")
    shell.set(DULY_DATABASE_URL=modest.url)
    found = checks(shell)["permissions"]
    assert (found["level"], "INSERT, UPDATE, DELETE on duly.events" in found["found"]) == ("warn", True)
    for statement in found["sql"]:
        modest.as_admin(statement)
    assert checks(shell)["permissions"]["level"] == "ok"


def test_a_file_that_everybody_may_read_is_a_warning_until_it_is_fixed(lite: Shell) -> None:
    lite("migrate")
    file: Path = lite.folder / "duly.db"
    assert checks(lite)["permissions"]["level"] == "ok"
    file.chmod(0o644)
    found = checks(lite)["permissions"]
    assert (found["level"], found["fix"]) == ("warn", "mode")
    assert "every user of this machine may read" in found["found"]
    done = lite("doctor", "--fix")
    assert (done.code, "from users other than its owner and group" in done.err) == (0, True)
    assert file.stat().st_mode & 0o777 == 0o640
    assert lite("doctor", "--fix").err == "nothing to fix\n"


# -- dead rows and statistics


def test_dead_rows_that_vacuum_did_not_remove_are_a_warning_with_what_to_run(
    pg: Shell, clean_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_checks, "DEAD_ROWS", 5)
    with psycopg.connect(clean_postgres, autocommit=True) as admin:
        admin.execute("VACUUM")  # what tests before this one have left
        admin.execute("SELECT pg_stat_force_next_flush()")
        assert checks(pg)["bloat"]["level"] == "ok"
        admin.execute("ALTER TABLE duly.lanes SET (autovacuum_enabled = false)")
        admin.execute("INSERT INTO duly.lanes SELECT n::text, now() FROM generate_series(1, 20) AS n")
        admin.execute("DELETE FROM duly.lanes")
        admin.execute("SELECT pg_stat_force_next_flush()")
        found = checks(pg)["bloat"]
        assert found["level"] == "warn"
        assert found["found"].startswith("lanes has 20 dead rows beside 0 others; last vacuumed: ")
        assert found["sql"] == ["VACUUM (ANALYZE) duly.lanes;"]
        admin.execute(found["sql"][0])
        admin.execute("SELECT pg_stat_force_next_flush()")
    assert "lanes" not in checks(pg)["bloat"]["found"]


def test_tables_that_were_never_analysed_are_a_warning_until_they_are(
    pg: Shell, clean_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_checks, "ROWS_TO_ANALYSE", 50)
    with psycopg.connect(clean_postgres, autocommit=True) as admin:
        admin.execute("ALTER TABLE duly.journal SET (autovacuum_enabled = false)")
        admin.execute("SELECT pg_stat_reset_single_table_counters('duly.journal'::regclass)")
        admin.execute(
            "INSERT INTO duly.journal (subject, at, act) "
            "SELECT gen_random_uuid(), now(), 'x' FROM generate_series(1, 99)"
        )
        admin.execute("SELECT pg_stat_force_next_flush()")
        found = checks(pg)["statistics"]
        assert (found["level"], found["found"]) == (
            "warn",
            "journal has 99 rows and was never analysed: the planner guesses",
        )
        assert "analysed events, journal, schedules and users\n" in pg("doctor", "--fix").err
        assert "statistics" not in checks(pg)
        admin.execute("DELETE FROM duly.journal")


def test_a_file_with_mostly_free_pages_is_a_warning(lite: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    lite("migrate")
    assert checks(lite)["bloat"]["level"] == "ok"
    monkeypatch.setattr(storage_checks, "FREE_BYTES", 0)
    break_rows(f"sqlite:///{lite.folder}/duly.db", "CREATE TABLE big (x)", "INSERT INTO big VALUES (zeroblob(9000000))")
    break_rows(f"sqlite:///{lite.folder}/duly.db", "DROP TABLE big")
    found = checks(lite)["bloat"]
    assert (found["level"], "MB are free pages" in found["found"]) == ("warn", True)
    sqlite3.connect(lite.folder / "duly.db").execute("VACUUM").connection.close()
    assert checks(lite)["bloat"]["level"] == "ok"


# -- zone data


def test_next_events_of_older_zone_data_are_a_warning_until_they_are_planned_again(on: Shell, url: str) -> None:
    on("schedules", "put", "nightly", "--cron", "0 2 * * *", "--timezone", "Europe/Brussels", "--type", "greet")
    assert checks(on)["zone data"]["level"] == "ok"
    break_rows(url, "UPDATE duly.events SET zone_data = '2020a'")
    found = checks(on)["zone data"]
    assert (found["level"], found["fix"]) == ("warn", "replan")
    assert found["found"].startswith("1 next event was planned by older data than ")
    fixed = on("doctor", "--fix", "--json").json["fixed"]
    assert "planned next events again with this host's zone data; 0 events moved" in fixed
    assert checks(on)["zone data"]["level"] == "ok"
    break_rows(url, "UPDATE duly.events SET zone_data = '2099a'")
    found = checks(on)["zone data"]
    assert (found["level"], found["advice"][:27]) == ("warn", "pip install --upgrade tzdat")


# -- NATS


@pytest.mark.parametrize(
    ("durable", "level", "said"), [(True, "ok", "sync_interval always"), (False, "warn", "a power cut loses")]
)
def test_what_nats_loses_in_a_power_cut_is_told(lite: Shell, durable: bool, level: str, said: str) -> None:
    port = free_port()
    with NatsServer(durable=durable, more=f'http: "127.0.0.1:{port}"') as broker:
        lite.set(DULY_NATS_URL=broker.url)
        lite("migrate")
        found: dict[str, Any] = checks(lite, "--nats-monitor", f"http://127.0.0.1:{port}")
        assert found["NATS"]["level"] == "ok"
        assert found["NATS on disk"]["level"] == level
        assert said in found["NATS on disk"]["found"]
        silent = checks(lite, "--nats-monitor", f"http://127.0.0.1:{free_port()}")["NATS on disk"]
        assert (silent["level"], "does not say how often it syncs" in silent["found"]) == ("warn", True)
        wrong = checks(lite, "--nats-monitor", "file:///etc/passwd")["NATS on disk"]
        assert (wrong["level"], "expected an address such as http" in wrong["found"]) == ("warn", True)
