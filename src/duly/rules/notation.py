"""Builds rules from their Python and JSON notation."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from duly.errors import Invalid, Problem
from duly.rules.cron import readings_of
from duly.rules.cron_fields import normal
from duly.rules.recurrence import BY_DATE, OPEN, Cron, Dst, Every, Local, Once, OnceLocal, RRule, Rule, Yearly
from duly.rules.rrule import MOST_COUNTED
from duly.rules.rrule_text import parse_recurrence
from duly.rules.templates import TEMPLATES
from duly.rules.yearly import FIRST_YEAR, LAST_YEAR, LEAPS
from duly.rules.zones import to_wall, zone
from duly.values.durations import format_duration, parse_duration
from duly.values.instants import EXAMPLE, TIME_OF_DAY, read_moment
from duly.values.numbers import as_whole

SHORTEST = timedelta(seconds=1)
"""The shortest interval at which a rule may repeat."""

LONGEST_EVERY = timedelta(days=365_000)

MOST_EXDATES = 1000
"""EXDATEs of a recurrence rule at most. Reading 1,000 takes 2 ms when a worker first loads the rule."""

LENGTH_OF_A_DATE = len("2026-12-24")

_TIME = re.compile(TIME_OF_DAY)


# -- rules in Python


def every(interval: timedelta | str, *, start: datetime | None = None) -> Every:
    """``every("15m")`` or ``every(timedelta(minutes=15), start=…)``: fires first at *start*; without a start, one
    interval after the schedule's creation."""
    return parse_rule({"every": interval} if start is None else {"every": interval, "start": start})  # type: ignore[return-value]


def once(at: datetime, *, timezone: str | None = None, by_date: bool = False) -> Rule:
    """A rule that fires once: at an instant, or at a naive local time in *timezone*. *by_date* names the occurrence by
    its date, so that another time on that day is the same occurrence."""
    return parse_rule({"at": at, **_naming(by_date)}, timezone)


def cron(expression: str, *, timezone: str | None = None, gap: str | None = None, overlap: str | None = None) -> Cron:
    """``cron("0 9 * * MON-FRI", timezone="Europe/Brussels")``: five fields, or six with seconds first, or an alias such
    as ``@daily``. *gap* and *overlap* say what happens when clocks are changed."""
    return parse_rule({"cron": expression}, timezone, Dst(gap, overlap))  # type: ignore[return-value]


def yearly(
    day: date | str,
    *,
    at: time | str = "09:00",
    leap: str = "feb28",
    since: int | None = None,
    timezone: str | None = None,
    gap: str | None = None,
    overlap: str | None = None,
) -> Yearly:
    """``yearly("02-29", at="09:00", leap="mar1")``: a date in every year, or in every year from *since* on, at a time
    of day. *leap* chooses the date of 29 February in other years."""
    written = {"yearly": day, "at": at, "leap": leap, **({} if since is None else {"since": since})}
    return parse_rule(written, timezone, Dst(gap, overlap))  # type: ignore[return-value]


def rrule(
    text: str,
    *,
    start: datetime | str | None = None,
    timezone: str | None = None,
    gap: str | None = None,
    overlap: str | None = None,
    by_date: bool = False,
) -> RRule:
    """``rrule("FREQ=MONTHLY;BYDAY=-1FR", start=datetime(2026, 1, 1, 9), timezone="Europe/Brussels")``. The text may
    also have the lines DTSTART, RRULE and EXDATE. Without a start, the rule begins when the schedule is created.
    *by_date* names occurrences by their dates, so that another time on a day is the same occurrence; such a rule has
    at most one occurrence a day."""
    written = {"rrule": text, **({} if start is None else {"start": start}), **_naming(by_date)}
    return parse_rule(written, timezone, Dst(gap, overlap))  # type: ignore[return-value]


def template(name: str, *, timezone: str | None = None) -> Cron:
    """A predefined rule by its name, such as ``template("weekday-mornings", timezone="Asia/Tokyo")``."""
    return parse_rule({"template": name}, timezone)  # type: ignore[return-value]


# -- rules in JSON


def parse_rule(written: Any, timezone: str | None = None, dst: Dst = OPEN) -> Rule:
    """Reads a rule from its JSON form, in a zone. Raises `Invalid` with the field and the reason."""
    if problems := [*zone_problems(timezone), *dst.problems()]:
        raise Invalid(problems)
    if isinstance(written, dict):
        for kind, (parse, fields) in _PARSERS.items():
            if kind in written:
                if unknown := sorted(set(written) - fields, key=str):
                    raise _bad(
                        str(unknown[0])[:50], f"a rule with {kind!r} has only the fields {', '.join(sorted(fields))}"
                    )
                return parse(written, timezone, dst)
    known = ", ".join(sorted(_PARSERS))
    raise Invalid([Problem("rule", f'expected an object with one of: {known}, such as {{"every": "15m"}}')])


