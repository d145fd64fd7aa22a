"""`duly migrate`, `doctor` and `serve` by a user of PostgreSQL who may create no roles."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from duly import Duly
from tests.cli.conftest import Shell, Spawn, wait_until
from tests.cli.test_serve import address, ask
from tests.modest import ModestDatabase
from tests.servers import Postgres

TIMER = {"after": "1h", "type": "greet"}


@pytest.fixture
def shop(shell: Shell, modest: ModestDatabase) -> Shell:
    shell.set(DULY_DATABASE_URL=modest.url, DULY_API_ROLE=modest.role)
    return shell


def variables(modest: ModestDatabase, **more: str) -> dict[str, str]:
    return {"DULY_DATABASE_URL": modest.url, "DULY_API_ROLE": modest.role} | more


def role_check(shell: Shell) -> dict[str, object]:
    [found] = [check for check in shell("doctor", "--json").json["checks"] if check["subject"] == "API role"]
    return dict(found)


def sql_of(text: str) -> str:
    """The statements among lines for people."""
    return "\n".join(
        line.strip() for line in text.splitlines() if line.strip().startswith(("CREATE", "GRANT", "SELECT"))
    )


# -- duly migrate


def test_migrate_applies_all_that_it_can_and_tells_the_rest(shop: Shell, modest: ModestDatabase) -> None:
    done = shop("migrate")
    assert done.code == 0
    assert "applied 0001_events\n" in done.out
    assert f"the role {modest.role} does not exist" in done.err
    assert "everything but the HTTP API can be used" in done.err
    modest.as_admin(sql_of(done.err))
    again = shop("migrate")
    assert (again.code, again.err) == (0, "")


def test_migrate_tells_programs_in_json_what_is_missing(shop: Shell, modest: ModestDatabase) -> None:
    told = shop("migrate", "--json").json["api_not_ready"]
    assert f"the role {modest.role} does not exist" in told["found"]
    assert told["sql"][0] == f"CREATE ROLE {modest.role} NOLOGIN;"
    modest.as_admin("".join(told["sql"]))
    assert shop("migrate", "--json").json["api_not_ready"] is None


def test_migrate_prepares_the_role_for_a_user_who_may(shell: Shell, modest: ModestDatabase) -> None:
    shell.set(DULY_DATABASE_URL=modest.admin, DULY_API_ROLE=modest.role)
    done = shell("migrate")
    assert (done.code, done.err) == (0, "")
    assert modest.as_admin(f"SELECT has_table_privilege('{modest.role}', 'duly.events', 'INSERT')") == [(True,)]


def test_migrate_needs_no_role_where_it_is_off(shop: Shell) -> None:
    shop.set(DULY_API_ROLE="off")
    done = shop("migrate")
    assert (done.code, done.err) == (0, "")
    assert shop("doctor", "--json").json["checks"]
    assert "without row-level security" in str(role_check(shop)["found"])


def test_the_printed_sql_is_all_that_a_user_without_rights_needs(shop: Shell, modest: ModestDatabase) -> None:
    """An administrator runs it as one script, owns the tables then, and the user serves."""
    printed = shop("migrate", "--sql")
    assert printed.code == 0
    modest.as_admin(printed.out)
    assert role_check(shop)["level"] == "ok"
    again = shop("migrate", "--sql")
    assert (again.out, "nothing to apply" in again.err) == ("", True)

    async def works() -> None:
        async with Duly(**modest.options, migrate=False) as duly:
            await duly.store.prepare_rls_role()
            event = await duly.after("1h", "greet", key="k")
            await duly.keys.create("k")
            async with duly.store.tenant_session("default", writes=True) as request:
                assert (await request.by_key("default", "k")) is not None
            assert (await duly.events.get(event.id)).key == "k"

    asyncio.run(works())


def test_the_printed_sql_of_a_current_database_has_the_role_that_is_missing(
    shop: Shell, modest: ModestDatabase
) -> None:
    shop("migrate")
    printed = shop("migrate", "--sql").out
    assert f'CREATE ROLE "{modest.role}" NOLOGIN' in printed
    assert "CREATE TABLE" not in printed
    modest.as_admin(printed)
    assert role_check(shop)["level"] == "ok"


def test_the_printed_sql_names_the_user_of_the_url_where_the_database_cannot_be_read(shell: Shell) -> None:
    printed = shell("migrate", "--sql", "--db", "postgresql://ada%22s@127.0.0.1:1/x").out
    assert 'GRANT "duly_api" TO "ada""s"' in printed
    assert 'GRANT SELECT ON duly.migrations, duly.history TO "ada""s";' in printed
    assert "CREATE ROLE" not in shell("migrate", "--sql", "--db", "sqlite:///new.db").out


# -- duly doctor


def test_doctor_fails_and_prints_the_sql(shop: Shell, modest: ModestDatabase) -> None:
    shop("migrate")
    done = shop("doctor")
    assert done.code == 1
    assert "FAIL  API role" in done.out
    assert f"the role {modest.role} does not exist" in done.out.replace("\n", " ")
    found = role_check(shop)
    assert found["level"] == "fail"
    statements = found["sql"]
    assert isinstance(statements, list)
    for statement in statements:
        assert statement[:40] in done.out
    modest.as_admin("".join(statements))
    assert role_check(shop) == {
        "level": "ok",
        "subject": "API role",
        "found": modest.role,
        "advice": None,
        "sql": [],
        "fix": None,
    }


def test_doctor_does_not_change_what_it_examines(shop: Shell, modest: ModestDatabase) -> None:
    modest.as_admin(f"ALTER ROLE {modest.user} CREATEROLE")

    async def migrate() -> None:
        async with Duly(modest.url):
            pass

    asyncio.run(migrate())
    assert role_check(shop)["level"] == "ok", "a server may create it when it starts"
    assert modest.as_admin(f"SELECT FROM pg_roles WHERE rolname = '{modest.role}'") == []


def test_doctor_says_nothing_of_roles_on_sqlite(lite: Shell) -> None:
    for role in ("duly_api", "other", "off"):
        lite.set(DULY_API_ROLE=role)
        assert "API role" not in lite("doctor").out


# -- duly serve


def test_serve_logs_the_sql_and_serves_without_a_restart_when_it_was_run(spawn: Spawn, modest: ModestDatabase) -> None:
    process = spawn("serve", "--port", "0", **variables(modest))
    base = address(process)
    wait_until(lambda: "api.not_ready" in process.output, told=lambda: process.output)
    told = ask("GET", f"{base}/readyz")
    assert (told.status_code, f"the role {modest.role} does not exist" in told.text) == (503, True)
    refused = ask("PUT", f"{base}/v1/timers/a", json=TIMER)
    assert refused.status_code == 503
    modest.as_admin(refused.json()["detail"].partition("\n\n")[2])
    wait_until(lambda: ask("GET", f"{base}/readyz").status_code == 200, told=lambda: process.output)
    assert ask("PUT", f"{base}/v1/timers/a", json=TIMER).status_code == 201
    assert process.output.count("api.not_ready") == 1
    assert process.stop() == 0, process.output
    assert "Traceback" not in process.output


def test_a_worker_of_a_server_without_its_role_works(shop: Shell, spawn: Spawn, modest: ModestDatabase) -> None:
    process = spawn("serve", "--port", "0", "--app", "shop", **variables(modest))
    wait_until(lambda: "api.not_ready" in process.output, told=lambda: process.output)
    shop.at("now", "--type", "greet", "--payload", '"ada"')
    wait_until(lambda: shop.told() == ["hello ada"], told=lambda: process.output)
    assert process.stop() == 0, process.output


def test_serve_without_row_level_security_serves_the_tenant_default(spawn: Spawn, modest: ModestDatabase) -> None:
    process = spawn("serve", "--port", "0", **variables(modest, DULY_API_ROLE="off"))
    base = address(process)
    wait_until(lambda: ask("GET", f"{base}/readyz").status_code == 200, told=lambda: process.output)
    assert ask("PUT", f"{base}/v1/timers/a", json=TIMER).status_code == 201
    assert process.stop() == 0, process.output


def test_serve_without_row_level_security_refuses_to_start_with_several_tenants(
    shop: Shell, modest: ModestDatabase
) -> None:
    shop.set(DULY_API_ROLE="off")
    made = shop("keys", "create", "crm", "--tenant", "acme", "--json").json
    refused = shop("serve", "--port", "0")
    assert refused.code == 2
    assert "DULY_API_ROLE=off is for one tenant" in refused.err
    assert "'acme'" in refused.err
    assert "Traceback" not in refused.err
    assert shop("keys", "revoke", made["id"]).code == 0
    assert "'acme'" not in str(role_check(shop)["found"])


def test_a_key_that_servers_would_refuse_is_told_when_it_is_made(shop: Shell) -> None:
    shop.set(DULY_API_ROLE="off")
    assert "servers refuse it" in shop("keys", "create", "crm", "--tenant", "acme").err
    assert "servers refuse it" not in shop("keys", "create", "crm").err


# -- the usual name, on a server that has never had a Duly


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_the_role_of_the_usual_name_needs_no_setting(shell: Shell, server: Postgres) -> None:
    admin = server.create_database("sold")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
        connection.execute("ALTER DATABASE sold OWNER TO app")
        shell.set(DULY_DATABASE_URL=admin.replace("postgres@", "app@"))
        told = shell("migrate")
        assert "the role duly_api does not exist" in told.err
        assert role_check(shell)["level"] == "fail"
        connection.execute(sql_of(told.err).encode())
        assert role_check(shell)["level"] == "ok"
