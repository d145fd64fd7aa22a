"""What a tenant sets for event types, over HTTP and from a client; and users who are found by their attributes."""

from typing import Any

from tests.http.calling import Caller, OpenCaller, paths
from tests.make import a_user

TEXTS = {"de": "Alles Gute, {first_name}!", "default": "Ho"}
HOOK = {"webhook": "https://default.example"}


async def messages(http: Caller, user: Any) -> list[str]:
    events = (await http.get(f"/v1/users/{user['id']}/events"))["events"]
    return [event["payload"]["message"] for event in events]


async def test_texts_and_the_target_of_a_type_are_set_and_read(http: Caller) -> None:
    empty = await http.get("/v1/event-types/birthday")
    assert (empty["texts"], empty["target"], empty["created_at"]) == ({}, None, None)
    put = await http.put("/v1/event-types/birthday", {"texts": TEXTS, "target": HOOK})
    assert (put["texts"], put["target"], put["following"], put["warnings"]) == (TEXTS, HOOK, False, [])
    assert await http.get("/v1/event-types/birthday") == put
    assert await http.put("/v1/event-types/birthday", put) == put, "what was read can be sent back"
    less = await http.put("/v1/event-types/birthday", {"texts": {"de": None}, "target": None})
    assert (less["texts"], less["target"]) == ({"default": "Ho"}, None)


async def test_waiting_events_follow_a_text_that_is_put_over_http(http: Caller) -> None:
    user = await http.post("/v1/users", a_user(attributes={"language": "de"}))
    await http.put("/v1/event-types/birthday", {"texts": TEXTS})
    assert await messages(http, user) == ["Alles Gute, Ada!"]


async def test_bad_settings_are_refused_all_at_once(http: Caller) -> None:
    answer = await http(
        "PUT", "/v1/event-types/birthday", {"texts": {"de": "{x}", "?": "a"}, "target": {"x": 1}, "y": 1}
    )
    assert sorted(paths(answer)) == ["target", "texts.?", "texts.de", "y"]
    assert (await http("PUT", "/v1/event-types/nothing", {})).status_code == 404


async def test_a_tenant_sees_and_changes_its_own_settings_only(calling: OpenCaller, http: Caller) -> None:
    await http.app.event_types.update("birthday", texts={"default": "Theirs"}, tenant="theirs")
    assert (await http.get("/v1/event-types/birthday"))["texts"] == {}
    await http.put("/v1/event-types/birthday", {"texts": {"default": "Ours"}})
    theirs = await http.app.event_types.settings("birthday", tenant="theirs")
    assert theirs.texts == {"default": "Theirs"}


async def test_a_user_whose_events_have_nowhere_to_go_is_answered_with_a_warning(http: Caller) -> None:
    [warning] = (await http.post("/v1/users", a_user(key="u7")))["warnings"]
    assert warning.startswith("events of birthday have nowhere to go: the user has no target")
    imported = await http.post("/v1/users/import", {"users": [a_user(key=f"u{n}") for n in range(3)]})
    assert imported["nowhere"] == {"birthday": 3}
    assert len(imported["warnings"]) == 1
    await http.put("/v1/event-types/birthday", {"target": HOOK})
    assert (await http.post("/v1/users", a_user(key="u8")))["warnings"] == []


async def test_users_are_found_by_attributes_over_http(http: Caller) -> None:
    for key, attributes in {"a": {"plan": "pro", "n": 42}, "b": {"plan": "free", "n": "42"}, "c": {}}.items():
        await http.post("/v1/users", a_user(key=key, attributes=attributes))

    async def who(query: str) -> list[str]:
        return [user["key"] for user in (await http.get(f"/v1/users?{query}"))["users"]]

    assert await who("attributes.plan=pro") == ["a"]
    assert await who("attributes.n=42") == ["b", "a"]
    assert await who("attributes.n=%2242%22") == ["b"]
    assert await who("attributes.n=42&attributes.plan=pro") == ["a"]
    first = await http.get("/v1/users?attributes.n=42&limit=1")
    assert await who(f"attributes.n=42&limit=1&cursor={first['next_cursor']}") == ["a"]
    assert paths(await http("GET", "/v1/users?attributes.a..b=1&limit=x")) == ["limit", "attributes.a..b"]
    assert await who("attributes.plan=pro&key=a") == ["a"]
    assert await who("attributes.plan=pro&key=b") == []
