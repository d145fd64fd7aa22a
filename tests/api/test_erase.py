"""A person who is erased is found nowhere: not in events, histories, errors, nor in stored answers."""

import contextlib
from typing import Any

import pytest

from duly import Conflict, Duly, Event, Failed, NotFound, OfUser, Rejected, Status
from duly.records.history import Entry
from duly.records.results import Erased
from duly.records.user import User
from duly.testing import ManualClock
from tests.api.greeting import at
from tests.conftest import OpenDuly
from tests.make import DAY, a_user
from tests.stores.everything import everything_stored, tables_with
from tests.stores.rows import ask

WORDS = ("Theodora", "Quillfeather", "theo-77", "theo@quill.example")


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """Greets on birthdays; is refused on anniversaries and fails at reminders, with errors that quote the person."""
    app = await duly()

    @app.on("birthday")
    async def greet(event: Event) -> None: ...

    @app.on("anniversary")
    async def refuse(event: Event) -> Rejected:
        return Rejected(f"no mailbox for {event.payload['message']} at theo@quill.example")

    @app.on("reminder")
    async def fail(event: Event) -> Failed:
        return Failed("theo@quill.example is over quota", retry_after=30 * DAY)

    return app


async def person(app: Duly, clock: ManualClock, **fields: Any) -> User:
    """A user who was greeted in 2026 and renamed since, has a dead letter and an event that is tried again."""
    user = await app.users.add(
        by="theo-77",
        **a_user(
            first_name="Theodora",
            last_name="Quillfeather",
            key="theo-77",
            anniversary="2015-03-20",
            attributes={
                "email": "theo@quill.example",
                "reminder": {"on": "2026-04-01", "message": "Theodora's passport"},
            },
            target={"webhook": "https://hooks.example/theo-77"} if fields.pop("hooked", False) else None,
            **fields,
        ),
    )
    for day in ("2026-03-15 13:00", "2026-03-20 13:00", "2026-04-01 13:00"):
        clock.set(at(day))
        await app.tick()
    await app.users.update(user.id, first_name="Dora", by="Theodora Quillfeather")
    return user


async def test_no_byte_of_an_erased_person_is_left_in_any_table(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock)
    other = await app.users.add(**a_user())
    [trace] = await app.users.events(other.id, limit=1)
    events = {event.type: event for event in await app.events.find(OfUser(user.id)) if not event.head}
    assert {type: event.status for type, event in events.items()} == {
        "birthday": Status.COMPLETED,
        "anniversary": Status.FAILED,
        "reminder": Status.PENDING,
    }
    for word in WORDS:
        assert await tables_with(app.store, word) != [], word
    done = await app.users.erase(user.id, by="theo-77 herself")
    heads = 2  # of birthday and anniversary, which the deletion has cancelled
    assert done == Erased(
        id=user.id, deleted=True, events=3 + heads, cancelled=1 + heads, discarded=1, history=done.history, answers=0
    )
    assert done.history > 0
    for word in (*WORDS, "Dora"):
        assert await tables_with(app.store, word) == [], word
    left = await app.events.find(OfUser(user.id))
    assert {event.status for event in left} == {Status.COMPLETED, Status.CANCELLED}
    assert {(event.payload, event.target, event.owner, event.last_error) for event in left} == {(None,) * 4}
    assert [entry.act for entry in await app.events.history(events["anniversary"].id)] == ["rejected", "discarded"]
    assert await app.users.get(other.id) == other
    assert (await app.users.events(other.id, limit=1)) == [trace]


async def test_what_is_left_of_an_erased_person_says_when_what_was_done(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock)
    await app.users.erase(user.id, by="support")
    acts = "SELECT count(*) FROM duly.journal WHERE subject = $1 AND act = $2 AND worker = $3"
    assert await ask(app.store, acts, user.id, "changed", "erased") == 1  # she had done that herself
    assert await ask(app.store, acts, user.id, "erased", "support") == 1
    assert {
        entry.detail for event in await app.events.find(OfUser(user.id)) for entry in await history(app, event)
    } <= {
        None,
        "its user was erased",
    }
    with pytest.raises(NotFound):
        await app.users.get(user.id)


async def history(app: Duly, event: Event) -> list[Entry]:
    return await app.events.history(event.id)


async def test_nothing_of_an_erased_person_is_sent_later(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock)
    await app.users.erase(user.id)
    before = await everything_stored(app.store)
    clock.advance(800 * DAY)
    assert (await app.tick()).processed == 0
    assert (await everything_stored(app.store))["events" if app.one_writer else "duly.events"] == before[
        "events" if app.one_writer else "duly.events"
    ]
    assert (await app.events.replay_all()).events == 0


async def test_a_user_who_was_deleted_before_can_still_be_erased_by_the_id(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock)
    await app.users.delete(user.id, reason="Theodora Quillfeather asked for it")
    done = await app.users.erase(user.id)
    assert (done.deleted, done.events) == (False, 5)
    for word in WORDS:
        assert await tables_with(app.store, word) == [], word
    assert (await app.users.erase(user.id)).discarded == 0  # again, without effect
    with pytest.raises(NotFound, match=r"there is no user .*, and no event of one: nothing is left to erase"):
        await app.users.erase("01890000-0000-7000-8000-000000000000")


async def test_an_event_that_is_being_delivered_keeps_its_user_from_being_erased(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly()
    user = await app.users.add(**a_user())
    refused: list[str] = []

    @app.on("birthday")
    async def greet(event: Event) -> None:
        with pytest.raises(Conflict, match=r"an event of user .* is being delivered") as error:
            await app.users.erase(user.id)
        refused.append(str(error.value))

    clock.set(at("2026-03-15 13:00"))
    await app.tick()
    assert len(refused) == 1
    assert (await app.users.get(user.id)).first_name == "Ada"  # nothing was done
    assert (await app.users.erase(user.id)).deleted


async def test_nobody_is_erased_from_another_tenant(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock, tenant="acme")
    with pytest.raises(NotFound):
        await app.users.erase(user.id, tenant="other")
    await app.users.delete(user.id)
    with pytest.raises(NotFound):
        await app.users.erase(user.id, tenant="other")
    assert (await app.users.erase(user.id, tenant="acme")).events == 5


async def test_an_erasure_is_undone_with_its_transaction(app: Duly, clock: ManualClock) -> None:
    user = await person(app, clock)
    before = await everything_stored(app.store)
    with contextlib.suppress(ZeroDivisionError):
        async with app.transaction() as tx:
            assert (await app.users.erase(user.id, transaction=tx)).deleted
            raise ZeroDivisionError
    assert await everything_stored(app.store) == before
