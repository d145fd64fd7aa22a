"""What cron and yearly rules must give, found by trying every minute, and how a rule is compared with it.

Slow and plain on purpose, and nothing of it is the product's: the zones are read from tzdata's own files, so that
each change of offset is known to the second, and instants and readings are whole seconds since 1970. A reading is
what clocks on the wall show, counted as if they were in UTC.
"""

import struct
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from string import ascii_letters
from typing import Any, NamedTuple

MINUTE, HOUR, DAY = 60, 3_600, 86_400
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG_AGO, NEVER = -(10**12), 10**12
LAST_YEAR = 2402  # how far the footers' yearly rules are written out

GAPS = ("after", "shift", "skip")
OVERLAPS = ("first", "second", "both")
LEAPS = ("feb28", "mar1", "skip")


def instant(seconds: int) -> datetime:
    """The oracle's number as the product's datetime."""
    return EPOCH + timedelta(seconds=seconds)


def midnight(year: int, month: int = 1, day: int = 1) -> int:
    """The reading 00:00 of that day; the instant too, in UTC."""
    return (date(year, month, day) - date(1970, 1, 1)).days * DAY


# -- zones


class Zone(NamedTuple):
    """The offsets that a zone has had and will have."""

    name: str
    starts: tuple[int, ...]  # the instants at which each begins; a new name for the same offset begins nothing
    offsets: tuple[int, ...]  # seconds east of UTC

    def stretches(self, first: int, until: int) -> Iterator[tuple[int, int, int]]:
        """(begin, end, offset) of each stretch of one offset that touches the time from *first* to *until*."""
        for n in range(bisect_right(self.starts, first) - 1, bisect_right(self.starts, until)):
            end = self.starts[n + 1] if n + 1 < len(self.starts) else NEVER
            yield self.starts[n], end, self.offsets[n]

    def offset(self, instant: int) -> int:
        return self.offsets[bisect_right(self.starts, instant) - 1]

    def changes(self, first: int, until: int) -> list[tuple[int, int, int]]:
        """(instant, offset before, offset after) of each change from *first* until before *until*."""
        stretches = pairwise(self.stretches(first - 1, until))
        return [(end, before, after) for (_, end, before), (_, _, after) in stretches if first <= end < until]

    def showing(self, reading: int) -> list[int]:
        """Every instant at which clocks show *reading*: none in a gap, two in an overlap."""
        stretches = self.stretches(reading - 2 * DAY, reading + 2 * DAY)
        return [reading - offset for begin, end, offset in stretches if begin <= reading - offset < end]

    def firing(self, reading: int, gap: str, overlap: str) -> list[int]:
        """When a rule that asks for *reading* fires."""
        if shown := self.showing(reading):
            return {"first": shown[:1], "second": shown[-1:], "both": shown}[overlap]
        [(end_of_gap, before)] = [
            (instant, before)
            for instant, before, after in self.changes(reading - 2 * DAY, reading + 2 * DAY)
            if instant + before <= reading < instant + after
        ]
        return {"after": [end_of_gap], "shift": [reading - before], "skip": []}[gap]


def zone_names() -> list[str]:
    return sorted((files("tzdata") / "zones").read_text(encoding="ascii").split())


