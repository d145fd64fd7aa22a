"""A rule within its bounds: from a start to an end, and without the days on which it rests."""

from datetime import date, datetime, timedelta
from functools import lru_cache

import msgspec

from duly.core.exclusions import rests_on
from duly.core.policies import Policies, stored_policies
from duly.core.recurrence import DEFAULT_ZONE, Occurrence, Rule
from duly.core.rules import parse_rule
from duly.core.zones import instant_of, reading_of, seconds_of, to_wall, zone

MOST_RESTED = 1000
"""Days of rest in a row that are stepped over. A rule that meets more of them never fires."""

DAY = 86400
BEFORE = timedelta(microseconds=1)


class Timetable:
    """Answers what its rule does, within its bounds."""

    def __init__(self, rule: Rule, policies: Policies) -> None:
        self.rule, self.policies = rule, policies
        self._start, self._end = policies.start, policies.end
        self._rests = rests_on(policies.exclude) if policies.exclude else None
        self._zone = rule.timezone or DEFAULT_ZONE
        self._answered: tuple[datetime, Occurrence] | None = None

    def after(self, instant: datetime) -> Occurrence | None:
        """The first occurrence strictly later; None when there is none. The last answer is remembered for as long as it
        holds: of a thousand users who share a birthday, each asks."""
        if (known := self._answered) is not None and known[0] <= instant < known[1].at:
            return known[1]
        found = self._after(instant)
        if found is not None:
            self._answered = instant, found
        return found

    def _after(self, instant: datetime) -> Occurrence | None:
        if self._start is not None and instant < self._start:
            instant = self._start - BEFORE
        for _ in range(MOST_RESTED):
            found = self.rule.after(instant)
            if found is None or (self._end is not None and found.at > self._end):
                return None
            if not self.rests(found.at):
                return found
            instant = self._day(found.at)[1] - BEFORE
        raise ValueError(f"it rests on {MOST_RESTED:,} days in a row: no occurrence is left by its exclusions")

    def last(self, until: datetime) -> Occurrence | None:
        """The last occurrence not later; None when there is none."""
        if self._end is not None and until > self._end:
            until = self._end
        for _ in range(MOST_RESTED):
            found = self.rule.last(until)
            if found is None or (self._start is not None and found.at < self._start):
                return None
            if not self.rests(found.at):
                return found
            until = self._day(found.at)[0] - BEFORE
        raise ValueError(f"it rests on {MOST_RESTED:,} days in a row: no occurrence is left by its exclusions")

    def count(self, first: datetime, until: datetime) -> int:
        """How many there are between two instants, both included."""
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

    def rests(self, instant: datetime) -> bool:
        return self._rests is not None and self._rests(to_wall(instant, self._zone).date())

    def end_of_day(self, instant: datetime) -> datetime:
        return self._day(instant)[1]

    def _day(self, instant: datetime) -> tuple[datetime, datetime]:
        """When the day on the wall began, and when the next one begins."""
        day = to_wall(instant, self._zone).date()
        return self._midnight(day, instant), self._midnight(day + timedelta(days=1), instant)

    def _midnight(self, day: date, near: datetime) -> datetime:
        """The first instant of a day on the wall; where midnight is left out, that is when the gap ends."""
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


@lru_cache(maxsize=8192)
def is_local(rule: str) -> bool:
    """Whether a stored rule goes by clocks on the wall, in whatever zone."""
    return parse_rule(msgspec.json.decode(rule), DEFAULT_ZONE).local


@lru_cache(maxsize=8192)
def stored_timetable(rule: str, timezone: str, policies: str | None) -> Timetable:
    """The timetable of a schedule as the store keeps it. Asked for at each firing, so those that fire are kept."""
    read = stored_policies(policies)
    return Timetable(parse_rule(msgspec.json.decode(rule), timezone, read.dst), read)
