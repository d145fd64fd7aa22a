"""Users are changed and deleted while workers claim their events: one head for each series, nothing twice."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly import Conflict, Duly, Event, NotFound, Status, User, every
from duly.engine.series.user_heads import MOST_TRIES
from duly.rules import zones
from duly.rules.recurrence import Rule
from duly.rules.zones import to_wall
from duly.testing import ManualClock
from tests.api.greeting import everything_of, greetings
from tests.api.test_transactions import ASYNC
from tests.make import DAY, HOUR, MINUTE, START, a_user

ZONES = ["America/New_York", "Europe/London", "Asia/Tokyo", "Pacific/Kiritimati", "Pacific/Honolulu"]


class Pulse:
    """Every minute, for everybody."""

    name = "pulse"
    depends_on = ("first_name",)

    def rule(self, user: User, at: time) -> Rule | None:
        return every("1m", start=START)

    def message(self, user: User) -> str:
        return user.first_name

    def target(self, user: User) -> dict[str, Any] | None:
        return None


@pytest.fixture
async def processes(clean_postgres: str, clock: ManualClock) -> AsyncIterator[list[Duly]]:
    """Three of them: two that work, and one that people use."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(Duly(clean_postgres, clock=clock, lease="1d")) for _ in range(3)]
        for app in opened:
            app.event_types.register(Pulse())
        yield opened


async def test_changes_and_deletions_race_with_claims_and_nothing_is_lost_or_repeated(
    processes: list[Duly], clock: ManualClock
) -> None:
    *workers, app = processes
    fired: list[Event] = []
    for worker in workers:
        worker.on("pulse")(_into(fired))
    chance = random.Random(7)
    users = [await app.users.add(**a_user(anniversary="2015-06-01")) for _ in range(12)]
    deleted: set[str] = set()
    refused = 0
    rounds = 25
    for _ in range(rounds):
        clock.advance(MINUTE)

        async def act(user: User, number: int) -> None:
            nonlocal refused
            await asyncio.sleep(0.001 * chance.randrange(8))
            try:
                if chance.random() < 0.02:
                    await app.users.delete(user.id)
                    deleted.add(user.id)
                elif chance.random() < 0.7:
                    name, zone = f"Name {number}", chance.choice(ZONES)
                    await app.users.update(user.id, first_name=name, timezone=zone)
            except NotFound:
                assert user.id in deleted
            except Conflict:
                refused += 1

        acts = [act(user, number) for number, user in enumerate(users) for _ in range(2)]
        await asyncio.gather(*(worker.tick() for worker in workers), *acts)
    for worker in workers:
        await worker.tick()
    assert refused == 0
    for user in users:
        heads = [event for event in await everything_of(app, user) if event.head]
        if user.id in deleted:
            assert not heads
            continue
        now = await app.users.get(user.id)
        assert sorted(head.type for head in heads) == ["anniversary", "birthday", "pulse"]
        assert {head.timezone for head in heads} == {now.timezone}
        [pulse] = [head for head in heads if head.type == "pulse"]
        assert (pulse.due, pulse.payload["message"]) == (clock.now() + MINUTE, now.first_name)
        pulses = Counter(event.occurrence for event in fired if event.user_id == user.id)
        assert len(pulses) == rounds, "each minute has fired"
    twice = Counter((event.series, event.occurrence) for event in fired)
    assert max(twice.values()) == 1
    assert len(fired) >= rounds * (len(users) - len(deleted))


def _into(fired: list[Event]) -> Any:
    async def fire(event: Event) -> None:
        fired.append(event)

    return fire


async def test_a_user_who_is_deleted_while_events_are_claimed_gets_nothing_more(
    processes: list[Duly], clock: ManualClock
) -> None:
    *workers, app = processes
    for worker in workers:
        greetings(worker, "pulse")
    users = [await app.users.add(**a_user()) for _ in range(30)]
    for user in users:
        clock.advance(MINUTE)
        await asyncio.gather(*(worker.tick() for worker in workers), app.users.delete(user.id))
    for user in users:
        events = await everything_of(app, user)
        assert not [event for event in events if event.head]
        assert {event.status for event in events} <= {Status.COMPLETED, Status.CANCELLED}
    clock.advance(DAY)
    await asyncio.gather(*(worker.tick() for worker in workers))
    assert not [
        event for event in await app.events.find(limit=1000) if event.due > clock.now() - DAY + MINUTE and event.head
    ]


