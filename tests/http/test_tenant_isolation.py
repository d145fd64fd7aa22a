"""Every route of the API, by whoever may not use it: a new route is walked here by itself."""

import re
from collections import Counter
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from duly.api.app import OperationRoute
from duly.dashboard.app import PageRoute
from duly.ids import new_id
from duly.records.api_key import write_key
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.cross_tenant_requests import body_of, planted
from tests.http.describing import Described, Description
from tests.http.tenants import SECRET_KEY, Tenant, marker, rows_of, settle

OPEN = {"/healthz", "/readyz", "/docs", "/openapi.json", "/sign-in"}
CREATING = {"put_timer", "put_schedule", "put_target", "put_template"}
"""What these name need not be there: the name of another tenant's is free to everybody."""

MARKER = marker("rival")
PAGES = ("/v1/events", "/v1/schedules", "/v1/users", "/v1/targets")


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly(secret_key=SECRET_KEY))


@pytest.fixture
async def rival(http: Caller) -> Tenant:
    return await settle(http.app, "rival")


@pytest.fixture
async def mine(http: Caller, rival: Tenant) -> Tenant:
    return await settle(http.app, "mine")


@pytest.fixture
async def stranger(http: Caller, rival: Tenant) -> Tenant:
    """Somebody who has nothing but keys."""
    keys = {
        scope: (await http.app.keys.create(scope, scope=scope, tenant="stranger")).secret
        for scope in ("read", "write", "admin")
    }
    for scope in ("read", "admin"):
        made = await http.app.keys.create(scope, scope=scope, tenant="stranger", all_tenants=True)
        keys[f"{scope} of all"] = made.secret
    return Tenant(
        "stranger", keys, "nothing", "nothing", "nothing", "nothing", "nobody", "nobody", "nowhere", "nothing"
    )


def methods_of(route: OperationRoute) -> set[str]:
    assert route.methods
    return route.methods


def routes(http: Caller) -> list[Described]:
    """Those that the application has, as it describes them."""
    described = {(one.method, one.path): one for one in Description(http.api.openapi()).operations}
    found = [route for route in http.api.routes if getattr(route, "path", "").startswith("/v1/")]
    assert len(found) >= 40
    return [
        described[method, route.path]
        for route in found
        if isinstance(route, OperationRoute)
        for method in methods_of(route)
    ]


async def ask(http: Caller, operation: Described, path: str, **headers: str) -> httpx.Response:
    required = {one["name"]: example_of(one) for one in operation.said["parameters"] if is_required(one)}
    asked = f"{path}?{urlencode(required)}" if required else path
    return await http(operation.method, asked, body_of(operation), **headers)


def is_required(parameter: dict[str, Any]) -> bool:
    return parameter["in"] == "query" and parameter["required"] is True


def example_of(parameter: dict[str, Any]) -> str:
    return "rival" if parameter["name"] == "q" else str(parameter["schema"]["examples"][0])


async def test_only_operations_without_data_of_tenants_need_no_key(http: Caller, rival: Tenant) -> None:
    pages = [route for route in http.api.routes if isinstance(route, PageRoute)]
    paths = {getattr(route, "path", "") for route in http.api.routes if route not in pages}
    beside = {"/metrics", "/live", "/static/{path:path}"}
    assert {path for path in paths if not path.startswith("/v1/")} == OPEN | beside
    for page in pages:
        for method in page.methods or ():
            answer = await http.client.request(method, page.path.format(name="x", id=new_id()))
            assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in"), page.path
    assert (await http.client.get("/live?page=/")).status_code == 401
    for path in OPEN:
        answer = await http("GET", path)
        assert answer.status_code == 200, path
        assert "rival" not in answer.text
        assert MARKER not in answer.text


async def test_no_operation_is_answered_without_a_good_key(http: Caller, rival: Tenant, clock: ManualClock) -> None:
    spent = await http.app.keys.create("spent", scope="admin", expires=timedelta(seconds=1))
    revoked = await http.app.keys.create("revoked", scope="admin")
    await http.app.keys.revoke(revoked.key.id)
    clock.advance(seconds=1)
    before = await rows_of(http.app, rival)
    bad = [
        {}, *({"authorization": written} for written in (
            "", "Bearer", "Bearer ", "Bearer nonsense", f"Basic {rival.keys['admin']}", rival.keys["admin"],
            f"Bearer {write_key(bytes(32))}", f"Bearer {rival.keys['admin'][:-1]}", f"Bearer {rival.keys['admin']}x",
            f"Bearer {spent.secret}", f"Bearer {revoked.secret}",
        )),
    ]  # fmt: skip
    for operation in routes(http):
        for headers in bad:
            answer = await ask(http, operation, rival.path(operation.path), **headers)
            told = f"{operation} with {headers}: {answer.text}"
            assert answer.status_code == 401, told
            assert answer.headers["www-authenticate"].startswith("Bearer"), told
            assert MARKER not in answer.text
    assert await rows_of(http.app, rival) == before


