"""The readings of a rule that fires on one date every year."""

from datetime import date, time

from duly.rules.zones import WALL_EPOCH

DAY = 86400  # seconds
LEAPS = ("feb28", "mar1", "skip")
"""The date that stands for 29 February in a year without one."""

FIRST_YEAR = 1
LAST_YEAR = 9998  # the year after it is still a valid date
LONGEST_PAUSE = 8
"""Years between two leap years around 1900, 2100 and so on; elsewhere there are four."""

_EPOCH = WALL_EPOCH.toordinal()


class YearlyReadings:
    """The readings of a month and day at a time of day, in every year from *since* on."""

    def __init__(self, month: int, day: int, at: time, leap: str, since: int = FIRST_YEAR) -> None:
        self._month, self._day, self._leap, self._since = month, day, leap, since
        self._time = 3600 * at.hour + 60 * at.minute + at.second

    def first(self, low: int) -> int | None:
        year = _year_of(low)
        for each in range(max(self._since, year), min(LAST_YEAR, max(self._since, year) + LONGEST_PAUSE) + 1):
            reading = self._in(each)
            if reading is not None and reading >= low:
                return reading
        return None

    def last(self, high: int) -> int | None:
        year = _year_of(high)
        for each in range(min(LAST_YEAR, year), max(self._since, year - LONGEST_PAUSE) - 1, -1):
            reading = self._in(each)
            if reading is not None and reading < high:
                return reading
        return None

    def count(self, low: int, high: int) -> int:
        readings = (
            self._in(year) for year in range(max(self._since, _year_of(low)), min(LAST_YEAR, _year_of(high)) + 1)
        )
        return sum(low <= reading < high for reading in readings if reading is not None)

    def _in(self, year: int) -> int | None:
        day = self.kept_on(year)
        return None if day is None else (day.toordinal() - _EPOCH) * DAY + self._time

    def kept_on(self, year: int) -> date | None:
        """The date of the occurrence in a year; None if 29 February is skipped."""
        try:
            return date(year, self._month, self._day)
        except ValueError:  # 29 February, in a year without one
            return {"feb28": date(year, 2, 28), "mar1": date(year, 3, 1), "skip": None}[self._leap]


def _year_of(reading: int) -> int:
    return date.fromordinal(min(max(1, reading // DAY + _EPOCH), date.max.toordinal())).year