def zone_problems(timezone: Any) -> list[Problem]:
    if timezone is not None:
        try:
            zone(timezone)
        except (ValueError, TypeError) as error:
            return [Problem("timezone", str(error))]
    return []


def zone_of(rule: Any) -> str | None:
    """The zone that a rule itself names, or None. The text of a recurrence rule can name one with TZID."""
    written = rule.get("rrule") if isinstance(rule, dict) else None
    if not isinstance(written, str) or "TZID" not in written.upper():
        return getattr(rule, "timezone", None)
    try:
        return parse_rule(rule).timezone
    except Invalid:  # reported when the rule is read
        return None


def work_problems(rule: Rule) -> list[Problem]:
    """Problems of a rule that would take too long to evaluate at each firing. Only new rules, with their start, are
    checked; a rule that was stored before the limit existed is evaluated as it is."""
    if not isinstance(rule, RRule):
        return []
    problems = []
    many, count = len(rule.text.exdates), rule.text.parts.count or 0
    if many > MOST_EXDATES:
        told = f"{many:,} are too many: at most {MOST_EXDATES:,}; exclude whole days with exclude instead"
        problems.append(Problem("rule.exdate", told))
    if count > MOST_COUNTED and not rule.readings.countable:
        told = f"COUNT={count}: with such an INTERVAL or BYSETPOS at most {MOST_COUNTED}; UNTIL has no such limit"
        problems.append(Problem("rule.rrule", told))
    return problems


def usual_dst(rule: Rule) -> dict[str, str | None]:
    """The default *gap* and *overlap* of a rule; None for a rule of real time, which ignores clock changes."""
    gap, overlap = (rule.usual_gap, "first") if isinstance(rule, Local) else (None, None)
    return {"gap": gap, "overlap": overlap}


def _naming(by_date: bool) -> dict[str, Any]:
    return {"named": BY_DATE} if by_date else {}


def _by_date(written: dict[str, Any]) -> bool:
    named = written.get("named")
    if named not in (None, BY_DATE):
        raise _bad("named", f"must be {BY_DATE}, or be left out, not {named!r:.50}")
    return named is not None


