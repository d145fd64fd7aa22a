"""The timetable of a schedule: its rule from a start to an end, without excluded days. An edited schedule has several
rules, one after another."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from duly.rules.exclusions import rests_on
from duly.rules.notation import parse_rule
from duly.rules.policies import Policies, stored_policies
from duly.rules.recurrence import DEFAULT_ZONE, Occurrence, Rule
from duly.rules.rrule import MOST_STEPS, TooMuchWork
from duly.rules.zones import instant_of, reading_of, seconds_of, to_wall, zone

MOST_EXCLUDED_DAYS = 1000
"""Excluded days with occurrences, in a row, that are skipped. A rule with more of them counts as never firing."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)
BEFORE = timedelta(microseconds=1)  # the smallest step between two instants

SAME_DAY = timedelta(days=3)
"""How long after an edit the name of an earlier occurrence can occur again: zones are up to 26 hours apart, and times
of a day up to 24."""

MOST_REPEATED = 1000
"""Occurrences after an edit that are compared with those before it: three days of a rule with 300 times a day."""


class Timetable:
    """The occurrences of a rule between start and end, without excluded days."""

    def __init__(self, rule: Rule, policies: Policies) -> None:
        self.rule, self.policies = rule, policies
        self._start, self._end = policies.start, policies.end
        self._rests = rests_on(policies.exclude) if policies.exclude else None
        self._zone = rule.timezone or DEFAULT_ZONE
        self._answered: tuple[datetime, Occurrence] | None = None

    def after(self, instant: datetime) -> Occurrence | None:
        """The first occurrence strictly later than *instant*; None if there is none. The last result is cached while it
        is valid: a thousand users who share a birthday cause a thousand calls."""
        if (known := self._answered) is not None and known[0] <= instant < known[1].at:
            return known[1]
        found = self._after(instant)
        if found is not None:
            self._answered = instant, found
        return found

    def _after(self, instant: datetime) -> Occurrence | None:
        if self._start is not None and instant < self._start:
            instant = self._start - BEFORE
        begun = self.rule.steps
        for _ in range(MOST_EXCLUDED_DAYS):
            found = self.rule.after(instant)
            if found is None or (self._end is not None and found.at > self._end):
                return None
            if not self.rests(found.at):
                return found
            instant = self._day(found.at)[1] - BEFORE
            self._check_steps(begun, found)
        raise ValueError(f"its exclusions cover {MOST_EXCLUDED_DAYS:,} days in a row: no occurrence is left")

    def last(self, until: datetime) -> Occurrence | None:
        """The last occurrence not later than *until*; None if there is none."""
        if self._end is not None and until > self._end:
            until = self._end
        begun = self.rule.steps
        for _ in range(MOST_EXCLUDED_DAYS):
            found = self.rule.last(until)
            if found is None or (self._start is not None and found.at < self._start):
                return None
            if not self.rests(found.at):
                return found
            until = self._day(found.at)[0] - BEFORE
            self._check_steps(begun, found)
        raise ValueError(f"its exclusions cover {MOST_EXCLUDED_DAYS:,} days in a row: no occurrence is left")

    def count(self, first: datetime, until: datetime) -> int:
        """The number of occurrences between two instants, both included."""
        first = first if self._start is None else max(first, self._start)
        until = until if self._end is None else min(until, self._end)
        if first > until:
            return 0
        if self._rests is None:
            return self.rule.count(first, until)
        total = 0
        while first <= until:
            ends = self._day(first)[1]
            if not self.rests(first):
                total += self.rule.count(first, min(until, ends - BEFORE))
            first = ends
        return total

    def _check_steps(self, begun: int, found: Occurrence) -> None:
        """Raises `TooMuchWork` if all excluded occurrences together took more steps than one call may take."""
        if self.rule.steps - begun > MOST_STEPS:
            raise TooMuchWork(
                f"gave up after {MOST_STEPS:,} steps, at {found.at:%Y-%m-%d}: every occurrence until then "
                "is excluded, and the rule has too few occurrences to search further"
            )

    def jitter(self, at: datetime) -> timedelta:
        """The longest delay by which jitter may move an occurrence."""
        return self.policies.jitter

    @property
    def longest_jitter(self) -> timedelta:
        return self.policies.jitter

    @property
    def by_instant(self) -> bool:
        """Whether occurrences are named by their instants."""
        return not self.rule.local or bool(getattr(self.rule, "spacing", False))

    def rests(self, instant: datetime) -> bool:
        return self._rests is not None and self._rests(to_wall(instant, self._zone).date())

    def end_of_day(self, instant: datetime) -> datetime:
        return self._day(instant)[1]

    def _day(self, instant: datetime) -> tuple[datetime, datetime]:
        """The first instant of the local day that contains *instant*, and of the next day."""
        day = to_wall(instant, self._zone).date()
        return self._midnight(day, instant), self._midnight(day + timedelta(days=1), instant)

    def _midnight(self, day: date, near: datetime) -> datetime:
        """The first instant of a local day; if a gap skips midnight, the end of the gap."""
        place, reading = zone(self._zone), reading_of(datetime.combine(day, datetime.min.time()))
        piece = place.piece(seconds_of(near))
        at = reading - piece.offset
        if at >= piece.end:
            piece = place.piece(piece.end)
            at = max(piece.start, reading - piece.offset)
        elif at < piece.start:
            piece = place.piece(piece.start - 1)
            at = min(piece.end, reading - piece.offset)
        return instant_of(at)


