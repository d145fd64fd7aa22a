import msgspec
import pytest

from duly.decide.series.due_head import ITS_TURN, PAUSED
from duly.decide.series.successor import reshaped, with_successor
from duly.engine.series.heads import ENDED
from duly.ports import Fired, Reserved
from duly.records.event import Event, HoldKind, Status
from duly.records.schedule import Halt, HaltKind, Schedule
from duly.records.specs import Everything
from duly.rules.notation import every
from duly.rules.recurrence import Occurrence
from duly.testing import ManualClock
from tests.conftest import AnyStore
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, SECOND, START, make_event, make_head, make_new, make_schedule
from tests.stores.rows import event_of, keep

pytestmark = pytest.mark.broken_rows("heads, schedules and what happened to them are stored apart from each other")


async def head_of(store: AnyStore, schedule: Schedule) -> Event:
    head = await store.head(schedule.series)
    assert head is not None
    return head


async def test_a_planted_head_is_the_head_of_its_series(store: AnyStore) -> None:
    schedule = make_schedule(payload={"n": 1})
    head = make_head(schedule, due=START + HOUR)
    assert await store.plant([head]) == {head.id}
    found = await store.head(schedule.series)
    assert found == make_event(
        id=head.id,
        due=START + HOUR,
        payload={"n": 1},
        series=schedule.series,
        occurrence="2026-01-01T01:00:00Z",
        head=True,
        owner=schedule.name,
        created=START,
    )
    assert await store.head("schedule:other") is None


async def test_the_database_refuses_a_second_head(store: AnyStore) -> None:
    schedule = make_schedule()
    await store.plant([make_head(schedule, due=START)])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store.plant([make_head(schedule, due=START + HOUR)])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await keep(store, make_event(series=schedule.series, occurrence="another", head=True))


async def test_the_database_refuses_an_occurrence_twice(store: AnyStore) -> None:
    await keep(store, make_event(series="schedule:a", occurrence="noon", status=Status.CANCELLED))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await keep(store, make_event(series="schedule:a", occurrence="noon"))
    await keep(store, make_event(series="schedule:b", occurrence="noon"))


async def test_planting_skips_the_occurrences_that_are_taken(store: AnyStore) -> None:
    schedule, other = make_schedule(), make_schedule()
    fired = make_event(series=schedule.series, occurrence=make_head(due=START).occurrence, status=Status.COMPLETED)
    await keep(store, fired)
    taken, free = make_head(schedule, due=START), make_head(other, due=START)
    assert await store.plant([taken, free]) == {free.id}
    assert await store.head(schedule.series) is None


async def test_planting_no_heads_does_nothing(store: AnyStore) -> None:
    assert await store.plant([]) == set()


async def test_the_store_tells_which_occurrences_are_taken(store: AnyStore) -> None:
    await keep(store, make_event(series="schedule:a", occurrence="noon"))
    asked = [("schedule:a", "noon"), ("schedule:a", "midnight"), ("schedule:b", "noon")]
    assert await store.taken(asked) == {("schedule:a", "noon")}
    assert await store.taken([]) == set()


async def test_a_head_fires_as_the_given_occurrence(store: AnyStore) -> None:
    schedule = make_schedule()
    head = make_head(schedule, due=START)
    await store.plant([head])
    claimed = await store.claim("w1", {LANE: 1}, LEASE)
    assert (claimed, [one.id for one in claimed.careful]) == ([], [head.id]), (
        "reserved, because its successor is unknown"
    )
    found = await store.reserved_heads(list(map(Reserved.of, claimed.careful)), LEASE)
    assert ([one.id for one in found.heads], found.now) == ([head.id], START)
    fires = Fired(head.id, START + 4 * HOUR, Occurrence("later", START + 3 * HOUR), 4, True)
    await store.fire([fires], "w1", START, LEASE)
    fired = await event_of(store, head.id)
    assert (fired.head, fired.due, fired.occurrence, fired.stands_for) == (False, START + 4 * HOUR, "later", 4)
    assert (fired.scheduled, fired.gated) == (START + 3 * HOUR, True)
    assert (fired.status, fired.version, fired.ready) == (Status.PROCESSING, 2, START + LEASE)
    assert (fired.worker, fired.claimed) == ("w1", START)
    next = make_head(schedule, due=START + 5 * HOUR)
    assert await store.plant([next]) == {next.id}, "its place is free"


async def test_a_claim_can_leave_heads_that_became_ready_after_an_instant(store: AnyStore, clock: ManualClock) -> None:
    head = make_head(make_schedule(), due=START + HOUR)
    await store.plant([head])
    clock.advance(2 * HOUR)
    for as_of, found in ((START, []), (START + 3 * HOUR, [head.id])):
        assert [one.id for one in (await store.claim("w1", {LANE: 5}, SECOND, as_of=as_of)).careful] == found
        clock.advance(SECOND)  # the reservation ends
        assert [one.id for one in (await store.claim_these("w1", [head.id], [LANE], 5, SECOND, as_of)).careful] == found


