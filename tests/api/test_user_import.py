"""Many users at once: the good ones are kept, the bad ones are told of, and doing it again changes nothing."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duly import Duly, InStatus, Misuse, User
from duly.errors import Problem
from duly.records.results import Imported, RefusedRow, StoredRow
from duly.testing import ManualClock
from duly.verbs.users.bulk_import import ROWS_PER_TRANSACTION, ImportLine, ImportObserver
from tests.api.greeting import at, due, greetings, planned
from tests.make import DAY, a_user

ZONES = ["America/New_York", "Europe/London", "Asia/Tokyo", "Asia/Kathmandu"]


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    """So many users with keys, of several zones and birthdays."""
    return [
        a_user(key=f"k{n:06}", timezone=ZONES[n % 4], date_of_birth=f"1990-{n % 12 + 1:02}-{n % 28 + 1:02}", **fields)
        for n in range(count)
    ]


async def everybody(app: Duly) -> list[User]:
    found: list[User] = []
    while page := await app.users.list(limit=1000, after=found[-1].id if found else None):
        found += page
    return found


async def one_head_each(app: Duly) -> None:
    """Each user has exactly one birthday ahead, at 9:00 where the user lives."""
    heads: dict[str, int] = {}
    users = {user.id: user for user in await everybody(app)}
    after: str | None = None
    while page := await app.events.find(InStatus("PENDING"), limit=1000, after=after):
        after = page[-1].id
        for event in page:
            user = users[event.user_id or ""]
            heads[user.id] = heads.get(user.id, 0) + 1
            assert (event.type, event.head, event.timezone) == ("birthday", True, user.timezone)
            assert event.local is not None
            assert (event.local.hour, event.local.month, event.local.day) == (
                9,
                user.date_of_birth.month,
                user.date_of_birth.day,
            )
            assert event.payload == {"message": f"Hey, {user.first_name} {user.last_name} it's your birthday"}
    assert heads == dict.fromkeys(users, 1)


def counted(done: Imported) -> tuple[int, int, int, int]:
    return done.added, done.changed, done.unchanged, done.refused


# -- good and bad rows


async def test_good_rows_are_imported_and_bad_rows_told_with_number_and_reasons(app: Duly) -> None:
    done = await app.users.import_(
        [
            a_user(key="a"),
            {"first_name": "", "timezone": "Mars", "shoe_size": 38},
            a_user(key="b", date_of_birth="1990-02-30"),
            "no row at all",  # type: ignore[list-item]
            a_user(date_of_birth="2030-01-01"),
            a_user(attributes={"reminder": 7}),
            ImportLine(70, Problem("", "line 70 is no JSON")),
            a_user(key="c"),
        ]
    )
    assert counted(done) == (2, 0, 0, 6)
    assert (done.rows, done.last) == (8, 8)
    assert sorted(user.key or "" for user in await everybody(app)) == ["a", "c"]
    told = {bad.number: [problem.path for problem in bad.problems] for bad in done.problems}
    assert told == {
        2: ["last_name", "date_of_birth", "first_name", "timezone", "shoe_size"],
        3: ["date_of_birth"],
        4: [""],
        5: ["date_of_birth"],
        6: ["attributes.reminder"],
        70: [""],
    }
    await one_head_each(app)


@pytest.mark.parametrize("key", [["a"], {"a": 1}, 7, "", " a", "\x00", "\ud800", "x" * 501, True, 1.5, b"a"])
async def test_a_bad_key_is_a_bad_row_and_nothing_worse(app: Duly, key: Any) -> None:
    done = await app.users.import_([a_user(key="good"), a_user(key=key), a_user(key="better")])
    assert counted(done) == (2, 0, 0, 1)
    [(number, [problem])] = done.problems
    assert (number, problem.path) == (2, "key")


async def test_a_row_with_field_names_that_are_no_text_is_bad(app: Duly) -> None:
    assert counted(await app.users.import_([{**a_user(), 7: "x", None: "y"}])) == (0, 0, 0, 1)  # type: ignore[dict-item]


async def test_importing_no_rows_does_nothing(app: Duly) -> None:
    assert await app.users.import_([]) == Imported()


async def test_imported_users_without_keys_are_new_each_time(app: Duly) -> None:
    for _ in range(2):
        assert counted(await app.users.import_([a_user(), a_user()])) == (2, 0, 0, 0)
    assert len(await everybody(app)) == 4
    await one_head_each(app)


async def test_imported_users_are_greeted_as_others_are(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    await app.users.import_([a_user(key="a", anniversary="2015-06-01", delivery_time="08:00", leap="skip")], by="crm")
    user = await app.users.by_key("a")
    assert (user.created_by, str(user.anniversary), str(user.delivery_time)) == ("crm", "2015-06-01", "08:00:00")
    assert [head.type for head in await app.users.ahead(user.id)] == ["birthday", "anniversary"]
    clock.set(at("2026-03-15 12:00"))
    await app.tick()
    assert [event.user_id for event in greeted] == [user.id]
    assert await due(app, user) == at("2027-03-15 12:00")


async def test_an_import_can_report_each_bad_row_and_its_progress(app: Duly) -> None:
    refused: list[RefusedRow] = []
    progress: list[Imported] = []
    bad = [{"key": "x"}, *rows(3), {}]
    done = await app.users.import_(bad, telling=ImportObserver(refused.append, progress.append))
    assert [one.number for one in refused] == [1, 5]
    assert progress[-1] == done
    assert done.last == 5


async def test_an_import_can_report_the_user_of_each_good_row(app: Duly) -> None:
    known, same = await app.users.add(**a_user(key="known")), await app.users.add(**a_user(key="same"))
    stored: list[StoredRow] = []
    many = [a_user(key="new"), a_user(key="known", last_name="King"), {}, a_user(key="same"), a_user(key="new")]
    await app.users.import_(many, telling=ImportObserver(stored=stored.append))
    new = await app.users.by_key("new")
    assert sorted(stored) == [
        StoredRow(1, new.id, "added"),
        StoredRow(2, known.id, "changed"),
        StoredRow(4, same.id, "unchanged"),
        StoredRow(5, new.id, "unchanged"),
    ]


# -- again


async def test_importing_the_same_rows_again_changes_nothing(app: Duly, clock: ManualClock) -> None:
    many = rows(20, attributes={"cat": "Tom", "n": 1})
    assert counted(await app.users.import_(many)) == (20, 0, 0, 0)
    users = await everybody(app)
    heads = [await planned(app, user) for user in users]
    clock.advance(DAY)
    again = [{**row, "attributes": {"n": 1, "cat": "Tom"}} for row in reversed(many)]
    assert counted(await app.users.import_(again)) == (0, 0, 20, 0)
    assert await everybody(app) == users
    assert [await planned(app, user) for user in users] == heads
    assert [len(await app.users.history(user.id)) for user in users] == [1] * 20


async def test_importing_changed_rows_changes_their_users(app: Duly) -> None:
    await app.users.import_(rows(4))
    before = {key: await planned(app, await app.users.by_key(key)) for key in ("k000000", "k000001")}
    changes = [
        {"key": "k000000", "timezone": "America/Los_Angeles"},
        {"key": "k000001", "last_name": "King"},
        {"key": "k000002", "timezone": "Mars"},
        {"key": "k000003", "date_of_birth": "2030-01-01"},
        {"key": "new", "first_name": "Bob"},
        a_user(key="new2"),
    ]
    done = await app.users.import_(changes, by="crm")
    assert counted(done) == (1, 2, 0, 3)
    assert [bad.number for bad in done.problems] == [3, 4, 5]
    moved, renamed = [await app.users.by_key(key) for key in before]
    assert (moved.timezone, moved.first_name) == ("America/Los_Angeles", "Ada"), "the rest stays"
    assert (await planned(app, moved)).id == before["k000000"].id
    assert (await planned(app, renamed)).payload == {"message": "Hey, Ada King it's your birthday"}
    assert [(entry.act, entry.worker) for entry in await app.users.history(moved.id)] == [
        ("created", "import"),
        ("changed", "crm"),
    ]
    await one_head_each(app)


async def test_a_row_whose_key_comes_again_changes_the_earlier_user(app: Duly) -> None:
    names = ["One", "Two", "Two", "Three"]
    done = await app.users.import_([a_user(key="k", first_name=name) for name in names])
    assert counted(done) == (1, 2, 1, 0)
    assert (await app.users.by_key("k")).first_name == "Three"
    await one_head_each(app)


async def test_the_last_row_of_a_key_wins_also_when_it_restores_the_stored_values(app: Duly) -> None:
    await app.users.import_([a_user(key="k", first_name="Old")])
    done = await app.users.import_([a_user(key="k", first_name=name) for name in ("New", "Old")])
    assert (await app.users.by_key("k")).first_name == "Old"
    assert counted(done) == (0, 2, 0, 0)


async def test_each_tenant_has_its_own_keys_of_users(app: Duly) -> None:
    for tenant in ("a", "b"):
        assert counted(await app.users.import_(rows(3), tenant=tenant)) == (3, 0, 0, 0)
    assert counted(await app.users.import_(rows(3, leap="mar1"), tenant="a")) == (0, 3, 0, 0)
    assert {user.leap for user in await app.users.list(tenant="b")} == {None}


# -- more than one chunk


async def test_a_large_import_is_stored_in_chunks_with_progress_after_each(app: Duly) -> None:
    count = 2 * ROWS_PER_TRANSACTION + 7
    many = rows(count)
    many[ROWS_PER_TRANSACTION + 1]["timezone"] = "Mars"
    progress: list[Imported] = []

    async def one_by_one() -> AsyncIterator[dict[str, Any]]:
        for row in many:
            yield row

    done = await app.users.import_(one_by_one(), telling=ImportObserver(progress=progress.append))
    assert counted(done) == (count - 1, 0, 0, 1)
    assert [told.last for told in progress] == [ROWS_PER_TRANSACTION, 2 * ROWS_PER_TRANSACTION, count]
    assert [bad.number for bad in done.problems] == [ROWS_PER_TRANSACTION + 2]
    again = await app.users.import_(
        iter([{**row, "timezone": "Asia/Tokyo"} for row in many[: ROWS_PER_TRANSACTION + 1]])
    )
    in_tokyo = sum(row["timezone"] == "Asia/Tokyo" for row in many[: ROWS_PER_TRANSACTION + 1])
    assert counted(again) == (0, ROWS_PER_TRANSACTION + 1 - in_tokyo, in_tokyo, 0)
    await one_head_each(app)


async def test_a_row_may_change_a_user_that_an_earlier_chunk_added(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.verbs.users.bulk_import.ROWS_PER_TRANSACTION", 3)
    many = [a_user(key=f"k{n % 4}", first_name=f"Name {n}") for n in range(20)]
    done = await app.users.import_(many)
    assert (done.added, done.rows, done.refused) == (4, 20, 0)
    assert sorted(user.first_name for user in await everybody(app)) == [f"Name {n}" for n in range(16, 20)]
    await one_head_each(app)


async def test_an_import_whose_rows_cannot_be_read_to_the_end_leaves_whole_chunks(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.verbs.users.bulk_import.ROWS_PER_TRANSACTION", 10)

    def broken() -> Iterator[dict[str, Any]]:
        yield from rows(25)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await app.users.import_(broken())
    assert len(await everybody(app)) in (10, 20)
    await one_head_each(app)
    assert (await app.users.import_(rows(30))).rows == 30
    assert len(await everybody(app)) == 30


async def test_an_import_that_is_cancelled_leaves_whole_chunks(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.verbs.users.bulk_import.ROWS_PER_TRANSACTION", 10)
    heard = asyncio.Event()
    work = asyncio.create_task(app.users.import_(rows(500), telling=ImportObserver(progress=lambda _: heard.set())))
    await heard.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    count = len(await everybody(app))
    assert count % 10 == 0
    assert 10 <= count < 500
    await one_head_each(app)


# -- at once, from two processes


@pytest.fixture
async def two(clean_postgres: str, clock: ManualClock) -> AsyncIterator[tuple[Duly, Duly]]:
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(Duly(clean_postgres, clock=clock)) for _ in range(2)]
        yield one, other


@pytest.mark.parametrize("count", [60, 1200])
async def test_two_imports_of_the_same_keys_end_with_each_user_once(two: tuple[Duly, Duly], count: int) -> None:
    """In whatever order either of them has the rows."""
    chance = random.Random(count)
    for number in range(3):
        files = [rows(count) for _ in two]
        for file in files:
            chance.shuffle(file)
            for row in file:
                row["key"] = f"{number}-{row['key']}"
        done = await asyncio.gather(*(app.users.import_(file) for app, file in zip(two, files, strict=True)))
        assert sum(one.added for one in done) == count
        assert sum(one.unchanged for one in done) == count
        assert [one.refused + one.changed for one in done] == [0, 0]
    assert len(await everybody(two[0])) == 3 * count
    await one_head_each(two[0])


async def test_an_import_and_changes_at_once_lose_nobody(two: tuple[Duly, Duly]) -> None:
    app, other = two
    await app.users.import_(rows(300))
    users = await everybody(app)

    async def change() -> None:
        for user in users[::3]:
            await other.users.update(user.id, attributes={"n": 1})

    async def delete() -> None:
        for user in users[1::3]:
            await other.users.delete(user.id)

    done, *_ = await asyncio.gather(app.users.import_(rows(300, leap="mar1")), change(), delete())
    assert (done.rows, done.refused) == (300, 0)
    left = {user.id: user for user in await everybody(app)}
    assert all(left[user.id].attributes == {"n": 1} for user in users[::3])
    assert {left[user.id].leap for user in [*users[::3], *users[2::3]]} == {"mar1"}
    await one_head_each(app)


async def test_an_import_adds_a_user_who_was_deleted_since_it_looked(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.users.import_([a_user(key="k", first_name="Old")])
    user = await app.users.by_key("k")
    begin, deleted = app.store.begin, False

    def delete_first() -> Any:
        nonlocal deleted
        if deleted:
            return begin()
        deleted = True
        monkeypatch.undo()
        return After(app.users.delete(user.id), begin)

    monkeypatch.setattr(app.store, "begin", delete_first)
    done = await app.users.import_([a_user(key="k", first_name="New")])
    assert counted(done) == (1, 0, 0, 0)
    again = await app.users.by_key("k")
    assert (again.first_name, again.id != user.id) == ("New", True)


class After:
    """Enters another context when something else is done."""

    def __init__(self, first: Any, then: Any) -> None:
        self._first, self._then = first, then

    async def __aenter__(self) -> Any:
        await self._first
        self._entered = self._then()
        return await self._entered.__aenter__()

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._entered.__aexit__(*raised)


@pytest.mark.parametrize("rows", [None, 7, "key,first_name", {"first_name": "Ada"}])
async def test_importing_a_single_object_instead_of_rows_is_misuse(app: Duly, rows: Any) -> None:
    with pytest.raises(Misuse, match="expected a list of rows"):
        await app.users.import_(rows)
