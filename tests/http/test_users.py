"""Users over HTTP, and what follows from what is said of them."""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from duly import Event
from duly.ids import new_id
from duly.testing import ManualClock
from tests.api.greeting import at, greetings
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import DAY, a_user

FULL = a_user(
    key="crm-7",
    anniversary="2015-06-01",
    delivery_time="08:30:00",
    leap="mar1",
    target={"webhook": "https://hooks.example/ada"},
    attributes={"cat": ["Tom", 3, None, "é"], "deep": {"a": {"b": 1.5}}},
)


async def add(http: Caller, **fields: Any) -> dict[str, Any]:
    user: dict[str, Any] = await http.post("/v1/users", a_user(**fields))
    return user


async def change(http: Caller, user: dict[str, Any], **fields: Any) -> dict[str, Any]:
    changed: dict[str, Any] = await http.put(f"/v1/users/{user['id']}", fields)
    return changed


async def birthday(http: Caller, user: dict[str, Any]) -> dict[str, Any]:
    """The one that is planned."""
    events = (await http.get(f"/v1/users/{user['id']}/events"))["events"]
    [head] = [event for event in events if event["type"] == "birthday" and event["status"] == "PENDING"]
    assert (head["user_id"], head["schedule"]) == (user["id"], None)
    return dict(head)


# -- POST, GET, PUT, DELETE


async def test_a_user_is_added_and_comes_back_as_they_were(http: Caller) -> None:
    added = await http("POST", "/v1/users", FULL)
    user = added.json()
    assert (added.status_code, added.headers["location"]) == (201, f"/v1/users/{user['id']}")
    assert {field: user[field] for field in FULL} == FULL
    assert user["created_at"] == user["updated_at"] == "2026-01-01T00:00:00Z"
    got = await http("GET", added.headers["location"])
    assert (got.json(), got.headers["etag"]) == (user, added.headers["etag"])
    events = (await http.get(f"/v1/users/{user['id']}/events"))["events"]
    assert {event["type"]: event["due_at"] for event in events} == {
        "birthday": "2026-03-15T12:30:00Z",
        "anniversary": "2026-06-01T12:30:00Z",
    }
    assert {str(event["target"]) for event in events} == {str(FULL["target"])}


@pytest.mark.parametrize("said", [a_user(), FULL, a_user(attributes={}), a_user(anniversary="2020-02-29")])
async def test_a_user_put_back_as_they_were_shown_changes_nothing(
    http: Caller, clock: ManualClock, said: dict[str, Any]
) -> None:
    user = await http.post("/v1/users", said)
    clock.advance(DAY)
    shown = await http("GET", f"/v1/users/{user['id']}")
    again = await http("PUT", f"/v1/users/{user['id']}", shown.json(), if_match=shown.headers["etag"])
    told = {**again.json(), "warnings": shown.json()["warnings"]}  # which a change tells, and a look does not
    assert (told, again.headers["etag"]) == (shown.json(), shown.headers["etag"])
    assert [entry["act"] for entry in (await http.get(f"/v1/users/{user['id']}/history"))["history"]] == ["created"]


async def test_a_patch_of_some_fields_of_a_user_leaves_the_others(http: Caller, clock: ManualClock) -> None:
    user = await http.post("/v1/users", FULL)
    clock.advance(DAY)
    changed = await change(http, user, last_name="King", anniversary=None, attributes={"cat": None, "dog": 1})
    wanted = {"last_name": "King", "anniversary": None, "updated_at": "2026-01-02T00:00:00Z"}
    assert changed == user | wanted | {"attributes": {"deep": {"a": {"b": 1.5}}, "dog": 1}}
    events = (await http.get(f"/v1/users/{user['id']}/events"))["events"]
    assert {event["type"]: event["status"] for event in events} == {"birthday": "PENDING", "anniversary": "SKIPPED"}
    nothing = await change(http, changed, delivery_time=None, leap=None, key=None, target=None)
    assert [nothing[field] for field in ("delivery_time", "leap", "key", "target")] == [None] * 4
    assert (await birthday(http, user))["due_at"] == "2026-03-15T13:00:00Z", "at 9:00 again"


