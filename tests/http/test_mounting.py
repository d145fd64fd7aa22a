"""The API inside an application of the user's own."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import duly.api
from duly import Duly
from duly.api.app import Api, create_api
from duly.api.protocol.request import Caller as Who
from duly.errors import Forbidden, Unauthenticated
from duly.records.api_key import Scope
from duly.testing import ManualClock
from tests.http.calling import Caller

DAILY = {"type": "report", "rule": {"cron": "0 9 * * *"}}
Application = Callable[[Duly, Api], Any]


def in_fastapi(duly: Duly, api: Api) -> FastAPI:
    app = FastAPI(lifespan=lambda _: opened(duly))
    app.mount("/duly", api)

    @app.get("/v1/schedules/{name}")
    async def own(name: str) -> dict[str, str]:
        return {"own": name}

    return app


def in_starlette(duly: Duly, api: Api) -> Starlette:
    async def own(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f'{{"own":"{request.path_params["name"]}"}}', media_type="application/json")

    routes = [Mount("/duly", api), Route("/v1/schedules/{name}", own)]
    return Starlette(routes=routes, lifespan=lambda _: opened(duly))


@asynccontextmanager
async def opened(duly: Duly) -> AsyncIterator[None]:
    async with duly:
        yield


@asynccontextmanager
async def started(app: Any) -> AsyncIterator[None]:
    """As a server does it: the application's own lifespan."""
    async with app.router.lifespan_context(app):
        yield


@pytest.fixture
def own(url: str, clock: ManualClock) -> Duly:
    """One that nobody has opened yet."""
    return Duly(url, clock=clock)


def calls(duly: Duly, api: Api, app: Any, **headers: str) -> Caller:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return Caller(duly, api, httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers))


@pytest.mark.parametrize("application", [in_fastapi, in_starlette])
async def test_the_api_can_be_mounted_in_an_application(own: Duly, application: Application) -> None:
    api = create_api(own, keyless=True)
    app = application(own, api)
    http = calls(own, api, app)
    async with started(app):
        created = await http("PUT", "/duly/v1/schedules/daily", DAILY)
        assert (created.status_code, created.headers["location"]) == (201, "/duly/v1/schedules/daily")
        assert await http.get(created.headers["location"]) == {**created.json(), "warnings": []}
        event = await http("POST", "/duly/v1/schedules/daily/trigger")
        assert event.headers["location"] == f"/duly/v1/events/{event.json()['id']}"
        assert (await http.get(event.headers["location"]))["schedule"] == "daily"
        user = await http("POST", "/duly/v1/users", {
            "first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-03-15", "timezone": "UTC",
        })  # fmt: skip
        assert user.headers["location"] == f"/duly/v1/users/{user.json()['id']}"

        seen, address = [], "/duly/v1/events?limit=1"
        while address:
            page = await http("GET", address)
            seen += page.json()["events"]
            address = page.links["next"]["url"] if "next" in page.links else ""
            assert not address or address.startswith("/duly/v1/events?")
        assert len(seen) == 3

        for name in ("a/b", "duly/v1", "ä%2F", "x/pause"):
            put = await http("PUT", f"/duly/v1/schedules/{quote(name, safe='')}", DAILY)
            assert (put.status_code, put.json()["name"]) == (201, name)
            assert put.headers["location"] == f"/duly/v1/schedules/{quote(name, safe='')}"
            assert (await http.post(f"{put.headers['location']}/pause"))["name"] == name

        untouched = await http.client.get("/v1/schedules/daily")
        assert (untouched.json(), "x-request-id" in untouched.headers) == ({"own": "daily"}, False)
        assert (await http.client.get("/v1/users")).status_code == 404
        lost = await http("GET", "/duly/v1/nothing")
        assert lost.status_code == 404
        assert "/duly/openapi.json" in lost.json()["detail"]


