"""Whatever people do to a schedule, in whatever order: what the rules of its time named ends as one thing. It fired,
another one stood for it, it was skipped or it was cancelled; and none of these twice."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from duly import Conflict, Duly, Event, OfSeries, Rule, Schedule, Status, cron, every, once, rrule, yearly
from duly.rules.notation import parse_rule
from duly.rules.policies import read_policies
from duly.rules.timetable import Timetable
from duly.testing import ManualClock
from tests.make import DAY, HOUR, MICROSECOND, START

ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Pacific/Honolulu")
BEGINNINGS = (START, datetime(2026, 3, 7, 20, tzinfo=UTC), datetime(2026, 10, 31, 20, tzinfo=UTC))
"""An ordinary day, and the evenings before New York changes its clocks."""
ENDLESS: tuple[Rule, ...] = (
    every("7h", start=START - HOUR),
    every("50m"),
    *(cron(written, timezone=zone) for written in ("0 9 * * *", "0 8,9,15 * * *", "30 * * * *") for zone in ZONES),
    *(cron("30 1,2 * * *", timezone=zone) for zone in ZONES[1:3]),
    *(yearly("01-02", at=at, timezone=zone) for at in ("08:00", "20:00") for zone in ZONES[::2]),
    *(
        rrule(f"FREQ=DAILY;BYHOUR={hour};BYMINUTE=0", start="2025-01-01T00:00:00", timezone=zone, by_date=True)
        for hour in (2, 21)
        for zone in ZONES[::2]
    ),
)
RULES = (*ENDLESS, *(once(begin + 30 * HOUR) for begin in BEGINNINGS))
ALIKE = tuple(
    cron(written, timezone=zone)
    for written in ("0 9 * * *", "0 8,9,15 * * *")
    for zone in ("Asia/Tokyo", "Pacific/Honolulu")
)
"""These have names in common, so that what one has named comes again by another."""

LONGEST = 60 * DAY


class Epoch(NamedTuple):
    """A rule while it was in force."""

    table: Timetable
    since: datetime
    until: datetime


class Model:
    """What the rules have named, while each was in force, found by trying one after the other."""

    def __init__(self, schedule: Schedule, now: datetime) -> None:
        self._told = self._of(schedule)
        self._epochs = [Epoch(self._table(schedule), now, now + LONGEST)]

    def edited(self, schedule: Schedule, now: datetime) -> bool:
        """Whether it has changed what is named."""
        changed = self._of(schedule) != self._told
        if changed:
            self._told = self._of(schedule)
            self._epochs[-1] = self._epochs[-1]._replace(until=now)
            self._epochs.append(Epoch(self._table(schedule), now, now + LONGEST))
        return changed

    def named(self, until: datetime) -> dict[str, datetime]:
        """The names, and where each was first."""
        found: dict[str, datetime] = {}
        for table, since, ended in self._epochs:
            following = table.after(since)
            while following is not None and following.at <= min(ended, until):
                found.setdefault(following.name, following.at)
                following = table.after(following.at)
        return found

    def names_now(self, event: Event) -> bool:
        """Whether the rule that is in force names what this event stands for."""
        assert event.scheduled is not None
        there = self._epochs[-1].table.after(event.scheduled - MICROSECOND)
        return there is not None and there.name == event.occurrence

    def _of(self, schedule: Schedule) -> tuple[object, ...]:
        return schedule.rule, schedule.timezone, schedule.policies.exclude

    def _table(self, schedule: Schedule) -> Timetable:
        exclude = {"exclude": schedule.policies.exclude}
        return Timetable(parse_rule(schedule.rule, schedule.timezone), read_policies(exclude, schedule.timezone))


class Series:
    """A schedule, and all that people do to it."""

    def __init__(self, app: Duly, clock: ManualClock, misfire: str) -> None:
        self.app, self.clock, self.fired = app, clock, list[Event]()
        self.misfire = {"policy": misfire, **({"limit": 1000} if misfire == "all" else {})}
        self.planned: dict[str, datetime] = {}  # where the rule had each head at first
        self.moved_forward: set[str] = set()  # by hand: these are owed, though no rule has named them yet
        self.owed_by_hand: set[str] = set()  # and these were, when the rule was edited
        app.on("digest")(self.fire)

    async def fire(self, event: Event) -> None:
        self.fired.append(event)

    async def begin(self, rule: Rule) -> None:
        self.asked: dict[str, Any] = {"rule": rule, "type": "digest", "misfire": self.misfire}
        schedule = await self.app.schedules.put("it", **self.asked)
        self.series = schedule.series
        self.model = Model(schedule, self.clock.now())

    # -- the acts

    async def put(self, rule: Rule, exclude: list[str], enabled: bool | None) -> None:
        asked = {**self.asked, "rule": rule, "exclude": exclude}
        head = await self.app.store.head(self.series)
        edited = await self.app.schedules.put("it", **asked, enabled=enabled)
        self.asked, now = asked, self.clock.now()
        if not self.model.edited(edited, now):
            return
        if head is not None and head.occurrence in self.moved_forward:
            self.moved_forward.discard(head.occurrence)
            if head.due <= now:  # else it follows the new rule
                self.owed_by_hand.add(head.occurrence)
        events = await self.app.events.find(OfSeries(self.series), limit=1000)
        for event in events:
            if event.status is Status.SKIPPED and event.scheduled is not None and event.scheduled > now:
                assert not self.model.names_now(event), "it is open again"
        # What the misfire policy has dropped before the time that the rule had for it has given its name back.
        ahead = {name for name in self.moved_forward | self.owed_by_hand if self.planned[name] > now}
        dropped = ahead - {event.occurrence or "" for event in events}
        self.moved_forward -= dropped
        self.owed_by_hand -= dropped

    async def say(self, payload: int) -> None:
        """No edit of the rule: what is named stays as it is."""
        before = await self.app.schedules.get("it")
        after = await self.app.schedules.put("it", **self.asked, payload=payload)
        assert (after.next_at, after.passed_over) == (before.next_at, None)

    async def wait(self, minutes: int, works: bool) -> None:
        self.clock.advance(timedelta(minutes=minutes))
        if works:
            await self.app.tick()

    async def pause(self) -> None:
        await self.app.schedules.pause("it")

    async def resume(self, passed: str) -> None:
        await self.app.schedules.resume("it", passed=passed)

    async def skip(self) -> None:
        if (head := await self.app.store.head(self.series)) is not None:
            self.moved_forward.discard(head.occurrence or "")
        await self.app.schedules.skip("it")

    async def cancel(self, many: int) -> None:
        for _ in range(many):
            if (head := await self.app.store.head(self.series)) is not None:
                await self.app.events.cancel(head.id)

    async def move(self, minutes: int) -> None:
        due = self.clock.now() + timedelta(minutes=minutes)
        if (head := await self.app.store.head(self.series)) is not None:
            name = head.occurrence or ""
            change = self.moved_forward.add if due < self.planned[name] else self.moved_forward.discard
            change(name)
        await self.app.schedules.reschedule("it", due)

    async def undo(self) -> None:
        """Back to where the rule has it."""
        if (head := await self.app.store.head(self.series)) is not None:
            self.moved_forward.discard(head.occurrence or "")
            await self.app.schedules.reschedule("it", self.planned[head.occurrence or ""])

    # -- what must be so

    async def check(self) -> None:
        now = self.clock.now()
        schedule = await self.app.schedules.get("it")
        events = await self.app.events.find(OfSeries(self.series), limit=1000)
        rows = {str(event.occurrence): event for event in events if str(event.occurrence)[0] == "2"}
        named, by_hand = self.model.named(now), self.moved_forward | self.owed_by_hand
        assert len({event.occurrence for event in self.fired}) == len(self.fired), "none fires twice"
        for event in self.fired:
            assert event.occurrence in {*named, *by_hand}, "no run in the past is made"
        head = next((event for event in rows.values() if event.head), None)
        if head is not None:
            self.planned.setdefault(head.occurrence or "", head.scheduled or head.due)
        own, stood_for = set(rows), 0
        for event in rows.values():
            if event.stands_for > 1 and await self._is_passed_over(event):
                own |= self._ranged(event, own)
            else:
                stood_for += event.stands_for - 1
        left = {name for name in (*named, *by_hand) if name not in own}
        if schedule.enabled and (head is None or head.due > now):
            assert len(left) == stood_for, (left, stood_for)
        else:
            assert len(left) >= stood_for, "nothing is stood for twice"

    async def _is_passed_over(self, event: Event) -> bool:
        """By people, and not by the misfire policy."""
        return event.status is Status.SKIPPED and (await self.app.events.history(event.id))[-1].worker != "schedule"

    def _ranged(self, event: Event, own: set[str]) -> set[str]:
        """What a row stands for that has many: all from one to another that have nothing else."""
        assert event.scheduled is not None
        named = self.model.named(event.scheduled)
        inside = {name for name, at in named.items() if event.due <= at <= event.scheduled and name not in own}
        assert len(inside) + 1 == event.stands_for, (event, inside)
        return inside


MINUTES = st.one_of(st.integers(1, 90), st.integers(60, 4000))
ACTS = st.one_of(
    st.tuples(st.just("wait"), MINUTES, st.booleans()),
    st.tuples(st.just("wait"), MINUTES, st.just(True)),
    st.tuples(
        st.just("put"),
        st.one_of(st.sampled_from(RULES), st.sampled_from(ALIKE)),
        st.sampled_from([[], [], ["2026-01-03"], ["SUN"]]),
        st.sampled_from([None, None, None, True, False]),
    ),
    st.tuples(st.just("say"), st.integers(0, 3)),
    st.tuples(st.just("move"), st.one_of(MINUTES, st.integers(-300, 0))),
    st.tuples(st.just("cancel"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["undo", "skip", "pause"])),
    st.tuples(st.just("resume"), st.sampled_from(["skip", "fire"])),
)


async def played(begin: datetime, misfire: str, rule: Rule, acts: list[tuple[Any, ...]]) -> None:
    clock = ManualClock(begin)
    async with Duly("sqlite://", clock=clock) as app:
        series = Series(app, clock, misfire)
        await series.begin(rule)
        await series.check()
        for act, *arguments in [*acts, ("resume", "fire"), ("wait", 24 * 60, True)]:
            try:
                await getattr(series, act)(*arguments)
            except Conflict:  # there is no next event, or too many rules owe something: nothing has happened
                continue
            await series.check()
        for _ in range(200):
            await app.tick()
            head = await app.store.head(series.series)
            if head is None or head.due > clock.now():
                break
        await series.check()


@settings(max_examples=100, deadline=None)
@given(
    begin=st.sampled_from(BEGINNINGS),
    misfire=st.sampled_from(["latest", "all", "skip"]),
    rule=st.one_of(st.sampled_from(ENDLESS), st.sampled_from(ALIKE)),
    acts=st.lists(ACTS, min_size=3, max_size=10),
)
def test_every_occurrence_that_the_rules_of_its_time_named_ends_as_one_thing(
    begin: datetime, misfire: str, rule: Rule, acts: list[tuple[Any, ...]]
) -> None:
    asyncio.run(played(begin, misfire, rule, acts))
