"""What a dry run tells is what the act then does, whatever was done before; and the dry run itself leaves every row as
it was."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import Conflict, Duly, Event, Invalid, OfSeries, OfUser, Rule, Status, cron, every, once, rrule, yearly
from duly.records.figures.consequence import Consequence
from duly.records.results import Resumed
from duly.records.schedule import Schedule
from duly.records.specs import Spec
from duly.records.user import User
from duly.testing import ManualClock
from tests.conftest import TABLES
from tests.make import DAY, HOUR, START, a_user

SPRING = datetime(2026, 3, 7, 20, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 20, tzinfo=UTC)
BEGINNINGS = (START, SPRING, AUTUMN)
"""An ordinary day, the evening before New York loses an hour, and the one before Brussels repeats one."""
ZONES = ("UTC", "America/New_York", "Europe/Brussels", "Pacific/Kiritimati")
RULES: tuple[Rule, ...] = (
    every("7h", start=START - HOUR),
    every("50m"),
    *(cron(written, timezone=zone) for written in ("0 9 * * *", "30 1,2 * * *", "30 * * * *") for zone in ZONES),
    *(yearly("03-08", at=at, timezone=zone) for at in ("02:30", "20:00") for zone in ZONES),
    *(
        rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=15", start="2025-01-01T00:00:00", timezone=zone, by_date=True)
        for zone in ZONES[1:3]
    ),
    rrule("FREQ=DAILY;COUNT=3", timezone="Europe/Brussels"),
    *(once(begin + 30 * HOUR) for begin in BEGINNINGS),
)
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"misfire": {"policy": "all", "limit": 3}},
    {"misfire": "skip"},
    {"exclude": ["SUN", "2026-01-02"]},
    {"jitter": "10m"},
    {"overlap": "queue"},
    {"mode": "shadow"},
    {"expires": "2h"},
    {"dst": {"gap": "skip", "overlap": "both"}},
)
MINUTES = st.one_of(st.integers(1, 90), st.integers(60, 4000))
PUT = st.tuples(st.just("put"), st.sampled_from(RULES), st.sampled_from(POLICIES), st.sampled_from([None, True, False]))
ACTS = st.one_of(
    PUT,
    st.tuples(st.just("move"), st.one_of(MINUTES, st.integers(-300, 0))),
    st.tuples(st.sampled_from(["skip", "delete"])),
    st.tuples(st.just("pause"), st.one_of(st.none(), MINUTES), st.sampled_from([None, "skip", "fire"])),
    st.tuples(st.just("resume"), st.sampled_from([None, "skip", "fire"])),
)
BEFORE = st.one_of(
    st.tuples(st.just("wait"), MINUTES, st.booleans()),
    st.tuples(st.just("wait"), MINUTES, st.just(False)),
    st.tuples(st.just("trigger")),
    PUT,
    ACTS.filter(lambda act: act[0] != "delete"),
)
Told = Schedule | Resumed | Consequence | int


# -- what there is


async def dump(app: Duly) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    schema = "" if app.one_writer else "duly."
    async with app.transaction() as tx:
        return {table: sorted(map(repr, await tx.fetch(f"SELECT * FROM {schema}{table}"))) for table in TABLES}


async def events_of(app: Duly, which: Spec) -> dict[str, Event]:
    return {event.id: event for event in await app.events.find(which, limit=1000)}


class Acted(NamedTuple):
    """The events of some series before a real act and after it."""

    before: dict[str, Event]
    after: dict[str, Event]

    def became(self, status: Status) -> list[Event]:
        return sorted(
            (
                event
                for id, event in self.after.items()
                if event.status is status and (id not in self.before or self.before[id].status is not status)
            ),
            key=lambda event: (event.scheduled or event.due, event.id),
        )


async def require_as_told(app: Duly, clock: ManualClock, told: Consequence, acted: Acted) -> None:
    """Compares a consequence with what the act has done."""
    before, after = acted
    assert {(one.id, one.from_, one.to) for one in told.moved} == {
        (id, old.due, after[id].due)
        for id, old in before.items()
        if id in after and after[id].status is Status.PENDING and after[id].due != old.due
    }
    skipped, cancelled = acted.became(Status.SKIPPED), acted.became(Status.CANCELLED)
    assert told.skipped.count == sum(event.stands_for for event in skipped)
    assert [(one.stands_for, one.reason) for one in told.skipped.first] == [
        (event.stands_for, (await app.events.history(event.id))[-1].detail) for event in skipped[:5]
    ]
    assert told.cancelled.count == len(cancelled)
    assert {one.id for one in told.cancelled.first} <= {event.id for event in cancelled}
    assert [one.due for one in told.created] == sorted(
        event.due
        for id, event in after.items()
        if id not in before and event.status in (Status.PENDING, Status.PROCESSING)
    )
    assert {hour.at: hour.after for hour in told.load} == await foretold(app, told)


async def foretold(app: Duly, told: Consequence) -> dict[datetime, int]:
    """What a forecast counts in the hours of the load."""
    hours, found = [hour.at for hour in told.load], dict[datetime, int]()
    while hours:
        week = [at for at in hours if at - hours[0] < 7 * DAY]
        forecast = await app.forecast(week[0], week[-1] + HOUR, HOUR)
        found |= {step.at: step.count for step in forecast.steps if step.at in week}
        hours = hours[len(week) :]
    return found


async def require_owed(app: Duly, clock: ManualClock, told: Consequence, which: Spec, fired: list[Event]) -> None:
    """Of the events that are there, those fire that were told as owed, and no others."""
    there = await events_of(app, which)
    fired.clear()
    for _ in range(30):
        await app.tick()
    found = {event.id for event in fired if event.id in there}
    assert len(found) == told.owed.count
    assert {one.id for one in told.owed.first if one.id is not None} <= found


async def require_next(app: Duly, clock: ManualClock, told: Consequence, which: Spec, fired: list[Event]) -> None:
    """The first occurrences to come do come, each at its time, on the clocks that were told."""
    for one in told.next[:3]:
        assert one.local == one.due.astimezone(_zone(one.timezone)).replace(tzinfo=None)
        clock.set(one.due)
        fired.clear()
        await app.tick()
        rows = await events_of(app, which)
        assert one.due in {event.due for event in rows.values() if event.status is not Status.PENDING}, (one, rows)


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


# -- schedules


class Acts:
    """What people do to one schedule, as a dry run or in earnest."""

    def __init__(self, app: Duly, clock: ManualClock) -> None:
        self.app, self.clock = app, clock

    async def wait(self, minutes: int, works: bool) -> None:
        self.clock.advance(timedelta(minutes=minutes))
        if works:
            await self.app.tick()

    async def trigger(self) -> None:
        await self.app.schedules.trigger("it")

    async def put(
        self, rule: Rule, policies: dict[str, Any], enabled: bool | None, *, dry_run: bool = False
    ) -> Schedule:
        return await self.app.schedules.put("it", rule, "digest", enabled=enabled, dry_run=dry_run, **policies)

    async def move(self, minutes: int, *, dry_run: bool = False) -> Schedule:
        due = self.clock.now() + timedelta(minutes=minutes)
        return await self.app.schedules.reschedule("it", due, dry_run=dry_run)

    async def skip(self, *, dry_run: bool = False) -> Schedule:
        return await self.app.schedules.skip("it", reason="a holiday", dry_run=dry_run)

    async def pause(self, minutes: int | None, passed: str | None, *, dry_run: bool = False) -> Schedule:
        until = None if minutes is None else timedelta(minutes=minutes)
        return await self.app.schedules.pause("it", until=until, passed=passed, dry_run=dry_run)

    async def resume(self, passed: str | None, *, dry_run: bool = False) -> Resumed:
        return await self.app.schedules.resume("it", passed=passed, dry_run=dry_run)

    async def delete(self, *, dry_run: bool = False) -> Consequence | int:
        if dry_run:
            return await self.app.schedules.delete("it", dry_run=True)
        return await self.app.schedules.delete("it")


def consequence_of(told: Told | User) -> Consequence:
    shown = told.schedule if isinstance(told, Resumed) else told
    found = shown if isinstance(shown, Consequence) else shown.consequence  # type: ignore[union-attr]
    assert isinstance(found, Consequence)
    return found


def without_consequence(told: Any) -> Any:
    """What the real act returns for it."""
    if isinstance(told, Consequence):
        return told.cancelled.count
    if isinstance(told, Resumed):
        return msgspec.structs.replace(told, schedule=without_consequence(told.schedule))
    return msgspec.structs.replace(told, consequence=None)


async def rehearsed(app: Duly, act: Callable[..., Awaitable[Any]], *arguments: Any) -> tuple[Any, Any]:
    """What a dry run and then the act return, or the error that both raise; the dry run changes nothing."""
    before = await dump(app)
    try:
        told = await act(*arguments, dry_run=True)
    except (Conflict, Invalid) as error:
        assert await dump(app) == before
        with pytest.raises(type(error), match=re.escape(str(error))):
            await act(*arguments)
        return None, None
    assert await dump(app) == before
    consequence = consequence_of(told)
    assert {hour.at: hour.now for hour in consequence.load} == await foretold(app, consequence)
    return told, await act(*arguments)


async def played(
    url: str, begin: datetime, first: tuple[Any, ...], before: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    clock, fired = ManualClock(begin), list[Event]()
    async with Duly(url, clock=clock) as app:
        app.on("digest")(fired.append)
        acts = Acts(app, clock)
        told, done = await rehearsed(app, acts.put, *first[1:])
        if told is None:
            return
        if "jitter" not in first[2]:  # which follows from the id, and that is made when it is created
            assert told.next_at == done.next_at == consequence_of(told).created[0].due
        for name, *arguments in before:
            try:
                await getattr(acts, name)(*arguments)
            except (Conflict, Invalid):  # there is no next event, or the rule is over: nothing has happened
                continue
        which = OfSeries(done.series)
        there = await events_of(app, which)
        told, done = await rehearsed(app, getattr(acts, last[0]), *last[1:])
        if told is None:
            return
        consequence = consequence_of(told)
        assert without_consequence(told) == done
        acted = Acted(there, await events_of(app, which))
        await require_as_told(app, clock, consequence, acted)
        gone = last[0] == "delete" or (await app.schedules.get("it")).next_at is None
        shown = [] if gone else await app.schedules.preview("it", count=200)
        ahead = [(one.due, one.local, one.note) for one in shown if one.due > clock.now()]
        assert [(one.due, one.local, one.note) for one in consequence.next] == ahead[:10]
        await require_owed(app, clock, consequence, which, fired)
        if last[0] != "delete" and (await app.schedules.get("it")).enabled:
            await require_next(app, clock, consequence, which, fired)


SCHEDULES = {
    "begin": st.sampled_from(BEGINNINGS),
    "first": PUT,
    "before": st.lists(BEFORE, max_size=5),
    "last": ACTS,
}


@settings(max_examples=40, deadline=None)
@given(**SCHEDULES)
def test_what_a_dry_run_tells_of_a_schedule_is_what_the_act_then_does_on_sqlite(
    begin: datetime, first: tuple[Any, ...], before: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    asyncio.run(played("sqlite://", begin, first, before, last))


@settings(max_examples=15, deadline=None)
@given(**SCHEDULES)
def test_what_a_dry_run_tells_of_a_schedule_is_what_the_act_then_does_on_postgresql(
    postgres_url: str,
    postgres_connection: psycopg.Connection[Any],
    begin: datetime,
    first: tuple[Any, ...],
    before: list[tuple[Any, ...]],
    last: tuple[Any, ...],
) -> None:
    emptied(postgres_connection)
    asyncio.run(played(postgres_url, begin, first, before, last))


def emptied(connection: psycopg.Connection[Any]) -> None:
    if connection.execute("SELECT to_regclass('duly.events')").fetchone() != (None,):
        for table in TABLES:
            connection.execute(f"DELETE FROM duly.{table}")


# -- users


BIRTHDAYS = ("1990-03-08", "1992-02-29", "1990-10-25", "1990-01-02", "1990-11-01", "1990-07-01")
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "timezone": st.sampled_from(ZONES),
    "date_of_birth": st.sampled_from(BIRTHDAYS),
    "anniversary": st.sampled_from([None, "2015-03-08", "2016-02-29", "2015-10-25"]),
    "delivery_time": st.sampled_from([None, "02:30", "09:00", "23:59"]),
    "leap": st.sampled_from([None, "mar1", "skip"]),
    "first_name": st.sampled_from(["Ada", "Grace"]),
}
UPDATE = st.tuples(st.just("update"), st.fixed_dictionaries({}, optional=CHANGES))
USERS = {
    "begin": st.sampled_from(BEGINNINGS),
    "first": st.fixed_dictionaries({}, optional=CHANGES),
    "before": st.lists(
        st.one_of(
            UPDATE,
            st.tuples(st.just("wait"), st.one_of(st.integers(1, 3000), st.integers(1, 500_000)), st.booleans()),
        ),
        max_size=4,
    ),
    "last": st.one_of(UPDATE, UPDATE, st.tuples(st.just("delete"))),
}


class ActsOnUser:
    """What people do to one user, as a dry run or in earnest."""

    def __init__(self, app: Duly, clock: ManualClock, id: str) -> None:
        self.app, self.clock, self.id = app, clock, id

    async def wait(self, minutes: int, works: bool) -> None:
        self.clock.advance(timedelta(minutes=minutes))
        if works:
            await self.app.tick()

    async def update(self, changes: dict[str, Any], *, dry_run: bool = False) -> User:
        return await self.app.users.update(self.id, dry_run=dry_run, **changes)

    async def delete(self, *, dry_run: bool = False) -> User:
        return await self.app.users.delete(self.id, dry_run=dry_run)


async def lived(
    url: str, begin: datetime, first: dict[str, Any], before: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    clock, fired = ManualClock(begin), list[Event]()
    async with Duly(url, clock=clock) as app:
        for type in ("birthday", "anniversary"):
            app.on(type)(fired.append)
        user = await app.users.add(**a_user(**first))
        acts = ActsOnUser(app, clock, user.id)
        for name, *arguments in before:
            await getattr(acts, name)(*arguments)
        which = OfUser(user.id)
        there = await events_of(app, which)
        told, done = await rehearsed(app, getattr(acts, last[0]), *last[1:])
        consequence = consequence_of(told)
        assert without_consequence(told) == done
        assert consequence.deleted is (last[0] == "delete")
        await require_as_told(app, clock, consequence, Acted(there, await events_of(app, which)))
        if not consequence.deleted:
            assert consequence_of(await acts.update({}, dry_run=True)).next == consequence.next
            heads = [head.due for head in await app.users.ahead(user.id) if head.due > clock.now()]
            assert {one.due for one in consequence.next} >= set(heads)
        await require_owed(app, clock, consequence, which, fired)
        await require_next(app, clock, consequence, which, fired)


@settings(max_examples=40, deadline=None)
@given(**USERS)
def test_what_a_dry_run_tells_of_a_user_is_what_the_act_then_does_on_sqlite(
    begin: datetime, first: dict[str, Any], before: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    asyncio.run(lived("sqlite://", begin, first, before, last))


@settings(max_examples=15, deadline=None)
@given(**USERS)
def test_what_a_dry_run_tells_of_a_user_is_what_the_act_then_does_on_postgresql(
    postgres_url: str,
    postgres_connection: psycopg.Connection[Any],
    begin: datetime,
    first: dict[str, Any],
    before: list[tuple[Any, ...]],
    last: tuple[Any, ...],
) -> None:
    emptied(postgres_connection)
    asyncio.run(lived(postgres_url, begin, first, before, last))