@pytest.mark.parametrize("application", [in_fastapi, in_starlette])
async def test_the_description_of_a_mounted_api_tells_where_it_is(own: Duly, application: Application) -> None:
    api = create_api(own, keyless=True)
    app = application(own, api)
    http = calls(own, api, app)
    async with started(app):
        described = await http.get("/duly/openapi.json")
        assert [server["url"] for server in described["servers"]] == ["/duly"]
        assert "/v1/schedules/{name}" in described["paths"]
        home = await http("GET", "/duly/")
        assert (home.status_code, home.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert 'href="/duly/schedules"' in home.text
        assert (await http("GET", re.findall(r'src="(/duly/static/[^"]+)"', home.text)[0])).status_code == 200
        page = await http("GET", "/duly/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "http://localhost/duly/v1/" in page.text
        assert "http://localhost/v1/" not in page.text
        assert (await http.get("/duly/healthz"), await http.get("/duly/readyz")) == (
            {"status": "alive"},
            {"status": "ready"},
        )
        assert (await http("GET", "/duly/metrics")).status_code == 200


async def test_a_duly_that_is_not_open_is_a_problem_that_says_what_to_do(own: Duly) -> None:
    api = create_api(own, keyless=True)
    app = in_fastapi(own, api)
    http = calls(own, api, app)

    async def closed() -> None:
        for method, path, body in (("GET", "schedules", None), ("PUT", "schedules/daily", DAILY)):
            answer = await http(method, f"/duly/v1/{path}", body)
            assert answer.status_code == 503
            assert "is not open: open it when the application starts" in answer.json()["detail"]
        assert (await http("GET", "/duly/readyz")).status_code == 503
        assert await http.get("/duly/healthz") == {"status": "alive"}

    await closed()
    async with started(app):
        assert (await http("PUT", "/duly/v1/schedules/daily", DAILY)).status_code == 201
    await closed()
    async with started(app):
        assert len((await http.get("/duly/v1/schedules"))["schedules"]) == 1, "and it can be opened again"


async def test_an_application_may_authenticate_callers_itself(own: Duly) -> None:
    async def authenticate(request: Request) -> Who:
        match request.headers.get("x-who"):
            case None:
                raise Unauthenticated("log in first")
            case "mallory":
                raise Forbidden("not you")
            case "nobody":
                raise HTTPException(401, "your own words", {"X-Own": "1"})
            case "gone":
                raise HTTPException(499, "you have left")
            case "reader":
                return Who("acme", Scope.READ, "a reader")
            case who:
                return Who(who.partition("@")[2], Scope.WRITE, who)

    api = create_api(own, authenticate=authenticate)
    app = in_fastapi(own, api)
    async with started(app):
        ada = calls(own, api, app, **{"x-who": "ada@acme"})
        await ada.put("/duly/v1/schedules/daily", DAILY)
        [entry] = (await ada.get("/duly/v1/schedules/daily/history"))["history"]
        assert (entry["act"], entry["worker"]) == ("created", "ada@acme")
        assert (await ada.get("/duly/v1/schedules/daily"))["tenant"] == "acme"
        bob = calls(own, api, app, **{"x-who": "bob@other"})
        assert (await bob.get("/duly/v1/schedules"))["schedules"] == []
        assert (await bob("GET", "/duly/v1/schedules/daily")).status_code == 404
        reader = calls(own, api, app, **{"x-who": "reader"})
        assert len((await reader.get("/duly/v1/schedules"))["schedules"]) == 1
        assert (await reader("PUT", "/duly/v1/schedules/daily", DAILY)).status_code == 403
        for who, status, told in (({}, 401, "log in first"), ({"x-who": "mallory"}, 403, "not you"),
                                  ({"x-who": "nobody"}, 401, "your own words")):  # fmt: skip
            refused = await calls(own, api, app, **who)("GET", "/duly/v1/schedules")
            assert (refused.status_code, refused.json()["detail"]) == (status, told)
        assert refused.headers["x-own"] == "1"
        gone = await calls(own, api, app)("GET", "/duly/v1/schedules", x_who="gone")
        assert (gone.status_code, gone.json()["detail"], gone.json()["title"]) == (499, "you have left", "Error")


@pytest.mark.parametrize("scope", [Scope.WRITE, "admin"])
async def test_only_who_an_application_lets_into_all_tenants_may_name_another(own: Duly, scope: Any) -> None:
    async def authenticate(request: Request) -> Who:
        if less := request.headers.get("x-scope"):
            return Who("acme", less, "ada")  # type: ignore[arg-type]
        return Who("acme", scope, "ada", all_tenants=True)

    api = create_api(own, authenticate=authenticate)
    app = in_fastapi(own, api)
    async with started(app):
        http = calls(own, api, app)
        timer = {"type": "x", "after": "1h"}
        for tenant, wanted in ((None, "acme"), ("acme", "acme"), ("beta", "beta")):
            named = {} if tenant is None else {"duly_tenant": tenant}
            put = await http("PUT", "/duly/v1/timers/a", timer, **named)
            assert (put.status_code, put.json()["tenant"]) == (201 if tenant != "acme" else 200, wanted)
        for less in ("read", "write", "admin"):
            refused = await http("GET", "/duly/v1/timers/a", duly_tenant="beta", x_scope=less)
            assert refused.status_code == 403
            assert (await http("GET", "/duly/v1/timers/a", duly_tenant="acme", x_scope=less)).status_code == 200


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "it returned NoneType"),
        ("acme", "it returned str"),
        (Who("acme", "owner", "ada"), "it returned one with the scope 'owner'"),  # type: ignore[arg-type]
        (Who("acme", None, "ada"), "it returned one with the scope None"),  # type: ignore[arg-type]
    ],
)
async def test_an_application_that_authenticates_wrongly_finds_the_reason_in_the_log(
    own: Duly, returned: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def authenticate(_: Request) -> Any:
        return returned

    api = create_api(own, authenticate=authenticate)
    app = in_fastapi(own, api)
    async with started(app):
        failed = await calls(own, api, app)("GET", "/duly/v1/schedules")
    assert failed.status_code == 500
    assert "authenticate= must return duly.api.Caller" in caplog.text
    assert told in caplog.text


def test_the_names_for_authentication_are_in_one_module() -> None:
    assert (duly.api.Caller, duly.api.Scope) == (Who, Scope)
    assert (duly.api.Unauthenticated, duly.api.Forbidden) == (Unauthenticated, Forbidden)


async def test_a_mounted_api_asks_for_keys(own: Duly) -> None:
    api = create_api(own)
    app = in_starlette(own, api)
    async with started(app):
        assert (await calls(own, api, app)("GET", "/duly/v1/schedules")).status_code == 401
        made = await own.keys.create("console")
        keyed = calls(own, api, app, authorization=f"Bearer {made.secret}")
        assert await keyed.get("/duly/v1/schedules") == {"schedules": [], "next_cursor": None}


async def test_two_apis_can_be_mounted_beside_each_other(own: Duly) -> None:
    apis = [create_api(own, keyless=True) for _ in range(2)]
    app = Starlette(
        routes=[Mount("/a/b", apis[0]), Mount("/c", apis[1])],
        lifespan=lambda _: opened(own),
    )
    http = calls(own, apis[0], app)
    async with started(app):
        created = await http("PUT", "/a/b/v1/schedules/x%2Fy", DAILY)
        assert created.headers["location"] == "/a/b/v1/schedules/x%2Fy"
        assert (await http.get("/c/v1/schedules/x%2Fy"))["name"] == "x/y"
        servers = [(await http.get(f"{prefix}/openapi.json"))["servers"] for prefix in ("/a/b", "/c")]
        assert [server["url"] for [server] in servers] == ["/a/b", "/c"]
