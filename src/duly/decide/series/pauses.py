"""Pauses of schedules: what a caller says of one, its end, and when the next event fires after it."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from duly.decide.series.due_head import due_of
from duly.errors import Invalid, Problem
from duly.records.schedule import Passed, Schedule
from duly.values.instants import due_problems, read_delay, read_instant, write_instant

UNTIL = "expected an instant with a time zone, a timedelta, a number of seconds or a duration such as 2h"


class Pause(NamedTuple):
    """A pause as a caller describes it: the note, the end or the time until it, and what becomes of the occurrences
    whose time comes during it."""

    reason: str | None
    until: datetime | timedelta | None
    passed: Passed | None


NOTHING_SAID = Pause(None, None, None)
"""A pause without any of these. It leaves a schedule that is paused as it is."""


def read_pause(reason: Any, until: Any, passed: Any) -> Pause:
    """The pause; raises Invalid with all problems."""
    problems: list[Problem] = []
    ends = None if until is None else read_until("until", until)
    if isinstance(ends, Problem):
        problems.append(ends)
        ends = None
    if reason is not None and not isinstance(reason, str):
        problems.append(Problem("reason", f"expected text, not {type(reason).__name__}"))
    if passed is not None and passed not in tuple(Passed):
        problems.append(Problem("passed", f"must be one of {', '.join(Passed)}, not {passed!r:.50}"))
    if problems:
        raise Invalid(problems)
    return Pause(reason, ends, None if passed is None else Passed(passed))


def read_until(path: str, given: Any) -> datetime | timedelta | Problem:
    """The end of a pause: an instant, or a span from now."""
    read: Any = given
    if not isinstance(given, datetime):
        read = read_delay(given)
        if isinstance(read, Problem) and isinstance(given, str):
            read = read_instant(path, given)
    if isinstance(read, Problem):
        return Problem(path, f"{UNTIL}, not {given!r:.50}")
    if problems := due_problems(read):
        return problems[0]._replace(path=path)
    if isinstance(read, timedelta) and read <= timedelta():
        return Problem(path, f"must be later than now, not {given!r:.50}")
    return read.astimezone(UTC) if isinstance(read, datetime) else read


def paused_until(asked: datetime | timedelta | None, now: datetime, before: datetime | None) -> datetime | None:
    """The instant at which a pause ends. It must be later than *now*; an end that is already stored is accepted."""
    if not isinstance(asked, timedelta):
        if asked is not None and asked <= now and asked != before:
            raise Invalid([Problem("until", f"{write_instant(asked)} is not later than now, {write_instant(now)}")])
        return asked
    try:
        until = now + asked
    except OverflowError:
        until = datetime.max.replace(tzinfo=UTC)
    if problems := due_problems(until):
        raise Invalid([problems[0]._replace(path="until")])
    return until


def pause_told(schedule: Schedule) -> str | None:
    """A pause in words, for the history: when it ends, what then fires, and the note."""
    told = "" if schedule.paused_until is None else f"until {write_instant(schedule.paused_until)}"
    if schedule.pause_passed is Passed.FIRE:
        told = ", ".join(filter(None, (told, "what passes meanwhile fires by the misfire policy")))
    return ": ".join(filter(None, (told, schedule.pause_reason))) or None


class PausedTime(NamedTuple):
    """The time of a pause that ends by itself, and what becomes of the occurrences in it."""

    since: datetime | None
    until: datetime
    passed: Passed | None

    def fires_at(self, due: datetime) -> datetime | None:
        """When the next event, due at that instant, fires: at its time, or at the end of the pause by the misfire
        policy. None if it is skipped then."""
        if due > self.until:
            return due
        owed = self.since is not None and due <= self.since
        return self.until if owed or self.passed is Passed.FIRE else None


def paused_time(schedule: Schedule) -> PausedTime | None:
    """The pause of a schedule that ends by itself; None if it is not paused, or until somebody resumes it."""
    if schedule.enabled or schedule.paused_until is None:
        return None
    return PausedTime(schedule.paused_since, schedule.paused_until, schedule.pause_passed)


def with_next(schedule: Schedule) -> Schedule:
    """The schedule as it was looked up, with the instant at which its next event fires after its pause. Its rule is
    evaluated if the event that is held will be skipped."""
    paused = paused_time(schedule)
    if paused is None or schedule.next_at is None:
        return schedule
    next_at = paused.fires_at(schedule.next_at)
    if next_at is None:
        series = schedule.as_series
        try:
            following = series.timetable.after(paused.until)
        except Exception:  # the rule cannot be evaluated here, or was edited by hand: the held event is shown
            return schedule
        next_at = None if following is None else due_of(series, following)
    return msgspec.structs.replace(schedule, next_at=next_at)
