"""Reads, checks and writes the text of RFC 5545 recurrence rules."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import date, datetime
from math import prod
from typing import Any, NamedTuple

MOST_CHARACTERS = 2000
MOST_INTERVAL = 10_000
MOST_COUNT = 100_000
FIRST_YEAR = 1000  # of a start
LAST_YEAR = 9998  # of a start and of occurrences; the year after it is still a valid date

FREQUENCIES = ("SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class ByDay(NamedTuple):
    """A weekday, with Monday as 0. Its ordinal counts within the month or year; 0 means each of them."""

    ordinal: int
    weekday: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an RRULE, normalised: lists are sorted and without duplicates; an empty list was not given."""

    frequency: str
    interval: int = 1
    count: int | None = None
    until: datetime | date | None = None  # inclusive; aware when it was written in UTC
    by_month: tuple[int, ...] = ()
    by_week_number: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[ByDay, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_position: tuple[int, ...] = ()
    week_start: int = 0

    @property
    def text(self) -> str:
        """The normal form of the rule: upper case, in a fixed order, without defaults."""
        written = [f"FREQ={self.frequency}"]
        for name, reader in _READERS.items():
            field = _FIELDS[name]
            value = getattr(self, field.name)
            if value != field.default:
                written.append(f"{name}={reader.write(value)}")
        return ";".join(written)


class RecurrenceText(NamedTuple):
    """A recurrence as it was written. Its zone is not resolved yet, and its start may be missing."""

    parts: Parts
    start: datetime | None = None  # aware when it was written in UTC
    tzid: str | None = None
    exdates: tuple[datetime | date, ...] = ()  # a date excludes its whole day

    @property
    def text(self) -> str:
        return self.parts.text

    @property
    def until(self) -> datetime | date | None:
        return self.parts.until


def parse_recurrence(text: str) -> RecurrenceText:
    """Reads ``FREQ=MONTHLY;BYDAY=-1FR``, alone or after ``RRULE:``, with lines of DTSTART and EXDATE around it.

    Raises ValueError with the part, the reason and what is allowed.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a recurrence of {len(text)} characters is too long: at most {MOST_CHARACTERS}")
    if not text.isascii():
        raise ValueError("a recurrence is written in ASCII only")
    unfolded = re.sub(r"\r?\n[ \t]", "", text.strip())
    lines = [_read_line(line.strip()) for line in re.split(r"\r?\n", unfolded) if line.strip()]
    rules = [line for line in lines if line.name == "RRULE"]
    starts = [line for line in lines if line.name == "DTSTART"]
    exclusions = [line for line in lines if line.name == "EXDATE"]
    if len(rules) != 1:
        raise ValueError(f"a recurrence needs one RRULE, not {len(rules)}")
    if len(starts) > 1:
        raise ValueError(f"a recurrence needs at most one DTSTART, not {len(starts)}")
    parts = _read_rule(rules[0].value)
    start = _read_start(starts[0], parts) if starts else None
    exdates = {_read_moment(line, value) for line in exclusions for value in line.value.split(",")}
    return RecurrenceText(parts, start, _one_zone(starts, exclusions), tuple(sorted(exdates, key=_write_moment)))


# -- lines


class _Line(NamedTuple):
    name: str
    value: str
    tzid: str | None = None
    dates_only: bool = False

    def problem(self, value: str, reason: str) -> ValueError:
        return ValueError(f"{self.name}:{value[:30]}: {reason}")


_LINE = re.compile(r"""([^;:="]*)((?:;[^;:="]*=(?:"[^"]*"|[^;:"]*))*):(.*)""", re.DOTALL)
_PARAMETER = re.compile(r""";([^;:="]*)=("[^"]*"|[^;:"]*)""")
_ZONE = re.compile(r"[\w+\-/. ]{1,100}", re.ASCII)


def _read_line(line: str) -> _Line:
    """Reads a line such as ``DTSTART:…``. A line without a name is read as the RRULE."""
    if ":" not in line:
        return _Line("RRULE", line.upper())
    if not (match := _LINE.fullmatch(line)):
        raise ValueError(f"{line[:30]!r} is not a line such as DTSTART;TZID=Europe/Berlin:20300101T090000")
    name, parameters, value = match.groups()
    name, value = name.upper(), value.strip().upper()
    if name in ("RDATE", "EXRULE"):
        raise ValueError(f"{name} is not supported: a recurrence is one RRULE, with EXDATE for excluded occurrences")
    if name not in ("RRULE", "DTSTART", "EXDATE"):
        raise ValueError(f"{name[:30]!r} is not supported: a recurrence may have lines with DTSTART, RRULE and EXDATE")
    return _read_parameters(_Line(name, value), parameters)


def _read_parameters(line: _Line, parameters: str) -> _Line:
    for key, quoted in _PARAMETER.findall(parameters):
        value = quoted.strip('"')
        match key.upper(), value.upper():
            case "TZID", _ if line.name != "RRULE":
                if not _ZONE.fullmatch(value):
                    raise ValueError(f"{line.name};TZID={value[:30]}: must be a zone's name such as Europe/Berlin")
                line = line._replace(tzid=value)
            case "VALUE", ("DATE" | "DATE-TIME") as kind if line.name != "RRULE":
                line = line._replace(dates_only=kind == "DATE")
            case _:
                allowed = "none" if line.name == "RRULE" else "TZID, VALUE=DATE, VALUE=DATE-TIME"
                raise ValueError(f"{line.name};{key[:30]}={value[:30]} is not supported; allowed: {allowed}")
    if line.dates_only and line.tzid:
        raise ValueError(f"{line.name}: a date has no zone, so TZID and VALUE=DATE cannot both be given")
    return line


def _one_zone(starts: list[_Line], exclusions: list[_Line]) -> str | None:
    """The zone of the start or, without a start, of the exclusions, which must agree."""
    zones = {line.tzid for line in exclusions if line.tzid}
    zone = starts[0].tzid if starts else min(zones, default=None)
    if others := zones - {zone}:
        wanted = f"that of the other lines, {zone}" if zone else "that of DTSTART, which has none"
        raise ValueError(f"EXDATE;TZID={min(others)}: must be {wanted}")
    return zone


# -- moments

_MOMENT = re.compile(r"\d{8}(T([01]\d|2[0-3])[0-5]\d[0-5]\dZ?)?", re.ASCII)


def _parse_moment(text: str) -> datetime | date | None:
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
    except ValueError:  # such as 30 February
        return None
    return moment if moment.year >= FIRST_YEAR else None


def _write_moment(moment: datetime | date) -> str:
    if not isinstance(moment, datetime):
        return f"{moment:%Y%m%d}"
    return f"{moment:%Y%m%dT%H%M%S}" + ("Z" if moment.tzinfo else "")


def _read_moment(line: _Line, value: str) -> datetime | date:
    moment = _parse_moment(value.strip())
    if moment is None:
        raise line.problem(value, f"must be a date or a time such as 20300131T090000, from year {FIRST_YEAR}")
    if isinstance(moment, datetime) and line.dates_only:
        raise line.problem(value, "VALUE=DATE needs a date such as 20300131")
    if isinstance(moment, datetime) and moment.tzinfo and line.tzid:
        raise line.problem(value, f"is in UTC by its Z, so TZID={line.tzid} cannot be given")
    return moment


def _read_start(line: _Line, parts: Parts) -> datetime:
    start = _read_moment(line, line.value)
    if start.year > LAST_YEAR:
        raise line.problem(line.value, f"must be in the years {FIRST_YEAR} to {LAST_YEAR}")
    if isinstance(start, datetime):
        return start
    if parts.by_hour or parts.by_minute or parts.by_second:
        raise line.problem(line.value, "must have a time, since the rule has BYHOUR, BYMINUTE or BYSECOND")
    return datetime.fromisoformat(f"{start}T00:00:00")


# -- parts of the rule


class _Reader(NamedTuple):
    """The reader and writer of one part's value; *read* returns None for a value that is not *allowed*."""

    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]


_NUMBER = re.compile(r"[+-]?\d{1,6}", re.ASCII)
_BY_DAY = re.compile(r"([+-]?\d{1,2})?([A-Z]{2})", re.ASCII)


def _read_number(text: str, low: int, high: int, *, from_end: bool = False) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if low <= number <= high or (from_end and low <= -number <= high) else None


def _read_by_day(text: str) -> ByDay | None:
    if not (match := _BY_DAY.fullmatch(text)) or match[2] not in WEEKDAYS:
        return None
    ordinal = _read_number(match[1], 1, 53, from_end=True) if match[1] else 0
    return None if ordinal is None else ByDay(ordinal, WEEKDAYS.index(match[2]))


def _write_by_day(day: ByDay) -> str:
    return f"{day.ordinal or ''}{WEEKDAYS[day.weekday]}"


def _number(low: int, high: int) -> _Reader:
    return _Reader(f"a whole number from {low} to {high}", lambda text: _read_number(text, low, high), str)


def _numbers(low: int, high: int, *, from_end: bool = False, note: str = "") -> _Reader:
    ends = f" or from -{high} to -{low}" if from_end else ""
    return _listed(
        f"numbers from {low} to {high}{ends}{note}",
        lambda text: _read_number(text, low, high, from_end=from_end),
        str,
        lambda number: (number < 0, number),
    )


def _listed(
    allowed: str, read: Callable[[str], Any], write: Callable[[Any], str], order: Callable[[Any], Any]
) -> _Reader:
    def read_all(text: str) -> tuple[Any, ...] | None:
        values = {read(each) for each in text.split(",")}
        return None if None in values else tuple(sorted(values, key=order))

    return _Reader(f"{allowed}, separated by commas", read_all, lambda values: ",".join(map(write, values)))


_FREQUENCY = _Reader(f"one of {', '.join(FREQUENCIES)}", {name: name for name in FREQUENCIES}.get, str)
_READERS = {  # in the order of the fields of Parts, in which they are also written
    "INTERVAL": _number(1, MOST_INTERVAL),
    "COUNT": _number(1, MOST_COUNT),
    "UNTIL": _Reader("a date or a time such as 20301231 or 20301231T235959Z", _parse_moment, _write_moment),
    "BYMONTH": _numbers(1, 12),
    "BYWEEKNO": _numbers(1, 53, from_end=True),
    "BYYEARDAY": _numbers(1, 366, from_end=True),
    "BYMONTHDAY": _numbers(1, 31, from_end=True),
    "BYDAY": _listed(
        f"days of {', '.join(WEEKDAYS)}, such as MO or with an ordinal up to 53 such as 1MO or -1FR",
        _read_by_day,
        _write_by_day,
        lambda day: (day.ordinal < 0, *day),
    ),
    "BYHOUR": _numbers(0, 23),
    "BYMINUTE": _numbers(0, 59),
    "BYSECOND": _numbers(0, 59, note=" (60, the leap second, is not supported)"),
    "BYSETPOS": _numbers(1, 366, from_end=True),
    "WKST": _Reader(
        f"one of {', '.join(WEEKDAYS)}", dict(zip(WEEKDAYS, range(7), strict=True)).get, WEEKDAYS.__getitem__
    ),
}
_FIELDS = dict(zip(("FREQ", *_READERS), fields(Parts), strict=True))


def _read_rule(text: str) -> Parts:
    written: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part[:30]!r} is not a part such as FREQ=DAILY")
        if name not in _FIELDS:
            raise ValueError(f"{name[:30]} is not part of RFC 5545; its parts are {', '.join(_FIELDS)}")
        if name in written:
            raise ValueError(f"{name} is given twice")
        written[name] = value
    if "FREQ" not in written:
        raise ValueError("an RRULE needs FREQ, such as FREQ=DAILY")
    values = {_FIELDS[name].name: _read_part(name, value) for name, value in written.items()}
    parts = Parts(**values)
    if reason := _conflict(parts):
        raise ValueError(reason)
    return parts


def _read_part(name: str, text: str) -> Any:
    reader = _FREQUENCY if name == "FREQ" else _READERS[name]
    value = reader.read(text)
    if value is None:
        raise ValueError(f"{name}={text[:30]}: must be {reader.allowed}")
    return value


def _conflict(parts: Parts) -> str | None:
    """The reason why these parts cannot be combined, by the table and the prose of RFC 5545, section 3.3.10."""
    frequency = parts.frequency
    numbered = any(day.ordinal for day in parts.by_day)
    if parts.count is not None and parts.until is not None:
        return "COUNT and UNTIL cannot both be given"
    if parts.by_week_number and frequency != "YEARLY":
        return f"BYWEEKNO needs FREQ=YEARLY, not {frequency}"
    if parts.by_year_day and frequency in ("DAILY", "WEEKLY", "MONTHLY"):
        return f"BYYEARDAY cannot be given with FREQ={frequency}; FREQ=YEARLY allows it"
    if parts.by_month_day and frequency == "WEEKLY":
        return "BYMONTHDAY cannot be given with FREQ=WEEKLY; FREQ=MONTHLY and FREQ=DAILY allow it"
    if numbered and frequency not in ("MONTHLY", "YEARLY"):
        return f"BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY, not {frequency}"
    if numbered and parts.by_week_number:
        return "BYDAY with a number cannot be given with BYWEEKNO"
    if parts.by_position and not _has_choice(parts):
        return "BYSETPOS needs another part such as BYDAY to choose from"
    if parts.by_position and (most := most_to_choose_from(parts)) < min(map(abs, parts.by_position)):
        nearest = min(parts.by_position, key=abs)
        return f"BYSETPOS={nearest} never matches: FREQ={frequency} with these parts has at most {most} to choose from"
    return None


def most_to_choose_from(parts: Parts) -> int:
    """An upper bound of the occurrences in one period, before BYSETPOS; some rules have fewer."""
    axes = (parts.by_second, parts.by_minute, parts.by_hour)
    times = prod(len(axis) or 1 for axis in axes[: FREQUENCIES.index(parts.frequency)])
    return times * _most_days(parts)


def _most_days(parts: Parts) -> int:
    """An upper bound of the days in one period."""
    if parts.frequency not in ("WEEKLY", "MONTHLY", "YEARLY"):
        return 1
    if parts.frequency == "WEEKLY":
        return len(parts.by_day) or 1
    months = 1 if parts.frequency == "MONTHLY" else len(parts.by_month) or 12
    in_months = parts.frequency == "MONTHLY" or parts.by_month
    each, numbered = (5 * months, months) if in_months else (53, 1)  # days of a weekday, without and with an ordinal
    bounds = [
        len(parts.by_year_day),
        len(parts.by_week_number) * 7 * 2,  # a year may also contain days of that week of the year before or after
        len(parts.by_month_day) * months,
        sum(numbered if day.ordinal else each for day in parts.by_day),
    ]
    return min((bound for bound in bounds if bound), default=months if parts.by_month else 1)


def _has_choice(parts: Parts) -> bool:
    return any(
        getattr(parts, field.name) for name, field in _FIELDS.items() if name.startswith("BY") and name != "BYSETPOS"
    )