async def test_a_reshaped_head_follows_its_schedule_in_place(store: AnyStore, clock: ManualClock) -> None:
    schedule = make_schedule()
    await store.plant([make_head(schedule, due=START + HOUR)])
    head = await head_of(store, schedule)
    changed = msgspec.structs.replace(schedule, type="other", payload_json='{"v":2}', target_json='{"webhook":"x"}')
    clock.advance(MINUTE)
    await store.reshape(
        [reshaped(head, make_head(changed, due=START + DAY), "schedule", changed.as_series)], "schedule"
    )
    found = await head_of(store, schedule)
    assert (found.id, found.version, found.due, found.ready) == (head.id, 1, START + DAY, START + DAY)
    assert (found.type, found.lane, found.payload) == ("other", "webhook", {"v": 2})
    assert found.occurrence == "2026-01-02T00:00:00Z"
    [entry] = await store.history(head.id)
    assert (entry.at, entry.act, entry.worker) == (START + MINUTE, "moved", "schedule")
    assert "2026-01-02" in str(entry.detail)


# -- schedules


def stored(schedule: Schedule | None) -> Schedule:
    """Without the times that the store adds."""
    assert schedule is not None
    assert (schedule.created, schedule.updated) == (START, START)
    return msgspec.structs.replace(schedule, created=None, updated=None)


async def test_a_schedule_is_found_by_name_and_by_id(store: AnyStore) -> None:
    schedule = make_schedule(name="digest", payload={"n": 1}, target_json='{"webhook":"x"}', retry_json='{"base":"1s"}')
    assert await store.put_schedule(schedule)
    assert stored(await store.schedule_named("default", "digest")) == schedule
    assert [stored(one) for one in await store.schedules([schedule.id])] == [schedule]
    assert await store.schedule_named("default", "other") is None
    assert await store.schedule_named("acme", "digest") is None
    assert await store.schedules([]) == []


async def test_putting_a_schedule_again_replaces_it(store: AnyStore) -> None:
    schedule = make_schedule(name="digest")
    await store.put_schedule(schedule)
    changed = msgspec.structs.replace(
        schedule,
        type="other",
        rule_json='{"every":"2h"}',
        enabled=False,
        halted="paused",
        halt_kind=HaltKind.PAUSED,
        paused_since=START,
    )
    assert await store.put_schedule(changed)
    assert stored(await store.schedule_named("default", "digest")) == changed


async def test_a_name_that_is_taken_by_another_is_not_replaced(store: AnyStore) -> None:
    first, second = make_schedule(name="digest"), make_schedule(name="digest", rule=every("2h"))
    assert await store.put_schedule(first)
    assert not await store.put_schedule(second)
    assert stored(await store.schedule_named("default", "digest")) == first


async def test_one_name_in_two_tenants_is_two_schedules(store: AnyStore) -> None:
    ours, theirs = make_schedule(name="digest", tenant="a"), make_schedule(name="digest", tenant="b")
    assert await store.put_schedule(ours)
    assert await store.put_schedule(theirs)
    assert stored(await store.schedule_named("a", "digest")) == ours
    assert stored(await store.schedule_named("b", "digest")) == theirs


async def test_why_no_head_follows_is_kept_on_each_schedule_and_can_be_cleared(store: AnyStore) -> None:
    ended, broken, well = (make_schedule() for _ in range(3))
    for schedule in (ended, broken, well):
        await store.put_schedule(schedule)
    await store.halt({ended.id: ENDED, broken.id: Halt(HaltKind.ERROR, "no such zone")})
    found = await store.schedules([ended.id, broken.id, well.id])
    assert {schedule.id: (schedule.halt_kind, schedule.halted) for schedule in found} == {
        ended.id: (HaltKind.ENDED, "ended"),
        broken.id: (HaltKind.ERROR, "no such zone"),
        well.id: (None, None),
    }
    await store.halt({broken.id: None})
    [cleared] = await store.schedules([broken.id])
    assert stored(cleared) == broken


async def test_one_claim_takes_timers_and_heads_oldest_first(store: AnyStore, clock: ManualClock) -> None:
    schedule = make_schedule()
    head, timer = with_successor(make_head(schedule, due=START), schedule.as_series), make_new(due=START + SECOND)
    await store.plant([head])
    await store.add([timer])
    clock.advance(MINUTE)
    claimed = await store.claim("w1", {LANE: 5}, LEASE)
    assert [event.id for event in claimed] == [head.id, timer.id]


async def test_a_series_larger_than_a_batch_is_held_reheld_gated_and_cancelled_whole(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.statements.schedules.BATCH_ROWS", 3)
    schedule = make_schedule()
    async with store.begin() as tx:
        await tx.plant([make_head(schedule, due=START + n * HOUR, head=False) for n in range(8)])
        assert await tx.hold_series(schedule.series, PAUSED, "ada") == 8
        await tx.rehold(schedule.series, HoldKind.PAUSED, ITS_TURN)
        await tx.gate(schedule.series, True)
    found = await store.find(Everything(), limit=20)
    assert [(event.hold_kind, event.held, event.gated) for event in found] == [(*ITS_TURN, True)] * 8
    async with store.begin() as tx:
        await tx.gate(schedule.series, False)
        assert await tx.cancel_series(schedule.series, "ada", "its schedule was deleted") == 8
    found = await store.find(Everything(), limit=20)
    assert {(event.status, event.held, event.hold_kind, event.gated) for event in found} == {
        (Status.CANCELLED, None, None, False)
    }