async def test_a_deleted_user_is_gone_with_their_future_events(http: Caller, clock: ManualClock) -> None:
    greeted = greetings(http.app)
    user = await add(http, timezone="UTC")
    assert await http.delete(f"/v1/users/{user['id']}") == user
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/events"), ("GET", "/history")):
        gone = await http(method, f"/v1/users/{user['id']}{path}", {} if method == "PUT" else None)
        assert (gone.status_code, user["id"] in gone.json()["detail"]) == (404, True)
    clock.set(at("2026-03-16 00:00"))
    await http.app.tick()
    assert greeted == []
    [event] = (await http.get(f"/v1/events?user_id={user['id']}"))["events"]
    assert event["status"] == "CANCELLED"


async def test_text_that_is_no_id_of_a_user_is_not_found(http: Caller) -> None:
    for id in ("7", "x/y", quote("a/b", safe=""), "%00", new_id(), "user:x", "é"):
        for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/events"), ("GET", "/history")):
            answer = await http(method, f"/v1/users/{id}{path}", {"last_name": "x"} if method == "PUT" else None)
            assert answer.status_code == 404, (id, path)


# -- what is refused


async def test_all_that_is_wrong_with_a_new_user_is_told_at_once(http: Caller) -> None:
    bad = {
        "first_name": "  ", "last_name": "x" * 101, "date_of_birth": "1990-02-30", "timezone": "Mars/Olympus",
        "anniversary": 19900315, "delivery_time": "25:00", "leap": "maybe", "target": {"pigeon": 1}, "attributes": [],
        "key": "", "nickname": "x", "id": new_id(), "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert {path.partition(".")[0] for path in paths(await http("POST", "/v1/users", bad))} == set(bad)
    required = ["first_name", "last_name", "date_of_birth", "timezone"]
    assert paths(await http("POST", "/v1/users", {})) == required
    assert paths(await http("POST", "/v1/users", {"nickname": 1})) == ["nickname", *required]
    assert (await http.get("/v1/users"), await http.get("/v1/events")) == (
        {"users": [], "next_cursor": None},
        {"events": [], "next_cursor": None, "next_after": None},
    )


async def test_all_that_is_wrong_with_a_change_is_told_at_once(http: Caller) -> None:
    user = await http.post("/v1/users", FULL)
    bad = {
        "first_name": "", "last_name": None, "date_of_birth": 5, "timezone": "UTC+1", "id": new_id(),
        "tenant": "acme", "nickname": "x",
    }  # fmt: skip
    found = paths(await http("PUT", f"/v1/users/{user['id']}", bad))
    assert set(found) == set(bad)
    assert await http.get(f"/v1/users/{user['id']}") == user
    body: Any
    for body in ([], 5, "x"):
        assert (await http("PUT", f"/v1/users/{user['id']}", body)).status_code == 422
        assert (await http("POST", "/v1/users", body)).status_code == 422


@pytest.mark.parametrize("field", ["date_of_birth", "anniversary"])
async def test_a_date_of_birth_that_is_no_date_is_refused(http: Caller, field: str) -> None:
    bad: Any
    for bad in (
        19900315, 1.5, True, [], {}, "", "1990-02-30", "1990-3-15", "15.03.1990", "1990-03-15T00:00:00Z", "19900315",
        "0000-01-01", "10000-01-01", "-1990-03-15", "1900-02-29", "\u0661990-03-15",
    ):  # fmt: skip
        assert paths(await http("POST", "/v1/users", a_user(**{field: bad}))) == [field], bad


async def test_a_birth_in_the_future_of_the_users_own_zone_is_refused(http: Caller, clock: ManualClock) -> None:
    clock.set(at("2026-03-14 10:00"))
    tomorrow = a_user(date_of_birth="2026-03-15")
    refused = await http("POST", "/v1/users", tomorrow | {"timezone": "America/New_York"})
    assert paths(refused) == ["date_of_birth"]
    assert "2026-03-15 is in the future" in refused.text
    with_more = await http("POST", "/v1/users", tomorrow | {"timezone": "America/New_York", "nickname": "x"})
    assert sorted(paths(with_more)) == ["date_of_birth", "nickname"], "by the same clock"
    born = await http.post("/v1/users", tomorrow | {"timezone": "Pacific/Kiritimati"})
    for more in ({}, {"nickname": 1}):
        moved = await http("PUT", f"/v1/users/{born['id']}", {"date_of_birth": "2026-03-16", **more})
        assert sorted(paths(moved)) == ["date_of_birth", *more]


async def test_a_key_belongs_to_one_user(http: Caller) -> None:
    first = await add(http, key="k")
    again = await http("POST", "/v1/users", a_user(key="k"))
    assert (again.status_code, "'k' already" in again.json()["detail"]) == (409, True)
    other = await add(http)
    assert (await http("PUT", f"/v1/users/{other['id']}", {"key": "k"})).status_code == 409
    assert (await http.get("/v1/users?key=k"))["users"] == [{**first, "warnings": []}]
    assert (await http.get("/v1/users?key=nobody"))["users"] == []
    assert (await http.get(f"/v1/users?key={quote('a/b&c')}"))["users"] == []
    assert len((await http.get("/v1/users"))["users"]) == 2
    assert paths(await http("GET", "/v1/users?first_name=Ada")) == ["query.first_name"]


# -- what follows


async def test_a_change_of_zone_keeps_nine_oclock_local(http: Caller) -> None:
    user = await add(http)
    before = await birthday(http, user)
    assert before["due_at"] == "2026-03-15T13:00:00Z"
    await change(http, user, timezone="America/Los_Angeles")
    after = await birthday(http, user)
    assert (after["due_at"], after["local_at"]) == ("2026-03-15T16:00:00Z", "2026-03-15T09:00:00")
    assert (after["id"], after["timezone"]) == (before["id"], "America/Los_Angeles")


async def test_a_new_name_reaches_the_message_that_waits(http: Caller, clock: ManualClock) -> None:
    greeted = greetings(http.app)
    user = await add(http, timezone="UTC")
    await change(http, user, first_name="Augusta", last_name="King")
    message = {"message": "Hey, Augusta King it's your birthday"}
    assert (await birthday(http, user))["payload"] == message
    clock.set(at("2026-03-15 09:00"))
    await http.app.tick()
    assert [event.payload for event in greeted] == [message]
    assert (await birthday(http, user))["occurrence"] == "2027-03-15"


async def test_a_change_of_a_user_during_a_delivery_holds_for_the_next_one(http: Caller, clock: ManualClock) -> None:
    async def rename(event: Event) -> None:
        await change(http, user, first_name="Augusta", timezone="Asia/Tokyo")

    greeted = greetings(http.app, also=rename)
    user = await add(http, timezone="UTC")
    clock.set(at("2026-03-15 09:00"))
    await http.app.tick()
    assert [event.payload["message"] for event in greeted] == ["Hey, Ada Lovelace it's your birthday"]
    ahead = await birthday(http, user)
    assert (ahead["payload"]["message"], ahead["due_at"]) == (
        "Hey, Augusta Lovelace it's your birthday",
        "2027-03-15T00:00:00Z",
    )


async def test_the_target_of_a_user_can_be_changed(http: Caller) -> None:
    user = await add(http, target={"webhook": "https://old.example/in"})
    await change(http, user, target={"webhook": "https://new.example/in"})
    assert (await birthday(http, user))["destination"] == "https://new.example"
    await change(http, user, target=None)
    assert (await birthday(http, user))["target"] is None


async def test_attributes_of_a_user_make_events(http: Caller) -> None:
    user = await add(http, attributes={"reminder": {"on": "2026-05-01"}})
    types = {event["type"] for event in (await http.get(f"/v1/users/{user['id']}/events"))["events"]}
    assert types == {"birthday", "reminder"}
    for method, path, body in (
        ("POST", "/v1/users", a_user(attributes={"reminder": "soon"})),
        ("PUT", f"/v1/users/{user['id']}", {"attributes": {"reminder": "soon"}}),
    ):
        [found] = paths(await http(method, path, body))
        assert found.startswith("attributes.reminder")


# -- ETags


async def test_an_edit_of_a_user_with_an_old_etag_is_refused(http: Caller) -> None:
    added = await http("POST", "/v1/users", a_user())
    seen, address = added.headers["etag"], added.headers["location"]
    now = (await http("PUT", address, {"last_name": "King"}, if_match=seen)).headers["etag"]
    for method, body in (("PUT", {"last_name": "Byron"}), ("DELETE", None)):
        for stale in (seen, f"W/{now}", '"x", "y"'):
            assert (await http(method, address, body, if_match=stale)).status_code == 412
        assert paths(await http(method, address, body, if_match="x")) == ["If-Match"]
    assert (await http.get(address))["last_name"] == "King"
    answers = await asyncio.gather(*(http("PUT", address, {"last_name": f"L{n}"}, if_match=now) for n in range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert (await http("PUT", address, {"last_name": "B"}, if_match=f'"x", {now}, *')).status_code == 412
    assert (await http("PUT", address, {"last_name": "B"}, if_match="*")).status_code == 200
    assert (await http("DELETE", address, if_match="*")).status_code == 200
    assert (await http("DELETE", address, if_match="*")).status_code == 404


async def test_simultaneous_patches_of_different_fields_of_a_user_all_hold(http: Caller) -> None:
    user = await add(http)
    fields: list[dict[str, str]] = [{"first_name": "Augusta"}, {"last_name": "King"}, {"timezone": "Asia/Tokyo"}]
    answers: list[httpx.Response] = await asyncio.gather(
        *(http("PUT", f"/v1/users/{user['id']}", field) for field in fields)
    )
    assert [answer.status_code for answer in answers] == [200] * 3
    shown = await http.get(f"/v1/users/{user['id']}")
    assert (shown["first_name"], shown["last_name"], shown["timezone"]) == ("Augusta", "King", "Asia/Tokyo")
    head = await birthday(http, user)
    assert (head["due_at"], head["payload"]["message"][:16]) == ("2026-03-15T00:00:00Z", "Hey, Augusta Kin")


# -- lists


async def test_pages_are_stable_while_users_are_added(http: Caller) -> None:
    ids = [(await add(http))["id"] for _ in range(7)][::-1]
    page = await http("GET", "/v1/users?limit=3")
    found = [user["id"] for user in page.json()["users"]]
    while page.json()["next_cursor"]:
        await add(http)
        page = await http("GET", page.links["next"]["url"])
        found += [user["id"] for user in page.json()["users"]]
    assert found == ids
    cursor = (await http.get("/v1/users?limit=1"))["next_cursor"]
    assert paths(await http("GET", f"/v1/users?key=k&cursor={cursor}")) == ["cursor"]


async def test_the_events_of_a_user_come_in_pages(http: Caller, clock: ManualClock) -> None:
    greetings(http.app)
    user = await add(http, timezone="UTC")
    other = await add(http, timezone="UTC")
    for year in range(2026, 2031):
        clock.set(at(f"{year}-03-15 09:00"))
        await http.app.tick()
    found: list[Any] = []
    address: str | None = f"/v1/users/{user['id']}/events?limit=2"
    while address:
        page = await http("GET", address)
        found += page.json()["events"]
        address = page.links["next"]["url"] if page.json()["next_cursor"] else None
    assert [event["occurrence"][:4] for event in found] == ["2031", "2030", "2029", "2028", "2027", "2026"]
    cursor = (await http.get(f"/v1/users/{user['id']}/events?limit=2"))["next_cursor"]
    assert (await http("GET", f"/v1/users/{other['id']}/events?limit=2&cursor={cursor}")).is_success


# -- history and import


async def test_the_history_of_a_user_names_who_acted_and_no_values(http: Caller, calling: OpenCaller) -> None:
    made = await http.app.keys.create("crm", scope="write")
    keyed = await calling(http.app, authorization=f"Bearer {made.secret}")
    user = await add(keyed)
    await change(keyed, user, last_name="Secret", timezone="UTC")
    history = (await keyed.get(f"/v1/users/{user['id']}/history"))["history"]
    assert [(entry["act"], entry["worker"], entry["detail"]) for entry in history] == [
        ("created", "key crm", None),
        ("changed", "key crm", "last_name, timezone"),
    ]


async def test_one_bad_user_of_many_does_not_harm_the_others(http: Caller) -> None:
    known = await add(http, key="known")
    same = await add(http, key="same")
    many = [
        a_user(key="new"), {"first_name": "Ada"}, 5, a_user(key="known", last_name="King"), a_user(key="same"),
        a_user(date_of_birth="1990-02-30", timezone="Mars"), a_user(nickname="x"), a_user(), None, a_user(key="new"),
    ]  # fmt: skip
    done = await http.post("/v1/users/import", {"users": many})
    assert [result["status"] for result in done["results"]] == [
        "added", "refused", "refused", "changed", "unchanged", "refused", "refused", "added", "refused", "unchanged",
    ]  # fmt: skip
    ids = [result["id"] for result in done["results"]]
    [new] = (await http.get("/v1/users?key=new"))["users"]
    assert (ids[0], ids[3], ids[4], ids[9]) == (new["id"], known["id"], same["id"], new["id"])
    assert (await http.get(f"/v1/users/{ids[7]}"))["key"] is None
    assert [number for number, id in enumerate(ids) if id is None] == [1, 2, 5, 6, 8]
    counts = {word: done[word] for word in ("added", "changed", "unchanged", "refused")}
    assert counts == {"added": 2, "changed": 1, "unchanged": 2, "refused": 5}
    assert [error["path"] for error in done["results"][5]["errors"]] == ["date_of_birth", "timezone"]
    assert len((await http.get("/v1/users"))["users"]) == 4
    assert (await http.get("/v1/users?key=known"))["users"][0]["last_name"] == "King"
    bad: Any
    for bad in ({}, {"users": []}, {"users": {}}, {"users": [a_user()], "more": 1}, [], 5):
        assert paths(await http("POST", "/v1/users/import", bad)) == ["users"]


async def test_thousands_of_users_are_imported_by_one_request(http: Caller) -> None:
    many = [a_user(key=f"k{n}") for n in range(5000)] + [a_user(key="k0", last_name="King"), a_user(timezone="Mars")]
    many[2500] = {**many[2500], "date_of_birth": 5}
    done = await http.post("/v1/users/import", {"users": many})
    assert [done[word] for word in ("added", "changed", "unchanged", "refused")] == [4999, 1, 0, 2]
    assert [n for n, result in enumerate(done["results"]) if result["status"] == "refused"] == [2500, 5001]
    assert (await http.get("/v1/users?key=k0"))["users"][0]["last_name"] == "King"


async def test_an_unusual_zone_of_a_user_is_taken_and_warned_of(http: Caller) -> None:
    added = await http("POST", "/v1/users", FULL | {"timezone": "Etc/GMT+2"})
    told = ["Etc/GMT+2 is UTC-2: the sign in its name is reversed, and there is no summer time"]
    assert (added.status_code, added.json()["warnings"]) == (201, told)
    back = await http("PUT", f"/v1/users/{added.json()['id']}", added.json() | {"timezone": "UTC"})
    assert (back.status_code, back.json()["warnings"]) == (200, [])
