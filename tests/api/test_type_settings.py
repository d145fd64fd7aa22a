"""What tenants set for event types: texts by language and default targets; and what becomes of waiting events."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, Invalid, NotFound, Status, User, webhook
from duly.engine.series import follow_settings as following
from duly.testing import ManualClock
from tests.api.greeting import planned
from tests.api.sending import OPTIONS, body
from tests.api.test_transactions import Oops
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE, START, a_user
from tests.receivers.obedient import Obedient

BIRTHDAY = START.replace(month=3, day=15, hour=9)
GERMAN = "Alles Gute, {first_name}!"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


async def says(app: Duly, user: User) -> str:
    return str((await planned(app, user)).payload["message"])


# -- texts


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("de", "Alles Gute, Ada!"),
        ("de-CH", "Alles Gute, Ada!"),
        ("DE_at", "Servus Ada Lovelace"),
        ("de-at-1996", "Servus Ada Lovelace"),
        ("fr", "Happy {birthday}, Lovelace"),
        ("", "Happy {birthday}, Lovelace"),
        (["de"], "Happy {birthday}, Lovelace"),
        (None, "Happy {birthday}, Lovelace"),
    ],
)
async def test_the_text_is_that_of_the_users_language(app: Duly, language: Any, said: str) -> None:
    texts = {"de": GERMAN, "de_AT": "Servus {full_name}", "default": "Happy {{birthday}}, {last_name}"}
    settings = await app.event_types.update("birthday", texts=texts)
    assert settings.texts == {"de": GERMAN, "de-AT": texts["de_AT"], "default": texts["default"]}
    assert await says(app, await app.users.add(**a_user(attributes={"language": language}))) == said


async def test_without_a_text_it_stays_that_of_the_type(app: Duly) -> None:
    user = await app.users.add(**a_user(attributes={"language": "fr"}))
    await app.event_types.update("birthday", texts={"de": GERMAN})
    assert await says(app, user) == "Hey, Ada Lovelace it's your birthday"
    settings = await app.event_types.settings("birthday")
    assert settings.default_text == "Hey, {first_name} {last_name} it's your birthday"


async def test_a_text_of_one_tenant_and_type_is_of_no_other(app: Duly) -> None:
    await app.event_types.update("birthday", texts={"default": "Ours"}, tenant="acme")
    ours = await app.users.add(**a_user(anniversary="2020-05-01"), tenant="acme")
    theirs = await app.users.add(**a_user())
    assert {event.type: event.payload["message"] for event in await app.users.ahead(ours.id)} == {
        "birthday": "Ours",
        "anniversary": "Hey, Ada Lovelace it's your anniversary",
    }
    assert await says(app, theirs) == "Hey, Ada Lovelace it's your birthday"
    assert (await app.event_types.settings("birthday")).texts == {}


async def test_waiting_events_follow_a_text_and_so_do_those_of_the_years_after(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(timezone="UTC", attributes={"language": "de"}))
    before = await planned(app, user)
    settings = await app.event_types.update("birthday", texts={"de": GERMAN})
    assert not settings.following
    after = await planned(app, user)
    assert (after.id, after.due, after.payload) == (before.id, before.due, {"message": "Alles Gute, Ada!"})
    said: list[str] = []

    @app.on("birthday")
    async def greet(event: Event) -> None:
        said.append(event.payload["message"])

    clock.set(BIRTHDAY)
    await app.tick()
    await app.event_types.update("birthday", texts={"de": None})
    clock.set(BIRTHDAY.replace(year=2027))
    await app.tick()
    assert said == ["Alles Gute, Ada!", "Hey, Ada Lovelace it's your birthday"]


async def test_another_language_or_name_changes_the_text(app: Duly) -> None:
    await app.event_types.update("birthday", texts={"de": GERMAN})
    user = await app.users.add(**a_user())
    await app.users.update(user.id, attributes={"language": "de"})
    assert await says(app, user) == "Alles Gute, Ada!"
    await app.users.update(user.id, first_name="Grace")
    assert await says(app, user) == "Alles Gute, Grace!"


async def test_names_are_put_in_as_they_are(app: Duly) -> None:
    await app.event_types.update("birthday", texts={"default": "{first_name}|{last_name}"})
    user = await app.users.add(**a_user(first_name="{last_name}", last_name="{0.__class__}"))
    assert await says(app, user) == "{last_name}|{0.__class__}"


async def test_the_message_of_a_reminder_of_ones_own_stays(app: Duly) -> None:
    await app.event_types.update("reminder", texts={"default": "Remember, {first_name}"})
    own = await app.users.add(**a_user(attributes={"reminder": {"on": "2027-05-01", "message": "Milk"}}))
    none = await app.users.add(**a_user(attributes={"reminder": {"on": "2027-05-01"}}))
    told = [
        event.payload["message"]
        for user in (own, none)
        for event in await app.users.ahead(user.id)
        if event.type == "reminder"
    ]
    assert told == ["Milk", "Remember, Ada"]


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        (
            {"texts": {"de": "{nickname}"}},
            "texts.de",
            r"'\{nickname\}' is not a field of a text; known fields: \{first_",
        ),
        ({"texts": {"de": "{first_name!r}"}}, "texts.de", "is not a field of a text"),
        ({"texts": {"de": "{first_name.__class__}"}}, "texts.de", "is not a field of a text"),
        ({"texts": {"de": "{attributes.language}"}}, "texts.de", "is not a field of a text"),
        ({"texts": {"de": "{"}}, "texts.de", r"a single \{ at 1: write \{\{"),
        ({"texts": {"de": "}"}}, "texts.de", r"a single \} at 1"),
        ({"texts": {"de": ""}}, "texts.de", "must have 1 to 1,000 characters"),
        ({"texts": {"de": 7}}, "texts.de", "expected text, not 7"),
        ({"texts": {"de": "\ud800"}}, "texts", "surrogate"),
        ({"texts": {"klingon!": "Qapla'"}}, "texts.klingon!", "is not a language"),
        ({"texts": ["de"]}, "texts", "expected an object"),
        ({"target": {"pigeon": "coop"}}, "target", "unknown channel 'pigeon'"),
        ({"target": webhook(target="nowhere")}, "target.webhook.target", "there is no target 'nowhere'"),
        ({"text": "Hey"}, "text", "is not a setting of an event type; known: texts, target"),
    ],
)
async def test_a_bad_setting_is_refused_and_changes_nothing(app: Duly, changes: Any, path: str, said: str) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        await app.event_types.update("birthday", **changes)
    assert [problem.path for problem in refused.value.problems] == [path]
    assert (await app.event_types.settings("birthday")).created is None


async def test_settings_of_an_unknown_type_are_not_found(app: Duly) -> None:
    for call in (app.event_types.settings, app.event_types.update):
        with pytest.raises(NotFound, match="registered types: anniversary, birthday"):
            await call("brithday")


async def test_two_first_changes_at_once_are_both_kept(app: Duly, duly: OpenDuly) -> None:
    other = await duly()
    await asyncio.gather(
        app.event_types.update("birthday", texts={"de": GERMAN}),
        other.event_types.update("birthday", texts={"fr": "Bravo"}),
    )
    assert (await app.event_types.settings("birthday")).texts == {"de": GERMAN, "fr": "Bravo"}


async def test_a_change_that_is_rolled_back_is_none(app: Duly) -> None:
    user = await app.users.add(**a_user())
    with suppress(Oops):
        async with app.transaction() as tx:
            await app.event_types.update("birthday", texts={"default": "Ho"}, transaction=tx)
            assert await tx.fetchval("SELECT 1") == 1
            raise Oops
    assert await says(app, user) == "Hey, Ada Lovelace it's your birthday"
    assert (await app.event_types.settings("birthday")).texts == {}


def test_synchronous_code_sets_texts_too(url: str) -> None:
    with Duly(url).sync as sync:
        user = sync.users.add(**a_user())
        assert sync.event_types.update("birthday", texts={"default": "Ho"}).texts == {"default": "Ho"}
        assert sync.event_types.settings("birthday").texts == {"default": "Ho"}
        assert [event.payload for event in sync.users.ahead(user.id)] == [{"message": "Ho"}]


class Nameday:
    name = "nameday"
    depends_on: tuple[str, ...] = ("date_of_birth",)
    default_text = "{first_name}, it is your day"

    def rule(self, user: Any, at: Any) -> Any:
        from duly import yearly

        return yearly("05-20", at=at)

    def message(self, user: Any, text: str | None = None) -> str:
        return f"* {text or 'a day'}"

    def target(self, user: Any) -> Any:
        return None


async def test_a_type_of_ones_own_with_a_default_text_takes_texts(app: Duly) -> None:
    app.event_types.register(Nameday())
    user = await app.users.add(**a_user(attributes={"language": "de"}))
    await app.event_types.update("nameday", texts={"de": GERMAN})
    told = {event.type: event.payload["message"] for event in await app.users.ahead(user.id)}
    assert told["nameday"] == "* Alles Gute, Ada!"
    await app.users.update(user.id, attributes={"language": "fr"})
    told = {event.type: event.payload["message"] for event in await app.users.ahead(user.id)}
    assert told["nameday"] == "* a day"


async def test_a_type_without_a_default_text_takes_none(app: Duly) -> None:
    class Plain(Nameday):
        name = "plain"
        default_text = None  # type: ignore[assignment]

    app.event_types.register(Plain())
    with pytest.raises(Invalid, match="texts: cannot be set: event type 'plain' has no default_text"):
        await app.event_types.update("plain", texts={"de": GERMAN})


# -- many users


async def test_the_events_of_many_users_follow_batch_by_batch(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "USERS_PER_TRANSACTION", 10)
    monkeypatch.setattr(following, "FOLLOW_WITHIN_S", 0)
    await app.users.import_([a_user(key=f"u{n}") for n in range(35)])

    async def messages() -> dict[str, int]:
        told = [event.payload["message"] for event in await app.events.find(limit=100)]
        return {one: told.count(one) for one in told}

    settings = await app.event_types.update("birthday", texts={"default": "Ho"})
    assert settings.following
    assert await messages() == {"Ho": 10, "Hey, Ada Lovelace it's your birthday": 25}
    while await following.follow_settings(app.store, app.calendars):
        pass
    assert await messages() == {"Ho": 35}
    assert not (await app.event_types.settings("birthday")).following


async def test_a_worker_makes_the_others_follow(app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "USERS_PER_TRANSACTION", 1)
    monkeypatch.setattr(following, "FOLLOW_WITHIN_S", 0)
    users = [await app.users.add(**a_user()) for _ in range(3)]
    assert (await app.event_types.update("birthday", texts={"default": "Ho"})).following
    app.settings = type(app.settings)(**{**_fields(app.settings), "poll_interval": timedelta(milliseconds=10)})
    running = asyncio.create_task(app.run(signals=False))
    try:
        async with asyncio.timeout(20):
            while (await app.event_types.settings("birthday")).following:  # noqa: ASYNC110 - a worker's doing
                await asyncio.sleep(0.01)
    finally:
        app.stop()
        await running
    assert [await says(app, user) for user in users] == ["Ho"] * 3


def _fields(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


async def test_a_user_whose_adding_began_before_a_change_and_ended_after_it_follows_too(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if app.one_writer:  # on SQLite, the change waits for the user
        return
    async with app.transaction() as tx:
        user = await app.users.add(**a_user(), transaction=tx)
        await app.event_types.update("birthday", texts={"default": "Ho"})
    assert await says(app, user) == "Hey, Ada Lovelace it's your birthday"
    assert not await following.follow_settings(app.store, app.calendars), "not yet"
    clock.advance(MINUTE)
    monkeypatch.setattr(following, "first_id_of", lambda _: "00000000-0000-7000-8000-000000000000")
    while await following.follow_settings(app.store, app.calendars):
        pass
    assert await says(app, user) == "Ho"


async def test_users_who_are_added_within_the_minute_after_a_change_are_looked_at_once_more_and_then_no_more(
    app: Duly, clock: ManualClock
) -> None:
    await app.event_types.update("birthday", texts={"default": "Ho"})
    clock.advance(MINUTE)
    assert await following.follow_settings(app.store, app.calendars)
    assert not await following.follow_settings(app.store, app.calendars)
    clock.advance(HOUR)
    assert not await following.follow_settings(app.store, app.calendars)


async def test_events_of_types_that_are_unknown_here_are_left_to_who_knows_them(app: Duly, duly: OpenDuly) -> None:
    other = await duly()
    other.event_types.register(Nameday())
    await other.event_types.update("nameday", texts={"de": GERMAN})
    assert not await following.follow_settings(app.store, app.calendars)


# -- default targets


async def test_events_of_users_without_a_target_go_to_the_default_one(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    before = await app.users.add(**a_user(key="before", timezone="UTC"))
    await app.event_types.update("birthday", target=webhook(receiver.url("/default")))
    await app.users.add(**a_user(key="after", timezone="UTC"))
    await app.users.add(**a_user(key="own", timezone="UTC", target=webhook(receiver.url("/own"))))
    await app.users.add(**a_user(key="theirs", timezone="UTC"), tenant="theirs")
    assert (await planned(app, before)).lane == "webhook"
    clock.set(BIRTHDAY)
    await app.tick()
    sent = sorted((request.target, body(request)["event"]["user"]["key"]) for request in receiver.requests)
    assert sent == [("/default", "after"), ("/default", "before"), ("/own", "own")]


async def test_another_default_target_reaches_waiting_events_and_none_gives_them_back_to_handlers(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    user = await app.users.add(**a_user(timezone="UTC"))
    await app.event_types.update("birthday", target=webhook(receiver.url("/one")))
    await app.event_types.update("birthday", target=webhook(receiver.url("/two")))
    event = await planned(app, user)
    assert event.target == webhook(receiver.url("/two"))
    clock.set(BIRTHDAY)
    await app.tick()
    assert [request.target for request in receiver.requests] == ["/two"]
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    settings = await app.event_types.update("birthday", target=None)
    assert settings.target is None
    assert (await planned(app, user)).lane == "handler:birthday"


async def test_a_target_of_ones_own_that_is_removed_gives_way_to_the_default_one(app: Duly) -> None:
    await app.event_types.update("birthday", target=webhook("https://default.example"))
    user = await app.users.add(**a_user(target=webhook("https://own.example")))
    assert (await planned(app, user)).target == webhook("https://own.example")
    await app.users.update(user.id, target=None)
    assert (await planned(app, user)).target == webhook("https://default.example")


async def test_a_default_target_in_place_of_a_handler_warns(app: Duly) -> None:
    @app.on("birthday")
    async def greet(event: Event) -> None: ...

    settings = await app.event_types.update("birthday", target=webhook("https://default.example"))
    [warning] = settings.warnings
    assert warning.startswith("this process has a handler for birthday, which does not get the events of this tenant")
    user = await app.users.add(**a_user())
    assert (await planned(app, user)).lane == "webhook", "whichever process plans the event"


async def test_a_text_and_a_target_are_kept_apart(app: Duly) -> None:
    await app.event_types.update("birthday", target=webhook("https://default.example"))
    settings = await app.event_types.update("birthday", texts={"de": GERMAN})
    assert (settings.target, settings.texts) == (webhook("https://default.example"), {"de": GERMAN})
    again = await app.event_types.update("birthday", texts={"de": GERMAN})
    assert again.updated == settings.updated


# -- nowhere to go


NOWHERE = (
    "events of birthday have nowhere to go: the user has no target, tenant 'default' has no default target for them, "
    "and this process has no handler; set a target, or a default one: duly event-types update birthday --webhook URL"
)


async def test_a_user_whose_events_have_nowhere_to_go_is_added_with_a_warning(app: Duly) -> None:
    user = await app.users.add(**a_user())
    assert user.warnings == (NOWHERE,)
    assert (await app.users.update(user.id, first_name="Grace")).warnings == (NOWHERE,)
    assert (await app.users.update(user.id, target=webhook("https://own.example"))).warnings == ()
    [warning] = (await app.users.update(user.id, target=None, anniversary="2020-05-01")).warnings
    assert warning.startswith("events of anniversary and birthday have nowhere to go")


async def test_a_user_whose_events_have_somewhere_to_go_is_added_without_one(app: Duly) -> None:
    assert (await app.users.add(**a_user(target=webhook("https://own.example")))).warnings == ()
    await app.event_types.update("birthday", target=webhook("https://default.example"), tenant="acme")
    assert (await app.users.add(**a_user(), tenant="acme")).warnings == ()

    @app.on("birthday")
    async def greet(event: Event) -> None: ...

    assert (await app.users.add(**a_user())).warnings == ()


async def test_an_import_counts_users_whose_events_have_nowhere_to_go(app: Duly) -> None:
    rows = [a_user(key=f"u{n}") for n in range(3)] + [a_user(key="own", target=webhook("https://own.example"))]
    rehearsed = await app.users.rehearse_import(rows)
    done = await app.users.import_(rows)
    assert done.nowhere == rehearsed.nowhere == {"birthday": 3}
    assert done.warnings == (
        "events of birthday have nowhere to go: 3 added users have no target, and their tenant has no default one for "
        "them, and this process has no handler; set a target, or a default one: duly event-types update birthday "
        "--webhook URL",
    )
    assert (await app.users.import_(rows)).warnings == (), "they were added before"


# -- more than a message


class Loyalty(Nameday):
    name = "loyalty"
    depends_on = ("first_name", "attributes.points")

    def payload(self, user: Any) -> Any:
        return user.attributes.get("loyalty", {"points": user.attributes.get("points", 0), "card": None})


async def test_a_type_adds_to_the_payload_beside_the_message(app: Duly) -> None:
    app.event_types.register(Loyalty())
    user = await app.users.add(**a_user(attributes={"points": 3}))
    [event] = [event for event in await app.users.ahead(user.id) if event.type == "loyalty"]
    assert event.payload == {"message": "* a day", "points": 3, "card": None}
    await app.users.update(user.id, attributes={"points": 4})
    assert (await app.events.get(event.id)).payload == {"message": "* a day", "points": 4, "card": None}


@pytest.mark.parametrize(
    ("loyalty", "said"),
    [
        (["a"], r"its payload must be an object or None, not \['a'\]"),
        ("text", "its payload must be an object or None"),
        ({"message": "mine"}, "its payload must not have a message"),
    ],
)
async def test_a_bad_payload_refuses_the_user_as_a_bad_message_does(app: Duly, loyalty: Any, said: str) -> None:
    app.event_types.register(Loyalty())
    with pytest.raises(Invalid, match=said) as refused:
        await app.users.add(**a_user(attributes={"loyalty": loyalty}))
    assert [problem.path for problem in refused.value.problems] == ["loyalty"]


async def test_a_payload_that_raises_refuses_the_user_with_the_reason(app: Duly) -> None:
    class Broken(Loyalty):
        name = "broken"

        def payload(self, user: Any) -> Any:
            raise LookupError("no such card")

    app.event_types.register(Broken())
    with pytest.raises(Invalid, match="broken: its event type cannot use this user: LookupError: no such card"):
        await app.users.add(**a_user())


async def test_a_user_whose_default_target_was_deleted_is_refused_with_what_to_do(app: Duly) -> None:
    await app.targets.put("crm", "https://crm.example/hook")
    await app.event_types.update("birthday", target={"webhook": {"target": "crm"}})
    await app.targets.delete("crm")
    with pytest.raises(Invalid, match=r"default target of birthday.*create it again.*duly event-types update birthday"):
        await app.users.add(**a_user())
    done = await app.users.import_([a_user()])
    assert "the default target of birthday" in str(done.problems[0].problems[0])
