"""The role of API requests where the user of the database may create none: what is missing is told, with the SQL."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duly import Forbidden
from duly.config import read_settings
from duly.errors import ApiNotReady, RightsMissing
from duly.stores.postgres.tenants.rls_role import RIGHTS, RIGHTS_OF_LOGIN
from duly.wiring import open_store
from tests.make import LANE, LEASE, START, make_new
from tests.modest import ModestDatabase
from tests.servers import run, wheel


@asynccontextmanager
async def store_on(database: ModestDatabase, **options: Any) -> AsyncIterator[Any]:
    store = open_store(read_settings({}, **(database.options | options)), None)
    await store.open(migrate=True)
    try:
        yield store
    finally:
        await store.close()


async def finding(store: Any) -> ApiNotReady:
    """What an administrator is told by who prepares the role. Who only looks tells the same, and what is prepared
    besides."""
    with pytest.raises(ApiNotReady) as looked:
        await store.require_rls_role()
    with pytest.raises(ApiNotReady) as prepared:
        await store.prepare_rls_role()
    assert set(prepared.value.sql) <= set(looked.value.sql)
    return prepared.value


async def tenants_seen(store: Any, tenant: str) -> set[str]:
    async with store.tenant_session(tenant, writes=True) as request:
        return {row[0] for row in await request.fetch("SELECT tenant FROM duly.events")}


@asynccontextmanager
async def ready(database: ModestDatabase) -> AsyncIterator[Any]:
    """A store whose role an administrator has prepared."""
    async with store_on(database) as store:
        database.as_admin("".join((await finding(store)).sql))
        await store.prepare_rls_role()
        await store.add([make_new(tenant=tenant) for tenant in ("acme", "beta")])
        assert await tenants_seen(store, "acme") == {"acme"}
        yield store


# -- what is missing, each by its name and its remedy


async def test_a_user_without_createrole_does_everything_that_needs_no_role(modest: ModestDatabase) -> None:
    async with store_on(modest) as store:
        await store.add([make_new(due=START)])
        [event] = await store.claim("w1", {LANE: 10}, LEASE)
        async with store.begin() as tx:
            await tx.note([(event.id, "noted", None)], "me")
        assert [entry.act for entry in await store.history(event.id)] == ["noted"]


async def test_a_role_that_does_not_exist_is_created_by_the_sql(modest: ModestDatabase) -> None:
    async with store_on(modest) as store:
        told = await finding(store)
        assert f"the role {modest.role} does not exist" in told.found
        assert modest.admin.rpartition("/")[2] in told.advice
        modest.as_admin("".join(told.sql))
        await store.require_rls_role()
        assert await store.prepare_rls_role() is False, "the SQL was all that was missing"
        await store.add([make_new(tenant="acme"), make_new(tenant="beta")])
        assert await tenants_seen(store, "acme") == {"acme"}


async def test_the_owner_of_the_tables_grants_what_an_administrator_left_to_it(modest: ModestDatabase) -> None:
    """One who may create roles, and no more, runs the first two statements."""
    async with store_on(modest) as store:
        modest.as_admin("".join((await finding(store)).sql[:2]))
        await store.require_rls_role()
        assert await store.prepare_rls_role() is True
        assert await tenants_seen(store, "acme") == set()


async def test_a_user_who_may_create_roles_prepares_its_role_alone(modest: ModestDatabase) -> None:
    modest.as_admin(f"ALTER ROLE {modest.user} CREATEROLE")
    async with store_on(modest) as store:
        await store.require_rls_role()
        assert await store.prepare_rls_role() is True
        assert await tenants_seen(store, "acme") == set()


async def test_a_role_that_the_user_is_no_member_of_is_told(modest: ModestDatabase) -> None:
    modest.as_admin(f"CREATE ROLE {modest.role} NOLOGIN")
    async with store_on(modest) as store:
        told = await finding(store)
        assert f"{modest.user} is not a member of {modest.role}" in told.found
        assert told.sql == (f"GRANT {modest.role} TO {modest.user} WITH INHERIT FALSE, SET TRUE;",)
        modest.as_admin(told.sql[0])
        await store.prepare_rls_role()
        assert await tenants_seen(store, "acme") == set()


@pytest.mark.parametrize("options", ["SET FALSE", "INHERIT TRUE, SET FALSE"])
async def test_a_membership_without_set_is_told(modest: ModestDatabase, options: str) -> None:
    modest.as_admin(f"CREATE ROLE {modest.role} NOLOGIN; GRANT {modest.role} TO {modest.user} WITH {options}")
    async with store_on(modest) as store:
        told = await finding(store)
        assert f"{modest.user} is a member of {modest.role}, but without the option SET" in told.found
        modest.as_admin(told.sql[0])
        await store.prepare_rls_role()
        assert await tenants_seen(store, "acme") == set()


async def test_a_membership_with_admin_option_is_enough_to_add_set(modest: ModestDatabase) -> None:
    modest.as_admin(f"CREATE ROLE {modest.role} NOLOGIN")
    modest.as_admin(f"GRANT {modest.role} TO {modest.user} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
    async with store_on(modest) as store:
        await store.prepare_rls_role()
        assert await tenants_seen(store, "acme") == set()


@pytest.mark.parametrize(
    ("revoked", "found"),
    [
        ("USAGE ON SCHEMA duly", "has no USAGE on the schema duly"),
        ("INSERT ON duly.events", "has no INSERT on duly.events"),
        ("SELECT, DELETE ON duly.users", "has no SELECT, DELETE on duly.users"),
        ("SELECT ON duly.history", "has no SELECT on duly.history"),
    ],
)
async def test_a_right_that_was_lost_is_granted_again_by_the_owner_and_told_to_others(
    modest: ModestDatabase, revoked: str, found: str
) -> None:
    """As after a restore without privileges."""
    async with ready(modest) as store:
        modest.as_admin(f"REVOKE {revoked} FROM {modest.role}")
        assert await store.prepare_rls_role() is True
        assert await tenants_seen(store, "acme") == {"acme"}
        modest.as_admin(f"REVOKE {revoked} FROM {modest.role}")
        modest.as_admin(f"ALTER SCHEMA duly OWNER TO postgres; GRANT USAGE ON SCHEMA duly TO {modest.user}")
        told = await finding(store)
        assert f"{modest.role} {found}" in told.found
        assert len(told.sql) == 1
        modest.as_admin(told.sql[0])
        await store.require_rls_role()
        assert await tenants_seen(store, "acme") == {"acme"}


async def test_a_database_restored_without_privileges_is_prepared_again(modest: ModestDatabase, tmp_path: Path) -> None:
    async with ready(modest):
        pass
    programs, dump = wheel() / "bin", str(tmp_path / "dump")
    run([f"{programs}/pg_dump", "--no-privileges", "--format=custom", f"--file={dump}", modest.url], env={})
    modest.as_admin("DROP SCHEMA duly CASCADE")
    run([f"{programs}/pg_restore", "--no-privileges", "--exit-on-error", f"--dbname={modest.url}", dump], env={})
    async with store_on(modest) as store:
        assert await store.prepare_rls_role() is True
        assert await tenants_seen(store, "acme") == {"acme"}
        async with store.begin() as tx:
            assert await tx.fetchval("SELECT duly.api_roles()") == ["duly_api", modest.role]


async def test_functions_of_the_policies_that_are_nobodys_are_granted(modest: ModestDatabase) -> None:
    async with ready(modest) as store:
        modest.as_admin("REVOKE EXECUTE ON FUNCTION duly.sees(uuid), duly.tells(uuid) FROM PUBLIC")
        assert await store.prepare_rls_role() is True
        async with store.tenant_session("acme", writes=True) as request:
            assert await request.fetch("SELECT FROM duly.history") == []


async def test_a_role_that_was_dropped_is_told_and_works_when_it_is_back(modest: ModestDatabase) -> None:
    """Also on the connections that were opened before."""
    async with ready(modest) as store:
        async with store.tenant_session("acme", writes=False) as request:
            assert await request.by_key("acme", "k") is None
        modest.as_admin(f"DROP OWNED BY {modest.role}; DROP ROLE {modest.role}")
        with pytest.raises(RightsMissing):
            await tenants_seen(store, "acme")
        told = await finding(store)
        assert f"the role {modest.role} does not exist" in told.found
        modest.as_admin("".join(told.sql))
        await store.prepare_rls_role()
        assert await tenants_seen(store, "acme") == {"acme"}
        async with store.tenant_session("acme", writes=False) as request:
            assert await request.by_key("acme", "k") is None


async def test_tables_of_a_later_migration_are_granted_by_the_user_that_migrates(
    modest: ModestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ready(modest) as store:
        async with store.begin() as tx:
            await tx.execute("CREATE TABLE duly.later (tenant text); ALTER TABLE duly.later ENABLE ROW LEVEL SECURITY")
        monkeypatch.setitem(RIGHTS, "later", ("SELECT", "INSERT"))
        await store.require_rls_role()
        assert await store.prepare_rls_role() is True
        async with store.tenant_session("acme", writes=True) as request:
            assert await request.fetch("SELECT FROM duly.later") == []


# -- a role of another name is confined as well


async def test_a_role_of_another_name_is_confined_beside_the_usual_one(modest: ModestDatabase) -> None:
    async with ready(modest) as store, store.begin() as tx:
        assert await tx.fetchval("SELECT duly.api_roles()") == ["duly_api", modest.role]
        await tx.execute(f"SET LOCAL ROLE {modest.role}")
        assert await tx.fetchval("SELECT duly.confined()")
        assert await tx.fetch("SELECT FROM duly.events") == [], "no tenant is set"


async def test_a_role_that_row_level_security_does_not_know_is_refused(modest: ModestDatabase) -> None:
    async with ready(modest) as store:
        modest.as_admin(
            "CREATE OR REPLACE FUNCTION duly.api_roles() RETURNS name[] LANGUAGE sql STABLE "
            "AS $$ SELECT '{a}'::name[] $$;"
            f"ALTER SCHEMA duly OWNER TO postgres; GRANT ALL ON ALL TABLES IN SCHEMA duly TO {modest.user};"
            f"GRANT USAGE ON SCHEMA duly TO {modest.user}"
        )
        told = await finding(store)
        assert f"row-level security does not confine {modest.role}" in told.found
        modest.as_admin("".join(told.sql))
        await store.prepare_rls_role()
        assert await tenants_seen(store, "acme") == {"acme"}


async def test_roles_that_are_added_at_once_are_all_confined(modest: ModestDatabase) -> None:
    """What one server prints or runs must not undo what another one has."""
    async with store_on(modest) as store:

        async def add(name: str) -> None:
            async with store.lend() as tx:
                await tx.fetch("SELECT duly.add_api_role($1)", name)

        names = [f"role_{n}" for n in range(12)]
        await asyncio.gather(*(add(name) for name in names), *(add(name) for name in names))
        async with store.begin() as tx:
            assert sorted(await tx.fetchval("SELECT duly.api_roles()")) == sorted(["duly_api", *names])


async def test_only_the_owner_adds_roles(modest: ModestDatabase) -> None:
    async with ready(modest) as store:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with store.tenant_session("acme", writes=True) as request:
                await request.execute("SELECT duly.add_api_role('x')")


# -- the script for an administrator


@pytest.mark.parametrize("role", ["the given one", None])
async def test_the_script_lets_a_user_who_owns_nothing_serve(modest: ModestDatabase, role: str | None) -> None:
    options = {} if role else {"api_role": "off"}
    admin = ModestDatabase(modest.admin, modest.admin, "postgres", modest.role)
    async with store_on(admin, **options) as owner:
        script = owner.rls_role_script(modest.user)
    for _ in range(2):
        modest.as_admin(script)  # a second time, it changes nothing
    async with store_on(modest, **options) as store:
        await store.prepare_rls_role()
        await store.add([make_new(tenant="default")])
        assert await tenants_seen(store, "default") == {"default"}
        await store.forget_requests(10)
        assert await store.any_key() is False


def test_the_documentation_lists_the_rights_of_the_login() -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    granted = {
        (table.removeprefix("duly."), right)
        for rights, tables in re.findall(r"^GRANT ([A-Z, ]+) ON (duly\..*?) TO app;", page, re.MULTILINE)
        for table in tables.split(", ")
        for right in rights.split(", ")
    }
    assert granted == {(table, right) for table, rights in RIGHTS_OF_LOGIN.items() for right in rights}


# -- without row-level security


async def test_off_needs_no_role_and_serves_the_tenant_default_alone(modest: ModestDatabase) -> None:
    async with store_on(modest, api_role="off") as store:
        await store.prepare_rls_role()
        await store.add([make_new(tenant="default")])
        for writes in (True, False):
            async with store.tenant_session("default", writes=writes) as request:
                assert await request.by_key("default", "k") is None
                [added] = await request.put([make_new(tenant="default", key=f"k{writes}")])
                assert added.change == "created"
            with pytest.raises(Forbidden, match="serves only the tenant default"):
                async with store.tenant_session("acme", writes=writes):
                    pass


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO duly.api_keys (id, tenant, name, scope, hash, hint, created) "
        "VALUES (gen_random_uuid(), 'acme', 'k', 'read', 'h', 'h', now())",
        "INSERT INTO duly.targets VALUES (gen_random_uuid(), 'acme', 'crm', 'webhook', '{}', NULL, now(), now())",
    ],
)
async def test_off_is_refused_where_there_is_another_tenant(modest: ModestDatabase, sql: str) -> None:
    async with store_on(modest, api_role="off") as store:
        await store.require_rls_role()
        async with store.begin() as tx:
            await tx.execute(sql)
        told = await finding(store)
        assert "'acme'" in told.found
        assert told.sql == ()


async def test_off_is_refused_where_another_tenant_has_events_until_they_are_gone(modest: ModestDatabase) -> None:
    async with store_on(modest, api_role="off") as store:
        await store.add([make_new(tenant=tenant) for tenant in ("default", "acme", "beta")])
        assert "'acme', 'beta'" in (await finding(store)).found
        async with store.begin() as tx:
            await tx.execute("DELETE FROM duly.events WHERE tenant <> 'default'")
        await store.prepare_rls_role()


async def test_a_key_of_another_tenant_that_is_revoked_does_not_count(modest: ModestDatabase) -> None:
    async with store_on(modest, api_role="off") as store:
        async with store.begin() as tx:
            await tx.execute(
                "INSERT INTO duly.api_keys (id, tenant, name, scope, hash, hint, created, revoked) "
                "VALUES (gen_random_uuid(), 'acme', 'k', 'read', 'h', 'h', now(), now())"
            )
        await store.require_rls_role()
