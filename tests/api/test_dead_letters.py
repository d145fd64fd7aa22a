"""duly.events on many dead letters at once: which are replayed, when they come back, and that nothing happens twice."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import (
    DueBetween,
    Duly,
    ErrorLike,
    Event,
    FailedBetween,
    InStatus,
    Invalid,
    OfTenant,
    OfType,
    Rejected,
    Status,
    Timer,
    every,
)
from duly.decide.error_text import LONGEST
from duly.ports import DeadLetter
from duly.records.results import DeadLetterKind, DeadLetters, Discarded, Replayed
from duly.testing import ManualClock
from duly.verbs.events import dead_letters
from tests.conftest import OpenDuly
from tests.dead_letters import dead, reject
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, SECOND, START, make_event, make_new
from tests.stores.rows import keep


async def statuses(app: Duly, ids: list[str]) -> list[str]:
    return [(await app.events.get(id)).status.value for id in ids]


async def acts(app: Duly, id: str) -> list[str]:
    return [entry.act for entry in await app.events.history(id)]


async def times_replayed(app: Duly, ids: list[str]) -> set[int]:
    return {(await acts(app, id)).count("replayed") for id in ids}


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 3)


# -- which


async def test_all_dead_letters_come_back_under_their_ids_and_are_delivered(app: Duly, clock: ManualClock) -> None:
    greeted: list[Event] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event)

    ids = await dead(app.store, 5)
    clock.advance(DAY)
    assert await app.events.replay_all(by="ada") == Replayed(events=5, until=START + DAY)
    await app.tick()
    assert sorted(event.id for event in greeted) == ids
    assert {(event.attempt, event.due) for event in greeted} == {(1, START)}
    assert await statuses(app, ids) == ["COMPLETED"] * 5
    for id in ids:
        assert await acts(app, id) == ["rejected", "replayed", "delivered"]
        assert (await app.events.history(id))[1].worker == "ada"


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("many", ["replay_all", "discard_all"])
async def test_only_dead_letters_are_touched_whatever_the_spec_says(app: Duly, many: str) -> None:
    [letter] = await dead(app.store)
    others = await keep(app.store, *(make_event(status=status) for status in Status if status is not Status.FAILED))
    done = await getattr(app.events, many)(OfType("greet") | ~OfType("greet"))
    assert done.events == 1
    assert await acts(app, letter) == ["rejected", "replayed" if many == "replay_all" else "discarded"]
    for event in others:
        assert await app.events.get(event.id) == event


async def test_a_spec_and_a_tenant_say_which_dead_letters_are_replayed(app: Duly, clock: ManualClock) -> None:
    [full] = await dead(app.store, error="HTTP 503 from hooks.example")
    clock.advance(HOUR)
    [gone] = await dead(app.store, error="HTTP 410 from hooks.example")
    [other] = await dead(app.store, type="other", error="HTTP 503")
    [theirs] = await dead(app.store, tenant="acme", error="HTTP 503")
    assert (await app.events.replay_all(ErrorLike("http 503") & OfType("greet"), tenant="default")).events == 1
    assert await statuses(app, [full, gone, other, theirs]) == ["PENDING", "FAILED", "FAILED", "FAILED"]
    assert (await app.events.replay_all(FailedBetween(START + MINUTE) | OfType("greet"), tenant="acme")).events == 1
    assert await statuses(app, [gone, other, theirs]) == ["FAILED", "FAILED", "PENDING"], "an | does not leak"
    assert (await app.events.replay_all(FailedBetween(end=START + HOUR))).events == 0
    assert (await app.events.replay_all(FailedBetween(START + HOUR))).events == 2
    assert await app.events.replay_all() == Replayed()


async def test_a_limit_takes_the_oldest_dead_letters_and_another_call_goes_on(app: Duly, few_at_once: None) -> None:
    ids = await dead(app.store, 10)
    assert (await app.events.replay_all(limit=4)).events == 4
    assert await statuses(app, ids) == ["PENDING"] * 4 + ["FAILED"] * 6
    assert (await app.events.discard_all(limit=3)).events == 3
    assert (await app.events.replay_all(limit=100)).events == 3
    assert await statuses(app, ids) == ["PENDING"] * 4 + ["CANCELLED"] * 3 + ["PENDING"] * 3


@pytest.mark.parametrize("limit", [0, -1, 1.5, "10", True])
@pytest.mark.parametrize("many", ["replay_all", "discard_all"])
async def test_a_limit_of_dead_letters_that_cannot_be_meant_is_refused(app: Duly, many: str, limit: Any) -> None:
    ids = await dead(app.store)
    with pytest.raises(Invalid, match=r"^limit: must be a whole number"):
        await getattr(app.events, many)(limit=limit)
    assert await statuses(app, ids) == ["FAILED"]


# -- as one by one


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": 3, "last_error": "503"},
        {"attempts": 1, "interruptions": 5, "last_error": "interrupted"},
        {"attempts": 1, "last_error": "é" * LONGEST},
        {"attempts": 0, "last_error": None},
        {"due": START + DAY, "attempts": 1, "last_error": "503"},
        {"series": "schedule:x", "gated": True, "attempts": 1, "last_error": "503"},
        {"key": "k", "correlation_id": "c", "claimed": START, "worker": "w9", "last_error": "503"},
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_dead_letters_end_the_same_together_as_one_by_one(
    app: Duly, clock: ManualClock, verb: str, fields: dict[str, Any]
) -> None:
    one, other = (make_event(status=Status.FAILED, **fields, tenant=tenant, occurrence=tenant) for tenant in "ab")
    await keep(app.store, one, other)
    clock.advance(HOUR)
    alone = await getattr(app.events, verb)(one.id, by="ada")
    await getattr(app.events, f"{verb}_all")(OfTenant("b"), by="ada")
    among = await app.events.get(other.id)
    same = {"id": one.id, "tenant": one.tenant, "occurrence": one.occurrence}
    assert msgspec.structs.replace(among, **same) == alone
    assert await app.events.history(other.id) == await app.events.history(one.id)


async def test_discarding_many_dead_letters_keeps_the_reason_and_frees_their_keys(app: Duly) -> None:
    [id] = await dead(app.store, key="k")
    assert await app.events.discard_all(by="ada", reason="a test\x00") == Discarded(events=1)
    entry = (await app.events.history(id))[-1]
    assert (entry.act, entry.worker, entry.detail) == ("discarded", "ada", "a test\\0")
    assert (await app.put(START, "greet", key="k")).change == "created"


async def failed_runs(app: Duly, clock: ManualClock) -> None:
    """Two, of a schedule that lets one run at a time."""

    @app.on("load")
    async def load(_: Event) -> Rejected:
        return Rejected("503")

    await app.every("load", every("1h"), "load", overlap="queue")
    for _ in range(2):
        clock.advance(HOUR)
        await app.tick()


async def test_a_replay_waits_neither_for_the_limit_of_its_schedule_nor_for_its_pause_to_end(
    app: Duly, clock: ManualClock
) -> None:
    """As with a single one: somebody wants it now."""
    await failed_runs(app, clock)
    await app.schedules.pause("load")
    assert (await app.events.replay_all()).events == 2
    assert len(await app.store.claim("w1", {"handler:load": 5}, LEASE)) == 2


async def test_a_replayed_event_counts_as_under_way_until_it_has_ended(app: Duly, clock: ManualClock) -> None:
    await failed_runs(app, clock)
    await app.events.replay_all(rate="1/d")
    clock.advance(HOUR)
    assert (await app.tick()).failed == 1, "the first one; the following run waits for the second"
    [head] = await app.events.find(InStatus("PENDING") & DueBetween(START + 3 * HOUR))
    assert head.held is not None
    clock.advance(DAY)
    await app.tick()
    assert (await app.events.get(head.id)).held is None


# -- how many


async def test_dead_letters_are_counted_by_tenant_type_and_destination(app: Duly) -> None:
    await dead(app.store, 3)
    await dead(app.store, 2, type="other", tenant="acme")
    await dead(app.store, 2, target={"webhook": {"target": "shop"}})
    await dead(app.store, 1, target={"webhook": "https://hooks.example/in?token=1"})
    await dead(app.store, 1, target={"http": {"method": "PUT", "url": "https://hooks.example/1", "body": "1"}})
    await dead(app.store, 1, target={"http": {"method": "PUT", "url": "https://hooks.example/2", "body": "2"}})
    await dead(app.store, 1, target={"mail": "ada@example.com"})
    await app.at(START, "greet")
    assert await app.events.dead_letters() == DeadLetters(
        11,
        (
            DeadLetterKind("default", "greet", "handler:greet", None, 3),
            DeadLetterKind("acme", "other", "handler:other", None, 2),
            DeadLetterKind("default", "greet", "http", "https://hooks.example", 2),
            DeadLetterKind("default", "greet", "webhook", "shop", 2),
            DeadLetterKind("default", "greet", "mail", None, 1),
            DeadLetterKind("default", "greet", "webhook", "https://hooks.example", 1),
        ),
    )
    assert (await app.events.dead_letters(OfType("greet"), tenant="acme")) == DeadLetters(0, ())
    assert (await app.store.count_dead(OfType("greet"), most=1)).events == 9, "all, however many kinds are told"


# -- at a rate


async def test_dead_letters_replayed_at_a_rate_come_back_exactly_one_gap_apart(
    app: Duly, clock: ManualClock, few_at_once: None
) -> None:
    ids = await dead(app.store, 10)
    clock.advance(DAY)
    done = await app.events.replay_all(rate="30/m")
    assert done == Replayed(events=10, until=START + DAY + 9 * timedelta(seconds=2))
    assert [(await app.events.get(id)).ready for id in ids] == [START + DAY + n * 2 * SECOND for n in range(10)]
    assert {(await app.events.get(id)).due for id in ids} == {START}
    back: list[str] = []
    for n in range(10):
        claimed = await app.store.claim("w1", {LANE: 100}, LEASE)
        assert [event.id for event in claimed] == [ids[n]], f"at {clock.now()}"
        back += [event.id for event in claimed]
        clock.advance(2 * SECOND - timedelta(microseconds=1))
        assert await app.store.claim("w1", {LANE: 100}, LEASE) == []
        clock.advance(timedelta(microseconds=1))
    assert back == ids


async def test_the_rate_of_a_replay_outlives_whoever_asked_for_it(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    ids = await dead(app.store, 3)
    await app.events.replay_all(rate=0.1)
    other = await duly()
    greeted: list[str] = []

    @other.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event.id)

    for many in (1, 2, 3):
        await other.tick()
        assert greeted == ids[:many]
        clock.advance(seconds=10)


async def test_the_rate_of_a_replay_is_never_exceeded_however_long_the_replay_takes(
    app: Duly, clock: ManualClock, few_at_once: None
) -> None:
    ids = await dead(app.store, 9)
    steps = iter([timedelta(), MINUTE, timedelta()])  # between the transactions
    done = await app.events.replay_all(rate=1, progress=lambda _: clock.advance(next(steps)))
    ready = [(await app.events.get(id)).ready for id in ids]
    assert [instant - START for instant in ready if instant] == [
        *(n * SECOND for n in range(6)),
        *(MINUTE + n * SECOND for n in range(3)),
    ]
    assert done.until == ready[-1]


async def test_a_replayed_event_that_is_not_due_yet_is_ready_when_it_is_due(app: Duly) -> None:
    [late] = await keep(app.store, make_event(status=Status.FAILED, due=START + DAY))
    assert (await app.events.replay_all(rate="5/s")).until == START + DAY
    assert (await app.events.get(late.id)).ready == START + DAY


@pytest.mark.parametrize("rate", [0, "fast", "50/w", -1])
async def test_a_rate_of_replay_that_cannot_be_meant_is_refused(app: Duly, rate: Any) -> None:
    ids = await dead(app.store)
    with pytest.raises(Invalid, match=r"^rate: "):
        await app.events.replay_all(rate=rate)
    assert await statuses(app, ids) == ["FAILED"]


async def test_a_rate_at_which_a_replay_would_take_years_is_refused(app: Duly) -> None:
    ids = await dead(app.store, 366)
    with pytest.raises(Invalid, match="366 events would take longer than a year: raise the rate, or give a limit"):
        await app.events.replay_all(rate="1/d")
    assert set(await statuses(app, ids)) == {"FAILED"}
    assert (await app.events.replay_all(rate="1/d", limit=365)).until == START + 364 * DAY


# -- while others are at work


async def test_events_that_fail_during_a_replay_are_left_for_another_call(
    app: Duly, clock: ManualClock, few_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is what was replayed and fails again replayed again, nor what fails for the first time."""
    before = await app.store.add([make_new(due=START + SECOND)])
    ids = await dead(app.store, 7)
    after = await app.store.add([make_new(due=START + SECOND) for _ in range(2)])
    between_chunks(app, monkeypatch, lambda: _time_passes_and_all_fail(app, clock))
    assert (await app.events.replay_all()).events == 7
    assert await times_replayed(app, ids) == {1}
    assert await times_replayed(app, before + after) == {0}
    assert await statuses(app, before + ids[:6] + after) == ["FAILED"] * 9
    monkeypatch.undo()
    assert (await app.events.replay_all()).events == 9


