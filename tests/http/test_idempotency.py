"""The same request twice, with an Idempotency-Key: nothing happens twice, and both are told the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duly.api.access.tenancy import tenancy
from duly.api.app import OPERATIONS
from duly.api.protocol import handler
from duly.errors import StoreUnavailable
from duly.records.api_key import Scope
from duly.records.user import User
from duly.stores.postgres.tenants.tenant_session import PostgresTenantSession as OfPostgres
from duly.stores.sqlite.tenant_session import SqliteTenantSession as OfSqlite
from duly.testing import ManualClock
from duly.verbs.users.users import Users
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.http.tenants import SECRET_KEY, Tenant, rows_of, settle
from tests.make import HOUR
from tests.stores.everything import tables_with
from tests.stores.rows import ask

USER = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-12-10", "timezone": "UTC"}
REMEMBERED = [operation for operation in OPERATIONS if operation.remembered]

TESTS = {"test_target", "test_unsaved_target"}
"""These send something each time, and store no answer."""


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly(secret_key=SECRET_KEY))


@pytest.fixture
async def mine(http: Caller) -> Tenant:
    return await settle(http.app, "mine")


async def counted(http: Caller, table: str) -> int:
    return int(await ask(http.app.store, f"SELECT count(*) FROM duly.{table}"))


def test_every_writing_operation_takes_an_idempotency_key_unless_it_answers_secrets() -> None:
    writing = {operation.name for operation in OPERATIONS if operation.needs is not Scope.READ}
    assert {operation.name for operation in REMEMBERED} == writing - {"put_target", "rotate_secret", *TESTS}
    posts = {operation.name for operation in OPERATIONS if operation.method == "POST"}
    assert posts - {operation.name for operation in REMEMBERED} == {"preview_rule", "rotate_secret", *TESTS}


async def test_an_operation_that_answers_a_secret_refuses_an_idempotency_key(http: Caller, mine: Tenant) -> None:
    address, headers = f"/v1/targets/{mine.target}/rotate", {"authorization": mine.key(), "idempotency_key": "once"}
    before = await rows_of(http.app, mine)
    for body in (None, {}, {"keep": "1h"}, {"secret": None}):
        refused = await http("POST", address, body, **headers)
        assert paths(refused) == ["Idempotency-Key"]
        assert "send your own secret" in refused.json()["errors"][0]["message"]
    assert {**await rows_of(http.app, mine), "api_keys": []} == {**before, "api_keys": []}
    own = {"secret": "whsec_" + "A" * 43 + "="}
    assert (await http.post(address, own, **headers))["secret"] == own["secret"]
    rotated = await rows_of(http.app, mine)
    assert (await http.post(address, own, **headers))["secret"] == own["secret"]
    assert await rows_of(http.app, mine) == rotated


async def test_the_same_request_again_does_nothing_and_gets_the_same_answer(http: Caller) -> None:
    for operation in REMEMBERED:
        mine = await settle(http.app, operation.name)  # each is asked of what no other has changed
        if operation.name in ("enable_target", "probe_target"):
            assert await http.app.store.park(mine.name, mine.target, "is parked: 503", HOUR)
        path = mine.path(operation.path) + ("?force=true" if operation.name == "delete_target" else "")
        body: Any = operation.takes and operation.takes.example
        if operation.name == "put_timer":
            body = {**body, "type": "greet"}  # that of the timer with this key
        asked = operation.method, path, body
        headers = {"authorization": mine.key(), "idempotency_key": operation.name}
        first = await http(*asked, **headers)
        assert first.is_success, f"{operation.name}: {first.text}"
        after = await rows_of(http.app, mine)
        second = await http(*asked, **headers)
        assert (second.status_code, second.json()) == (first.status_code, first.json()), operation.name
        assert (first.headers.get("location"), first.headers.get("etag")) == (
            second.headers.get("location"),
            second.headers.get("etag"),
        )
        assert "idempotency-replayed" not in first.headers
        assert second.headers["idempotency-replayed"] == "true"
        assert await rows_of(http.app, mine) == after, operation.name


async def test_an_idempotency_key_is_for_one_request(http: Caller) -> None:
    await http.post("/v1/users", USER, idempotency_key="a")
    for path, body in (("/v1/users", {**USER, "key": "b"}), ("/v1/users/import", {"users": [USER]})):
        refused = await http("POST", path, body, idempotency_key="a")
        assert refused.status_code == 409
        assert "another request" in refused.json()["detail"]
    assert await counted(http, "users") == 1
    await http.post("/v1/users", USER, idempotency_key="b")
    assert await counted(http, "users") == 2


async def test_the_same_request_at_once_gets_the_same_answer(http: Caller) -> None:
    timers = {"timers": [{"after": "1h", "type": "x"}] * 3}
    for path, body, table, count in (("/v1/users", USER, "users", 1), ("/v1/timers", timers, "events", 3)):
        before = await counted(http, table)
        asked = [http("POST", path, body, idempotency_key=f"at once {path}") for _ in range(20)]
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} <= {200, 201}
        assert len({answer.text for answer in answers}) == 1
        assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
        assert await counted(http, table) == before + count


async def test_repeats_of_one_request_keep_no_other_request_waiting(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, who writes waits for the one writer in any case."""
    begun, may_end = asyncio.Event(), asyncio.Event()
    add_user = http.app.users.__class__.add

    async def slowly(users: Users, **fields: Any) -> User:
        begun.set()
        await may_end.wait()
        return await add_user(users, **fields)

    monkeypatch.setattr(Users, "add", slowly)
    many = [asyncio.create_task(http("POST", "/v1/users", USER, idempotency_key="a")) for _ in range(30)]
    await begun.wait()
    others = [http("GET", "/v1/schedules")]
    if http.app.store.dialect == "postgres":
        others.append(http("PUT", "/v1/timers/t", {"after": "1h", "type": "x"}))
    assert {answer.status_code for answer in await asyncio.gather(*others)} <= {200, 201}
    may_end.set()
    answers = await asyncio.gather(*many)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1


