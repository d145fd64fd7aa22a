"""The pages of users: the list, one user, and the acts on them."""

import re
from datetime import date
from typing import Any
from urllib.parse import quote

import pytest

from duly import Duly, Event, User
from duly.records.event import Status
from duly.records.filters import EventFilter
from tests.conftest import OpenDuly
from tests.dashboard.elsewhere import printed, run_command, run_curl
from tests.dashboard.visiting import OpenVisitor, Page, Visitor
from tests.make import a_user

WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("birthday")
    async def greet(event: Event) -> None: ...

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


def listed(page: Page) -> list[str]:
    """The ids of the users in a list, in its order."""
    return re.findall(r'<td><a href="/users/([0-9a-f-]{36})"><b>', page.html)


def facts(user: User) -> dict[str, Any]:
    """What people can set of a user, but for the key."""
    names = "first_name last_name date_of_birth timezone anniversary delivery_time leap target attributes".split()
    return {name: getattr(user, name) for name in names}


# -- the list


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", ["grace", "ada"]),
        ("name=lovel", ["ada"]),
        ("name=Grace+Hop", ["grace"]),
        ("key=ada", ["ada"]),
        ("timezone=Asia/Tokyo", ["grace"]),
        ("timezone=Asia/Tokyo&name=Ada", []),
    ],
)
async def test_users_are_found_by_name_key_and_zone(asked: str, found: list[str], app: Duly, visitor: Visitor) -> None:
    await app.users.add(**a_user(key="ada"))
    await app.users.add(**a_user(key="grace", first_name="Grace", last_name="Hopper", timezone="Asia/Tokyo"))
    page = await visitor.get(f"/users?{asked}" if asked else "/users")
    assert [(await app.users.get(id)).key for id in listed(page)] == found
    assert ("No user matches" in page.text) == (not found)
    [counts] = [link for link in page.links if link.startswith("/counts/")]
    assert f"{len(found)} user" in (await visitor.get(counts)).text


async def test_an_address_to_share_has_no_empty_fields(visitor: Visitor) -> None:
    sent = await visitor.get("/users?name=Ada&key=&timezone=", status=303)
    assert sent.answer.headers["location"] == "/users?name=Ada"


async def test_a_zone_that_is_none_is_told_at_its_field(visitor: Visitor) -> None:
    page = await visitor.get("/users?timezone=Brussels", status=422)
    assert "is not a time zone" in page.text
    assert "after" in (await visitor.get("/users?after=x", status=422)).text


async def test_pages_follow_one_another(app: Duly, visitor: Visitor) -> None:
    await app.users.import_([a_user(key=f"u{number}") for number in range(120)])
    path, seen = "/users?name=Ada", list[str]()
    for _ in range(3):
        page = await visitor.get(path)
        seen += listed(page)
        following = [link for link in page.links if "after=" in link]
        path = following[-1] if following else path
    assert (len(seen), len(set(seen)), "First page" in page.text) == (120, 120, True)


async def test_the_list_has_the_next_event_on_the_clocks_of_the_user(app: Duly, visitor: Visitor) -> None:
    await app.users.add(**a_user(timezone="Asia/Tokyo"))
    page = await visitor.get("/users")
    assert "Sun 2026-03-15 09:00" in page.text
    assert "1990-03-15" in page.text


async def test_an_empty_list_says_how_to_add_the_first(visitor: Visitor) -> None:
    assert "duly users add --first-name Ada" in (await visitor.get("/users")).text