async def _time_passes_and_all_fail(app: Duly, clock: ManualClock) -> None:
    clock.advance(SECOND)
    await reject(app.store, error="no better")


def between_chunks(app: Duly, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Whenever the next ones are looked for, something has happened since the last were."""
    find_dead = app.store.find_dead

    async def later(*args: Any, **options: Any) -> list[DeadLetter]:
        if options["after"] is not None:
            await happens()
        return await find_dead(*args, **options)

    monkeypatch.setattr(app.store, "find_dead", later)


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_dead_letters_that_somebody_else_took_up_meanwhile_are_left_alone(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Between the moment it is found and the moment it is written."""
    ids = await dead(app.store, 4)
    write = getattr(app.store, f"{verb}_found")

    async def late(*args: Any) -> Any:
        clock.advance(SECOND)
        await app.events.replay(ids[0])
        await app.events.discard(ids[1])
        await app.events.replay(ids[2])
        await reject(app.store, 1)  # the one that is ready first: it fails again
        return await write(*args)

    monkeypatch.setattr(app.store, f"{verb}_found", late)
    done = await getattr(app.events, f"{verb}_all")()
    assert (done.events, done.left_alone) == (1, 3)
    told = Counter([act for id in ids for act in await acts(app, id)])
    assert told["replayed"] + told["discarded"] == 4
    assert sorted(await statuses(app, ids[:3])) == ["CANCELLED", "FAILED", "PENDING"]


async def test_on_postgres_a_locked_dead_letter_keeps_nobody_waiting(app: Duly) -> None:
    if app.store.dialect == "sqlite":
        pytest.skip("nobody else can write while somebody has it locked")
    ids = await dead(app.store, 3)
    async with app.store.begin() as tx:
        await tx.lock(ids[1])
        assert await app.events.replay_all() == Replayed(events=2, until=START, left_alone=1)
        assert await app.events.discard_all() == Discarded(left_alone=1)
    assert (await app.events.replay_all()).events == 1
    assert await times_replayed(app, ids) == {1}


async def test_many_who_replay_and_discard_at_once_take_each_dead_letter_once(
    duly: OpenDuly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 20)
    apps = [await duly() for _ in range(4)]
    ids = await dead(apps[0].store, 300)
    few = ids[::30]

    async def one_by_one() -> int:
        done = await asyncio.gather(*(apps[3].events.replay(id) for id in few), return_exceptions=True)
        return sum(isinstance(event, Event) for event in done)

    replayed, at_a_rate, discarded, alone = await asyncio.gather(
        apps[0].events.replay_all(),
        apps[1].events.replay_all(rate=1000),
        apps[2].events.discard_all(),
        one_by_one(),
    )
    told = [await acts(apps[0], id) for id in ids]
    assert all(len(each) == 2 for each in told), "one act after the rejection"
    assert replayed.events + at_a_rate.events + discarded.events + alone == 300
    assert sum(each[1] == "discarded" for each in told) == discarded.events


async def test_a_worker_that_fails_replayed_events_at_once_gets_each_once_per_replay(
    duly: OpenDuly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real clock: whatever the worker does while they are replayed, it has each of them one more time."""
    app = await duly(clock=None)
    tries: Counter[str] = Counter()

    @app.on("greet")
    async def greet(event: Event) -> Rejected:
        tries[event.id] += 1
        return Rejected("no better")

    ids = await dead(app.store, 1000)
    monkeypatch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 20)
    running = asyncio.create_task(app.run())
    assert (await app.events.replay_all()).events == 1000
    app.stop()
    await running
    await app.tick()  # what it had no time for
    assert tries == Counter(ids)
    assert (await app.events.dead_letters()).events == 1000


# -- stopping, and going on


async def test_progress_of_a_replay_is_told_after_each_transaction(app: Duly, few_at_once: None) -> None:
    await dead(app.store, 7)
    told: list[Replayed] = []
    done = await app.events.replay_all(progress=told.append)
    assert [so_far.events for so_far in told] == [3, 6, 7]
    assert told[-1] == done
    await reject(app.store)
    away: list[Discarded] = []
    assert await app.events.discard_all(progress=away.append) == away[-1]
    assert [so_far.events for so_far in away] == [3, 6, 7]


class Enough(Exception):
    pass


async def test_raising_from_progress_stops_a_replay_and_another_call_goes_on(app: Duly, few_at_once: None) -> None:
    def enough(done: Replayed) -> None:
        if done.events >= 6:
            raise Enough

    ids = await dead(app.store, 10)
    with pytest.raises(Enough):
        await app.events.replay_all(progress=enough)
    assert await statuses(app, ids) == ["PENDING"] * 6 + ["FAILED"] * 4
    assert (await app.events.replay_all()).events == 4
    assert await times_replayed(app, ids) == {1}


async def test_a_cancelled_replay_leaves_whole_transactions_and_another_call_goes_on(
    app: Duly, few_at_once: None
) -> None:
    ids = await dead(app.store, 30)
    reached = asyncio.Event()
    task = asyncio.create_task(app.events.replay_all(progress=lambda done: reached.set()))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await app.store.now()  # whatever the store's thread was still at is done
    before = await statuses(app, ids)
    assert before.count("PENDING") % 3 == 0
    assert 0 < before.count("PENDING") < 30
    await app.events.replay_all()
    assert await times_replayed(app, ids) == {1}


def test_synchronous_code_counts_replays_and_discards_dead_letters(url: str, clock: ManualClock) -> None:
    app = Duly(url, clock=clock)

    @app.on("greet")
    def greet(_: Event) -> Rejected:
        return Rejected("410")

    with app.sync as sync:
        sync.add_many([Timer(START, "greet") for _ in range(4)])
        sync.tick()
        assert sync.events.dead_letters(tenant="default").events == 4
        told: list[Replayed] = []
        assert sync.events.replay_all(OfType("greet"), rate="1/s", limit=3, progress=told.append).events == 3
        assert told[-1].until == START + 2 * SECOND
        assert sync.events.discard_all(by="ada", reason="a test").events == 1