async def test_two_changes_of_one_user_at_once_both_happen(processes: list[Duly]) -> None:
    one, other, _ = processes
    user = await one.users.add(**a_user())
    for number in range(10):
        await asyncio.gather(
            one.users.update(user.id, first_name=f"First {number}"),
            other.users.update(user.id, last_name=f"Last {number}", timezone=ZONES[number % 5]),
        )
        now = await one.users.get(user.id)
        assert (now.first_name, now.last_name) == (f"First {number}", f"Last {number}")
        [head] = [head for head in await one.users.ahead(user.id) if head.type == "birthday"]
        assert head.payload == {"message": f"Hey, First {number} Last {number} it's your birthday"}
        assert head.timezone == now.timezone


async def test_two_users_who_want_one_key_do_not_both_get_it(processes: list[Duly]) -> None:
    one, other, _ = processes
    for number in range(10):
        users = [await one.users.add(**a_user()) for _ in range(2)]
        done = await asyncio.gather(
            one.users.update(users[0].id, key=f"k{number}"),
            other.users.update(users[1].id, key=f"k{number}"),
            one.users.add(**a_user(key=f"k{number}")),
            return_exceptions=True,
        )
        assert [type(result) for result in done].count(User) == 1
        assert [type(result) for result in done].count(Conflict) == 2


async def test_a_refresh_and_a_replan_run_at_once_with_changes_and_claims(
    processes: list[Duly], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, other, app = processes
    greetings(worker, "pulse")
    users = [await app.users.add(**a_user(anniversary="2015-06-01")) for _ in range(20)]
    async with app.transaction() as tx:
        await tx.execute("UPDATE duly.events SET id = gen_random_uuid()")  # in another order than their users
    other.event_types.remove("pulse")
    other.event_types.register(Pulse())
    for number in range(8):
        clock.advance(MINUTE)
        monkeypatch.setattr(zones, "VERSION", f"2099{number}")
        changes = [app.users.update(user.id, first_name=f"Name {number}", timezone=ZONES[number % 5]) for user in users]
        await asyncio.gather(worker.tick(), other.users.refresh(), app.schedules.replan(), *changes)
    for user in users:
        heads = await app.users.ahead(user.id)
        assert sorted(head.type for head in heads) == ["anniversary", "birthday", "pulse"]


async def test_a_user_whose_events_are_claimed_without_end_is_not_half_deleted(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await app.users.add(**a_user())
    looks = 0

    async def always(*_: Any) -> set[str]:
        nonlocal looks
        looks += 1
        return {"another"}

    monkeypatch.setattr("duly.stores.statements.users.UserQueries.user_head_ids", always)
    for verb in (app.users.delete(user.id), app.users.update(user.id, last_name="King")):
        with pytest.raises(Conflict, match="being claimed by a worker: try again"):
            await verb
    assert looks == 2 * MOST_TRIES
    assert await app.users.get(user.id) == user
    assert len(await app.users.ahead(user.id)) == 1


# -- any sequence of acts


BORN = ["1990-01-01", "1990-01-02", "1996-02-29", "1990-03-01", "1990-12-31"]
ACTS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(BORN), st.sampled_from(ZONES)),
    st.tuples(st.just("zone"), st.integers(0, 3), st.sampled_from(ZONES)),
    st.tuples(st.just("born"), st.integers(0, 3), st.sampled_from(BORN)),
    st.tuples(st.just("leap"), st.integers(0, 3), st.sampled_from(["feb28", "mar1", "skip"])),
    st.tuples(st.just("name"), st.integers(0, 3), st.sampled_from(["Ada", "Bob"])),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("wait"), st.sampled_from([MINUTE, HOUR, 5 * HOUR, 20 * HOUR, 30 * DAY, 200 * DAY, 400 * DAY])),
)