async def test_the_printed_import_is_a_command_that_works(
    app: Duly, visitor: Visitor, url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await visitor.get("/users")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(
        "first_name,last_name,date_of_birth,timezone,key\nAda,Lovelace,1815-12-10,Europe/London,ada\n"
    )
    page.html = page.html.replace("import-command", "act-command")
    await run_command(page, url)
    assert (await app.users.by_key("ada")).last_name == "Lovelace"


# -- one user


async def test_the_page_of_a_user_has_upcoming_events_on_both_clocks(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user(key="ada", timezone="Asia/Tokyo", attributes={"n": 12345678901234567890}))
    [head] = await app.users.ahead(user.id)
    visitor.client.cookies.set("duly_zone", "Europe%2FBrussels")
    page = await visitor.get(f"/users/{user.id}")
    for words in ("Sun 2026-03-15 09:00", "Sun 15 Mar 01:00", "12345678901234567890", "created by api", "birthday"):
        assert words in page.text, words
    assert {f"/events/{head.id}", f"/events?user_id={user.id}"} <= set(page.links)
    assert "Sun 2026-03-15 09:00" in await visitor.live(f"/users/{user.id}")


async def test_a_key_leads_to_the_page_of_its_user(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user(key="a/b c"))
    sent = await visitor.get("/users/a%2Fb%20c", status=303)
    assert sent.answer.headers["location"] == f"/users/{user.id}"
    await visitor.get("/users/nobody", status=404)


async def test_attributes_are_hidden_from_read_keys_until_they_are_asked_for(app: Duly, visiting: OpenVisitor) -> None:
    user = await app.users.add(**a_user(attributes={"mail": "ada@example.org"}))
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    page = await reader.get(f"/users/{user.id}")
    assert "ada@example.org" not in page.html
    assert "ada@example.org" not in (await reader.get(f"/users/{user.id}/edit")).html
    [shown] = [link for link in page.links if "payload=1" in link]
    assert "ada@example.org" in (await reader.get(shown)).text


async def test_what_others_have_written_is_text_in_every_field(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(
        **a_user(first_name=WICKED, last_name=WICKED, key=WICKED, attributes={WICKED: WICKED}), by=WICKED
    )
    paths = ["/users", f"/users?name={quote(WICKED)}", f"/users/{user.id}"]
    paths += [f"/users/{user.id}/{verb}" for verb in ("edit", "delete", "erase")]
    for path in paths:
        page = await visitor.get(path)
        assert "<img" not in page.html.replace('<img src="/static/icon.svg', ""), path
        assert "onerror" in page.text or "onerror" in str(page.fields), path
    assert "<img" not in await visitor.live(f"/users/{user.id}")


# -- acts

FULL: dict[str, Any] = {
    "first_name": "-Grace",
    "last_name": "O'Hopper",
    "date_of_birth": "1992-02-29",
    "timezone": "Asia/Tokyo",
    "anniversary": "2015-06-20",
    "delivery_time": "08:30",
    "leap": "mar1",
    "attributes": '{"plan": "gold", "n": 12345678901234567890, "x": [1.5]}',
}
"""Every field of a user but the key and the target, filled in."""


async def test_adding_is_the_same_by_form_by_command_and_over_http(app: Duly, visitor: Visitor, url: str) -> None:
    done = await visitor.act("/users/new", **FULL, key="form")
    assert "-Grace O'Hopper is added; 2 events planned." in done.text
    await run_command(await visitor.before("/users/new", **FULL, key="command"), url)
    await run_curl(await visitor.before("/users/new", **FULL, key="curl"), visitor)
    users = [await app.users.by_key(key) for key in ("form", "command", "curl")]
    assert facts(users[0]) == facts(users[1]) == facts(users[2])
    assert users[0].date_of_birth == date(1992, 2, 29)
    assert users[0].attributes == {"plan": "gold", "n": 12345678901234567890, "x": [1.5]}
    assert done.answer.url.path == f"/users/{users[0].id}"
    assert f"/users/{users[0].id}/delete" in done.links


CHANGES: dict[str, Any] = {
    "last_name": "King",
    "timezone": "Europe/London",
    "anniversary": "",
    "delivery_time": "",
    "attributes": '{"plan": "pro", "new": [1]}',
}
"""An edit: some fields change, some are removed, and so are some attributes."""


async def test_editing_is_the_same_by_form_by_command_and_over_http(app: Duly, visitor: Visitor, url: str) -> None:
    ids = []
    for key in ("form", "command", "curl"):
        given: dict[str, Any] = {**FULL, "attributes": {"plan": "gold", "old": True, "same": 1.10}}
        ids.append((await app.users.add(**given, key=key)).id)
    done = await visitor.act(f"/users/{ids[0]}/edit", **CHANGES)
    assert "is changed: last name, timezone, anniversary, delivery time, attributes." in done.text
    before = await visitor.before(f"/users/{ids[1]}/edit", **CHANGES)
    assert "--first-name" not in printed(before, "act-command")
    await run_command(before, url)
    await run_curl(await visitor.before(f"/users/{ids[2]}/edit", **CHANGES), visitor)
    users = [await app.users.get(id) for id in ids]
    assert facts(users[0]) == facts(users[1]) == facts(users[2])
    assert users[0].attributes == {"plan": "pro", "new": [1]}
    assert (users[0].anniversary, users[0].delivery_time, users[0].leap) == (None, None, "mar1")


async def test_an_edit_can_be_undone(app: Duly, visitor: Visitor) -> None:
    given: dict[str, Any] = {**FULL, "attributes": {"plan": "gold", "old": True}}
    user = await app.users.add(**given)
    done = await visitor.act(f"/users/{user.id}/edit", **CHANGES)
    [undo] = [link for link in done.links if "/edit?" in link]
    await visitor.act(undo)
    assert facts(await app.users.get(user.id)) == facts(user)


async def test_an_edit_of_what_somebody_else_has_changed_meanwhile_is_refused(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user())
    form = await visitor.get(f"/users/{user.id}/edit")
    await app.users.update(user.id, last_name="King")
    for verb in ("edit", "delete"):
        sent = form.fields | {"first_name": "Augusta", "timezone": "UTC"}
        refused = await visitor.post(f"/users/{user.id}/{verb}", status=409, **sent)
        assert "has been changed since you read it" in refused.text
    after = await app.users.get(user.id)
    assert (after.first_name, after.last_name) == ("Ada", "King")


async def test_an_edit_tells_before_what_it_changes(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user())
    assert "Nothing differs yet." in (await visitor.before(f"/users/{user.id}/edit")).text
    told = await visitor.before(f"/users/{user.id}/edit", timezone="Asia/Tokyo")
    assert "This changes: timezone." in told.text
    assert "nothing was changed" in (await visitor.act(f"/users/{user.id}/edit")).text
    assert len(await app.users.history(user.id)) == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"date_of_birth": "1990-02-30"}, "is not a valid date"),
        ({"timezone": "Brussels"}, "is not a time zone"),
        ({"first_name": ""}, "is missing"),
        ({"attributes": "{"}, "is not valid JSON"),
        ({"attributes": "[1]"}, "expected an object"),
        ({"attributes": "[" * 5000}, "is not valid JSON"),
        ({"target": '{"pigeon": 1}'}, "pigeon"),
        ({"leap": "never"}, "must be one of"),
        ({"key": "taken"}, "taken"),
    ],
)
async def test_what_cannot_be_is_refused_and_what_was_filled_in_stays(
    fields: dict[str, Any], told: str, app: Duly, visitor: Visitor
) -> None:
    await app.users.add(**a_user(key="taken"))
    status = 409 if "key" in fields else 422
    refused = await visitor.act("/users/new", status=status, **(FULL | fields))
    assert told in refused.text
    assert refused.fields["last_name"] == "O'Hopper"
    assert len(await app.users.list()) == 1


