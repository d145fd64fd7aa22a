"""Users: added, found, changed and deleted; each in its tenant, under its key, in the caller's transaction."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import date, time
from typing import Any

import asyncpg
import pytest

from duly import Conflict, Duly, Invalid, NotFound, Status, User
from duly.ids import new_id
from duly.ports.transactions import Transaction
from duly.testing import ManualClock
from duly.verbs.marks import is_for_doors
from tests.api.greeting import at, due, everything_of, planned
from tests.api.test_transactions import ASYNC, SYNC, Oops
from tests.conftest import OpenDuly
from tests.make import DAY, START, a_user

FULL = a_user(
    key="crm-7",
    anniversary="2015-06-01",
    delivery_time="08:30",
    leap="mar1",
    attributes={"cat": ["Tom", 3, None, "\x00", "é"], "deep": {"a": {"b": 1.5}}},
)

# -- add, get, change, delete


async def test_a_user_comes_back_as_it_was_added(app: Duly) -> None:
    user = await app.users.add(**FULL, by="ada")
    assert await app.users.get(user.id) == user == await app.users.by_key("crm-7")
    assert (user.first_name, user.last_name, user.timezone) == ("Ada", "Lovelace", "America/New_York")
    assert (user.date_of_birth, user.anniversary, user.delivery_time) == (
        date(1990, 3, 15),
        date(2015, 6, 1),
        time(8, 30),
    )
    assert (user.leap, user.attributes, user.target, user.tenant) == ("mar1", FULL["attributes"], None, "default")
    assert (user.created, user.updated, user.created_by) == (START, START, "ada")


@pytest.mark.parametrize("born", ["0001-01-01", "1582-10-10", "1900-02-28", "1969-12-31", "2026-01-01"])
async def test_dates_of_any_age_are_kept(app: Duly, born: str) -> None:
    user = await app.users.add(**a_user(date_of_birth=born, timezone="UTC"))
    assert (await app.users.get(user.id)).date_of_birth.isoformat() == born
    assert f"{(await planned(app, user)).local:%m-%d}" == born[5:]


@pytest.mark.parametrize("name", ['"', "\\", "\\N", "'; DROP TABLE users; --", "%s", "日本語", "🎂" * 100, "$1", "{}"])
async def test_names_of_any_kind_are_kept_and_said(app: Duly, name: str) -> None:
    user = await app.users.add(**a_user(first_name=name, key=name))
    assert (await app.users.by_key(name)).first_name == name
    assert (await planned(app, user)).payload == {"message": f"Hey, {name} Lovelace it's your birthday"}


async def test_a_bad_user_is_refused_with_all_that_is_wrong(app: Duly) -> None:
    with pytest.raises(Invalid) as refused:
        await app.users.add(**a_user(first_name="", date_of_birth="1990-02-30", timezone="Mars", nickname="x"))
    assert [problem.path for problem in refused.value.problems] == [
        "first_name",
        "date_of_birth",
        "timezone",
        "nickname",
    ]
    assert (await app.users.list(), await app.events.find()) == ([], [])


async def test_a_user_whom_an_event_type_cannot_use_is_refused(app: Duly) -> None:
    with pytest.raises(Invalid, match=r"attributes\.reminder"):
        await app.users.add(**a_user(attributes={"reminder": "soon"}))
    with pytest.raises(Invalid, match="anniversary"):
        await app.users.add(**a_user(anniversary="9999-12-31"))
    assert (await app.users.list(), await app.events.find()) == ([], [])


@pytest.mark.parametrize(
    ("zone", "now", "born"),
    [("Pacific/Kiritimati", "2026-03-14 10:00", "2026-03-15"), ("Etc/GMT+12", "2026-03-15 11:59", "2026-03-14")],
)
async def test_who_is_born_today_at_the_date_line_can_be_added_and_tomorrow_cannot(
    app: Duly, clock: ManualClock, zone: str, now: str, born: str
) -> None:
    clock.set(at(now))
    await app.users.add(**a_user(timezone=zone, date_of_birth=born))
    tomorrow = date.fromisoformat(born) + DAY
    with pytest.raises(Invalid, match=f"date_of_birth: {tomorrow} is in the future: it is {born} in "):
        await app.users.add(**a_user(timezone=zone, date_of_birth=tomorrow))


async def test_a_change_is_told_with_the_fields_but_not_with_what_they_say(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(), by="signup")
    clock.advance(DAY)
    changed = await app.users.update(user.id, last_name="King", attributes={"secret": "x"}, by="ada")
    assert (changed.last_name, changed.first_name, changed.updated) == ("King", "Ada", START + DAY)
    clock.advance(DAY)
    await app.users.update(user.id, timezone="Asia/Tokyo")
    assert [(entry.at, entry.act, entry.worker, entry.detail) for entry in await app.users.history(user.id)] == [
        (START, "created", "signup", None),
        (START + DAY, "changed", "ada", "attributes, last_name"),
        (START + 2 * DAY, "changed", "api", "timezone"),
    ]


async def test_a_deleted_user_is_gone(app: Duly) -> None:
    user = await app.users.add(**FULL)
    await app.users.delete(user.id)
    for look in (
        app.users.get,
        app.users.events,
        app.users.ahead,
        app.users.history,
        app.users.delete,
        app.users.update,
    ):
        with pytest.raises(NotFound, match=user.id):
            await look(user.id)
    with pytest.raises(NotFound):
        await app.users.by_key("crm-7")
    assert await app.users.list() == []
    again = await app.users.add(**FULL)
    assert again.id != user.id, "the key is free again"
    assert [entry.act for entry in await app.store.history(user.id)] == ["deleted"]


async def test_text_that_is_no_id_of_a_user_is_invalid(app: Duly) -> None:
    for bad in ("7", "", None, 7, "user:x"):
        with pytest.raises(Invalid, match="is not a user's id: expected a UUID; by_key finds a user by key"):
            await app.users.get(bad)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await app.users.get(new_id())


async def test_users_are_listed_the_newest_first_page_by_page(app: Duly) -> None:
    users = [await app.users.add(**a_user(), tenant="a" if n % 2 else "b") for n in range(7)]
    newest = [user.id for user in users[::-1]]
    assert [user.id for user in await app.users.list()] == newest
    page = await app.users.list(limit=3)
    assert [user.id for user in page] == newest[:3]
    assert [user.id for user in await app.users.list(limit=3, after=page[-1].id)] == newest[3:6]
    assert [user.tenant for user in await app.users.list(tenant="a")] == ["a"] * 3
    second = await app.users.list(tenant="a", limit=2, after=users[5].id)
    assert [user.id for user in second] == [users[3].id, users[1].id]
    assert await app.users.list(tenant="nobody") == []
    with pytest.raises(Invalid):
        await app.users.list(limit=0)


# -- keys


async def test_a_key_belongs_to_one_user(app: Duly) -> None:
    first = await app.users.add(**a_user(key="k"))
    with pytest.raises(Conflict, match="there is a user with the key 'k' already"):
        await app.users.add(**a_user(key="k", first_name="Bob"))
    other = await app.users.add(**a_user(key="other"))
    with pytest.raises(Conflict, match=f"user {first.id} has the key 'k' already"):
        await app.users.update(other.id, key="k", last_name="King")
    assert await app.users.get(other.id) == other
    assert len(await app.events.find()) == 2
    await app.users.update(first.id, key="k2")
    await app.users.update(other.id, key="k")
    assert [(await app.users.by_key(key)).id for key in ("k", "k2")] == [other.id, first.id]


async def test_a_key_can_be_given_and_taken_away(app: Duly) -> None:
    user = await app.users.add(**a_user())
    await app.users.update(user.id, key="k")
    await app.users.update(user.id, key=None)
    with pytest.raises(NotFound, match="no user with the key 'k' in tenant 'default'"):
        await app.users.by_key("k")
    for impossible in ("", "\x00", "x" * 1000, None, 7):
        with pytest.raises(NotFound):
            await app.users.by_key(impossible)  # type: ignore[arg-type]


# -- tenants


async def test_users_with_the_same_key_in_two_tenants_are_independent(app: Duly) -> None:
    one = await app.users.add(**a_user(key="k", first_name="One"), tenant="one")
    two = await app.users.add(**a_user(key="k", first_name="Two"), tenant="two")
    assert await app.users.by_key("k", tenant="one") == one
    assert await app.users.by_key("k", tenant="two") == two
    with pytest.raises(NotFound):
        await app.users.by_key("k")
    verbs = app.users.get, app.users.delete, app.users.events, app.users.ahead, app.users.history
    for verb in verbs:
        with pytest.raises(NotFound, match=f"no user {one.id} in tenant 'two'"):
            await verb(one.id, tenant="two")
    with pytest.raises(NotFound, match="in tenant 'two'"):
        await app.users.update(one.id, tenant="two", first_name="Mallory")
    assert await app.users.get(one.id, tenant="one") == one
    renamed = await app.users.update(one.id, tenant="one", key="k2")
    await app.users.update(renamed.id, tenant="one", key="k")
    assert {event.tenant for event in await app.users.events(one.id)} == {"one"}
    await app.users.delete(one.id, tenant="one")
    assert await app.users.by_key("k", tenant="two") == two
    assert len(await app.users.ahead(two.id, tenant="two")) == 1


async def test_a_tenant_that_is_no_name_is_refused(app: Duly) -> None:
    bad: Any
    for bad in ("", " x", "\x00", "x" * 101, None, 7):
        with pytest.raises(Invalid, match="tenant"):
            await app.users.add(**a_user(), tenant=bad)
        with pytest.raises(Invalid, match="tenant"):
            await app.users.import_([], tenant=bad)


# -- the caller's transaction


async def in_a_transaction(app: Duly, tx: Transaction, others: list[User]) -> User:
    """One of each: a user who is added, one who is changed, one who is deleted."""
    changed, deleted = others
    user = await app.users.add(**FULL, transaction=tx)
    again = await app.users.update(user.id, last_name="King", transaction=tx)
    assert again.last_name == "King"
    await app.users.update(changed.id, timezone="Asia/Tokyo", transaction=tx)
    await app.users.delete(deleted.id, transaction=tx)
    return again


async def there(app: Duly, others: list[User]) -> bool:
    """Whether all of it has happened, or nothing."""
    changed, deleted = others
    found = {user.id: user for user in await app.users.list()}
    happened = [
        len(found) - (deleted.id in found) == 2,
        deleted.id not in found,
        found[changed.id].timezone == "Asia/Tokyo",
    ]
    happened.append(await due(app, changed) == at("2026-03-15 00:00"))
    happened.append([event.status for event in await everything_of(app, deleted)] == [Status.CANCELLED])
    assert len(set(happened)) == 1, happened
    return happened[0]


async def test_users_commit_and_roll_back_with_dulys_transaction(app: Duly) -> None:
    others = [await app.users.add(**a_user()) for _ in range(2)]
    with suppress(Oops):
        async with app.transaction() as tx:
            await in_a_transaction(app, tx, others)
            raise Oops
    assert not await there(app, others)
    async with app.transaction() as tx:
        user = await in_a_transaction(app, tx, others)
    assert await there(app, others)
    assert len(await app.users.ahead(user.id)) == 2


@pytest.fixture
async def on_postgres(clean_postgres: str, clock: ManualClock) -> AsyncIterator[Duly]:
    async with Duly(clean_postgres, clock=clock) as app:
        yield app


@pytest.mark.parametrize("kind", ["asyncpg", "psycopg", "psycopg with rows as dicts", "SQLAlchemy ORM on psycopg"])
async def test_users_commit_and_roll_back_with_the_callers_own_transaction(
    on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    app = on_postgres
    others = [await app.users.add(**a_user()) for _ in range(2)]
    with suppress(Oops):
        async with ASYNC[kind](clean_postgres) as (connection, _):
            await in_a_transaction(app, connection, others)
            raise Oops
    assert not await there(app, others)
    async with ASYNC[kind](clean_postgres) as (connection, _):
        user = await in_a_transaction(app, connection, others)
        with pytest.raises(NotFound):
            await app.users.get(user.id)
    assert await there(app, others)
    assert (await app.users.get(user.id)).attributes == FULL["attributes"]


async def test_a_taken_key_leaves_the_callers_transaction_usable(on_postgres: Duly, clean_postgres: str) -> None:
    await on_postgres.users.add(**a_user(key="k"))
    async with ASYNC["asyncpg"](clean_postgres) as (connection, execute):
        with pytest.raises(Conflict):
            await on_postgres.users.add(**a_user(key="k"), transaction=connection)
        await execute("SELECT 1")
        await on_postgres.users.add(**a_user(key="k2"), transaction=connection)
    assert len(await on_postgres.users.list()) == 2


async def test_dates_are_read_right_whatever_date_style_a_session_has(on_postgres: Duly, clean_postgres: str) -> None:
    for style in ("German", "SQL, DMY", "Postgres, MDY"):
        async with ASYNC["asyncpg"](clean_postgres) as (connection, execute):
            await execute(f"SET LOCAL datestyle = '{style}'")
            user = await on_postgres.users.add(**a_user(anniversary="2015-06-01"), transaction=connection)
            changed = await on_postgres.users.update(user.id, date_of_birth="1990-04-05", transaction=connection)
        assert (changed.date_of_birth, changed.anniversary) == (date(1990, 4, 5), date(2015, 6, 1))
        assert await on_postgres.users.get(user.id) == changed


async def test_dates_are_read_right_whatever_date_style_a_server_has(on_postgres: Duly, clean_postgres: str) -> None:
    connection = await asyncpg.connect(clean_postgres)
    name = clean_postgres.rpartition("/")[2]
    try:
        await connection.execute(f"ALTER DATABASE {name} SET datestyle = 'German'")
        async with Duly(clean_postgres) as other:
            user = await other.users.add(**a_user())
            assert (await other.users.get(user.id)).date_of_birth == date(1990, 3, 15)
    finally:
        await connection.execute(f"ALTER DATABASE {name} RESET datestyle")
        await connection.close()


# -- synchronous code


def test_synchronous_code_has_every_verb_of_users(url: str, clock: ManualClock) -> None:
    app = Duly(url, clock=clock)
    with app.sync as sync:
        users = sync.users
        user = users.add(**FULL)
        assert users.get(user.id) == user == users.by_key("crm-7")
        assert users.update(user.id, last_name="King").last_name == "King"
        assert [one.id for one in users.list()] == [user.id]
        assert [event.type for event in users.ahead(user.id)] == ["birthday", "anniversary"]
        assert len(users.events(user.id)) == 2
        assert [entry.act for entry in users.history(user.id)] == ["created", "changed"]
        assert users.import_([a_user(key="crm-8"), a_user(key="crm-7"), {}]).rows == 3
        assert users.refresh().users == 2
        with sync.transaction() as tx:
            users.add(**a_user(), transaction=tx)
        assert users.delete(user.id).id == user.id
        assert len(users.list()) == 2
        verbs = {name for name in dir(app.users) if not name.startswith("_")}
        verbs -= {name for name in verbs if is_for_doors(getattr(app.users, name))}
        assert verbs == {name for name in dir(users) if not name.startswith("_")}


@pytest.mark.parametrize("kind", ["psycopg", "SQLAlchemy Core"])
def test_a_synchronous_caller_may_bring_a_transaction_of_its_own(
    clean_postgres: str, clock: ManualClock, kind: str
) -> None:
    app = Duly(clean_postgres, clock=clock)
    with app.sync as sync:
        with suppress(Oops), SYNC[kind](clean_postgres) as (connection, _):
            sync.users.add(**FULL, transaction=connection)
            raise Oops
        assert sync.users.list() == []
        with SYNC[kind](clean_postgres) as (connection, _):
            user = sync.users.add(**FULL, transaction=connection)
            sync.users.update(user.id, last_name="King", transaction=connection)
        assert sync.users.get(user.id).last_name == "King"
        with SYNC[kind](clean_postgres) as (connection, _):
            sync.users.delete(user.id, transaction=connection)
        assert sync.users.list() == []


async def test_two_processes_see_the_same_users(app: Duly, duly: OpenDuly) -> None:
    other = await duly()
    user = await app.users.add(**FULL)
    assert await other.users.get(user.id) == user
    await other.users.update(user.id, last_name="King")
    assert (await app.users.get(user.id)).last_name == "King"
