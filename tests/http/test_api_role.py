"""The API on a database whose user may create no roles: what it answers until an administrator has prepared the role,
and that everything works then, or with DULY_API_ROLE=off."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from duly import Duly, Event, Rejected
from duly.api.access import preparation
from duly.api.app import create_api
from duly.stores.postgres.tenants.tenant_session import PostgresTenantSession
from tests.http.calling import Caller
from tests.http.tenants import SECRET_KEY
from tests.make import a_user
from tests.modest import ModestDatabase

TIMER = {"due_at": "2030-01-01T00:00:00Z", "type": "greet"}
DAILY = {"type": "report", "rule": {"cron": "0 3 * * *"}}
HOOK = {"url": "https://hooks.example/duly"}


@asynccontextmanager
async def calling(database: ModestDatabase, *, keyless: bool | str = True, **options: Any) -> AsyncIterator[Caller]:
    """A caller of an application that makes its API before it opens its Duly."""
    app = Duly(**(database.options | {"secret_key": SECRET_KEY} | options))
    api = create_api(app, keyless=keyless)
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with app, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Caller(app, api, client)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is not ready is looked at for each request."""
    monkeypatch.setattr(preparation, "EXAMINED_EVERY_S", 0.0)


async def refusal(http: Caller, *request: Any, **headers: str) -> dict[str, Any]:
    """The problem document of a request that nobody can serve before an administrator has acted."""
    answer = await http(*(request or ("GET", "/v1/events")), **headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    problem: dict[str, Any] = answer.json()
    assert "Try again in a few seconds" not in problem["detail"]
    return problem


def prepare(database: ModestDatabase, problem: dict[str, Any]) -> None:
    """Run the SQL of a refusal, as an administrator does."""
    database.as_admin(problem["detail"].partition("\n\n")[2])


# -- until the role is ready


async def test_requests_are_told_what_is_missing_with_the_sql_and_served_when_it_was_run(
    modest: ModestDatabase,
) -> None:
    async with calling(modest) as http:
        problem = await refusal(http)
        assert f"the role {modest.role} does not exist" in problem["detail"]
        assert f"CREATE ROLE {modest.role} NOLOGIN;" in problem["detail"]
        assert await refusal(http, "PUT", "/v1/timers/a", TIMER)
        prepare(modest, problem)
        assert (await http.put("/v1/timers/a", TIMER))["key"] == "a"
        assert (await http("GET", "/readyz")).status_code == 200


async def test_readyz_says_what_is_missing_and_where_the_sql_is(modest: ModestDatabase) -> None:
    async with calling(modest) as http:
        answer = await http("GET", "/readyz")
        assert answer.status_code == 503
        assert f"the role {modest.role} does not exist" in answer.json()["detail"]
        assert "`duly doctor`" in answer.json()["detail"]
        assert "CREATE" not in answer.text, "who has no key is not told names of users"
        prepare(modest, await refusal(http))
        assert (await http("GET", "/readyz")).status_code == 200


async def test_what_is_missing_is_told_only_to_who_has_a_key(modest: ModestDatabase) -> None:
    async with calling(modest) as http:
        key = (await http.app.keys.create("k", scope="read")).secret
        for headers in ({}, {"authorization": "Bearer nonsense"}):
            answer = await http("GET", "/v1/events", **headers)
            assert answer.status_code == 401
            assert modest.user not in answer.text
        assert modest.user in (await refusal(http, authorization=f"Bearer {key}"))["detail"]


async def test_it_is_logged_once_with_the_sql_before_any_request_comes(
    modest: ModestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    def told(act: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith(act)]

    caplog.set_level(logging.WARNING, "duly.http")
    async with calling(modest) as http:
        async with asyncio.timeout(10):
            while not told("api.not_ready"):  # noqa: ASYNC110 - a log has no event to wait for
                await asyncio.sleep(0.01)
        for _ in range(3):
            problem = await refusal(http)
        [line] = told("api.")
        assert f"CREATE ROLE {modest.role} NOLOGIN; GRANT {modest.role} TO {modest.user} WITH" in line
        assert told("request.failed") == []
        prepare(modest, problem)
        for _ in range(3):
            await http.get("/v1/events")
        assert told("api.ready") == ["api.ready"]
        assert len(told("api.not_ready")) == 1


async def test_a_database_that_is_not_ready_is_looked_at_once_a_second(
    modest: ModestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "EXAMINED_EVERY_S", 3600.0)
    async with calling(modest) as http:
        looks = 0
        really = http.app.store.prepare_rls_role

        async def counted() -> bool:
            nonlocal looks
            looks += 1
            return await really()

        monkeypatch.setattr(http.app.store, "prepare_rls_role", counted)
        await asyncio.gather(*(refusal(http) for _ in range(20)))
        assert looks <= 1


# -- afterwards


async def test_a_role_that_is_dropped_meanwhile_is_told_and_served_when_it_is_back(modest: ModestDatabase) -> None:
    async with calling(modest) as http:
        prepare(modest, await refusal(http))
        await http.put("/v1/timers/a", TIMER)
        await http.get("/v1/timers/a")
        for request in (("GET", "/v1/timers/a"), ("PUT", "/v1/timers/b", TIMER), ("POST", "/v1/users", a_user())):
            modest.as_admin(f"DROP OWNED BY {modest.role}; DROP ROLE {modest.role}")
            problem = await refusal(http, *request)
            assert f"the role {modest.role} does not exist" in problem["detail"], problem
            prepare(modest, problem)
            assert (await http("GET", "/v1/timers/a")).status_code == 200


async def test_a_right_that_is_revoked_is_granted_again_if_the_user_owns_the_table(modest: ModestDatabase) -> None:
    async with calling(modest) as http:
        prepare(modest, await refusal(http))
        await http.put("/v1/timers/a", TIMER)
        modest.as_admin(f"REVOKE SELECT ON duly.events FROM {modest.role}")
        first = await http("GET", "/v1/timers/a")
        assert first.status_code == 503
        assert "Try again" in first.json()["detail"], "it is remedied"
        assert (await http("GET", "/v1/timers/a")).status_code == 200


async def test_a_right_that_the_user_itself_lacks_is_not_told_as_an_outage(
    modest: ModestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with calling(modest) as http:
        prepare(modest, await refusal(http))
        key = (await http.app.keys.create("k", scope="read")).secret
        modest.as_admin("ALTER TABLE duly.api_keys OWNER TO postgres")
        problem = await refusal(http, authorization=f"Bearer {key}")
        assert "refused the server's own user a right" in problem["detail"]
        assert "`duly doctor`" in problem["detail"]
        assert "api_keys" not in problem["detail"]
        assert "permission denied for table api_keys" in caplog.text


# -- everything works


@asynccontextmanager
async def session(http: Caller, tenant: str) -> AsyncIterator[PostgresTenantSession]:
    """What a request of this tenant sees of the store."""
    async with http.app.store.tenant_session(tenant, writes=True) as request:
        assert isinstance(request, PostgresTenantSession)
        yield request


async def smoke(http: Caller, key: str) -> None:
    """Something of each noun: made, read, changed, listed, ended."""
    own = {"authorization": f"Bearer {key}"}
    await http.put("/v1/timers/a", TIMER, **own)
    moved = await http.put("/v1/timers/a", TIMER | {"due_at": "2031-01-01T00:00:00Z"}, **own)
    assert moved["due_at"] == "2031-01-01T00:00:00Z"
    assert (await http("DELETE", "/v1/timers/a", **own)).status_code == 200
    many = [TIMER | ({"key": f"b{n}"} if n % 2 else {}) for n in range(400)]
    assert (await http.post("/v1/timers", {"timers": many}, **own))["created"] == 400

    made = await http.put("/v1/timers/now", {"due_at": "2020-01-01T00:00:00Z", "type": "reject"}, **own)
    await http.app.tick()
    assert (await http.get(f"/v1/events/{made['id']}", **own))["status"] == "FAILED"
    assert [one["id"] for one in (await http.get("/v1/events?status=FAILED", **own))["events"]] == [made["id"]]
    assert (await http.post(f"/v1/events/{made['id']}/replay", **own))["status"] == "PENDING"
    assert (await http.get(f"/v1/events/{made['id']}/history", **own))["history"]

    await http.put("/v1/schedules/nightly", DAILY, **own)
    assert (await http.post("/v1/schedules/nightly/pause", **own))["enabled"] is False
    assert (await http.post("/v1/schedules/nightly/resume", **own))["enabled"] is True
    assert (await http.post("/v1/schedules/nightly/trigger", **own))["schedule"] == "nightly"
    assert len((await http.get("/v1/schedules?limit=5", **own))["schedules"]) == 1
    assert (await http("DELETE", "/v1/schedules/nightly", **own)).status_code == 200

    user = await http.post("/v1/users", a_user(key="ada"), **own)
    changed = await http.put(f"/v1/users/{user['id']}", {"last_name": "Byron"}, **own)
    assert changed["last_name"] == "Byron"
    assert (await http.get(f"/v1/users/{user['id']}/events", **own))["events"]
    assert (await http("DELETE", f"/v1/users/{user['id']}", **own)).status_code == 200

    await http.put("/v1/targets/shop", HOOK, **own)
    await http.put("/v1/targets/shop/limits", {"concurrency": 5}, **own)
    assert (await http.get("/v1/targets/shop", **own))["concurrency"] == 5
    assert (await http("DELETE", "/v1/targets/shop", **own)).status_code == 200

    once = {"idempotency_key": "once"} | own
    first, second = [await http("PUT", "/v1/timers/once", TIMER, **once) for _ in range(2)]
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert (await http.get("/v1/event-types", **own))["event_types"]


def with_handler(http: Caller) -> None:
    @http.app.on("reject")
    async def reject(event: Event) -> Rejected:
        return Rejected("nobody wants it")


async def test_with_the_role_every_noun_works_and_tenants_do_not_meet(modest: ModestDatabase) -> None:
    async with calling(modest) as http:
        with_handler(http)
        prepare(modest, await refusal(http))
        for tenant in ("default", "acme"):
            key = (await http.app.keys.create("k", tenant=tenant, scope="admin")).secret
            await smoke(http, key)
        async with session(http, "acme") as request:
            assert await request.fetchval("SELECT current_user") == modest.role
            assert {row[0] for row in await request.fetch("SELECT tenant FROM duly.events")} == {"acme"}


async def test_without_row_level_security_every_noun_works(modest: ModestDatabase) -> None:
    async with calling(modest, api_role="off") as http:
        with_handler(http)
        assert (await http("GET", "/readyz")).status_code == 200
        await smoke(http, (await http.app.keys.create("k", scope="admin")).secret)
        async with session(http, "default") as request:
            assert await request.fetchval("SELECT current_user") == modest.user


# -- without row-level security, for one tenant


async def test_off_refuses_a_key_of_another_tenant_that_is_made_later(modest: ModestDatabase) -> None:
    async with calling(modest, api_role="off") as http:
        mine = (await http.app.keys.create("mine", scope="write")).secret
        await http.put("/v1/timers/a", TIMER, authorization=f"Bearer {mine}")
        theirs = (await http.app.keys.create("theirs", tenant="acme", scope="write")).secret
        for request in (("GET", "/v1/timers/a"), ("GET", "/v1/events"), ("PUT", "/v1/timers/b", TIMER)):
            answer = await http(*request, authorization=f"Bearer {theirs}")
            assert answer.status_code == 403
            assert "DULY_API_ROLE=off" in answer.json()["detail"]
        assert (await http.get("/v1/timers/a", authorization=f"Bearer {mine}"))["key"] == "a"


async def test_off_refuses_another_tenant_of_a_key_for_all_tenants(modest: ModestDatabase) -> None:
    async with calling(modest, api_role="off") as http:
        key = f"Bearer {(await http.app.keys.create('all', scope='admin', all_tenants=True)).secret}"
        assert (await http("GET", "/v1/events", authorization=key)).status_code == 200
        answer = await http("GET", "/v1/events", authorization=key, duly_tenant="acme")
        assert (answer.status_code, "serves only the tenant default" in answer.text) == (403, True)


async def test_off_serves_nobody_where_several_tenants_were_there_before(modest: ModestDatabase) -> None:
    async with Duly(**modest.options) as app:
        theirs = await app.keys.create("theirs", tenant="acme", scope="write")
        mine = f"Bearer {(await app.keys.create('mine')).secret}"
    async with calling(modest, api_role="off") as http:
        problem = await refusal(http, authorization=mine)
        assert "DULY_API_ROLE=off is for one tenant" in problem["detail"]
        assert "'acme'" in problem["detail"]
        await http.app.keys.revoke(theirs.key.id)
        assert (await http("GET", "/v1/events", authorization=mine)).status_code == 200


async def test_off_refuses_an_application_that_names_another_tenant(modest: ModestDatabase) -> None:
    async with calling(modest, api_role="off", keyless="acme") as http:
        assert (await http("GET", "/v1/events")).status_code == 403