async def test_a_key_for_reading_cannot_write(http: Caller, rival: Tenant) -> None:
    before = await rows_of(http.app, rival)
    for operation in routes(http):
        answer = await ask(http, operation, rival.path(operation.path), authorization=rival.key("read"))
        assert (answer.status_code == 403) == (operation.said["x-scope"] != "read"), f"{operation}: {answer.text}"
        assert answer.status_code in (200, 403), f"{operation}: {answer.text}"
    after = await rows_of(http.app, rival)
    assert _without_use(after) == _without_use(before)


def _without_use(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """When a key was last used is told of each."""
    return {table: found for table, found in rows.items() if table != "api_keys"}


async def test_what_belongs_to_another_tenant_is_not_found(http: Caller, rival: Tenant, stranger: Tenant) -> None:
    before = await rows_of(http.app, rival)
    no_event, no_user = "019a8f2e-6c00-7abc-8def-0123456789ab", "019a8f2e-6c00-7abc-8def-0123456789ac"
    nobodys = Tenant(
        "nobody", {}, "no-timer", no_event, no_event, "no-schedule", no_user, "no-user", "no-target", "no-template"
    )
    for operation in sorted(routes(http), key=lambda one: one.said["operationId"] in CREATING):
        if "{" not in operation.path or "{type}" in operation.path:  # event types are everybody's
            continue
        answers = []
        for whose in (rival, nobodys):
            answer = await ask(http, operation, whose.path(operation.path), authorization=stranger.key())
            assert MARKER not in answer.text, operation
            named = (whose.timer, whose.event, whose.letter, whose.schedule, whose.user, whose.target, whose.template)
            told = answer.json() | {"request_id": ""}
            answers.append((answer.status_code, re.sub("|".join(map(re.escape, named)), "IT", str(told))))
        if operation.said["operationId"] in CREATING:
            assert [status for status, _ in answers] == [201, 201], operation
        else:
            assert answers[0] == answers[1], operation
            assert answers[0][0] == 404, f"{operation}: {answers}"
    assert await rows_of(http.app, rival) == before


async def test_lists_and_counts_have_nothing_of_other_tenants(http: Caller, rival: Tenant, stranger: Tenant) -> None:
    for path in PAGES:
        page = await http.get(path, authorization=stranger.key())
        listed = path.rpartition("/")[2]
        ends = {"next_cursor": None} | ({"next_after": None} if listed == "events" else {})
        assert page == {listed: [], **ends}
    templates = (await http.get("/v1/templates", authorization=stranger.key()))["templates"]
    assert templates
    assert all(one["built_in"] for one in templates)
    letters = await http.get("/v1/dead-letters", authorization=stranger.key())
    assert letters == {"dead_letters": 0, "kinds": []}
    for act in ("replay", "discard"):
        done = await http.post(f"/v1/events/{act}", {"filter": {}}, authorization=stranger.key())
        assert (done[f"{act}ed"], done["left_alone"]) == (0, 0)


async def test_only_an_admin_key_may_name_another_tenant(http: Caller, rival: Tenant, stranger: Tenant) -> None:
    before = await rows_of(http.app, rival)
    for operation in routes(http):
        path = rival.path(operation.path)
        scopes = (
            ("read", "write", "admin") if operation.said["x-scope"] == "read" else ("write", "admin", "read of all")
        )
        for scope in scopes:
            answer = await ask(http, operation, path, authorization=stranger.key(scope), duly_tenant="rival")
            assert answer.status_code == 403, f"{operation}: {answer.text}"
            assert MARKER not in answer.text
    assert await rows_of(http.app, rival) == before
    for operation in routes(http):
        if operation.method == "GET":
            path = rival.path(operation.path)
            as_rival = await ask(http, operation, path, authorization=rival.key("read"))
            for scope in ("read of all", "admin of all"):
                as_other = await ask(http, operation, path, authorization=stranger.key(scope), duly_tenant="rival")
                more = {"workers": as_other.json()["workers"]} if operation.path == "/v1/workers" else {}
                assert as_other.json() == as_rival.json() | more, operation
    put = await http("PUT", "/v1/timers/new", {"after": "1h", "type": "x"}, authorization=stranger.key("admin of all"),
                     duly_tenant="rival")  # fmt: skip
    assert (put.status_code, put.json()["tenant"]) == (201, "rival")


NESTED_AND_TAKEN = {"timers": 250, "schedules": 250, "users": 250, "events": 40, "targets": 10, "system": 0}
"""How many requests at the least have something of another's deep in their bodies, and are good all the same."""


@pytest.mark.parametrize("subject", NESTED_AND_TAKEN)
async def test_naming_something_of_another_tenant_in_a_request_reaches_nothing(
    http: Caller, rival: Tenant, mine: Tenant, subject: str
) -> None:
    operations = [one for one in routes(http) if subject in one.said["tags"]]
    tags = await tags_of(http, rival)
    await use_idempotency_keys(http, rival, operations)
    before = await rows_of(http.app, rival)
    assert MARKER in str(before)
    asked: Counter[str] = Counter()
    for operation in sorted(operations, key=lambda one: one.method == "DELETE"):
        for one in planted(operation, http.api.openapi(), mine, rival, tags):
            answer = await http(operation.method, one.path, one.body, authorization=mine.key(), **one.headers)
            told = f"{operation} {one}: {answer.text}"
            for private in (MARKER, *rival.keys.values()):
                assert private not in f"{answer.text} {answer.headers}", told
            assert '"tenant":"rival"' not in MY_OWN.sub("", answer.text), told
            assert (answer.status_code == 403) == ("duly_tenant" in one.headers), told
            assert "another request" not in answer.text, told
            assert "idempotency-replayed" not in answer.headers, told
            asked.update([*one.headers])
            asked["nested and taken"] += one.nested and answer.is_success
    assert asked["nested and taken"] >= NESTED_AND_TAKEN[subject]
    assert all(asked[name] >= 6 * len(operations) for name in HEADERS), asked
    assert _without_use(await rows_of(http.app, rival)) == _without_use(before)


MY_OWN = re.compile(r'"(payload|attributes|headers|body)":{[^{}]*}')
"""Where I may write what I like."""

HEADERS = ("duly_tenant", "x_request_id", "idempotency_key", "if_match")


async def tags_of(http: Caller, tenant: Tenant) -> list[str]:
    """Those that what a tenant has would be changed by."""
    addresses = (f"/v1/schedules/{tenant.schedule}", f"/v1/users/{tenant.user}")
    return [(await http("GET", path, authorization=tenant.key())).headers["etag"] for path in addresses]


async def use_idempotency_keys(http: Caller, tenant: Tenant, operations: list[Described]) -> None:
    """All that are planted. What is remembered with each tells of its tenant."""
    timer = {"type": "x", "due_at": "2030-01-01T00:00:00Z", "payload": marker(tenant.name)}
    for operation in operations:
        for name in (tenant.name, tenant.timer, tenant.letter, tenant.schedule, tenant.user, tenant.target):
            key = f"{operation.said['operationId']} {name}"
            await http.put("/v1/timers/remembered", timer, authorization=tenant.key(), idempotency_key=key)


async def test_a_cursor_of_another_tenants_list_shows_nothing_of_it(http: Caller, rival: Tenant, mine: Tenant) -> None:
    await settle_more(http, rival)
    for path in PAGES:
        cursor = (await http.get(f"{path}?limit=1", authorization=rival.key()))["next_cursor"]
        assert cursor, path
        answer = await http("GET", f"{path}?limit=1000&cursor={cursor}", authorization=mine.key())
        assert answer.status_code == 200
        assert all(one["tenant"] == "mine" for one in answer.json()[path.rpartition("/")[2]])


async def settle_more(http: Caller, rival: Tenant) -> None:
    """A second of each, so that every list has a second page."""
    key = rival.key()
    user = {"first_name": "Eve", "last_name": "Two", "date_of_birth": "1990-03-15", "timezone": "UTC"}
    await http.post("/v1/users", user, authorization=key)
    await http.put("/v1/schedules/second", {"type": "x", "rule": {"every": "1h"}}, authorization=key)
    await http.put("/v1/targets/second", {"url": "https://hooks.example/"}, authorization=key)