async def test_deleting_is_the_same_by_form_by_command_and_over_http(app: Duly, visitor: Visitor, url: str) -> None:
    users = [await app.users.add(**a_user(key=key)) for key in ("form", "command", "curl")]
    form = await visitor.get(f"/users/{users[0].id}/delete")
    assert "1 planned event is cancelled" in form.text
    done = await visitor.act(f"/users/{users[0].id}/delete")
    assert "Ada Lovelace is deleted." in done.text
    await run_command(await visitor.before(f"/users/{users[1].id}/delete"), url)
    await run_curl(await visitor.before(f"/users/{users[2].id}/delete"), visitor)
    assert await app.users.list() == []
    for user in users:
        assert [event.status for event in await app.events.find(EventFilter(user_id=user.id))] == [Status.CANCELLED]


async def test_erasing_asks_for_the_name_and_cannot_be_undone(app: Duly, visitor: Visitor, url: str) -> None:
    user, other = await app.users.add(**a_user(key="ada")), await app.users.add(**a_user(key="other"))
    for wrong in ("", "Ada", "ada lovelace", user.id):
        refused = await visitor.act(f"/users/{user.id}/erase", status=422, name=wrong)
        assert "write Ada Lovelace, to say that you mean it" in refused.text
    done = await visitor.act(f"/users/{user.id}/erase", name="Ada Lovelace")
    assert "The user is erased: 1 event" in done.text
    assert "Undo" not in done.text
    before = await visitor.before(f"/users/{other.id}/erase")
    assert "curl" not in before.text
    await run_command(before, url)
    assert await app.users.list() == []
    for one in (user, other):
        [event] = await app.events.find(EventFilter(user_id=one.id))
        assert "Ada" not in event.payload_json


