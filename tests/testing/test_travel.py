"""``travel``: what becomes due on the way fires at its instant, in order, by the clock of the database."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from duly import Duly, Event, Failed, InStatus, Misfire, Misuse, Retry, Status, cron, every, webhook
from duly.testing import ManualClock, Recorder, UserBuilder, fired, rebound, travel
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, SECOND, START


async def test_what_becomes_due_on_the_way_fires_at_its_instant_and_in_order(app: Duly, clock: ManualClock) -> None:
    seen: list[tuple[str, datetime]] = []

    @app.on("step")
    async def step(event: Event) -> None:
        seen.append((event.payload, clock.now()))

    for name, wait in (("third", 3 * HOUR), ("first", HOUR), ("second", 2 * HOUR), ("never", 5 * HOUR)):
        await app.after(wait, "step", name)
    async with travel(app) as time:
        events = await time.to(START + 4 * HOUR)
        assert time.now() == clock.now() == await app.now() == START + 4 * HOUR
    assert seen == [("first", START + HOUR), ("second", START + 2 * HOUR), ("third", START + 3 * HOUR)]
    assert [event.payload for event in events] == ["first", "second", "third"]
    assert [event.lateness for event in await app.events.find(InStatus("completed"))] == [timedelta()] * 3


async def test_what_a_handler_schedules_on_the_way_fires_on_the_way_too(app: Duly) -> None:
    @app.on("chain")
    async def chain(event: Event) -> None:
        if event.payload < 5:
            await app.after(HOUR if event.payload else 0, "chain", event.payload + 1)

    await app.after(HOUR, "chain", 0)
    async with travel(app) as time:
        assert [event.payload for event in await time.by(hours=4)] == [0, 1, 2, 3, 4]
        assert [event.payload for event in await time.by(HOUR)] == [5]


async def test_an_event_due_at_the_very_instant_fires_and_one_after_it_does_not(app: Duly) -> None:
    @app.on("tick")
    async def tick(event: Event) -> None: ...

    await app.at(START + HOUR, "tick")
    await app.at(START + HOUR + timedelta(microseconds=1), "tick")
    async with travel(app) as time:
        assert len(await time.by(HOUR - timedelta(microseconds=1))) == 0
        assert len(await time.to(START + HOUR)) == 1
        assert len(await time.by(timedelta(microseconds=1))) == 1


async def test_a_failing_handler_is_tried_again_after_its_backoff_on_the_way(app: Duly, clock: ManualClock) -> None:
    tried: list[datetime] = []

    @app.on("charge")
    async def charge(event: Event) -> None:
        tried.append(clock.now())
        if len(tried) < 3:
            raise ConnectionError("the bank is busy")

    await app.after(HOUR, "charge", retry=Retry(max_attempts=3, base=10 * MINUTE, factor=1))
    async with travel(app) as time:
        await time.by(days=1)
        [event] = fired(app, "charge", times=1)
        assert event.attempts == 2
        assert len(fired(app, "charge", outcome="retried")) == 2
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert all(10 * MINUTE <= wait <= 12.5 * MINUTE for wait in waits)


async def test_a_schedule_runs_each_night_at_its_local_time_over_both_changes_of_clocks(app: Duly) -> None:
    @app.on("nightly")
    async def nightly(event: Event) -> None: ...

    async with travel(app, START) as time:
        await app.every("nightly", cron("30 2 * * *"), "nightly", timezone="Europe/Brussels")
        runs = await time.to(START.replace(year=2027))
    assert len(runs) == 365
    assert {f"{event.due.astimezone(UTC):%H:%M}" for event in runs} == {"00:30", "01:00", "01:30"}
    assert all(event.stands_for == 1 for event in runs)


async def test_a_user_has_a_birthday_each_year(app: Duly) -> None:
    @app.on("birthday")
    async def greet(event: Event) -> None: ...

    await UserBuilder().with_date_of_birth("1990-02-10").with_timezone("Asia/Tokyo").add_to(app)
    async with travel(app) as time:
        birthdays = await time.by(days=3 * 366)
    assert [event.due.isoformat() for event in birthdays] == [
        f"{year}-02-10T00:00:00+00:00" for year in (2026, 2027, 2028)
    ]


async def test_schedules_in_code_are_there_and_handlers_of_later_calls_are_served(app: Duly) -> None:
    @app.schedule(every("1h"), name="hourly")
    async def hourly(event: Event) -> None: ...

    async with travel(app) as time:
        assert len(await time.by(hours=3)) == 3

        @app.on("late")
        def late(event: Event) -> None: ...

        await app.after(MINUTE, "late")
        assert [event.type for event in await time.by(MINUTE)] == ["late"]


async def test_transactional_handlers_and_plain_functions_are_called(app: Duly) -> None:
    called: list[str] = []

    @app.on("plain")
    def plain(event: Event) -> None:
        called.append(event.type)

    @app.on("closing", transactional=True)
    async def closing(event: Event, tx: Any) -> None:
        await app.after(HOUR, "plain", transaction=tx)

    await app.after(HOUR, "closing")
    async with travel(app) as time:
        assert [event.type for event in await time.by(days=1)] == ["closing", "plain"]
    assert called == ["plain"]


async def test_nothing_fires_while_a_schedule_is_paused(app: Duly) -> None:
    @app.on("digest")
    async def digest(event: Event) -> None: ...

    await app.every("digest", every("1h"), "digest", misfire=Misfire("latest"))
    async with travel(app) as time:
        assert len(await time.by(hours=2)) == 2
        await app.schedules.pause("digest")
        assert await time.by(days=2) == []
        await app.schedules.resume("digest")
        assert len(await time.by(hours=2)) == 2


async def test_a_parked_destination_is_tried_again_and_what_waited_for_it_follows(duly: OpenDuly) -> None:
    hook = Recorder(*[Failed("503", outage=True)] * 30)
    app = await duly(channels={"webhook": hook}, secret_key="a key of at least thirty-two characters")
    for number in range(40):
        await app.after(HOUR, "order.paid", number, target=webhook("https://shop.example/hook"))
    async with travel(app) as time:
        await time.by(days=1)
    assert {event.status for event in await app.events.find()} == {Status.COMPLETED}


async def test_rates_and_limits_of_targets_hold_nothing_back(duly: OpenDuly) -> None:
    app = await duly(channels={"webhook": Recorder()}, secret_key="a key of at least thirty-two characters")
    await app.targets.put("crm", "https://crm.example/in")
    await app.targets.limit("crm", rate="1/h", concurrency=1)
    for _ in range(10):
        await app.after(HOUR, "order.paid", target=webhook(target="crm"))
    async with travel(app) as time:
        assert len(await time.by(HOUR)) == 10


async def test_time_does_not_go_back_and_wants_a_zone(app: Duly) -> None:
    async with travel(app) as time:
        await time.by(hours=1)
        with pytest.raises(Misuse, match="time cannot go back"):
            await time.to(START)
        with pytest.raises(Misuse, match="no time zone"):
            await time.to(datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused
        with pytest.raises(Misuse, match="the calendar ends before then"):
            await time.by(days=10**9)
        with pytest.raises(Misuse, match="time cannot go back"):
            await time.by(hours=-1)
        with pytest.raises(Misuse, match="expected a timedelta, a number of seconds or"):
            await time.by("soon")
        await time.by("2h")
        await time.by(60)
        assert time.now() == START + 3 * HOUR + MINUTE


async def test_a_duly_on_a_real_clock_is_refused() -> None:
    async with Duly("sqlite://") as app:
        with pytest.raises(Misuse, match="with rebound"):
            travel(app)


async def test_another_clock_follows(app: Duly) -> None:
    @app.on("tick")
    async def tick(event: Event) -> None: ...

    shown: list[datetime] = []
    await app.at(START + HOUR, "tick")
    async with travel(app, follow=shown.append) as time:
        await time.to(START + DAY)
    assert shown == [START, START + HOUR, START + DAY]


async def test_an_event_that_an_open_transaction_has_locked_is_told_of(duly: OpenDuly, url: str) -> None:
    app = await duly()
    if app.one_writer:
        pytest.skip("SQLite has one writer: a second transaction waits")

    @app.on("tick")
    async def tick(event: Event) -> None: ...

    await app.at(START + HOUR, "tick", key="k")
    async with travel(app) as time:
        async with app.transaction() as tx:
            await app.cancel("k", transaction=tx)
            with pytest.raises(Misuse, match="locked by an open transaction"):
                await time.by(HOUR)
        assert await time.by(SECOND) == []


async def test_an_event_that_is_locked_for_a_moment_is_waited_for(duly: OpenDuly) -> None:
    app = await duly()
    if app.one_writer:
        pytest.skip("SQLite has one writer: a second transaction waits")

    @app.on("tick")
    async def tick(event: Event) -> None: ...

    await app.at(START + HOUR, "tick", key="k")
    async with travel(app) as time:
        async with app.transaction() as tx:
            await app.cancel("k", transaction=tx)
            moving = asyncio.create_task(time.by(HOUR))
            done, _ = await asyncio.wait([moving], timeout=0.1)
            assert not done
        assert await moving == []
    assert (await app.events.get("k")).status is Status.CANCELLED


# -- without an event loop


def test_synchronous_code_moves_time_with_the_same_words(url: str, clock: ManualClock) -> None:
    app = Duly(url, clock=clock)
    seen: list[str] = []

    @app.on("tick")
    def tick(event: Event) -> None:
        seen.append(event.payload)
        if event.payload == "first":
            app.sync.after(HOUR, "tick", "second")

    with travel(app) as time:
        app.sync.after(HOUR, "tick", "first")
        assert [event.payload for event in time.by(hours=3)] == ["first", "second"]
        assert time.now() == clock.now() == START + 3 * HOUR
        fired(app, "tick", payload="first", at=START + HOUR)
    assert seen == ["first", "second"]


async def test_the_synchronous_form_is_refused_where_it_would_block_the_loop() -> None:
    with rebound(app := Duly("sqlite://")), pytest.raises(Misuse, match="async with travel"), travel(app):
        pass


async def test_time_stops_where_a_pause_ends(app: Duly, clock: ManualClock) -> None:
    seen: list[datetime] = []

    @app.on("tick")
    async def tick(_: Event) -> None:
        seen.append(clock.now())

    await app.schedules.put("hourly", every("1h", start=START), "tick", misfire={"policy": "latest"})
    async with travel(app) as time:
        await app.schedules.pause("hourly", until="150m", passed="fire", reason="a migration")
        await time.by(hours=4)
        assert (await app.schedules.get("hourly")).enabled
        [entry] = [one for one in await app.schedules.history("hourly") if one.act == "resumed"]
    assert seen == [START + 150 * MINUTE, START + 3 * HOUR, START + 4 * HOUR]
    assert entry.at == START + 150 * MINUTE
