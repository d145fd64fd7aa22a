"""The phrases that all rules share: times of day, ordinals, lists."""

from collections.abc import Sequence
from itertools import pairwise

MONTHS = ("January February March April May June July August September October November December").split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ALL_WEEKDAYS = frozenset(range(7))
ALL_MONTHS = frozenset(range(1, 13))

DAY_S = 86_400

MOST_TIMES = 4
"""Times of a day that are listed, at most."""

FEWEST_SPACED = 5
"""Times of a day with the same distance, from which on they are told as an interval with its beginning and end."""

SHORTEST_RANGE = 3
"""Weekdays or months in a row that are told as a range, at least."""

LAST_DAY_OF_ALL = 28
"""Every month has this day; later ones are missing from some."""

FEBRUARY = 2
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of each month, at most."""

ALWAYS_THERE = 4
"""Every month has each weekday this often; a fifth one is missing from most."""


def clock(seconds: int, *, exact: bool = False) -> str:
    """A time of day, such as 09:00, or 09:00:30."""
    minutes, second = divmod(seconds, 60)
    shown = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{shown}:{second:02}" if second or exact else shown


def times(many: int, unit: str) -> str:
    """A number and its unit, such as ``1 hour`` or ``3 hours``."""
    return f"{many} {unit}{'' if many == 1 else 's'}"


def joined(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``23rd``."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def nth(number: int) -> str:
    """The place of a weekday in its month, such as ``second`` or ``last``."""
    return {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last", -2: "second to last"}[number]


def time_words(at: Sequence[int]) -> tuple[str, bool] | None:
    """Times of day, in seconds, in words; and whether these say how often, instead of when. None if there are too many
    for words."""
    if len(at) == 1:
        return f"at {clock(at[0])}", False
    steps = {later - earlier for earlier, later in pairwise(at)}
    if len(steps) == 1:
        [step] = steps
        if at[0] + DAY_S - at[-1] == step:
            return _around_the_clock(at[0], step), True
        if len(at) >= FEWEST_SPACED:
            return f"{_every(step)} from {clock(at[0])} to {clock(at[-1])}", True
    if len(at) <= MOST_TIMES:
        return f"at {joined([clock(one) for one in at])}", False
    return None


def _around_the_clock(first: int, step: int) -> str:
    if first == 0:
        return _every(step)
    if step == 3600 and first % 60 == 0:
        return f"at {times(first // 60, 'minute')} past every hour"
    return f"{_every(step)} from {clock(first)}"


def _every(step: int) -> str:
    for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
        if step % size == 0:
            return f"every {unit}" if step == size else f"every {step // size} {unit}s"
    raise ValueError(f"{step} is no whole number of seconds")


def weekday_words(days: frozenset[int]) -> str:
    """Weekdays, Monday as 0: ``Monday``, ``Monday to Friday``, ``Saturday and Sunday``."""
    return _in_ranges(sorted(days), WEEKDAYS, 0)


def month_words(months: frozenset[int]) -> str:
    """``June``, ``June to August``, ``January and July``."""
    return _in_ranges(sorted(months), MONTHS, 1)


def _in_ranges(numbers: Sequence[int], names: Sequence[str], first: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = list[str]()
    for run in runs:
        if len(run) >= SHORTEST_RANGE:
            words.append(f"{names[run[0] - first]} to {names[run[-1] - first]}")
        else:
            words += [names[number - first] for number in run]
    return joined(words)


def of_months(months: frozenset[int]) -> str:
    """``of each month``, or ``of June``."""
    return "of each month" if months == ALL_MONTHS else f"of {month_words(months)}"


def days_of_month(days: Sequence[int], months: frozenset[int]) -> str | None:
    """Days of a month by their numbers: ``on the 1st and 15th of each month``. One month and its days are dates: ``on
    24 December``. None if that month has none of these days."""
    if len(months) == 1:
        [month] = months
        there = [day for day in days if day <= LONGEST_MONTHS[month - 1]]
        if not there:
            return None
        leap = " in leap years" if month == FEBRUARY and max(there) > LAST_DAY_OF_ALL else ""
        alone = leap if len(there) == 1 else f" ({there[-1]}{leap} only)" if leap else ""
        return f"on {joined([str(day) for day in there])} {MONTHS[month - 1]}{alone}"
    told = f"on the {joined([ordinal(day) for day in days])} {of_months(months)}"
    return told if max(days) <= LAST_DAY_OF_ALL else f"{told}, where there is one,"


def each_weekday(days: frozenset[int]) -> str:
    """``every Monday``, ``Monday to Friday``."""
    words = weekday_words(days)
    return words if " to " in words else f"every {words}"


def sentence(days: str | None, at: tuple[str, bool] | None, limits: str = "") -> str:
    """Days and times in one phrase: ``every Monday at 09:00``, ``every 15 minutes, Monday to Friday``."""
    if at is None:
        return f"{(days or 'every day').removesuffix(',')}{limits}"
    told, often = at
    if often:
        return told + (f", {days.removesuffix(',')}" if days else "") + limits
    return f"{days or 'every day'} {told}{limits}"
