"""What is true of the rows after every commit; and for each way to break that, that it is found."""

import contextlib
from collections.abc import Sequence

import pytest

from duly import Duly, Event, HoldKind, every, webhook
from duly.engine.series.heads import Claimant, HeadsDecided, succeed_heads
from duly.ports import Examined, Reserved, Violation
from duly.stores.queries import INVARIANTS, names_in
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenDuly
from tests.invariants import ALL, allowed, violations
from tests.make import DAY, HOUR, LEASE, MINUTE, SECOND, a_user, completed, failed, held, make_new, rejected
from tests.stores.rows import spelled, write


@pytest.fixture
async def world(duly: OpenDuly, clock: ManualClock) -> Duly:
    """One of everything. Each event has a type of its own, by which a statement finds it."""
    app = await duly(secret_key="k" * 32)
    await people(app, clock)
    await schedules(app, clock)
    await timers(app, clock)
    return app


async def people(app: Duly, clock: ManualClock) -> None:
    await app.users.add(**a_user(date_of_birth="1990-01-02"))
    clock.advance(2 * DAY)
    [fired] = (await due_heads(app, "handler:birthday")).fired
    await app.store.settle([completed(fired)], "w1")


async def schedules(app: Duly, clock: ManualClock) -> None:
    await app.every("plain", every("1h"), "plain")
    await app.schedules.skip("plain")
    await app.every("resting", every("1h"), "resting")
    await app.schedules.pause("resting")
    await app.every("over", every("1h"), "over")
    await app.every("over", every("1h"), "over", end=clock.now() + MINUTE)
    await app.every("queueing", every("1h"), "queueing", overlap="queue")
    clock.advance(HOUR)
    assert len((await due_heads(app, "handler:queueing")).fired) == 1
    clock.advance(HOUR)
    assert (await due_heads(app, "handler:queueing")).held == 1


async def timers(app: Duly, clock: ManualClock) -> None:
    store = app.store
    await app.after(DAY, "later")
    await app.events.cancel((await app.after(DAY, "gone")).id)
    await store.add([make_new(type=type, due=clock.now()) for type in ("done", "tried", "dead", "claimed", "suspect")])
    suspect = await claimed(app, "suspect")
    clock.advance(LEASE + SECOND)
    assert [event.id for event, _ in await store.claim_interrupted("w2", [suspect.lane], LEASE)] == [suspect.id]
    done, tried, dead = [await claimed(app, type) for type in ("done", "tried", "dead")]
    await store.settle([completed(done), failed(tried), rejected(dead)], "w1")
    await claimed(app, "claimed")
    await app.targets.put("shop", "https://shop.example/in")
    await app.targets.disable("shop")
    await app.at(clock.now(), "parked", target=webhook(target="shop"))
    await store.settle([held(await claimed(app, "parked", "webhook"))], "w1")


async def claimed(app: Duly, type: str, lane: str | None = None) -> Event:
    [event] = await app.store.claim("w1", {lane or f"handler:{type}": 1}, LEASE)
    assert event.type == type
    return event


async def due_heads(app: Duly, lane: str) -> HeadsDecided:
    claimed = await app.store.claim("w1", {lane: 10}, LEASE)
    async with app.store.begin() as tx:
        found = await tx.reserved_heads(list(map(Reserved.of, claimed.careful)), LEASE)
        decided = await succeed_heads(tx, found, found.now, Claimant("w1", LEASE))
    return decided._replace(fired=[*claimed, *decided.fired])


async def test_a_database_with_one_of_everything_violates_no_invariant(world: Duly) -> None:
    events = await world.events.find(limit=100)
    assert {event.status.value for event in events} == {
        "PENDING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED",
    }  # fmt: skip
    assert {event.hold_kind for event in events} == {None, HoldKind.PAUSED, HoldKind.LIMIT, HoldKind.TARGET}
    assert await world.store.invariants() == Examined([], len(events), True)
    assert await world.store.invariants(None) == Examined([], len(events), True)


# -- each way to break it


def event(type: str, changes: str) -> str:
    return f"UPDATE duly.events SET {changes} WHERE type = '{type}'"


def head(type: str, changes: str) -> str:
    return f"{event(type, changes)} AND head"


def schedule(name: str, changes: str) -> str:
    return f"UPDATE duly.schedules SET {changes} WHERE name = '{name}'"


def without(table: str, condition: str) -> str:
    return f"DELETE FROM duly.{table} WHERE {condition}"


def beside(type: str, occurrence: str, head: str) -> str:
    """Another event of the series."""
    copied = "tenant, type, lane, due, payload, series, scheduled, created"
    return (
        f"INSERT INTO duly.events ({copied}, id, ready, occurrence, head) "
        f"SELECT {copied}, '00000000-0000-0000-0000-000000000001', due, {occurrence}, {head} "
        f"FROM duly.events WHERE type = '{type}' AND head"
    )


def ended_again(condition: str) -> str:
    return (
        "INSERT INTO duly.journal (subject, at, act, version, claimed) "
        f"SELECT subject, at, 'given back', version, claimed FROM duly.history WHERE {condition}"
    )


