"""Whatever people do to a schedule, and whatever its policies make of that: for each time that a rule of it named, the
question why it did not run then has an answer, and the answer is what happened. So for times that none has named."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly import Conflict, Duly, Event, Rule, Schedule, cron, every, rrule, yearly
from duly.decide.lifecycle import judge
from duly.decide.series.why_not import WhyNot
from duly.engine.series.holds import look_after_held
from duly.records.event import Delivered, Settlement
from duly.rules.notation import parse_rule
from duly.rules.policies import read_policies
from duly.rules.timetable import Timetable
from duly.rules.zones import to_wall
from duly.testing import ManualClock
from tests.api.test_edit_sequences import BEGINNINGS, ZONES
from tests.make import DAY, HOUR, MICROSECOND, START

RULES: tuple[Rule, ...] = (
    every("7h", start=START - HOUR),
    every("50m"),
    *(cron(written, timezone=zone) for written in ("0 9 * * *", "0 8,9,15 * * *", "30 * * * *") for zone in ZONES[:3]),
    *(cron("30 1,2 * * *", timezone=zone, gap=gap) for zone in ZONES[1:3] for gap in ("after", "shift", "skip")),
    cron("30 1 * * *", timezone="America/New_York", overlap="second"),
    cron("30 1 * * *", timezone="America/New_York", overlap="both"),
    *(yearly("01-02", at=at, timezone=zone) for at in ("08:00", "20:00") for zone in ZONES[::2]),
    *(
        rrule(f"FREQ=DAILY;BYHOUR={hour};BYMINUTE=30", start="2025-01-01T00:30:00", timezone=zone, by_date=True)
        for hour in (1, 2, 21)
        for zone in ZONES[::2]
    ),
)
MOST = 500
"""More than the occurrences of any rule here in all the time that a history takes."""

SKIPPED = {"skipped", "passed", "edited", "paused", "misfire", "overlap"}
"""What an edit opens again, where it was to come only after the edit."""

SKIPPED_READINGS = {datetime(2026, 3, 8, 2, 30): datetime(2026, 3, 8, 7, tzinfo=UTC)}  # noqa: DTZ001
"""What the clocks of New York did not show, and when they were changed."""

LONG_RUN = timedelta(days=300)
WAITING = {"unserved", "waiting", "limit"}
"""How the next event may wait that is due: nobody has looked at it yet, or it waits for another one to end."""


class Epoch(NamedTuple):
    """A rule while it was in force, and who put it."""

    table: Timetable
    bare: Timetable  # without its exclusions
    zone: str
    since: datetime
    until: datetime
    by: str


class Outcome(NamedTuple):
    """What became of an occurrence."""

    kinds: set[str]
    event: str | None = None
    by: str | None = None


class Series:
    """A schedule, all that is done to it, and what that does to its occurrences, by name."""

    def __init__(self, app: Duly, clock: ManualClock, policies: dict[str, Any]) -> None:
        self.app, self.clock, self.policies = app, clock, policies
        self.name, self.type = f"it-{uuid4()}", f"digest-{uuid4()}"
        self.epochs: list[Epoch] = []
        self.ended: dict[str, Outcome] = {}
        self.planned: dict[str, datetime] = {}  # the due times of heads as the rule had them, by id
        self.moved: dict[str, tuple[datetime, str]] = {}  # heads that were moved: to when, by whom
        self.was_at: dict[str, datetime] = {}  # heads that are skipped by name: where their rule had them
        self.fired: list[Event] = []
        self.pauser: str | None = None
        self.paused_since: datetime | None = None
        self.running: Event | None = None
        app.on(self.type)(self.fire)

    async def fire(self, event: Event) -> None:
        self.fired.append(event)

    async def begin(self, rule: Rule) -> None:
        self.asked: dict[str, Any] = {"rule": rule, "type": self.type, **self.policies}
        stored = await self.app.schedules.put(self.name, **self.asked, by="founder")
        self.series, self.created = stored.series, self.clock.now()
        self.identity = self._identity(stored)
        self._begin_epoch(stored, "founder")
        await self._see_head()

    # -- what the rules have named

    def _identity(self, schedule: Schedule) -> tuple[Any, ...]:
        return schedule.rule, schedule.timezone, schedule.policies.exclude, schedule.policies.dst

    def _begin_epoch(self, schedule: Schedule, by: str) -> None:
        now = self.clock.now()
        parsed = parse_rule(schedule.rule, schedule.timezone, schedule.policies.dst)
        exclude = read_policies({"exclude": schedule.policies.exclude}, schedule.timezone)
        bare = Timetable(parsed, read_policies({}, schedule.timezone))
        if self.epochs:
            self.epochs[-1] = self.epochs[-1]._replace(until=now)
        self.epochs.append(Epoch(Timetable(parsed, exclude), bare, schedule.timezone, now, now + 400 * DAY, by))

    def named(self, until: datetime) -> dict[str, datetime]:
        """The names, and where each was first; of each rule the first MOST."""
        found: dict[str, datetime] = {}
        for epoch in self.epochs:
            following, many = epoch.table.after(epoch.since), 0
            while following is not None and following.at <= min(epoch.until, until) and many < MOST:
                found.setdefault(following.name, following.at)
                following, many = epoch.table.after(following.at), many + 1
        return found

    def open(self, until: datetime) -> dict[str, datetime]:
        return {name: at for name, at in self.named(until).items() if name not in self.ended}

    async def head(self) -> Event | None:
        return await self.app.store.head(self.series)

    async def _see_head(self) -> None:
        if (head := await self.head()) is not None:
            self.was_at[str(head.occurrence)] = head.scheduled or head.due
            self.planned.setdefault(head.id, head.due)

    # -- the acts

    async def wait(self, minutes: int, works: bool, by: str) -> None:
        """A worker is at work afterwards, or none is."""
        self.clock.advance(timedelta(minutes=minutes))
        if works:
            await self.work()

    async def work(self) -> None:
        now, before, done = self.clock.now(), await self.head(), len(self.fired)
        for _ in range(300):
            await self.app.tick()
            head = await self.head()
            if head is None or head.due > now or head.held is not None:
                break
        fired = [one for one in self.fired[done:] if not str(one.occurrence).startswith("trigger:")]
        for one in fired:
            self.ended[str(one.occurrence)] = self._ran(one)
        if before is None or (head is not None and head.id == before.id):
            return
        lost = Outcome({"misfire"})
        if self.policies["misfire"]["policy"] == "latest" and fired:
            lost = Outcome({"merged"}, fired[-1].id)
        elif self.running is not None:  # beyond the policy's limit or tolerance, it is the policy that drops them
            lost = Outcome({"overlap"} if self.policies["misfire"]["policy"] == "latest" else {"overlap", "misfire"})
        left = {name: at for name, at in self.open(now).items() if head is None or name != head.occurrence}
        if head is not None:
            left = {name: at for name, at in left.items() if at < (head.scheduled or head.due)}
        for name in [*left, str(before.occurrence)]:
            self.ended.setdefault(name, lost)
        await self._see_head()

    def _ran(self, event: Event) -> Outcome:
        moved = self.moved.get(event.id)
        if moved is None or moved[0] != event.due or event.due == self.planned[event.id]:
            return Outcome({"completed"}, event.id)
        return Outcome({"moved"}, event.id, moved[1])

    async def put(self, rule: Rule, exclude: list[str], by: str) -> None:
        self.clock.advance(timedelta(seconds=1))  # so that each edit has a time of its own
        asked = {**self.asked, "rule": rule, "exclude": exclude}
        head, now = await self.head(), self.clock.now()
        edited = await self.app.schedules.put(self.name, **asked, by=by)
        self.asked = asked
        if self._identity(edited) == self.identity:
            return
        self.identity = self._identity(edited)
        still_to_come = {name for name, at in self.named(now + 400 * DAY).items() if at > now}
        for name in still_to_come:
            there = self.was_at.get(name)  # a head that was moved forward, and was owed when its schedule was edited
            if name in self.ended and self.ended[name].kinds & SKIPPED and (there is None or there > now):
                del self.ended[name]
        self._begin_epoch(edited, by)
        if head is not None:
            itself = head.scheduled or head.due
            owed = head.due <= now
            if not owed and itself <= now:
                self.ended[str(head.occurrence)] = Outcome({"edited"}, head.id, by)
            anew = await self.head()
            if not owed and anew is not None:  # the new rule may have the name at another time
                self.planned[anew.id] = anew.due
        await self._see_head()

    async def pause(self, by: str) -> None:
        await self.app.schedules.pause(self.name, by=by)
        if self.pauser is None:
            self.pauser, self.paused_since = by, self.clock.now()

    async def resume(self, passed: str, by: str) -> None:
        head, now = await self.head(), self.clock.now()
        await self.app.schedules.resume(self.name, passed=passed, by=by)
        if (
            self.paused_since is not None
            and head is not None
            and passed == "skip"
            and self.paused_since < head.due <= now
        ):
            for name in [*self.open(now), str(head.occurrence)]:
                self.ended.setdefault(name, Outcome({"paused"}, None, self.pauser))
        self.pauser = self.paused_since = None
        await self._see_head()

    async def skip(self, by: str) -> None:
        head = await self.head()
        await self.app.schedules.skip(self.name, by=by)
        assert head is not None
        self.ended[str(head.occurrence)] = Outcome({"skipped"}, head.id, by)
        await self._see_head()

    async def cancel(self, by: str) -> None:
        if (head := await self.head()) is not None:
            await self.app.events.cancel(head.id, by=by)
            self.ended[str(head.occurrence)] = Outcome({"cancelled"}, head.id, by)
            await self._see_head()

    async def move(self, minutes: int, by: str) -> None:
        head, now = await self.head(), self.clock.now()
        await self.app.schedules.reschedule(self.name, now + timedelta(minutes=minutes), by=by)
        anew = await self.head()
        assert head is not None
        assert anew is not None
        own = head.scheduled or head.due
        self.moved[head.id] = anew.due, by
        until = own if anew.due == self.planned[head.id] else max(own, anew.due)
        for passed, at in self.named(now + 400 * DAY).items():
            if own < at <= until:
                self.ended.setdefault(passed, Outcome({"passed", "moved"}, None, by))
            elif at > max(until, now) and "passed" in self.ended.get(passed, Outcome(set())).kinds:
                del self.ended[passed]

    async def trigger(self, by: str) -> None:
        """Beside the rule: it changes nothing. Where it could be in the way of the next event, it runs at once."""
        head = await self.head()
        if self.running is None and head is not None and head.due > self.clock.now():
            await self.app.schedules.trigger(self.name, by=by)
            await self.work()

    async def run_long(self, by: str) -> None:
        """Another worker begins an event of the schedule, and goes on with it."""
        head = await self.head()
        if self.running is not None or self.policies["overlap"] == "allow" or head is None:
            return
        if head.due <= self.clock.now():
            return
        triggered = await self.app.schedules.trigger(self.name, by=by)
        claimed = await self.app.store.claim("w2", {triggered.lane: 1}, LONG_RUN)
        assert [one.id for one in claimed] == [triggered.id]
        self.running = claimed[0]

    async def end_run(self, by: str) -> None:
        if self.running is not None:
            await self.app.store.settle([Settlement(self.running, judge(Delivered(), self.running, 0.0))], "w2")
            await look_after_held(self.app.store)
            self.running = None

    # -- what must be so

    async def check(self) -> Counter[str]:
        """Asks about each occurrence, and about times that none has."""
        now, head = self.clock.now(), await self.head()
        told: Counter[str] = Counter()
        named = self.named(now + 2 * DAY)
        for name, at in named.items():
            answer = await self.app.schedules.why_not(self.name, at)
            expected = self.ended.get(name) or self._waits(name, at, head, now)
            self._agrees(answer, expected, (name, at))
            told[answer.kind] += 1
            zone = next(epoch.zone for epoch in self.epochs if at <= epoch.until)
            reading = await self.app.schedules.why_not(self.name, to_wall(at, zone))
            if reading.at == at:
                assert (reading.kind, reading.event_id, reading.by) in (
                    (answer.kind, answer.event_id, answer.by),
                    ("gap", answer.event_id, answer.by),
                )
        if all(epoch.zone == "America/New_York" for epoch in self.epochs):  # else another zone may show the reading
            for skipped, before in SKIPPED_READINGS.items():
                if not self.created < before <= now + 2 * DAY:
                    continue
                answer = await self.app.schedules.why_not(self.name, skipped)
                # Where it would fire at another time, that may be on an excluded day, or repeat a name.
                assert answer.kind == "gap" or (answer.kind in ("excluded", "edited") and answer.at >= before), answer
                told[answer.kind] += 1
        for at in self._others(now, set(named.values())):
            answer = await self.app.schedules.why_not(self.name, at)
            self._agrees(answer, self._unnamed(at, named), at)
            told[answer.kind] += 1
        return told

    def _agrees(self, answer: WhyNot, expected: Outcome, which: object) -> None:
        assert answer.kind in expected.kinds, (which, answer, expected)
        assert expected.event is None or answer.event_id == expected.event, (which, answer, expected)
        assert expected.by is None or answer.by == expected.by, (which, answer, expected)

    def _waits(self, name: str, at: datetime, head: Event | None, now: datetime) -> Outcome:
        """An occurrence that has not ended."""
        assert head is not None
        behind = name == head.occurrence or at <= now
        event = head.id if behind else None
        if self.pauser is not None:
            return Outcome({"paused"}, event, self.pauser)
        if name == head.occurrence and head.due != self.planned[head.id]:
            return Outcome({"moved"}, event, self.moved[head.id][1])
        return Outcome(WAITING if (head.due if behind else at) <= now else {"scheduled"}, event)

    def _others(self, now: datetime, named: set[datetime]) -> list[datetime]:
        """Times that no rule named while it was in force: what other rules name, excluded days, and odd seconds."""
        found: set[datetime] = {self.created - HOUR, self.created, now, now + timedelta(seconds=17)}
        for epoch in self.epochs:
            following = epoch.bare.after(self.created - 5 * HOUR)
            while following is not None and following.at <= now + DAY and len(found) < 400:
                found |= {following.at, following.at + HOUR}
                following = epoch.bare.after(following.at)
        taken = {event for event, _ in self.moved.values()} | named
        return sorted(found - taken)

    def _unnamed(self, at: datetime, named: dict[str, datetime]) -> Outcome:
        if at <= self.created:
            return Outcome({"before_creation"})
        remembered = self._remembered()
        here = next((epoch for epoch in self.epochs if epoch.since < at <= epoch.until), None)
        assert here is not None
        if here in remembered and (there := here.bare.after(at - MICROSECOND)) is not None and there.at == at:
            if here.table.after(at - MICROSECOND) != there:
                return Outcome({"excluded"})
            assert there.name in named  # by an earlier rule: this one repeats its name
            return Outcome({"edited"}, None, here.by)
        if here in remembered and self._shown_before(here, at):
            return Outcome({"repeated"})
        for epoch, later in list(zip(self.epochs, self.epochs[1:], strict=False))[::-1]:
            if epoch in remembered and epoch.until < at and self._names(epoch, at):
                return Outcome({"edited"}, None, later.by)
        for epoch in remembered:
            if epoch.since >= at and self._names(epoch, at):
                return Outcome({"edited"}, None, epoch.by)
        return Outcome({"not_named"})

    def _remembered(self) -> list[Epoch]:
        """Without rules that named nothing while they were in force: another edit forgets them."""
        first, *others = self.epochs[:1] + self.epochs[1:-2]
        kept = [one for one in others if (there := one.table.after(one.since)) is not None and there.at <= one.until]
        return list(dict.fromkeys([first, *kept, *self.epochs[-2:]]))

    def _names(self, epoch: Epoch, at: datetime) -> bool:
        there = epoch.table.after(at - MICROSECOND)
        return there is not None and there.at == at

    def _shown_before(self, epoch: Epoch, at: datetime) -> bool:
        """Whether the clocks show the same twice, and the rule fires the other time."""
        others = [at + hours * HOUR for hours in (-1, 1)]
        alike = [one for one in others if to_wall(one, epoch.zone) == to_wall(at, epoch.zone)]
        return any((there := epoch.bare.after(one - MICROSECOND)) is not None and there.at == one for one in alike)


PEOPLE = st.sampled_from(["ada", "bob", "eve"])
MINUTES = st.one_of(st.integers(1, 90), st.integers(60, 2000))
ACTS = st.one_of(
    st.tuples(st.just("wait"), MINUTES, st.booleans(), PEOPLE),
    st.tuples(st.just("wait"), MINUTES, st.just(True), PEOPLE),
    st.tuples(
        st.just("put"),
        st.sampled_from(RULES),
        st.sampled_from([[], [], ["2026-01-03"], ["SUN"]]),
        PEOPLE,
    ),
    st.tuples(st.just("move"), st.one_of(st.integers(-300, 0), st.integers(1, 700)), PEOPLE),
    st.tuples(st.sampled_from(["skip", "pause", "cancel", "trigger", "run_long", "end_run"]), PEOPLE),
    st.tuples(st.just("resume"), st.sampled_from(["skip", "skip", "fire"]), PEOPLE),
)
HISTORIES = {
    "begin": st.sampled_from(BEGINNINGS),
    "misfire": st.sampled_from(["latest", "all", "skip"]),
    "overlap": st.sampled_from(["allow", "skip", "queue"]),
    "rule": st.sampled_from(RULES),
    "acts": st.lists(ACTS, min_size=3, max_size=10),
}


async def played(
    url: str, begin: datetime, misfire: str, overlap: str, rule: Rule, acts: list[tuple[Any, ...]]
) -> Counter[str]:
    clock = ManualClock(begin)
    policies = {"misfire": {"policy": misfire, "limit": 4}, "overlap": overlap}
    async with Duly(url, clock=clock) as app:
        series = Series(app, clock, policies)
        await series.begin(rule)
        for act, *arguments in acts:
            try:
                await getattr(series, act)(*arguments)
            except Conflict:  # there is no next event, or too many rules owe something: nothing has happened
                continue
        told = await series.check()
        await series.end_run("ada")
        await app.schedules.delete(series.name)
    return told


WORKS, NEW_YORK = True, cron("30 1,2 * * *", timezone="America/New_York")
EVENTFUL: list[tuple[Any, ...]] = [
    ("wait", 200, WORKS, "ada"),
    ("wait", 700, WORKS, "ada"),
    ("skip", "bob"),
    ("run_long", "ada"),
    ("wait", 130, WORKS, "ada"),
    ("end_run", "ada"),
    ("pause", "eve"),
    ("wait", 300, not WORKS, "ada"),
    ("resume", "skip", "bob"),
    ("cancel", "eve"),
    ("move", 150, "ada"),
    ("wait", 180, WORKS, "bob"),
    ("put", NEW_YORK, ["2026-03-10", "2026-11-03"], "bob"),
    ("wait", 1600, WORKS, "ada"),
    ("wait", 1000, not WORKS, "ada"),
    ("wait", 2000, not WORKS, "ada"),
    ("move", 300, "eve"),
]
"""A history with nearly everything that can become of an occurrence."""

BY_POLICY = {"latest": {"merged", "overlap"}, "all": {"misfire", "overlap"}, "skip": {"misfire"}}


@pytest.mark.parametrize("misfire", BY_POLICY)
@pytest.mark.parametrize("begin", BEGINNINGS[1:])
def test_an_eventful_history_has_all_answers(url: str, begin: datetime, misfire: str) -> None:
    hourly = cron("30 * * * *", timezone="America/New_York")
    told = asyncio.run(played(url, begin, misfire, "skip", hourly, EVENTFUL))
    by_people = {"cancelled", "edited", "moved", "paused", "skipped"}
    usual = {"before_creation", "excluded", "not_named", "scheduled"}
    clocks = {"gap"} if begin.month == 3 else set()
    assert {*by_people, *usual, *clocks, *BY_POLICY[misfire]} <= set(told), told


@settings(max_examples=100, deadline=None)
@given(**HISTORIES)
def test_every_slot_has_the_right_answer(
    begin: datetime, misfire: str, overlap: str, rule: Rule, acts: list[tuple[Any, ...]]
) -> None:
    asyncio.run(played("sqlite://", begin, misfire, overlap, rule, acts))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(**HISTORIES)
def test_every_slot_has_the_right_answer_on_postgresql(
    clean_postgres: str, begin: datetime, misfire: str, overlap: str, rule: Rule, acts: list[tuple[Any, ...]]
) -> None:
    asyncio.run(played(clean_postgres, begin, misfire, overlap, rule, acts))