class Model:
    """What was said of users and to them, and what must hold whatever happened."""

    def __init__(self, app: Duly, clock: ManualClock) -> None:
        self.app, self.clock = app, clock
        self.users: list[User] = []
        self.gone: dict[str, datetime] = {}
        self.greeted = greetings(app)
        self.checked = 0

    async def do(self, act: str, *said: Any) -> None:
        if act == "add":
            self.users.append(await self.app.users.add(**a_user(date_of_birth=said[0], timezone=said[1])))
        elif act == "wait":
            self.clock.advance(said[0])
        elif act == "tick":
            await self.app.tick()
            await self.heads_lie_ahead()
        elif self.users:
            user = self.users[said[0] % len(self.users)]
            field = {"zone": "timezone", "born": "date_of_birth", "leap": "leap", "name": "first_name"}.get(act)
            if user.id in self.gone:
                with pytest.raises(NotFound):
                    await self.app.users.get(user.id)
            elif field is None:
                await self.app.users.delete(user.id)
                self.gone[user.id] = self.clock.now()
            else:
                await self.app.users.update(user.id, **{field: said[1]})
        self.greetings_were_right()

    async def heads_lie_ahead(self) -> None:
        for user in self.users:
            heads = [event for event in await everything_of(self.app, user) if event.head]
            assert len(heads) == (user.id not in self.gone)
            for head in heads:
                now = await self.app.users.get(user.id)
                assert head.due > self.clock.now()
                assert (head.timezone, to_wall(head.due, now.timezone).time()) == (now.timezone, time(9))
                assert head.payload["message"].startswith(f"Hey, {now.first_name} ")
                assert kept_on(now, to_wall(head.due, now.timezone).date())

    def greetings_were_right(self) -> None:
        for event in self.greeted[self.checked :]:
            assert event.local is not None
            assert event.local.time() == time(9)
            assert event.due <= self.clock.now()
            assert event.user_id not in self.gone
        self.checked = len(self.greeted)
        twice = Counter((event.user_id, event.occurrence) for event in self.greeted)
        assert not twice or max(twice.values()) == 1


def kept_on(user: User, day: date) -> bool:
    """Whether this is the user's birthday."""
    born = user.date_of_birth
    if (born.month, born.day) != (2, 29) or (day.month, day.day) == (2, 29):
        return (born.month, born.day) == (day.month, day.day)
    leap = (day.replace(month=3, day=1) - timedelta(days=1)).day == 29
    instead = {"mar1": (3, 1), "skip": None}.get(user.leap or "", (2, 28))
    return not leap and (day.month, day.day) == instead


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(acts=st.lists(ACTS, min_size=5, max_size=25))
async def test_whatever_happens_to_users_they_are_greeted_at_nine_and_once(acts: list[tuple[Any, ...]]) -> None:
    clock = ManualClock()
    async with Duly("sqlite://", clock=clock, lease="1d") as app:
        model = Model(app, clock)
        for act in acts:
            await model.do(*act)
        await model.do("tick")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(acts=st.lists(ACTS, min_size=5, max_size=25))
async def test_whatever_happens_to_users_on_postgres_they_are_greeted_at_nine_and_once(
    clean_postgres: str, acts: list[tuple[Any, ...]]
) -> None:
    clock = ManualClock()
    async with Duly(clean_postgres, clock=clock, lease="1d") as app:
        async with app.transaction() as tx:
            await tx.execute("TRUNCATE duly.events, duly.journal, duly.users")
        model = Model(app, clock)
        for act in acts:
            await model.do(*act)
        await model.do("tick")


@pytest.mark.parametrize("transaction", ASYNC.values(), ids=ASYNC)
async def test_who_is_given_a_key_that_somebody_else_is_just_getting_is_refused(
    processes: list[Duly], clean_postgres: str, transaction: Any
) -> None:
    """In whichever transaction: the look finds the key free, and the write waits for who has it."""
    app, *_ = processes
    user = await app.users.add(**a_user())

    async def race() -> None:
        async with transaction(clean_postgres) as (connection, _):
            async with app.transaction() as first:
                await app.users.add(**a_user(key="k"), transaction=first)
                second = asyncio.create_task(app.users.update(user.id, key="k", transaction=connection))
                while not await first.fetchval(WAITING):  # noqa: ASYNC110 - the server has no event to wait for
                    await asyncio.sleep(0.01)
            await second

    with pytest.raises(Conflict, match="another request has just created a user with one of these keys"):
        await race()
    assert (await app.users.get(user.id)).key is None


WAITING = "SELECT pg_backend_pid() = ANY (ARRAY(SELECT unnest(pg_blocking_pids(pid)) FROM pg_locks WHERE NOT granted))"
"""Whether somebody waits for this transaction."""