NO_CHECK = {
    "postgres": "ALTER TABLE duly.events DROP CONSTRAINT no_trap",
    "sqlite": "PRAGMA ignore_check_constraints = ON",
}
ENDED = "status = 'COMPLETED', ready = NULL, executed = due, settled = claimed, unsettled = 0, attempts = 1"
HELD = 'is held as "waits for its predecessor to end"'
PARKED = 'is held as "target shop is parked: 503"'

BREAKS: dict[str, list[tuple[str, ...]]] = {
    "columns_agree": [
        ("has ended, and would be claimed again", event("done", "ready = due")),
        ("has ended, and would be claimed again", event("later", "status = 'COMPLETED'")),
        ("has ended, and is held", event("dead", "held = 'paused'")),
        ("a sentence of why it is held and no kind of it", event("parked", "hold_kind = NULL")),
        ("a sentence of why it is held and no kind of it", event("later", "hold_kind = 'limit'")),
        ("says which target it is held for only if it is held for one", event("parked", "held_for = NULL")),
        ("says which target it is held for only if it is held for one", event("later", "held_for = 'shop'")),
        ("has ended, and is still the next one of its series", event("gone", "head = true")),
        ("has not been delivered, and says when it was", event("gone", "settled = due")),
        ("has not been delivered, and says when it was", event("claimed", "executed = due")),
        ("has been delivered, and does not say when or by whom", event("done", "worker = NULL")),
        ("was delivered before it was due", event("done", "executed = created, due = settled")),
        ("is neither ready nor held: nobody will ever claim it", "NO_CHECK", event("later", "ready = NULL")),
        ("is ready, and is held", event("later", "held = 'paused'")),
        ("would be claimed before it is due", event("later", "ready = created")),
        ("is claimed, and is held", event("claimed", "held = 'paused', ready = NULL")),
        ("is claimed, and does not say when or by whom", event("claimed", "claimed = NULL")),
        ("is claimed, and would be claimed as if it was not", event("claimed", "unsettled = 0")),
        ("is claimed, and is still the next one of its series", event("claimed", "head = true")),
        ("is the next one of its series, and has begun", head("plain", "attempts = 1")),
        ("is the next one, and does not say of which series", head("plain", "scheduled = NULL")),
        ("and its successor was planted already", head("plain", "next_state = 'planted'")),
        ("and is followed by one that is not later", head("plain", "next_state = 'known', next_scheduled = scheduled")),
        ("was settled more often than it was claimed", event("tried", "unsettled = -1")),
        ("was claimed 1 times, and tried or interrupted 2 times", event("tried", "attempts = 2")),
        ("carries a rule only if it is of a user's series", head("birthday", "rule = NULL")),
        ("carries a rule only if it is of a user's series", head("plain", "rule = '{}'")),
        ("has its key, and a later event has taken it", event("later", "key = 'k', freed_key = 'k'")),
    ],
    "holds_have_reasons": [
        ('is held as "a whim", which nothing ever ends', event("later", "held = 'a whim', ready = NULL")),
        ('is held as "paused", and its schedule is not', schedule("resting", "enabled = true, halted = NULL")),
        ('"paused", and has no schedule that could be resumed', event("later", "held = 'paused', ready = NULL")),
        (f"{HELD}, and 0 of at most 1 are under way", event("queueing", ENDED) + " AND NOT head"),
        (f"{HELD}, and 1 of at most 3 are under way", schedule("queueing", """policies = '{"max_concurrent":3}'""")),
        (f"{HELD}, and its schedule has no limit", schedule("queueing", "policies = NULL")),
        (f"{HELD}, and has no schedule that could let it go", without("schedules", "name = 'queueing'")),
        (f"{PARKED}, and that is not parked", without("destinations", "destination = 'shop'")),
        (f"{PARKED}, and that is not parked", "UPDATE duly.destinations SET parked = NULL, since = NULL"),
        (f"{PARKED}, and goes to no target", event("parked", "destination = NULL")),
        (f"{PARKED}, and goes to another", event("parked", "destination = 'another'")),
    ],
    "schedules_go_on": [
        ("is halted as paused, and is not", schedule("plain", "halted = 'paused'")),
        ("is paused, and does not say so", schedule("resting", "halted = NULL")),
        ("is paused, and does not say since when", schedule("resting", "paused_since = NULL")),
        ("a sentence of why it is halted and no kind of it", schedule("over", "halt_kind = NULL")),
        ("a sentence of why it is halted and no kind of it", schedule("plain", "halt_kind = 'error'")),
        ("has no next event, and does not say why", without("events", "type = 'plain'")),
        ("has no next event, and does not say why", without("events", "type = 'resting'")),
        ("has no next event, and does not say why", schedule("over", "halted = NULL")),
        ("has ended, and has a next event", schedule("plain", "halted = 'ended'")),
    ],
    "users_go_on": [
        ('has events of "birthday", no next one, and no reason why', without("events", "type = 'birthday' AND head")),
    ],
    "heads_have_owners": [
        ("is the next one of a schedule that does not exist", without("schedules", "name = 'plain'")),
        ("is the next one of a user who does not exist", without("users", "first_name = 'Ada'")),
        ('is the next one of "mine", which is no series of a schedule or a user', head("plain", "series = 'mine'")),
    ],
    "occurrences_are_unique": [
        ("is the next one of its series, and so is", "DROP INDEX duly.events_head", beside("plain", "'odd'", "true")),
        (
            "is the same occurrence of its series as",
            "DROP INDEX duly.events_occurrence",
            beside("plain", "occurrence", "false"),
        ),
    ],
    "counts_agree_with_history": [
        ("counts 0 attempts, and its history has 1", event("tried", "attempts = 0")),
        ("counts 2 attempts, and its history has 1", event("done", "attempts = 2, version = 3")),
        ("counts 1 interruptions, and its history has 0", without("journal", "act = 'interrupted'")),
    ],
    "ends_are_in_history": [
        ("is FAILED, and its history does not say why", without("journal", "act = 'rejected'")),
        ("is CANCELLED, and its history does not say why", without("journal", "act = 'cancelled'")),
        ("is SKIPPED, and its history does not say why", without("journal", "act = 'skipped'")),
    ],
    "claims_end_once": [
        ("has a history of claims that it does not count", "UPDATE duly.journal SET version = 9 WHERE attempt = 1"),
        ("has a claim that ended twice", ended_again("act = 'rejected'")),
        ("has a claim that ended twice", ended_again("act = 'delivered'")),
    ],
    "keys_are_remembered_once": [
        (
            'has the key "k", which is still remembered of event',
            event("later", "key = 'k'"),
            "INSERT INTO duly.fired_keys (tenant, key, id, type, due, status, fired) "
            "SELECT tenant, key, id, type, due, 'FAILED', due FROM duly.events WHERE type = 'later'",
        ),
    ],
    "parked_are_tried": [
        ("is parked, and nothing would ever open it", "UPDATE duly.destinations SET since = NULL"),
        ("is to be tried, and is not parked", "UPDATE duly.destinations SET parked = NULL, probe_at = since"),
    ],
}


