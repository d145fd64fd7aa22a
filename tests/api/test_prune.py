"""Finished events go after their retention, and nothing that is known from their rows alone goes with them."""

from typing import Any

import pytest

from duly import AlreadyFired, Duly, Event, NotFound, Rejected, Status, Timer, cron, every
from duly.records.results import Pruned, PrunedKind
from duly.records.specs import Everything
from duly.signals import EventsPruned
from duly.testing import ManualClock
from tests.api.greeting import at, greetings
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, SECOND, START, a_user
from tests.stores.rows import ask
from tests.worker.running_worker import Told, running, until


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly(retention="1h", key_memory="365d")

    @app.on("digest")
    @app.on("greet")
    async def greet(event: Event) -> Rejected | None:
        return Rejected("nobody is there") if event.payload == "fail" else None

    return app


async def rows(app: Duly) -> list[Event]:
    return list(await app.store.find(Everything(), limit=1000))


async def prune(app: Duly) -> int:
    """Prunes; returns how many events went, which the dry run before has told."""
    told = await app.prune(dry_run=True)
    before = {event.id for event in await rows(app)}
    done = await app.prune()
    assert (done.events, done.kinds) == (told.events, told.kinds)
    assert done.events == len(before) - len(await rows(app))
    return done.events


async def test_what_has_ended_goes_an_hour_later_with_its_history(app: Duly, clock: ManualClock) -> None:
    done, dead = await app.at(START, "greet"), await app.at(START, "greet", "fail")
    cancelled, waits = await app.at(START + DAY, "greet"), await app.at(START + DAY, "greet")
    await app.tick()
    await app.cancel(cancelled.id)
    clock.advance(HOUR - SECOND)
    assert await prune(app) == 0
    clock.advance(SECOND)
    progress: list[Pruned] = []
    result = await app.prune(on_progress=progress.append)
    kinds = {PrunedKind("COMPLETED", "greet", 1, START), PrunedKind("CANCELLED", "greet", 1, START)}
    assert (result.events, set(result.kinds), result.dry_run) == (2, kinds, False)
    assert progress[-1] == result
    assert {event.id for event in await rows(app)} == {dead.id, waits.id}
    subjects = await ask(
        app.store, "SELECT count(*) FROM duly.journal WHERE subject NOT IN (SELECT id FROM duly.events)"
    )
    assert (subjects, await app.events.history(dead.id) != []) == (0, True)
    with pytest.raises(NotFound):
        await app.events.why(done.id)


async def test_a_dead_letter_goes_only_after_somebody_has_decided(app: Duly, clock: ManualClock) -> None:
    discarded, replayed = await app.at(START, "greet", "fail"), await app.at(START, "greet", "fail")
    await app.tick()
    clock.advance(365 * DAY)
    assert await prune(app) == 0
    await app.events.discard(discarded.id)
    await app.events.replay(replayed.id)
    await app.tick()
    clock.advance(HOUR - SECOND)
    assert await prune(app) == 0
    clock.advance(SECOND)
    assert await prune(app) == 1
    assert [event.id for event in await rows(app)] == [replayed.id]  # it was rejected again


async def test_the_key_of_a_pruned_event_has_still_fired(app: Duly, clock: ManualClock) -> None:
    fired = await app.at(START, "greet", key="k")
    await app.tick()
    clock.advance(2 * HOUR)
    assert await prune(app) == 1
    with pytest.raises(AlreadyFired, match="the key 'k' has fired already"):
        await app.at(START + DAY, "greet", key="k")
    assert (await app.put(START + DAY, "greet", key="k")).change == "already_fired"
    assert (await app.at(START, "greet", key="k")).id == fired.id
    assert await app.cancel("k") == "fired"
    clock.advance(365 * DAY)
    assert (await app.put(clock.now() + DAY, "greet", key="k")).change == "created"


async def test_a_debounced_timer_begins_anew_after_its_last_event_was_pruned(app: Duly, clock: ManualClock) -> None:
    options: Any = {"type": "greet", "key": "doc", "quiet": "1m", "max_wait": "10m", "once": False}
    await app.put(**options)
    clock.advance(MINUTE)
    await app.tick()
    clock.advance(2 * HOUR)
    assert await prune(app) == 1
    event, change = await app.put(**options)
    assert (change, event.due) == ("created", clock.now() + MINUTE)


