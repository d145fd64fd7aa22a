"""Wall-clock readings, and the instants at which a zone's clocks show them.

When clocks are changed, readings are skipped (a gap) or shown twice (an overlap). This module turns the readings of a
rule into instants, each strictly later than the one before.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.rules.zones import Piece, Zone, instant_of, seconds_of, wall_of

GAPS = ("after", "shift", "skip")
"""When a reading in a gap fires: right after the gap, later by the length of the gap, or never."""

OVERLAPS = ("first", "second", "both")
"""Which of two equal readings fires."""

MOST_PIECES = 500
"""Pieces that are searched for one occurrence. More than a few are needed only if every reading lies in a gap; 500
pieces cover centuries, which is enough to report that."""

MARGIN = 3 * 86400
"""Seconds of safety around a search: more than any zone's offset from UTC plus any gap."""


class Readings(Protocol):
    """A set of wall-clock readings, in seconds since the clock showed 1970-01-01T00:00:00."""

    def first(self, low: int) -> int | None:
        """The first reading that is at least *low*."""

    def last(self, high: int) -> int | None:
        """The last reading below *high*."""

    def count(self, low: int, high: int) -> int:
        """The number of readings that are at least *low* and below *high*."""


class Shown(NamedTuple):
    """An instant, and the wall-clock reading at it."""

    instant: int
    reading: int
    again: bool  # the second of two equal readings in an overlap

    @property
    def at(self) -> datetime:
        return instant_of(self.instant)

    @property
    def name(self) -> str:
        """The reading as text; the second of two equal readings has a suffix."""
        return wall_of(self.reading).isoformat() + (" again" if self.again else "")


class WallTimes:
    """The instants at which a zone's clocks show the given readings.

    With *spacing*, a reading fires each time it is shown, so that a rule that recurs within hours stays evenly spaced
    in real time. Without *spacing*, each reading fires by the policies *gap* and *overlap*.
    """

    def __init__(self, readings: Readings, zone: Zone, *, gap: str, overlap: str, spacing: bool) -> None:
        self._readings, self._zone = readings, zone
        self._gap = "skip" if spacing else gap
        self._overlap = "both" if spacing else overlap

    def after(self, instant: datetime) -> Shown | None:
        """The first shown reading strictly later than *instant*."""
        low = seconds_of(instant) + 1
        for _ in range(MOST_PIECES):
            piece = self._zone.piece(low)
            found = self._first_in(piece, low)
            if found is not None:
                return self._shown(found, piece)
            ahead = self._readings.first(piece.end + min(piece.offset, piece.after))
            if ahead is None:
                return None
            low = max(piece.end, ahead - MARGIN)
        raise ValueError(
            f"no occurrence was found up to {instant_of(low).year}: every one falls into a gap of the local time"
        )

    def last(self, until: datetime) -> Shown | None:
        """The last shown reading not later than *until*."""
        high = seconds_of(until) + 1
        for _ in range(MOST_PIECES):
            piece = self._zone.piece(high - 1)
            found = self._last_in(piece, high)
            if found is not None:
                return self._shown(found, piece)
            behind = self._readings.last(piece.start + max(piece.offset, piece.before))
            if behind is None:
                return None
            high = min(piece.start, behind + MARGIN)
        raise ValueError(
            f"no occurrence was found back to {instant_of(high).year}: every one falls into a gap of the local time"
        )

    def count(self, first: datetime, until: datetime) -> int:
        """The number of shown readings between two instants, both included."""
        low, high = seconds_of(first), seconds_of(until) + 1
        low += first > instant_of(low)
        total = 0
        while low < high:
            piece = self._zone.piece(low)
            end = min(high, piece.end)
            floor, ceiling = self._bounds(piece)
            least, most = max(floor, low + piece.offset), min(ceiling, end + piece.offset)
            total += self._readings.count(least, most) if least < most else 0
            total += sum(1 for _ in self._moved(piece, low, end))
            low = piece.end
        return total

    def anew(self, reading: int, again: bool) -> Shown | None:
        """The first shown reading that is at least *reading*: the present instant of a reading that was computed with
        older zone data."""
        low = reading - self._zone.offset(reading - self._zone.offset(reading)) - 86400
        shown = self.after(instant_of(low - 1))
        while shown is not None and (shown.reading, shown.again) < (reading, again):
            shown = self.after(shown.at)
        return shown

    def _first_in(self, piece: Piece, low: int) -> int | None:
        floor, ceiling = self._bounds(piece)
        reading = self._readings.first(max(floor, low + piece.offset))
        plain = None if reading is None or reading >= ceiling else reading - piece.offset
        return next(self._moved(piece, low, piece.end if plain is None else plain), plain)

    def _last_in(self, piece: Piece, high: int) -> int | None:
        floor, ceiling = self._bounds(piece)
        reading = self._readings.last(min(ceiling, high + piece.offset))
        plain = None if reading is None or reading < floor else reading - piece.offset
        return next(self._moved(piece, piece.start if plain is None else plain + 1, high, back=True), plain)

    def _bounds(self, piece: Piece) -> tuple[int, int]:
        """The bounds of the readings that fire in a piece, without readings of an overlap that fire in the neighbouring
        piece."""
        floor, ceiling = piece.start + piece.offset, piece.end + piece.offset
        if self._overlap == "first":
            floor = max(floor, piece.start + piece.before)
        elif self._overlap == "second":
            ceiling = min(ceiling, piece.end + piece.after)
        return floor, ceiling

    def _moved(self, piece: Piece, low: int, high: int, *, back: bool = False) -> Iterator[int]:
        """The instants from *low* up to, not including, *high* to which readings in the gap before this piece are
        moved, without instants at which another reading fires. They are found one by one: a rule may contain every
        second of the gap."""
        begin, end = piece.start + piece.before, piece.start + piece.offset
        if self._gap == "skip" or begin >= end:
            return
        if self._gap == "after":
            if low <= piece.start < high and self._any(begin, end) and not self._wanted(end):
                yield piece.start
            return
        begin, end = max(begin, low + piece.before), min(end, high + piece.before)
        while begin < end:
            lost = self._readings.last(end) if back else self._readings.first(begin)
            if lost is None or not begin <= lost < end:
                return
            if not self._wanted(lost - piece.before + piece.offset):
                yield lost - piece.before
            begin, end = (begin, lost) if back else (lost + 1, end)

    def _any(self, low: int, high: int) -> bool:
        reading = self._readings.first(low)
        return reading is not None and reading < high

    def _wanted(self, reading: int) -> bool:
        return self._readings.first(reading) == reading

    def _shown(self, instant: int, piece: Piece) -> Shown:
        reading = instant + piece.offset
        return Shown(instant, reading, reading < piece.start + piece.before)