@pytest.mark.parametrize("invariant", BREAKS)
async def test_each_way_to_break_an_invariant_is_found(world: Duly, invariant: str) -> None:
    for told, *statements in BREAKS[invariant]:
        found = await broken_by(world.store, statements)
        assert [one for one in found if one.invariant == invariant and told in str(one)], (told, statements, found)


async def broken_by(store: AnyStore, statements: Sequence[str]) -> list[Violation]:
    """What is told of the tables as the statements leave them. They are undone."""
    found: list[Violation] = []
    with contextlib.suppress(Undone):
        async with store.begin() as tx:
            for statement in statements:
                await tx.execute(NO_CHECK[store.dialect] if statement == "NO_CHECK" else spelled(store, statement))
            found = (await tx.invariants()).violations
            raise Undone
    if store.dialect == "sqlite":  # which is no part of a transaction there
        await write(store, "PRAGMA ignore_check_constraints = OFF")
    return found


class Undone(Exception):
    """Ends a transaction of which nothing is to be kept."""


def test_this_module_has_a_way_to_break_each_invariant() -> None:
    assert {*BREAKS, "examined"} == set(names_in(INVARIANTS, "postgres"))


@pytest.mark.broken_rows("one of its events could be claimed too early", "columns_agree")
async def test_the_check_of_invariants_reads_only_so_many_of_the_newest_events(
    store: AnyStore, clock: ManualClock, url: str
) -> None:
    oldest, *_ = sorted(await store.add([make_new(due=clock.now() + HOUR) for _ in range(3)]))
    await write(store, "UPDATE duly.events SET ready = created WHERE id = $1", oldest)
    early = Violation("columns_agree", "event", oldest, "would be claimed before it is due")
    assert await store.invariants(2) == Examined([], 2, False)
    assert await store.invariants(3) == Examined([early], 3, True)
    assert await store.invariants(None) == Examined([early], 3, True)
    assert str(early) == f"event {oldest} would be claimed before it is due"
    assert list(violations(url)) == [early], "as it is found after each test"


def test_a_test_may_break_the_invariants_it_names_and_no_others(request: pytest.FixtureRequest) -> None:
    assert allowed(request.node) == frozenset()
    request.node.add_marker(pytest.mark.broken_rows("it says why", "heads_have_owners"))
    assert allowed(request.node) == {"heads_have_owners"}
    request.node.add_marker(pytest.mark.broken_rows("it says why"))
    assert allowed(request.node) == ALL


async def test_events_that_are_still_being_released_violate_no_invariant(world: Duly) -> None:
    """Whoever releases it may have died."""
    assert await world.store.unpark("default", "shop") is not None
    assert (await world.store.invariants()).violations == []


async def test_a_series_that_ended_or_was_given_up_violates_no_invariant(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    ada = await app.users.add(**a_user(anniversary="2020-06-01"))
    await app.users.update(ada.id, anniversary=None)
    assert [event.status for event in await app.users.events(ada.id) if event.type == "anniversary"] == ["SKIPPED"]
    assert (await app.store.invariants()).violations == []
