"""Whatever is changed about a user, in whatever order: a date is kept once, and none disappears. Each that the user had
at its time is greeted, stood for, or left out with the reason; and no change of zone or hour loses one."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from duly import Duly, Event, Status
from duly.testing import ManualClock
from tests.api.greeting import everything_of, greetings, planned
from tests.make import START, a_user

ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Pacific/Honolulu")
HOURS = ("00:00", "08:00", "09:00", "20:00")
BIRTHDAYS = ("1990-01-01", "1990-01-02", "1990-01-03", "1990-07-04")
YEARS = range(2025, 2040)


class Model:
    """What becomes of a user's birthdays, each for itself. A date is owed when its hour has come, or when another zone
    or hour has put it into the past; it waits again if one of these puts it ahead."""

    def __init__(self, now: datetime, **user: str) -> None:
        self.now, self.user = now, user
        self.owed: list[str] = []
        self.skipped: list[str] = []
        self.greeted: list[tuple[str, int]] = []

    def wait(self, now: datetime) -> None:
        self.owed += [name for name in self._dates() if self.now < self._at(name) <= now and not self._is_over(name)]
        self.now = now

    def work(self) -> None:
        if self.owed:
            self.greeted.append((self.owed[-1], len(self.owed)))
        self.owed = []

    def change(self, **user: str) -> None:
        before, self.user = self.next(), {**self.user, **user}
        there = set(self._dates())
        self.skipped += [name for name in self.owed if name not in there]
        unkept = [name for name in [*self.owed, before] if name in there]
        self.owed = sorted({name for name in unkept if self._at(name) <= self.now})

    def next(self) -> str:
        """The date that is owed first, or comes next."""
        if self.owed:
            return self.owed[0]
        return next(name for name in self._dates() if self._at(name) > self.now and not self._is_over(name))

    def _is_over(self, name: str) -> bool:
        """(What was stood for is years ago.)"""
        return name in self.owed or name in self.skipped or name in [greeted for greeted, _ in self.greeted]

    def _dates(self) -> list[str]:
        return [f"{year}{self.user['date_of_birth'][4:]}" for year in YEARS]

    def _at(self, name: str) -> datetime:
        """(No clock is changed on these days at these hours.)"""
        on_the_wall = datetime.fromisoformat(f"{name}T{self.user['delivery_time']}")
        return on_the_wall.replace(tzinfo=ZoneInfo(self.user["timezone"])).astimezone(UTC)


class Person:
    """A user, and all that happens to them."""

    def __init__(self, app: Duly, clock: ManualClock) -> None:
        self.app, self.clock, self.greeted = app, clock, greetings(app)

    async def begin(self, **user: str) -> None:
        self.user = await self.app.users.add(**a_user(**user))
        self.model = Model(self.clock.now(), **user)

    async def wait(self, span: timedelta, works: bool) -> None:
        self.model.wait(self.clock.advance(span))
        if works:
            await self.app.tick()
            self.model.work()

    async def change(self, change: dict[str, Any]) -> None:
        await self.app.users.update(self.user.id, **change)
        self.model.change(**change)

    async def check(self) -> None:
        assert [(event.occurrence, event.stands_for) for event in self.greeted] == self.model.greeted
        events = await everything_of(self.app, self.user)
        left_out = [event for event in events if event.status is Status.SKIPPED and _has_a_date(event)]
        assert sorted(str(event.occurrence) for event in left_out) == sorted(self.model.skipped)
        for event in left_out:
            assert (await self.app.events.history(event.id))[-1].detail, "with the reason"
        head = await planned(self.app, self.user)
        assert (head.occurrence, head.due <= self.clock.now()) == (self.model.next(), bool(self.model.owed))


def _has_a_date(event: Event) -> bool:
    return str(event.occurrence)[0] == "2"


async def played(user: dict[str, str], acts: list[tuple[Any, ...]]) -> None:
    clock = ManualClock(START)
    async with Duly("sqlite://", clock=clock) as app:
        person = Person(app, clock)
        await person.begin(**user)
        await person.check()
        for act, *arguments in [*acts, ("wait", timedelta(), True), ("wait", timedelta(days=366), True)]:
            await getattr(person, act)(*arguments)
            await person.check()


USERS = {
    "timezone": st.sampled_from(ZONES),
    "delivery_time": st.sampled_from(HOURS),
    "date_of_birth": st.sampled_from(BIRTHDAYS),
}
SPANS = st.one_of(st.integers(1, 24), st.integers(1, 24), st.integers(24, 72), st.integers(4000, 20_000))
ACTS = st.one_of(
    st.tuples(st.just("wait"), SPANS.map(lambda hours: timedelta(hours=hours, minutes=-30)), st.booleans()),
    *(st.tuples(st.just("change"), st.fixed_dictionaries({field: value})) for field, value in USERS.items()),
    st.tuples(st.just("change"), st.fixed_dictionaries({}, optional=USERS)),
)


@settings(max_examples=60, deadline=None)
@given(user=st.fixed_dictionaries(USERS), acts=st.lists(ACTS, min_size=3, max_size=12))
def test_every_date_that_a_user_had_at_its_time_is_greeted_once_or_left_out_with_the_reason(
    user: dict[str, str], acts: list[tuple[Any, ...]]
) -> None:
    asyncio.run(played(user, acts))