async def test_a_user_who_was_deleted_before_is_erased_by_id(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user())
    await app.users.delete(user.id)
    await visitor.act(f"/users/{user.id}/erase", status=422, name="Ada Lovelace")
    await visitor.act(f"/users/{user.id}/erase", name=user.id)
    [event] = await app.events.find(EventFilter(user_id=user.id))
    assert "Ada" not in event.payload_json


# -- who may


async def test_a_read_key_sees_forms_and_cannot_act(app: Duly, visiting: OpenVisitor) -> None:
    user = await app.users.add(**a_user())
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    paths = ["/users/new", *(f"/users/{user.id}/{verb}" for verb in ("edit", "delete", "erase"))]
    for path in paths:
        assert re.search("this needs (write|admin)", (await reader.get(path)).text)
        await reader.act(path, status=403, **FULL, name="Ada Lovelace")
    assert await app.users.list() == [user]


async def test_erasing_needs_a_key_with_the_scope_admin(app: Duly, visiting: OpenVisitor) -> None:
    user = await app.users.add(**a_user())
    for scope in ("write", "admin"):
        made = await app.keys.create(scope, scope=scope)
        visitor = await visiting(app)
        await visitor.sign_in(made.secret)
        form = await visitor.get(f"/users/{user.id}/erase")
        assert ("this needs admin" in form.text) == (scope == "write")
        await visitor.act(f"/users/{user.id}/erase", status=403 if scope == "write" else 303, name="Ada Lovelace")
        assert bool(await app.users.list()) == (scope == "write")


async def test_a_user_of_another_tenant_is_not_there(app: Duly, visiting: OpenVisitor) -> None:
    theirs = await app.users.add(**a_user(key="theirs"), tenant="rival")
    made = await app.keys.create("ada", scope="admin")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    for name in (theirs.id, "theirs", "00000000-0000-0000-0000-000000000000"):
        await visitor.get(f"/users/{name}", status=404)
        for verb in ("edit", "delete", "erase"):
            await visitor.get(f"/users/{name}/{verb}", status=404)
            await visitor.post(f"/users/{name}/{verb}", status=404, name="Ada Lovelace", last_name="x")
            await visitor.post(f"/users/{name}/{verb}?before=1", status=404)
    assert theirs.id not in (await visitor.get("/users")).html
    assert f"/users/{theirs.id}" not in (await visitor.get(f"/events?user_id={theirs.id}")).links
    assert await app.users.list(tenant="rival") == [theirs]
