"""Users over HTTP: every verb does what Python's own does, and gives the same."""

from datetime import date, time
from typing import Any

import msgspec
import pytest

from duly import Conflict, Duly, Invalid, Misuse, NotFound, Stale, User
from duly.client import Client
from duly.errors import Problem
from duly.records.results import Imported, RefusedRow, StoredRow
from duly.verbs.users.bulk_import import ImportLine, ImportObserver
from tests.client.test_events import NOBODY, told

ADA: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": date(1990, 12, 10),
    "timezone": "Europe/London",
}


def seen(user: User) -> User:
    """Without what is not told over HTTP."""
    return msgspec.structs.replace(user, created_by=None, usual_time=None, via=None)


async def test_a_user_is_what_python_has_on_the_same_database(app: Duly, client: Client) -> None:
    user = await client.users.add(
        **ADA,
        key="crm/7 ä",
        anniversary="2020-05-01",
        delivery_time=time(8, 30),
        leap="mar1",
        target={"webhook": "https://hooks.example/duly"},
        attributes={"plan": "gold"},
    )
    there = await app.users.get(user.id)
    assert user == seen(there) == await client.users.get(user.id) == await client.users.by_key("crm/7 ä")
    assert user.tag == there.tag
    assert await client.users.events(user.id) == told(await app.users.events(user.id))
    assert await client.users.ahead(user.id) == told(await app.users.ahead(user.id)) != []
    changed = await client.users.update(user.id, timezone="Asia/Tokyo", anniversary=None, expected=user.tag)
    assert changed == seen(await app.users.get(user.id))
    assert (changed.timezone, changed.anniversary) == ("Asia/Tokyo", None)
    assert await client.users.history(user.id) == await app.users.history(user.id)
    with pytest.raises(Stale):
        await client.users.update(user.id, first_name="Eve", expected=user.tag)
    with pytest.raises(Stale):
        await client.users.delete(user.id, expected=user.tag)
    assert await client.users.delete(user.id, expected=changed.tag) == changed
    with pytest.raises(NotFound):
        await client.users.get(user.id)


async def test_pages_of_users_over_http_follow_one_another(
    app: Duly, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.client.protocol.paging.MOST_LISTED", 2)
    for n in range(5):
        await client.users.add(**ADA, key=str(n))
    there = [seen(user) for user in await app.users.list(tenant="default")]
    assert [user async for user in client.users.all()] == there
    first = await client.users.list(limit=3)
    assert first + await client.users.list(limit=3, after=first[-1].id) == there


async def test_an_import_over_http_tells_what_became_of_each_row(
    app: Duly, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.client.users.bulk_import.USERS_PER_REQUEST", 3)
    await client.users.add(**ADA, key="known")
    rows: list[Any] = [
        ADA | {"key": "a"},
        {"key": "known", "timezone": "Asia/Tokyo"},
        ADA | {"timezone": "Mars/Base"},
        5,
        ADA | {"key": "a"},
        ImportLine(17, Problem("line", "cannot be read")),
        ImportLine(18, ADA | {"attributes": float("nan")}),
        ImportLine(19, ADA),
    ]
    refused: list[RefusedRow] = []
    progress: list[Imported] = []
    stored: list[StoredRow] = []
    telling = ImportObserver(refused.append, progress.append, stored.append)
    done = await client.users.import_(iter(rows), telling=telling)
    assert (done.added, done.changed, done.unchanged, done.refused, done.last) == (2, 1, 1, 4, 19)
    assert [bad.number for bad in refused] == [3, 4, 17, 18]
    assert refused[0].problems[0].path == "timezone"
    assert tuple(refused) == done.problems
    assert [one.rows for one in progress] == [3, 6, 8]
    known, a = await app.users.by_key("known"), await app.users.by_key("a")
    assert known.timezone == "Asia/Tokyo"
    assert stored[:3] == [
        StoredRow(1, a.id, "added"),
        StoredRow(2, known.id, "changed"),
        StoredRow(5, a.id, "unchanged"),
    ]
    assert (stored[3].number, stored[3].act, len(stored)) == (19, "added", 4)


async def test_problems_of_a_user_are_the_same_over_http_as_in_python(app: Duly, client: Client) -> None:
    for fields in ({}, ADA | {"date_of_birth": "1990-02-30", "shoe": 7}, ADA | {"attributes": {"x": {1, 2}}}):
        with pytest.raises(Invalid) as here:
            await client.users.add(**fields)
        with pytest.raises(Invalid) as there:
            await app.users.add(**fields)
        assert {problem.path for problem in here.value.problems} == {problem.path for problem in there.value.problems}
    await client.users.add(**ADA, key="k")
    with pytest.raises(Conflict):
        await client.users.add(**ADA, key="k")
    with pytest.raises(NotFound):
        await client.users.by_key("nobody")
    with pytest.raises(NotFound):
        await client.users.update(NOBODY, first_name="Eve")
    with pytest.raises(Invalid, match="expected a UUID"):
        await client.users.delete("7")
    with pytest.raises(Misuse, match="not available over HTTP"):
        await client.users.delete(NOBODY, reason="x")
    with pytest.raises(Misuse, match="where the event types are registered"):
        client.users.refresh()


async def test_a_client_lists_the_event_types_of_the_server(app: Duly, client: Client) -> None:
    app.on("invoice.overdue")(print)
    listed = await client.event_types.list()
    assert [one.name for one in listed if one.source == "calendar"] == sorted(app.event_types.names())
    assert ("invoice.overdue", "handler") in [(one.name, one.source) for one in listed]


async def test_a_list_of_large_users_takes_several_pages_and_is_complete(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.verbs.users.users.PAGE_BYTES", 1000)
    made = [await client.users.add(**ADA | {"attributes": {"note": "x" * 400}}) for _ in range(10)]
    newest_first = [user.id for user in reversed(made)]
    assert [user.id for user in await client.users.list(limit=9)] == newest_first[:9]
    assert [user.id for user in await client.users.list(limit=9, after=newest_first[8])] == newest_first[9:]
    assert [user.id async for user in client.users.all()] == newest_first


async def test_settings_of_event_types_are_what_python_has(app: Duly, client: Client) -> None:
    user = await client.users.add(**ADA, key="u7", attributes={"language": "de", "n": 42})
    assert user.warnings[0].startswith("events of birthday have nowhere to go")
    texts, target = {"de": "Alles Gute, {first_name}!"}, {"webhook": "https://crm.example"}
    settings = await client.event_types.update("birthday", texts=texts, target=target)
    assert (settings.texts, settings.target, settings.following) == (texts, target, False)
    assert (await app.event_types.settings("birthday")).texts == texts
    assert (await client.event_types.settings("birthday")) == settings
    [birthday] = await client.users.ahead(user.id)
    assert (birthday.payload, birthday.user) == (
        {"message": "Alles Gute, Ada!"},
        (await app.users.ahead(user.id))[0].user,
    )
    assert [one.key for one in await client.users.list(attributes={"n": 42})] == ["u7"]
    assert await client.users.list(attributes={"n": "42"}) == []
    with pytest.raises(NotFound, match="there is no event type"):
        await client.event_types.settings("brithday")
    done = await client.users.import_([ADA | {"key": f"i{n}", "anniversary": "2020-05-01"} for n in range(3)])
    assert done.nowhere == {"anniversary": 3}
    assert len(done.warnings) == 1