async def test_a_request_that_failed_leaves_its_idempotency_key_free(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths(await http("POST", "/v1/users", {**USER, "timezone": "Mars/Crater"}, idempotency_key="a"))
    missing = await http("POST", "/v1/schedules/none/pause", {}, idempotency_key="a")
    assert missing.status_code == 404
    await http.post("/v1/users", {**USER, "key": "taken"})
    taken = await http("POST", "/v1/users", {**USER, "key": "taken"}, idempotency_key="a")
    assert taken.status_code == 409
    assert await counted(http, "requests") == 0
    assert (await http("POST", "/v1/users", USER, idempotency_key="a")).status_code == 201


async def test_a_bug_after_the_act_undoes_it_and_leaves_the_idempotency_key_free(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:

        def broken(*_: object) -> None:
            raise KeyError("planted")

        planted.setattr("duly.api.nouns.users._answer", broken)
        failed = await http.client.post("/v1/users", json=USER, headers={"Idempotency-Key": "a"})
        assert failed.status_code == 500
        assert "planted" not in failed.text
    assert (await counted(http, "users"), await counted(http, "requests")) == (0, 0)
    assert (await http("POST", "/v1/users", USER, idempotency_key="a")).status_code == 201
    assert await counted(http, "users") == 1


async def test_a_caller_who_leaves_in_the_middle_leaves_the_idempotency_key_free(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()
    with monkeypatch.context() as planted:

        async def stuck(*_: object) -> None:
            reached.set()
            await never.wait()

        for kind in (OfPostgres, OfSqlite):
            planted.setattr(kind, "remember", stuck, raising=False)
        asking = asyncio.create_task(http("POST", "/v1/users", USER, idempotency_key="a"))
        await reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert (await counted(http, "users"), await counted(http, "requests")) == (0, 0)
    assert (await http("POST", "/v1/users", USER, idempotency_key="a")).status_code == 201


async def test_a_server_that_cannot_know_whether_a_request_was_stored_says_so(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:

        @asynccontextmanager
        async def lost(*args: Any, **options: Any) -> AsyncIterator[Any]:
            async with tenancy(*args, **options) as own:
                yield own
            raise StoreUnavailable("planted: the connection was lost during COMMIT")

        planted.setattr(handler, "tenancy", lost)
        unsure = await http("POST", "/v1/users", USER, idempotency_key="a")
        assert (unsure.status_code, unsure.headers["retry-after"]) == (503, "1")
        assert "it may have been carried out" in unsure.json()["detail"]
        assert "same Idempotency-Key" in unsure.json()["detail"]
        looked = await http("GET", "/v1/users")
        assert "nothing was changed" in looked.json()["detail"]
    assert await counted(http, "users") == 1
    again = await http("POST", "/v1/users", USER, idempotency_key="a")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert await counted(http, "users") == 1


async def test_a_request_that_fails_before_it_is_stored_says_that_nothing_was_changed(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreUnavailable("planted")

    for kind in (OfPostgres, OfSqlite):
        monkeypatch.setattr(kind, "remember", broken, raising=False)
    failed = await http("POST", "/v1/users", USER, idempotency_key="a")
    assert failed.status_code == 503
    assert "nothing was changed" in failed.json()["detail"]
    assert await counted(http, "users") == 0


async def test_idempotency_keys_are_each_tenants_own(http: Caller, mine: Tenant) -> None:
    rival = await settle(http.app, "rival")
    first = await http.post("/v1/users", USER, idempotency_key="a", authorization=mine.key())
    other = await http.post("/v1/users", USER, idempotency_key="a", authorization=rival.key())
    changed = await http("POST", "/v1/users", {**USER, "first_name": "Eve"}, idempotency_key="b",
                         authorization=rival.key())  # fmt: skip
    assert (first["tenant"], other["tenant"], changed.status_code) == ("mine", "rival", 201)
    assert first["id"] != other["id"]


async def test_after_a_day_an_idempotency_key_is_forgotten(http: Caller, clock: ManualClock) -> None:
    first = await http.post("/v1/users", USER, idempotency_key="a")
    clock.advance(hours=23, minutes=59)
    assert await http.post("/v1/users", USER, idempotency_key="a") == first
    clock.advance(minutes=2)
    assert (await http("POST", "/v1/users", {**USER, "first_name": "Eve"}, idempotency_key="a")).status_code == 201


async def test_forgotten_idempotency_keys_do_not_stay_in_the_table(
    http: Caller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "SWEEP_INTERVAL_S", 0.0)
    for number in range(5):
        await http.post("/v1/users", USER, idempotency_key=f"old {number}")
    assert await counted(http, "requests") == 5
    clock.advance(days=1)
    await http.post("/v1/users", USER, idempotency_key="new")
    assert await counted(http, "requests") == 1


async def test_a_failing_clean_up_of_idempotency_keys_harms_no_request(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "SWEEP_INTERVAL_S", 0.0)

    async def broken(_limit: int) -> int:
        raise StoreUnavailable("planted")

    monkeypatch.setattr(http.app.store, "forget_requests", broken)
    assert (await http("POST", "/v1/users", USER, idempotency_key="a")).status_code == 201


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\tb", "\u00e9 "])
async def test_text_that_is_no_idempotency_key_is_refused(http: Caller, key: str) -> None:
    answer = await http.client.post("/v1/users", json=USER, headers={b"Idempotency-Key": key.encode("latin-1")})
    assert paths(answer) == ["Idempotency-Key"]
    assert await counted(http, "users") == 0


async def test_a_deletion_whose_answer_was_lost_is_answered_again(http: Caller) -> None:
    await http.put("/v1/timers/a", {"due_at": "2026-12-01T09:00:00Z", "type": "x"})
    first = await http("DELETE", "/v1/timers/a", idempotency_key="a")
    again = await http("DELETE", "/v1/timers/a", idempotency_key="a")
    assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
    assert (await http("DELETE", "/v1/timers/a")).status_code == 404


async def test_a_secret_is_not_kept_with_its_answer(http: Caller, mine: Tenant) -> None:
    for method, path in (("PUT", "/v1/targets/new"), ("POST", "/v1/targets/new/rotate")):
        body = {"url": "https://hooks.example"} if method == "PUT" else {}
        answers = [await http(method, path, body, idempotency_key="a", authorization=mine.key()) for _ in range(2)]
        assert all("idempotency-replayed" not in answer.headers for answer in answers)
    assert await counted(http, "requests") == 0


async def test_a_stored_answer_about_an_erased_user_is_empty_and_the_request_is_still_not_repeated(
    http: Caller,
) -> None:
    person = {**USER, "first_name": "Theodora", "key": "theo-77"}
    added = await http("POST", "/v1/users", person, idempotency_key="a")
    renamed = {"users": [{**person, "last_name": "Quill"}]}
    await http("POST", "/v1/users/import", renamed, idempotency_key="import theo-77")
    await http("POST", "/v1/users", USER, idempotency_key="b")
    done = await http.app.users.erase(added.json()["id"], tenant="default")
    assert done.answers == 2
    for word in ("Theodora", "theo-77", "Quill"):
        assert await tables_with(http.app.store, word) == []
    again = await http("POST", "/v1/users", person, idempotency_key="a")
    assert again.status_code == 409
    assert "was used for another request" in again.json()["detail"]
    assert await counted(http, "users") == 1
    assert (await http("POST", "/v1/users", USER, idempotency_key="b")).json()["first_name"] == "Ada"
