import random
from collections import Counter
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest

from duly import Duly, Event, Status, Timer, User, every
from duly.rules.recurrence import Rule
from tests.crash.conftest import Supervise
from tests.crash.consistency import Claimed, Comparison
from tests.crash.supervisor import AT_RANDOM
from tests.runs_by_history import stats_are_those_of_the_histories

LEASE = timedelta(seconds=6)
"""Longer than a machine stalls: a worker that nobody has killed keeps what it has."""

OPTIONS = {"lease": "6s", "concurrency": 4, "batch_size": 4, "poll_interval": "500ms"}

POINTS = ("claiming", "claimed", "delivering", "delivered", "settling", "settled")
POINTS_OF_HEADS = (*POINTS, "completing")  # the last: a new head does not know its successor yet
POINTS_IN_TRANSACTION = ("claiming", "claimed", "delivering", "delivered", "settling", "committing", "settled")


def kills(points: tuple[str, ...], times: int, at_random: int) -> list[str | None]:
    """Each of the points so many times, and so many anywhere, in any order."""
    planned = [*points * times, *[AT_RANDOM] * at_random]
    random.shuffle(planned)
    return planned


@pytest.mark.timeout(300)
async def test_kills_lose_nothing_and_repeat_only_what_was_delivered_and_not_settled(
    app: Duly, supervise: Supervise
) -> None:
    async def feed() -> None:
        delays = [timedelta(milliseconds=random.choice((0, 0, 300))) for _ in range(20)]
        await app.add_many(Timer(delay, random.choice(("awaited", "threaded"))) for delay in delays)

    supervisor = supervise(**OPTIONS)
    await supervisor.kill_many(iter(kills(POINTS, times=9, at_random=51)), feed)
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    told = f"after {len(supervisor.killed)} kills among {len(comparison.events)} events"
    assert len(supervisor.killed) >= 100, told  # on each store
    assert len(comparison.in_status(Status.COMPLETED)) == len(comparison.events), told
    comparison.every_claim_has_one_end()
    comparison.only_kills_interrupted(supervisor.killed, LEASE)
    await stats_are_those_of_the_histories(app)

    written = [
        (Claimed(effect["event"], effect["version"]), effect["worker"]) for effect in supervisor.journal.of("effect")
    ]
    effects, ends = dict(written), comparison.ends()
    assert len(effects) == len(written), f"one claim was delivered twice {told}"
    assert {claim for claim, end in ends.items() if end.act == "delivered"} <= set(effects), (
        f"an effect is missing {told}"
    )
    for claim, worker in effects.items():
        # Its claim was settled as delivered, or a kill (see above) came between the delivery and that.
        assert ends[claim].worker == worker, f"{claim} was delivered by {worker} and ended as {ends[claim]} {told}"
    comparison.points_were_what_they_say(
        supervisor.journal.of("struck"), effects, lasting={"delivered", "settling", "settled"}
    )


@pytest.mark.timeout(300)
async def test_kills_lose_no_event_that_was_reserved_ahead_of_time(app: Duly, supervise: Supervise) -> None:
    async def feed() -> None:
        delays = [timedelta(milliseconds=random.uniform(100, 700)) for _ in range(20)]
        await app.add_many(Timer(delay, random.choice(("awaited", "threaded"))) for delay in delays)

    room = {"concurrency": 8, "batch_size": 8}  # ahead of time is reserved where there is room for each type
    supervisor = supervise(**OPTIONS | room, lookahead="500ms")
    await supervisor.kill_many(
        iter(kills(("reserved", "started", "delivered", "settled"), times=5, at_random=20)), feed
    )
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    told = f"after {len(supervisor.killed)} kills among {len(comparison.events)} events"
    assert len(supervisor.killed) >= 40, told
    assert len(comparison.in_status(Status.COMPLETED)) == len(comparison.events), told
    written = [Claimed(effect["event"], effect["version"]) for effect in supervisor.journal.of("effect")]
    assert len(set(written)) == len(written), f"one claim was delivered twice {told}"
    ends = {claim: end.act for claim, end in comparison.ends().items()}
    assert {claim for claim, act in ends.items() if act == "delivered"} <= set(written), f"an effect is missing {told}"
    assert {ends[claim] for claim in written} <= {"delivered", "interrupted"}, f"repeated without a kill {told}"


