"""Newer zone data moves what has not started, and nothing else."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from duly import Duly, Rule, cron, every, once, rrule, yearly
from duly.decide.calendars import calendar
from duly.rules import zones
from duly.rules.timetable import stored_timetable
from duly.signals import Replanned
from duly.testing import ManualClock
from tests.api.greeting import fire, greetings, planned
from tests.api.test_schedules import ticks
from tests.make import DAY, HOUR, START, a_user
from tests.worker.running_worker import Told

NewLaw = Callable[..., None]


@pytest.fixture
def new_law(monkeypatch: pytest.MonkeyPatch) -> Iterator[NewLaw]:
    """Another edition of the zone data, in which a zone has the offsets of another one."""
    load = zones._load

    def forget() -> None:
        zones.zone.cache_clear()
        stored_timetable.cache_clear()
        calendar._known.clear()

    def new_law(version: str = "2099a", **laws: str) -> None:
        def load_by_law(name: str) -> ZoneInfo:
            return load(laws.get(name.rpartition("/")[2], name))

        monkeypatch.setattr(zones, "VERSION", version)
        monkeypatch.setattr(zones, "_load", load_by_law)
        forget()

    yield new_law
    monkeypatch.undo()
    forget()


async def test_a_change_of_law_moves_wall_times_to_their_new_instants(app: Duly, new_law: NewLaw) -> None:
    brussels = "Europe/Brussels"
    rules: dict[str, Rule] = {
        "daily": cron("0 9 * * *", timezone=brussels),
        "leap": yearly("02-29", timezone=brussels),
        "monthly": rrule("FREQ=MONTHLY;BYDAY=-1FR", start=datetime(2026, 1, 1, 9), timezone=brussels),  # noqa: DTZ001
        "local": once(datetime(2026, 7, 1, 9), timezone=brussels),  # noqa: DTZ001 - on the wall
        "tokyo": cron("0 9 * * *", timezone="Asia/Tokyo"),
        "hourly": cron("0 * * * *", timezone=brussels),
        "every": every("1h"),
        "instant": once(START + DAY),
    }
    before = {name: (await app.schedules.put(name, rule, "digest")).next_at for name, rule in rules.items()}
    timer = await app.at(START + DAY, "digest")
    new_law(Brussels="Europe/Athens")

    listed = await app.schedules.replan(dry_run=True)
    assert sorted(one.schedule for one in listed) == ["daily", "leap", "local", "monthly"]
    assert all(one.new == one.old - HOUR and one.timezone == brussels for one in listed)
    assert {name: (await app.schedules.get(name)).next_at for name in rules} == before, "it was only a look"

    assert sorted(await app.schedules.replan(by="ada")) == sorted(listed)
    moved = {"daily", "leap", "local", "monthly"}
    for name, old in before.items():
        assert old is not None
        shown = await app.schedules.get(name)
        assert shown.next_at == (old - HOUR if name in moved else old), name
    assert (await app.events.get(timer.id)).due == START + DAY, "an instant is an instant"
    [daily] = [one for one in listed if one.schedule == "daily"]
    [entry] = await app.events.history(daily.event)
    assert (entry.act, entry.worker) == ("replanned", "ada")
    assert entry.detail == (f"due 2026-01-01T08:00:00Z → 2026-01-01T07:00:00Z (zone data {daily.zone_data} → 2099a)")
    assert (await app.events.get(daily.event)).zone_data == "2099a"
    assert await app.schedules.replan() == [], "once is enough"


async def test_an_older_edition_of_the_zone_data_changes_nothing(app: Duly, new_law: NewLaw) -> None:
    put = await app.schedules.put("daily", cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    new_law("2001a", Brussels="Europe/Athens")
    assert await app.schedules.replan() == []
    assert (await app.schedules.get("daily")).next_at == put.next_at


async def test_a_worker_replans_when_it_starts(app: Duly, clock: ManualClock, new_law: NewLaw) -> None:
    told, fired = Told(app), ticks(app)
    await app.schedules.put("daily", cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    await app.tick()
    assert told.of(Replanned) == []
    new_law(Brussels="Europe/Athens")
    clock.set(datetime(2026, 1, 1, 7, tzinfo=UTC))  # 9:00, by the new law
    await app.tick()
    assert [signal.events for signal in told.of(Replanned)] == [1]
    assert [event.due for event in fired] == [clock.now()]


async def test_a_replan_leaves_heads_that_are_due_or_were_moved_by_hand(
    app: Duly, clock: ManualClock, new_law: NewLaw
) -> None:
    for name in ("due", "moved"):
        await app.schedules.put(name, cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    await app.schedules.reschedule("moved", START + 10 * HOUR)
    clock.set(datetime(2026, 1, 1, 8, 0, 1, tzinfo=UTC))
    new_law(Brussels="Europe/London")
    assert await app.schedules.replan() == []
    assert (await app.schedules.get("due")).next_at == datetime(2026, 1, 1, 8, tzinfo=UTC)
    assert (await app.schedules.get("moved")).next_at == START + 10 * HOUR


async def test_a_paused_schedule_is_replanned_and_stays_paused(app: Duly, new_law: NewLaw) -> None:
    put = await app.schedules.put("daily", cron("0 9 * * *", timezone="Europe/Brussels"), "digest", enabled=False)
    new_law(Brussels="Europe/Athens")
    await app.schedules.replan()
    shown = await app.schedules.get("daily")
    assert put.next_at is not None
    assert (shown.next_at, shown.held) == (put.next_at - HOUR, "paused")


async def test_a_rule_that_cannot_be_read_does_not_keep_others_from_being_replanned(app: Duly, new_law: NewLaw) -> None:
    from tests.stores.rows import write

    for name in ("a", "b", "c"):
        await app.schedules.put(name, cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE name = $2", '{"cron": "nonsense"}', "b")
    new_law(Brussels="Europe/Athens")
    assert [one.schedule for one in await app.schedules.replan()] == ["a", "c"]
    assert "nonsense" in str((await app.schedules.get("b")).halted) or "fields" in str(
        (await app.schedules.get("b")).halted
    )


async def test_many_heads_are_replanned_in_portions(
    app: Duly, new_law: NewLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.engine.series.replan.HEADS_PER_TRANSACTION", 3)
    for number in range(8):
        await app.schedules.put(f"daily-{number}", cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    new_law(Brussels="Europe/Athens")
    assert len(await app.schedules.replan(dry_run=True)) == 8
    assert len(await app.schedules.replan()) == 8


# -- the events of users


async def test_a_change_of_law_moves_the_greetings_of_users_to_nine_again(
    app: Duly, clock: ManualClock, new_law: NewLaw
) -> None:
    greetings(app)
    users = [await app.users.add(**a_user(timezone=zone)) for zone in ("Europe/Brussels", "Asia/Tokyo")]
    brussels, tokyo = [await planned(app, user) for user in users]
    new_law(Brussels="Europe/Athens")
    [moved] = await app.schedules.replan(by="ada")
    assert (moved.event, moved.new, moved.schedule) == (brussels.id, brussels.due - HOUR, brussels.series)
    head = await planned(app, users[0])
    assert (head.due, head.zone_data, head.local and head.local.hour) == (brussels.due - HOUR, "2099a", 9)
    assert (await planned(app, users[1])).due == tokyo.due
    [entry] = await app.events.history(head.id)
    assert (entry.act, entry.worker) == ("replanned", "ada")
    await fire(app, clock, users[0])
    assert (await planned(app, users[0])).due == head.due.replace(year=2027), "and so the year after"


async def test_who_was_greeted_by_the_old_law_is_not_greeted_again_by_the_new(
    app: Duly, clock: ManualClock, new_law: NewLaw
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(timezone="Europe/Brussels"))
    await fire(app, clock, user)
    new_law(Brussels="Europe/London")
    await app.schedules.replan()
    clock.advance(2 * HOUR)
    await app.tick()
    assert len(greeted) == 1
    assert (await planned(app, user)).occurrence == "2027-03-15"


async def test_an_overdue_greeting_is_not_put_off_by_a_new_law(app: Duly, clock: ManualClock, new_law: NewLaw) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(timezone="Europe/Brussels"))
    clock.set((await planned(app, user)).due + HOUR / 2)
    new_law(Brussels="Europe/London")
    await app.tick()
    assert len(greeted) == 1


async def test_a_users_rule_that_cannot_be_read_is_told_in_the_users_history(app: Duly, new_law: NewLaw) -> None:
    from tests.stores.rows import write

    good, bad = [await app.users.add(**a_user(timezone="Europe/Brussels")) for _ in range(2)]
    head = await planned(app, bad)
    await write(app.store, "UPDATE duly.events SET rule = $1 WHERE id = $2", '{"mood": "bad"}', head.id)
    new_law(Brussels="Europe/Athens")
    assert [one.schedule for one in await app.schedules.replan()] == [f"user:{good.id}:birthday"]
    entry = (await app.users.history(bad.id))[-1]
    assert (entry.act, (entry.detail or "").partition(" Invalid")[0]) == ("halted", "birthday: error:")