def _parse_once(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    at = _moment("at", written["at"])
    if at.tzinfo is not None:
        if _by_date(written):
            raise _bad(
                "named", f"{at.isoformat()} is an instant, and its date depends on the time zone: give a local date"
            )
        return Once(_in_utc("at", at), timezone)
    if timezone is None:
        raise _bad("at", f"{at.isoformat()} has no zone: end it with Z or an offset, or give a timezone")
    if at.microsecond or not 1970 <= at.year <= 9998:
        raise _bad("at", f"{at.isoformat()}: a local time must have whole seconds and a year from 1970")
    return OnceLocal(at, timezone=timezone, dst=dst, by_date=_by_date(written))


def _parse_every(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    interval = written["every"]
    if isinstance(interval, str):
        try:
            interval = parse_duration(interval)
        except ValueError as error:
            raise _bad("every", str(error)) from None
    if not isinstance(interval, timedelta):
        raise _bad("every", f"expected a duration such as 15m, not {interval!r:.50}")
    if interval < SHORTEST:
        raise _bad("every", f"{interval} is too short: at least {format_duration(SHORTEST)}")
    if interval > LONGEST_EVERY:
        raise _bad("every", f"{interval} is too long: at most {format_duration(LONGEST_EVERY)}")
    start = written.get("start")
    return Every(interval, None if start is None else _instant("start", start), timezone)


def _parse_cron(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    expression = normal(written["cron"])
    readings_of(expression)  # raises Invalid
    return Cron(expression, timezone=timezone, dst=dst)


def _parse_template(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    found = TEMPLATES.get(written["template"]) if isinstance(written["template"], str) else None
    if found is None:
        raise _bad("template", f"{written['template']!r:.50} is unknown; known: {', '.join(TEMPLATES)}")
    return Cron(found.cron, timezone=timezone, dst=dst)


def _parse_rrule(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    if not isinstance(written["rrule"], str):
        raise _bad("rrule", f"expected text such as FREQ=MONTHLY;BYDAY=-1FR, not {type(written['rrule']).__name__}")
    try:
        text = parse_recurrence(written["rrule"])
    except ValueError as error:
        raise _bad("rrule", str(error)) from None
    if text.tzid is not None:
        if zone_problems(text.tzid):
            raise _bad("rrule", f"TZID={text.tzid[:50]}: {zone_problems(text.tzid)[0].message}")
        if timezone is not None and timezone != text.tzid:
            raise _bad("rrule", f"TZID={text.tzid} is not the timezone, {timezone}: give one of them")
        timezone = text.tzid
    text = text._replace(exdates=text.exdates + _exdates(written.get("exdate")), tzid=None)
    start = _moment("start", written["start"]) if written.get("start") is not None else text.start
    if start is not None and start.tzinfo is not None and timezone is not None:
        start = to_wall(start, timezone)
    if start is not None and (start.microsecond or not 1970 <= start.year <= 9998):
        raise _bad("start", f"{start.isoformat()}: a start must have whole seconds and a year from 1970")
    rule = RRule(text._replace(start=None), start, timezone=timezone, dst=dst, by_date=_by_date(written))
    if rule.by_date and rule.spacing:
        raise _bad(
            "named", f"{text.parts.frequency} recurs several times a day, so its occurrences cannot be named by date"
        )
    return rule


def _exdates(written: Any) -> tuple[datetime | date, ...]:
    if written is None:
        return ()
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise _bad("exdate", 'expected a list such as ["2026-12-24", "2026-12-31T09:00:00"]')
    try:
        return tuple(
            read_moment(each).date() if len(each) <= LENGTH_OF_A_DATE else read_moment(each) for each in written
        )
    except ValueError as error:
        raise _bad("exdate", str(error)) from None


def _parse_yearly(written: dict[str, Any], timezone: str | None, dst: Dst) -> Rule:
    month, day = _month_and_day(written["yearly"])
    leap = _given(written, "leap", "feb28")
    if leap not in LEAPS:
        raise _bad("leap", f"must be one of {', '.join(LEAPS)}, not {leap!r:.50}")
    at = _time_of_day(_given(written, "at", "09:00"))
    since = as_whole(_given(written, "since", FIRST_YEAR))
    if type(since) is not int or not FIRST_YEAR <= since <= LAST_YEAR:
        raise _bad("since", f"must be a year from {FIRST_YEAR} to {LAST_YEAR}, not {since!r:.50}")
    return Yearly(month, day, at, leap if (month, day) == (2, 29) else "feb28", since, timezone=timezone, dst=dst)


def _given(written: dict[str, Any], field: str, usual: Any) -> Any:
    """The value of a rule's field, or *usual* if the field is missing or null."""
    said = written.get(field)
    return usual if said is None else said


def _month_and_day(written: Any) -> tuple[int, int]:
    if isinstance(written, date):
        return written.month, written.day
    if isinstance(written, str) and len(written) == 5:  # a fast path for the stored form, which is read often
        with suppress(ValueError):
            stored = date.fromisoformat(f"2000-{written}")
            return stored.month, stored.day
    try:
        day = datetime.strptime(f"2000-{written}", "%Y-%m-%d") if isinstance(written, str) else None  # noqa: DTZ007
    except ValueError:
        day = None
    if day is None:
        raise _bad("yearly", f"{written!r:.50} is not a month and a day such as 02-29")
    return day.month, day.day


def _time_of_day(written: Any) -> time:
    if isinstance(written, str):
        if not _TIME.fullmatch(written):
            raise _bad("at", f"{written[:50]!r} is not a time of day such as 09:00")
        written = time.fromisoformat(written)
    if not isinstance(written, time) or written.tzinfo is not None or written.microsecond:
        raise _bad("at", f"{written!r:.50} is not a time of day such as 09:00, in whole seconds and without a zone")
    return written


def _moment(field: str, written: Any) -> datetime:
    if isinstance(written, str):
        try:
            written = read_moment(written)
        except ValueError:
            raise _bad(field, f"{written[:50]!r} is not an instant such as {EXAMPLE}") from None
    if not isinstance(written, datetime):
        raise _bad(field, f"expected an instant such as {EXAMPLE}, not {written!r:.50}")
    return written


def _instant(field: str, written: Any) -> datetime:
    moment = _moment(field, written)
    if moment.tzinfo is None:
        raise _bad(field, f"{moment.isoformat()} has no zone: end it with Z or an offset")
    return _in_utc(field, moment)


def _in_utc(field: str, moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise _bad(field, f"{moment.isoformat()} is out of range: the year in UTC must be 1 to 9999") from None


def _bad(field: str, message: str) -> Invalid:
    return Invalid([Problem(f"rule.{field}", message)])


_PARSERS: dict[str, tuple[Callable[[dict[str, Any], str | None, Dst], Rule], set[str]]] = {
    "cron": (_parse_cron, {"cron"}),
    "every": (_parse_every, {"every", "start"}),
    "yearly": (_parse_yearly, {"yearly", "at", "leap", "since"}),
    "rrule": (_parse_rrule, {"rrule", "start", "exdate", "named"}),
    "at": (_parse_once, {"at", "named"}),
    "template": (_parse_template, {"template"}),
}