@cache
def read_zone(name: str) -> Zone:
    """A zone from tzdata's file (RFC 9636): its second block, whose times have 64 bits, and the footer."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    _, _, _, times, types, letters = counts = struct.unpack_from(">6l", data, 20)
    ut, standard, leaps = counts[:3]
    at = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + ut  # past the first block, of 32 bits
    magic, version, ut, standard, leaps, times, types, letters = struct.unpack_from(">4sc15x6l", data, at)
    assert (magic, leaps) == (b"TZif", 0), f"{name} is not a zone"
    assert version >= b"2", f"{name} has no second block"
    at += 44
    instants = struct.unpack_from(f">{times}q", data, at)
    kinds = struct.unpack_from(f">{times}B", data, at + times * 8)
    at += times * 9
    offsets = [offset for offset, _, _ in struct.iter_unpack(">lBB", data[at : at + types * 6])]
    footer = data[at + types * 6 + letters + standard + ut :].decode("ascii").strip("\n")
    told = [(LONG_AGO, offsets[0]), *zip(instants, (offsets[kind] for kind in kinds), strict=True)]
    told += [change for change in _from_footer(footer, since=told[-1][0]) if change[0] > told[-1][0]]
    starts, offsets = [LONG_AGO], [told[0][1]]
    for start, offset in told[1:]:
        if offset != offsets[-1]:
            starts.append(start)
            offsets.append(offset)
    return Zone(name, tuple(starts), tuple(offsets))


def _from_footer(footer: str, since: int) -> list[tuple[int, int]]:
    """The changes that a rule such as ``CET-1CEST,M3.5.0,M10.5.0/3`` makes from the year of *since* on."""
    names, *rules = footer.split(",")
    standard, rest = _offset(_after_name(names))
    if not rules:
        assert not rest, f"{footer} has no rule for its summer"
        return []
    summer, rest = _offset(_after_name(rest)) if _after_name(rest) else (standard + HOUR, "")
    assert not rest, f"{footer} is not understood"
    first = instant(since).year if since > midnight(1900) else 1900
    begin, end = rules
    changes = [(_reading(begin, year) - standard, summer) for year in range(first, LAST_YEAR)]
    changes += [(_reading(end, year) - summer, standard) for year in range(first, LAST_YEAR)]
    return sorted(changes)


def _after_name(written: str) -> str:
    """What follows ``CET`` or ``<+0530>``."""
    return written.partition(">")[2] if written.startswith("<") else written.lstrip(ascii_letters)


def _offset(written: str) -> tuple[int, str]:
    """POSIX counts west of Greenwich: ``-5:30CEST`` is (+5:30, ``CEST``)."""
    rest = written.lstrip("+-0123456789:")
    return -_duration(written[: len(written) - len(rest)]), rest


def _duration(written: str) -> int:
    parts = [int(part) for part in written.lstrip("+-").split(":")]
    length = sum(part * unit for part, unit in zip(parts, (HOUR, MINUTE, 1), strict=False))
    return -length if written.startswith("-") else length


@cache
def _reading(rule: str, year: int) -> int:
    """``M10.5.0/3`` in a year: month, week (5 is the last), weekday (0 is Sunday), and the time, 02:00 by default."""
    day, _, time = rule.partition("/")
    assert day.startswith("M"), f"{rule} is not understood"
    month, week, weekday = map(int, day[1:].split("."))
    days = [n for n in range(1, monthrange(year, month)[1] + 1) if _weekday(date(year, month, n)) == weekday]
    return midnight(year, month, days[-1] if week == 5 else days[week - 1]) + _duration(time or "2")


# -- cron


class Cron(NamedTuple):
    """A well-formed expression, taken apart."""

    seconds: list[int]
    minutes: frozenset[int]  # of the day
    months: frozenset[int]
    day: str
    weekday: str
    wildcard: bool


MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ["", *"JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()]
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()


@cache
def read_cron(expression: str) -> Cron:
    fields = MACROS.get(expression, expression).upper().split()
    second, minute, hour, day, month, weekday = ["0", *fields] if len(fields) == 5 else fields
    return Cron(
        seconds=sorted(_numbers(second, 0, 59)),
        minutes=frozenset(h * 60 + m for h in _numbers(hour, 0, 23) for m in _numbers(minute, 0, 59)),
        months=frozenset(_numbers(month, 1, 12, MONTHS)),
        day=day,
        weekday=weekday,
        wildcard=minute.startswith("*") or hour.startswith("*"),
    )


def cron_instants(
    expression: str, zone: Zone, first: int, until: int, gap: str = "after", overlap: str = "first"
) -> list[int]:
    """Every instant from *first* until before *until* at which the rule fires."""
    cron = read_cron(expression)
    found = _real(cron, zone, first, until) if cron.wildcard else _asked(cron, zone, first, until, gap, overlap)
    return sorted({instant for instant in found if first <= instant < until})


def _real(cron: Cron, zone: Zone, first: int, until: int) -> Iterator[int]:
    """A wildcard: every minute that passes is looked at on the clock."""
    for begin, end, offset in zone.stretches(first, until):
        begin, end = max(begin, first), min(end, until)
        for reading in range((begin + offset) // MINUTE * MINUTE, end + offset, MINUTE):
            if reading % DAY // MINUTE in cron.minutes and _on(cron, reading // DAY):
                yield from (at for second in cron.seconds if begin <= (at := reading + second - offset) < end)


def _asked(cron: Cron, zone: Zone, first: int, until: int, gap: str, overlap: str) -> Iterator[int]:
    """Fixed times: every minute that a clock could show is looked up in time. No zone is two days off UTC."""
    for day in range(first // DAY - 2, until // DAY + 3):
        if _on(cron, day):
            for minute in cron.minutes:
                for second in cron.seconds:
                    yield from zone.firing(day * DAY + minute * MINUTE + second, gap, overlap)


def _on(cron: Cron, day: int) -> bool:
    return _matches(day, cron.months, cron.day, cron.weekday)


@cache
def _matches(number: int, months: frozenset[int], day_field: str, weekday_field: str) -> bool:
    day = date(1970, 1, 1) + timedelta(days=number)
    if day.month not in months:
        return False
    by_day = any(_is_day(item, day) for item in day_field.split(","))
    by_weekday = any(_is_weekday(item, day) for item in weekday_field.split(","))
    if day_field[0] in "*?" or weekday_field[0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


def _is_day(item: str, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    if item == "L":
        return day.day == length
    if not item.endswith("W"):
        return day.day in _numbers(item, 1, 31)
    workdays = [n for n in range(1, length + 1) if _weekday(day.replace(day=n)) in range(1, 6)]
    if item == "LW":
        return day.day == workdays[-1]
    wanted = int(item[:-1])
    return wanted <= length and day.day == min(workdays, key=lambda n: abs(n - wanted))


def _is_weekday(item: str, day: date) -> bool:
    if "#" in item:
        weekday, _, nth = item.partition("#")
        return _is_weekday(weekday, day) and (day.day - 1) // 7 + 1 == int(nth)
    if item.endswith("L"):
        return _is_weekday(item[:-1], day) and (day + timedelta(days=7)).month != day.month
    return _weekday(day) in {number % 7 for number in _numbers(item, 0, 6, WEEKDAYS)}


def _weekday(day: date) -> int:
    """0 is Sunday."""
    return day.isoweekday() % 7


def _numbers(field: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        begin, dash, end = span.partition("-")
        if begin in "*?":
            first, last = low, high
        else:
            first = _number(begin, names)
            last = _number(end, names) if dash else high if step else first
        found.update(range(first, last + 1, int(step or 1)))
    return found


def _number(written: str, names: list[str] | None) -> int:
    return names.index(written) if names and written in names else int(written)


# -- yearly


def yearly_instants(
    month: int, day: int, time: int, zone: Zone, first: int, until: int, *, leap: str, gap: str, overlap: str
) -> list[int]:
    """Every instant from *first* until before *until* that shows *time*, in seconds of the day, on that date."""
    found: set[int] = set()
    for year in range(instant(first).year - 1, instant(until).year + 2):
        for start in _anniversary(year, month, day, leap):
            found.update(zone.firing(start + time, gap, overlap))
    return sorted(at for at in found if first <= at < until)


def _anniversary(year: int, month: int, day: int, leap: str) -> list[int]:
    if day <= monthrange(year, month)[1]:
        return [midnight(year, month, day)]
    return {"feb28": [midnight(year, 2, 28)], "mar1": [midnight(year, 3, 1)], "skip": []}[leap]


# -- comparing


def compare(rule: Any, expected: list[int], first: int, until: int, probes: list[int]) -> None:
    """The rule gives what is expected from *first* until before *until*, asked one after another and from the probes,
    which lie between them."""
    dues = [instant(at) for at in expected]
    begin, end = instant(first), instant(until) - MICROSECOND
    given = list(_one_after_another(rule, begin, end))
    assert [occurrence.at for occurrence in given] == dues
    assert len({occurrence.name for occurrence in given}) == len(given), "names repeat"
    assert rule.count(begin, end) == len(given)
    asked = [instant(at) for at in sorted(probes)]
    for at in [at - early for at in asked for early in (MICROSECOND, 0 * MICROSECOND)]:
        following, last, past = rule.after(at), rule.last(at), bisect_right(dues, at)
        if past < len(given):
            assert following == given[past], f"after {at}"
        else:
            assert following is None or following.at > end, f"after {at}"
        if past:
            assert last == given[past - 1], f"last until {at}"
        else:
            assert last is None or last.at < begin, f"last until {at}"
    for low, high in pairwise([begin, *asked, end]):
        assert rule.count(low, high) == bisect_right(dues, high) - bisect_left(dues, low), f"count from {low} to {high}"


def _one_after_another(rule: Any, begin: datetime, end: datetime) -> Iterator[Any]:
    at = begin - MICROSECOND
    while (occurrence := rule.after(at)) and occurrence.at <= end:
        assert occurrence.at > at, f"{occurrence} is not after {at}"
        yield occurrence
        at = occurrence.at
