"""A replay with another payload is a new event, which names the old one, and the old one names it."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from duly import Conflict, Duly, Event, Invalid, NotFound, OfType, Rejected, Retry, Status, Timer, every, webhook
from duly.decide.checks import MAX_PAYLOAD
from duly.testing import ManualClock
from tests.api.greeting import at
from tests.api.test_schedule_verbs import events_of
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE, START, a_user

GOOD, BAD = {"invoice": 7}, {"invoice": "seven"}
RETRY = Retry(max_attempts=2, base=timedelta(minutes=1))
HOOK = webhook("https://hooks.example/in")


def bills(app: Duly) -> list[Event]:
    """Rejects each bill whose invoice is no number; returns those that it gets."""
    seen: list[Event] = []

    @app.on("bill")
    async def bill(event: Event) -> Rejected | None:
        seen.append(event)
        return None if isinstance(event.payload["invoice"], int) else Rejected("no such invoice")

    return seen


async def rejected(app: Duly, **options: Any) -> Event:
    made = await app.at(START, "bill", BAD, **options)
    await app.tick()
    dead = await app.events.get(made.id)
    assert dead.status is Status.FAILED
    return dead


async def acts(app: Duly, id: str) -> list[tuple[str, str | None, str | None]]:
    return [(entry.act, entry.worker, entry.detail) for entry in await app.events.history(id)][-1:]


# -- what the new event is


async def test_a_dead_letter_is_replayed_as_a_new_event_that_is_delivered(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    dead = await rejected(app, key="invoice-7", correlation_id="c1", retry=RETRY, expires="1h")
    clock.advance(5 * HOUR)  # it has expired: as it is, it could not be replayed
    new = await app.events.replay("invoice-7", payload=GOOD, by="ada")
    assert (new.id > dead.id, new.payload, new.status, new.due) == (True, GOOD, Status.PENDING, START + 5 * HOUR)
    assert (new.key, new.occurrence, new.series, new.head) == (None, None, None, False)
    alike = ("tenant", "type", "lane", "retry_json", "correlation_id", "expires", "target_json", "via")
    assert [getattr(new, field) for field in alike] == [getattr(dead, field) for field in alike]
    assert (new.replay_of, new.replayed_as) == (dead.id, None)
    assert await acts(app, new.id) == [("created", "ada", f"replays event {dead.id} with another payload")]
    await app.tick()
    assert [event.payload for event in seen] == [BAD, GOOD]
    assert seen[-1].replay_of == dead.id, "its handler can tell"
    done = await app.events.get(new.id)
    assert (done.status, done.attempts, done.replay_of) == (Status.COMPLETED, 1, dead.id)


async def test_the_dead_letter_ends_cancelled_and_names_the_new_event(app: Duly) -> None:
    bills(app)
    dead = await rejected(app)
    new = await app.events.replay(dead.id, payload=GOOD, by="ada")
    old = await app.events.get(dead.id)
    assert (old.status, old.payload, old.replayed_as, old.replay_of) == (Status.CANCELLED, BAD, new.id, None)
    assert await acts(app, dead.id) == [("discarded", "ada", f"replayed with another payload, as event {new.id}")]
    assert (await app.events.dead_letters()).events == 0
    assert new.id in (await app.events.why(dead.id)).message
    with pytest.raises(Conflict, match="it is CANCELLED"):
        await app.events.replay(dead.id)


@pytest.mark.parametrize("ended", [Status.COMPLETED, Status.CANCELLED, Status.SKIPPED])
async def test_what_has_ended_otherwise_is_replayed_and_keeps_its_status(
    app: Duly, clock: ManualClock, ended: Status
) -> None:
    seen = bills(app)
    made = await app.at(START, "bill", {"invoice": 1}, expires="1m")
    if ended is Status.CANCELLED:
        await app.cancel(made.id)
    elif ended is Status.SKIPPED:
        clock.advance(HOUR)
    await app.tick()
    before = await app.events.get(made.id)
    assert before.status is ended
    first = await app.events.replay(made.id, payload=GOOD, by="ada")
    second = await app.events.replay(made.id, payload={"invoice": 8}, by="grace")
    after = await app.events.get(made.id)
    assert (after.status, after.executed, after.payload) == (ended, before.executed, {"invoice": 1})
    assert after.replayed_as == second.id, "the latest; the history has all"
    told = [(entry.act, entry.worker, entry.detail) for entry in await app.events.history(made.id)][-2:]
    assert told == [
        ("replayed as", "ada", f"event {first.id}, with another payload"),
        ("replayed as", "grace", f"event {second.id}, with another payload"),
    ]
    await app.tick()
    assert sorted(event.payload["invoice"] for event in seen[-2:]) == [7, 8]


async def test_null_is_a_payload_like_any_other(app: Duly) -> None:
    bills(app)
    dead = await rejected(app)
    new = await app.events.replay(dead.id, payload=None)
    assert (new.payload, new.replay_of) == (None, dead.id)


async def test_a_replay_of_a_replay_names_the_event_before_it(app: Duly) -> None:
    bills(app)
    dead = await rejected(app)
    second = await app.events.replay(dead.id, payload=BAD)
    await app.tick()
    third = await app.events.replay(second.id, payload=GOOD)
    assert third.replay_of == second.id
    assert (await app.events.get(second.id)).status is Status.CANCELLED
    chain = [(await app.events.get(id)).replayed_as for id in (dead.id, second.id, third.id)]
    assert chain == [second.id, third.id, None]


# -- refused


async def test_an_event_that_is_open_is_refused_with_what_to_do(app: Duly, clock: ManualClock) -> None:
    made = await app.at(START + HOUR, "bill", BAD, key="k")
    with pytest.raises(Conflict, match=r"it is PENDING.*cancel it and then replay it, or reschedule it"):
        await app.events.replay("k", payload=GOOD)
    clock.advance(HOUR)
    await app.store.claim("w1", {"handler:bill": 1}, HOUR)
    with pytest.raises(Conflict, match="it is PROCESSING"):
        await app.events.replay(made.id, payload=GOOD)
    assert len(await app.events.find()) == 1


async def test_the_checks_of_the_type_and_of_json_see_the_new_payload(app: Duly) -> None:
    bills(app)

    @app.check("bill")
    def has_a_number(timer: Timer) -> list[str]:
        seen.append(timer)
        return [] if isinstance(timer.payload, dict) and timer.payload.get("invoice") != 0 else ["has no invoice"]

    seen: list[Timer] = []
    dead = await rejected(app, correlation_id="c1", target=None)
    before, history = await app.events.get(dead.id), await app.events.history(dead.id)
    for payload, problems in (
        ({"invoice": 0}, ["has no invoice"]),
        ("x" * MAX_PAYLOAD, ["is 1,048,578 bytes of JSON", "has no invoice"]),
        (object(), ["", "has no invoice"]),
    ):
        with pytest.raises(Invalid) as error:
            await app.events.replay(dead.id, payload=payload)
        found = [(problem.path, problem.message) for problem in error.value.problems]
        assert [path for path, _ in found] == ["payload"] * len(problems)
        assert all(message.startswith(wanted) for (_, message), wanted in zip(found, problems, strict=True)), found
    assert (seen[-1].type, seen[-1].correlation_id, seen[-1].tenant) == ("bill", "c1", "default")
    assert (await app.events.get(dead.id), await app.events.history(dead.id)) == (before, history)
    assert len(await app.events.find()) == 1, "nothing was stored"


async def test_events_of_other_tenants_do_not_exist(app: Duly) -> None:
    bills(app)
    dead = await rejected(app, tenant="acme", key="k")
    for name in (dead.id, "k"):
        with pytest.raises(NotFound):
            await app.events.replay(name, payload=GOOD, tenant="default")
    new = await app.events.replay("k", payload=GOOD, tenant="acme")
    assert new.tenant == "acme"


# -- within a transaction


class Oops(Exception):
    pass


async def test_a_replay_is_undone_with_the_transaction_of_its_caller(app: Duly) -> None:
    bills(app)
    dead = await rejected(app)
    with suppress(Oops):
        async with app.transaction() as tx:
            assert (await app.events.replay(dead.id, payload=GOOD, transaction=tx)).replay_of == dead.id
            raise Oops
    assert await app.events.get(dead.id) == dead
    assert await app.events.find(OfType("bill")) == [dead]
    async with app.transaction() as tx:
        new = await app.events.replay(dead.id, payload=GOOD, transaction=tx)
    assert (await app.events.get(dead.id)).replayed_as == new.id


async def test_observers_hear_of_the_new_event_after_the_commit(app: Duly) -> None:
    bills(app)
    dead = await rejected(app)
    heard: list[str] = []
    stop = app.observe(lambda signal: heard.append(type(signal).__name__))
    await app.events.replay(dead.id, payload=GOOD)
    stop()
    assert heard == ["Created"]


# -- of schedules and users


async def test_an_event_of_a_schedule_is_replayed_beside_its_rule(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    schedule = await app.schedules.put("hourly", every("1h"), "bill", BAD, timezone="Asia/Tokyo")
    clock.advance(HOUR)
    await app.tick()
    [dead] = await events_of(app, schedule, "FAILED")
    clock.advance(10 * MINUTE)
    head = await app.store.head(schedule.series)
    new = await app.events.replay(dead.id, payload=GOOD)
    assert (new.schedule, new.series, new.occurrence) == ("hourly", dead.series, f"replay:{new.id}")
    assert (new.scheduled, new.timezone, new.head) == (dead.scheduled, "Asia/Tokyo", False)
    assert await app.store.head(schedule.series) == head, "its next event stays where it is"
    await app.tick()
    assert seen[-1].scheduled == START + HOUR, "a handler that computes by the occurrence computes for the same one"
    assert (await app.schedules.get("hourly")).last_status is Status.COMPLETED


async def test_a_replay_fires_while_its_schedule_is_paused_as_a_trigger_does(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    schedule = await app.schedules.put("hourly", every("1h"), "bill", BAD)
    clock.advance(HOUR)
    await app.tick()
    await app.schedules.pause("hourly")
    [dead] = await events_of(app, schedule, "FAILED")
    await app.events.replay(dead.id, payload=GOOD)
    await app.tick()
    assert seen[-1].payload == GOOD


async def test_a_replay_waits_for_its_turn_where_its_schedule_has_a_limit(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    schedule = await app.schedules.put("hourly", every("1h"), "bill", BAD, max_concurrent=1)
    clock.advance(HOUR)
    await app.tick()
    [dead] = await events_of(app, schedule, "FAILED")
    triggered = await app.schedules.trigger("hourly", payload=GOOD)
    new = await app.events.replay(dead.id, payload={"invoice": 8})
    assert (triggered.held, new.hold_kind) == (None, "limit"), "one goes, the other waits for it"
    await app.tick()
    await app.tick()
    assert [event.payload for event in seen][-2:] == [GOOD, {"invoice": 8}]


async def test_a_replay_in_shadow_is_recorded_and_not_delivered(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    schedule = await app.schedules.put("hourly", every("1h"), "bill", BAD)
    clock.advance(HOUR)
    await app.tick()
    [dead] = await events_of(app, schedule, "FAILED")
    await app.schedules.put("hourly", every("1h"), "bill", BAD, mode="shadow")
    new = await app.events.replay(dead.id, payload=GOOD)
    assert (new.status, len(seen)) == (Status.SKIPPED, 1)
    assert [entry.act for entry in await app.events.history(new.id)] == ["created", "shadowed"]


async def test_an_event_of_a_deleted_schedule_can_still_be_replayed(app: Duly, clock: ManualClock) -> None:
    seen = bills(app)
    schedule = await app.schedules.put("hourly", every("1h"), "bill", BAD, max_concurrent=1)
    clock.advance(HOUR)
    await app.tick()
    [dead] = await events_of(app, schedule, "FAILED")
    await app.schedules.delete("hourly")
    new = await app.events.replay(dead.id, payload=GOOD)
    assert (new.schedule, new.held, new.gated) == ("hourly", None, False)
    await app.tick()
    assert seen[-1].id == new.id


async def greeted(app: Duly, clock: ManualClock) -> Event:
    """A dead letter of a user."""

    @app.on("birthday")
    async def greet(event: Event) -> Rejected | None:
        return Rejected("no mailbox") if "it's your birthday" in event.payload["message"] else None

    user = await app.users.add(**a_user(key="ada"))
    clock.set(at("2026-03-15 13:00"))
    await app.tick()
    [dead] = [event for event in await app.events.find() if event.status is Status.FAILED]
    assert dead.user_id == user.id
    return dead


async def test_a_users_event_is_replayed_for_the_same_user(app: Duly, clock: ManualClock) -> None:
    dead = await greeted(app, clock)
    new = await app.events.replay(dead.id, payload={"message": "Hello again"})
    assert (new.user, new.rule_json, new.head) == (dead.user, dead.rule_json, False)
    await app.tick()
    assert (await app.events.get(new.id)).status is Status.COMPLETED
    [head] = [event for event in await app.events.find() if event.head]
    assert head.due.year == 2027, "next year's is where it was"


async def test_the_event_of_a_person_who_was_erased_is_not_replayed(app: Duly, clock: ManualClock) -> None:
    dead = await greeted(app, clock)
    again = await app.events.replay(dead.id, payload={"message": "Hello again, Ada"})
    await app.users.erase(str(dead.user_id))
    assert (await app.events.get(again.id)).payload is None, "its replay is erased with it"
    with pytest.raises(Conflict, match="has been erased; create a new event"):
        await app.events.replay(dead.id, payload={"message": "Hello"})


# -- after the retention


async def test_each_of_the_two_goes_when_its_own_retention_is_over(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(retention="1h")
    bills(app)
    dead = await rejected(app, key="k")
    new = await app.events.replay(dead.id, payload={"invoice": "eight"})  # a dead letter again, which stays
    await app.tick()
    clock.advance(2 * HOUR)
    assert (await app.prune()).events == 1
    with pytest.raises(NotFound):
        await app.events.get(dead.id)
    left = await app.events.get(new.id)
    assert (left.status, left.replay_of) == (Status.FAILED, dead.id), "it names an event that is gone"
    third = await app.events.replay(new.id, payload=GOOD)
    await app.tick()
    clock.advance(2 * HOUR)
    assert (await app.prune()).events == 2
    assert await app.events.find() == []
    assert third.replay_of == new.id


async def test_what_is_left_of_a_key_is_not_replayed(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(retention="1h", key_memory="365d")
    bills(app)
    await app.at(START, "bill", GOOD, key="k")
    await app.tick()
    clock.advance(2 * HOUR)
    assert (await app.prune()).events == 1
    with pytest.raises(Conflict, match="it was deleted after its retention, and only its key is known"):
        await app.events.replay("k", payload=GOOD)