async def test_a_schedule_keeps_its_last_run_and_success_and_fires_nothing_twice(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("load", every("1h"), "digest")
    for _ in range(5):
        clock.advance(HOUR)
        await app.tick()
    await app.schedules.put("load", every("1h"), "digest", "fail")
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    last = clock.now()
    before = await app.schedules.get("load")
    clock.advance(MINUTE)  # the next one is not due yet
    assert await prune(app) == 4  # of five successes, the last one stays
    assert before == await app.schedules.get("load")
    assert before.last_at == last
    assert [event.status for event in await rows(app) if not event.head] == [Status.FAILED] * 3 + [Status.COMPLETED]


async def test_a_report_still_knows_when_the_schedule_that_it_depends_on_has_succeeded(
    app: Duly, clock: ManualClock
) -> None:
    await app.schedules.put("load", cron("0 0 1 * *"), "digest")
    await app.schedules.put("report", cron("0 0 20 * *"), "digest", depends_on={"schedule": "load", "within": "30d"})
    clock.set(at("2026-02-01 00:00"))
    await app.tick()
    clock.set(at("2026-02-19 00:00"))
    await app.prune()
    clock.set(at("2026-02-20 00:00"))
    await app.tick()
    [latest, *_] = [event for event in await rows(app) if event.owner == "report" and not event.head]
    assert (latest.status, latest.due) == (Status.COMPLETED, clock.now())


async def test_nobody_is_greeted_twice_on_one_day_however_soon_the_greeting_is_pruned(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly(retention="1s")
    greeted = greetings(app)
    user = await app.users.add(**a_user(date_of_birth="1990-03-15", timezone="Asia/Tokyo"))
    clock.set(at("2026-03-15 00:00"))
    await app.tick()
    assert len(greeted) == 1
    clock.advance(HOUR)
    await app.prune()
    await app.users.update(user.id, timezone="America/New_York")  # where it is not 9:00 yet
    clock.set(at("2026-03-15 13:00"))
    await app.tick()
    assert len(greeted) == 1
    [head] = await app.users.ahead(user.id)
    assert head.occurrence == "2027-03-15"


async def test_an_occurrence_that_was_skipped_ahead_is_not_planned_again(app: Duly, clock: ManualClock) -> None:
    rule = cron("0 9 1 * *")
    await app.schedules.put("monthly", rule, "digest")
    await app.schedules.skip("monthly")  # January's
    first = (await app.schedules.skip("monthly")).next_at
    assert first == at("2026-03-01 09:00")
    clock.advance(2 * HOUR)
    assert await prune(app) == 0
    await app.schedules.put("monthly", rule, "digest", {"changed": True})
    assert (await app.schedules.get("monthly")).next_at == first


async def test_what_a_late_head_has_behind_it_is_kept_until_it_has_fired(app: Duly, clock: ManualClock) -> None:
    """An occurrence that was passed over still does not count as missed, however long the workers were away."""
    await app.schedules.put("hourly", every("1h"), "digest", misfire="all")
    await app.schedules.reschedule("hourly", START + 3 * HOUR + MINUTE)  # passes over two
    clock.advance(2 * DAY)
    assert await prune(app) == 0
    passed = [event for event in await rows(app) if event.status is Status.SKIPPED]
    assert passed != []
    await app.tick()
    clock.advance(2 * HOUR)
    await app.tick()
    await app.prune()
    assert [event for event in await rows(app) if event.status is Status.SKIPPED] == []


async def test_a_backfill_is_not_repeated_as_long_as_keys_are_remembered(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    clock.advance(5 * HOUR)
    await app.tick()
    start, end = START, START + 4 * HOUR
    made = await app.schedules.backfill("hourly", start, end)
    await app.tick()
    clock.advance(30 * DAY)
    await app.tick()
    await app.prune()
    again = await app.schedules.backfill("hourly", start, end)
    assert (len(made.ids), again.ids, again.existing) == (len(made.ids), [], len(made.ids))
    clock.advance(336 * DAY)
    await app.tick()
    await app.prune()
    assert len((await app.schedules.backfill("hourly", start, end)).ids) == len(made.ids)


async def test_of_a_schedule_or_user_that_was_deleted_nothing_is_kept(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    user = await app.users.add(**a_user())
    clock.advance(HOUR)
    await app.tick()
    await app.schedules.delete("hourly")
    await app.users.delete(user.id)
    clock.advance(2 * HOUR)
    assert await prune(app) > 0
    assert await rows(app) == []


async def test_a_series_that_was_given_up_still_says_so(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(retention="1h")
    greetings(app)
    user = await app.users.add(**a_user(date_of_birth="1990-03-15", anniversary="2015-06-20"))
    clock.set(at("2026-03-20 00:00"))
    await app.tick()
    await app.users.update(user.id, anniversary=None)
    clock.advance(30 * DAY)
    await app.prune()
    assert [row.type for row in await rows(app) if (row.occurrence or "").startswith("given up")] == ["anniversary"]


async def test_a_worker_prunes_by_itself_and_one_of_two_at_a_time(duly: OpenDuly, clock: ManualClock) -> None:
    apps = [await duly(retention="1s") for _ in range(2)]
    told = [Told(app) for app in apps]
    for app in apps:
        app.on("greet")(lambda event: None)
    await apps[0].add_many([Timer(START, "greet") for _ in range(250)])
    async with running(apps[0]), running(apps[1]):
        await until(lambda: finished(apps[0]), "all have fired")
        clock.advance(2 * SECOND)
        await until(lambda: nothing_left(apps[0]), "all were pruned")
        await until(lambda: any(one.of(EventsPruned) for one in told), "it was told")
    assert sum(signal.events for one in told for signal in one.of(EventsPruned)) == 250
    assert await ask(apps[0].store, "SELECT count(*) FROM duly.upkeep") == 1


async def finished(app: Duly) -> bool:
    return int(await ask(app.store, "SELECT count(*) FROM duly.events WHERE status <> 'COMPLETED'")) == 0


async def nothing_left(app: Duly) -> bool:
    return int(await ask(app.store, "SELECT count(*) FROM duly.events")) == 0


def test_prune_is_a_verb_of_synchronous_code_too() -> None:
    with Duly("sqlite://", retention="1s").sync as sync:
        assert sync.prune() == Pruned(0, (), False)


async def test_the_task_is_taken_by_one_worker_until_its_lease_ends(app: Duly, clock: ManualClock) -> None:
    store = app.store
    assert await store.take_upkeep("t", "a", MINUTE) == ""
    assert await store.take_upkeep("t", "b", MINUTE) is None
    assert await store.take_upkeep("t", "a", MINUTE, "x7") == "x7"
    clock.advance(MINUTE - SECOND)
    assert await store.take_upkeep("t", "b", MINUTE) is None
    clock.advance(SECOND)
    assert await store.take_upkeep("t", "b", MINUTE) == "x7"
    assert await store.take_upkeep("t", "a", MINUTE) is None