@pytest.mark.timeout(300)
async def test_effects_in_the_events_own_transaction_equal_the_events_after_all_kills(
    app: Duly, supervise: Supervise
) -> None:
    async with app.transaction() as tx:
        await tx.execute("CREATE TABLE effects (event text, version integer, worker text)")

    async def feed() -> None:
        await app.add_many(Timer(timedelta(), "transactional") for _ in range(20))

    supervisor = supervise(**OPTIONS)
    await supervisor.kill_many(iter(kills(POINTS_IN_TRANSACTION, times=4, at_random=16)), feed)
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    told = f"after {len(supervisor.killed)} kills among {len(comparison.events)} events"
    assert len(supervisor.killed) >= 40, told
    assert len(comparison.in_status(Status.COMPLETED)) == len(comparison.events), told
    comparison.every_claim_has_one_end()
    comparison.only_kills_interrupted(supervisor.killed, LEASE)

    async with app.transaction() as tx:
        rows = [tuple(row) for row in await tx.fetch("SELECT event, version, worker FROM effects")]
    wanted = sorted((event.id, event.version, event.worker) for event in comparison.events.values())
    assert sorted(rows) == wanted, f"effects and events differ {told}"
    effects = {Claimed(event, version): worker for event, version, worker in rows}
    comparison.points_were_what_they_say(supervisor.journal.of("struck"), effects, lasting={"settled"})


@pytest.mark.timeout(300)
async def test_kills_neither_lose_nor_repeat_an_occurrence_nor_leave_one_waiting(
    app: Duly, supervise: Supervise
) -> None:
    """Schedules that fire every second, one of them so that each event waits until the one before it has ended."""
    names = [f"each-{number}" for number in range(8)]
    for name in names:
        await app.schedules.put(name, every("1s"), "awaited", misfire={"policy": "all", "limit": 1000})
    await app.schedules.put("queued", every("1s"), "threaded", overlap="queue")

    async def feed() -> None:
        await app.schedules.trigger("queued")

    supervisor = supervise(**OPTIONS)
    await supervisor.kill_many(iter(kills(POINTS_OF_HEADS, times=3, at_random=12)), feed)
    schedules = await app.schedules.list()
    assert all(schedule.next_at is not None for schedule in schedules), "each has its head"
    for schedule in schedules:
        await app.schedules.delete(schedule.name)
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    told = f"after {len(supervisor.killed)} kills among {len(comparison.events)} events"
    assert len(supervisor.killed) >= 30, told
    assert not comparison.in_status(Status.FAILED), told
    for series in (schedule.series for schedule in schedules if schedule.name != "queued"):
        own = sorted(scheduled(event) for event in comparison.events.values() if event.series == series)
        assert own == [own[0] + timedelta(seconds=n) for n in range(len(own))], f"a hole, or one twice, {told}"
    assert len(comparison.in_status(Status.COMPLETED)) > 20, told


def scheduled(event: Event) -> datetime:
    assert event.scheduled is not None
    return event.scheduled


class Pulse:
    """An event every second, for everybody; the workers have the handler for it, and know nothing of this."""

    name = "awaited"
    depends_on = ("first_name",)

    def rule(self, user: User, at: time) -> Rule | None:
        return every("1s")

    def message(self, user: User) -> str:
        return user.first_name

    def target(self, user: User) -> dict[str, Any] | None:
        return None


@pytest.mark.timeout(300)
async def test_kills_neither_lose_nor_repeat_an_event_of_a_user(app: Duly, supervise: Supervise) -> None:
    """While users move about and change their names. What a kill has made late is caught up by the latest of it."""
    for name in app.event_types.names():
        app.event_types.remove(name)
    app.event_types.register(Pulse())
    people = [
        {"first_name": "Ada", "last_name": f"No. {n}", "date_of_birth": "1990-03-15", "timezone": "UTC", "key": f"k{n}"}
        for n in range(8)
    ]
    await app.users.import_(people)
    users = await app.users.list()

    async def feed() -> None:
        zone = random.choice(("Asia/Tokyo", "Europe/London", "UTC"))
        await app.users.update(random.choice(users).id, first_name=f"Name {random.random()}", timezone=zone)

    supervisor = supervise(**OPTIONS)
    await supervisor.kill_many(iter(kills(POINTS_OF_HEADS, times=2, at_random=8)), feed)
    for user in users:
        assert len(await app.users.ahead(user.id)) == 1, "each has its head"
        await app.users.delete(user.id)
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    told = f"after {len(supervisor.killed)} kills among {len(comparison.events)} events"
    assert len(supervisor.killed) >= 20, told
    assert not comparison.in_status(Status.FAILED), told
    for user in users:
        own = sorted((one for one in comparison.events.values() if one.user_id == user.id), key=scheduled)
        assert [one.status for one in own] == [Status.COMPLETED] * (len(own) - 1) + [Status.CANCELLED], told
        steps = [scheduled(later) - scheduled(earlier) for earlier, later in pairwise(own)]
        assert steps == [timedelta(seconds=one.stands_for) for one in own[1:]], f"a hole, or one twice, {told}"
    written = [Claimed(effect["event"], effect["version"]) for effect in supervisor.journal.of("effect")]
    assert len(set(written)) == len(written), f"one claim was delivered twice {told}"
    assert {claim.event for claim in written} >= {one.id for one in comparison.in_status(Status.COMPLETED)}, told
    interrupted = {id for id, one in comparison.events.items() if one.interruptions}
    repeated = {id for id, count in Counter(claim.event for claim in written).items() if count > 1}
    assert repeated <= interrupted, f"repeated without a kill {told}"