class Stretch(NamedTuple):
    """A timetable and the time in which it was in force: after *since*, up to and including *until*."""

    table: Timetable
    since: datetime
    until: datetime


class Edited(Timetable):
    """The timetable of an edited schedule: the occurrences of each rule while it was in force. A name that an earlier
    rule has used does not occur again, such as 9:00 of a day when a schedule is moved from Tokyo to New York in the
    afternoon."""

    def __init__(self, rule: Rule, policies: Policies, earlier: Sequence[Stretch]) -> None:
        super().__init__(rule, policies)
        own = Stretch(Timetable(rule, policies), earlier[-1].until, datetime.max.replace(tzinfo=UTC))
        self._stretches = (*earlier, own)
        # The oldest rule also covers the time before the schedule's creation, for a backfill of that time.
        self._bounds = [
            (LONG_AGO if place == 0 else since, until) for place, (_, since, until) in enumerate((*earlier, own))
        ]
        self._used_up: dict[int, frozenset[datetime]] = {}
        self._named_last: dict[int, frozenset[str]] = {}

    def _after(self, instant: datetime) -> Occurrence | None:
        for place, (since, until) in enumerate(self._bounds):
            table = self._stretches[place].table
            found = table.after(max(instant, since)) if instant < until else None
            while found is not None and found.at <= until:
                if not self._repeats(place, found):
                    return found
                found = table.after(found.at)
        return None

    def last(self, until: datetime) -> Occurrence | None:
        for place, (since, ended) in reversed(list(enumerate(self._bounds))):
            table = self._stretches[place].table
            found = table.last(min(until, ended)) if until > since else None
            while found is not None and found.at > since:
                if not self._repeats(place, found):
                    return found
                found = table.last(found.at - BEFORE)
        return None

    def count(self, first: datetime, until: datetime) -> int:
        total = 0
        for place, (since, ended) in enumerate(self._bounds):
            low, high = max(first, since + BEFORE), min(until, ended)
            if low <= high:
                total += self._stretches[place].table.count(low, high)
                if place and low <= since + SAME_DAY:
                    total -= sum(low <= at <= high for at in self._repeated(place))
        return total

    def jitter(self, at: datetime) -> timedelta:
        return next(one.table.policies.jitter for one in self._stretches if at <= one.until)

    @property
    def longest_jitter(self) -> timedelta:
        return max(one.table.policies.jitter for one in self._stretches)

    @property
    def by_instant(self) -> bool:
        return all(one.table.by_instant for one in self._stretches)

    def _repeats(self, place: int, occurrence: Occurrence) -> bool:
        since = self._stretches[place].since
        return place > 0 and occurrence.at <= since + SAME_DAY and occurrence.at in self._repeated(place)

    def _repeated(self, place: int) -> frozenset[datetime]:
        """The instants of a stretch's occurrences whose names were used by an earlier stretch."""
        if place not in self._used_up:
            self._used_up[place] = frozenset(self._look_for_repeated(place)) if place else frozenset()
        return self._used_up[place]

    def _look_for_repeated(self, place: int) -> list[datetime]:
        table, since, until = self._stretches[place]
        if table.by_instant:  # instants after the edit cannot repeat earlier ones
            return []
        before = [self._last_names(one) for one in range(place) if since - self._stretches[one].until < SAME_DAY]
        until = min(until, since + SAME_DAY) if until - since > SAME_DAY else until
        found, examined, following = [], 0, table.after(since)
        while following is not None and following.at <= until and examined < MOST_REPEATED:
            if any(following.name in names for names in before):
                found.append(following.at)
            examined, following = examined + 1, table.after(following.at)
        return found

    def _last_names(self, place: int) -> frozenset[str]:
        """The names of a stretch's last occurrences, which later stretches might repeat."""
        if place not in self._named_last:
            table, since, until = self._stretches[place]
            since = max(since, until - SAME_DAY) if until - since > SAME_DAY else since
            names: list[str] = []
            found = None if table.by_instant else table.last(until)
            while found is not None and found.at > since and len(names) < MOST_REPEATED:
                names.append(found.name)
                found = table.last(found.at - BEFORE)
            self._named_last[place] = frozenset(names)
        return self._named_last[place]


@lru_cache(maxsize=8192)
def is_local(rule: str) -> bool:
    """Whether a stored rule follows wall clocks, in any zone."""
    return parse_rule(msgspec.json.decode(rule), DEFAULT_ZONE).local


class Superseded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored rule and policies of a schedule before an edit."""

    rule: dict[str, Any]
    timezone: str
    since: datetime
    until: datetime
    policies: dict[str, Any] | None = None

    def stretch(self) -> Stretch:
        policies = None if self.policies is None else _text(self.policies)
        return Stretch(stored_timetable(_text(self.rule), self.timezone, policies), self.since, self.until)


def read_earlier(earlier: str | None) -> list[Superseded]:
    """Reads the rules before the edits of a schedule, the oldest first."""
    return [] if earlier is None else msgspec.json.decode(earlier, type=list[Superseded])


@lru_cache(maxsize=8192)
def stored_timetable(rule: str, timezone: str, policies: str | None, earlier: str | None = None) -> Timetable:
    """The timetable of a stored schedule. Each firing needs it, so the timetables of active schedules are cached."""
    read = stored_policies(policies)
    parsed = parse_rule(msgspec.json.decode(rule), timezone, read.dst)
    if earlier is None:
        return Timetable(parsed, read)
    return Edited(parsed, read, [one.stretch() for one in read_earlier(earlier)])


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
