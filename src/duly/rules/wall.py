"""Readings of a clock on the wall, and the instants at which it shows them.

Twice a year most walls leave readings out (a gap) or show them twice (an overlap). A rule says which readings it wants;
here they become instants, each strictly later than the one before.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.rules.zones import Piece, Zone, instant_of, seconds_of, wall_of

GAPS = ("after", "shift", "skip")
"""What becomes of a reading that a gap leaves out: it happens right after the gap, as much later as the gap is long,
or not at all."""

OVERLAPS = ("first", "second", "both")
"""Which of two equal readings counts."""

MOST_STEPS = 500
"""Pieces that are looked through for one occurrence. More than a few are needed only where gaps swallow every reading,
and then centuries of them are enough to say so."""

MARGIN = 3 * 86400
"""No zone is further from UTC, and no gap is longer, than what this leaves room for."""


class Readings(Protocol):
    """A set of readings, in seconds since the wall showed 1970-01-01T00:00:00."""

    def first(self, low: int) -> int | None:
        """The first one that is at least *low*."""

    def last(self, high: int) -> int | None:
        """The last one below *high*."""

    def count(self, low: int, high: int) -> int:
        """How many are at least *low* and below *high*."""


class Shown(NamedTuple):
    """An instant, and what the wall shows then."""

    instant: int
    reading: int
    again: bool  # it has shown the same reading before

    @property
    def at(self) -> datetime:
        return instant_of(self.instant)

    @property
    def name(self) -> str:
        """One writing of the reading, that tells the second of two apart."""
        return wall_of(self.reading).isoformat() + (" again" if self.again else "")


class WallTimes:
    """The instants at which a zone's walls show some readings.

    With *spacing*, each reading counts as often as it is shown, so that what recurs within hours keeps its pace in real
    time. Without, each happens once, and *gap* and *overlap* decide when.
    """

    def __init__(self, readings: Readings, zone: Zone, *, gap: str, overlap: str, spacing: bool) -> None:
        self._readings, self._zone = readings, zone
        self._gap = "skip" if spacing else gap
        self._overlap = "both" if spacing else overlap

    def after(self, instant: datetime) -> Shown | None:
        """The first one strictly later."""
        low = seconds_of(instant) + 1
        for _ in range(MOST_STEPS):
            piece = self._zone.piece(low)
            found = self._first_in(piece, low)
            if found is not None:
                return self._shown(found, piece)
            ahead = self._readings.first(piece.end + min(piece.offset, piece.after))
            if ahead is None:
                return None
            low = max(piece.end, ahead - MARGIN)
        raise ValueError(f"no occurrence was found up to {instant_of(low).year}: gaps swallow every one")

    def last(self, until: datetime) -> Shown | None:
        """The last one not later."""
        high = seconds_of(until) + 1
        for _ in range(MOST_STEPS):
            piece = self._zone.piece(high - 1)
            found = self._last_in(piece, high)
            if found is not None:
                return self._shown(found, piece)
            behind = self._readings.last(piece.start + max(piece.offset, piece.before))
            if behind is None:
                return None
            high = min(piece.start, behind + MARGIN)
        raise ValueError(f"no occurrence was found back to {instant_of(high).year}: gaps swallow every one")

    def count(self, first: datetime, until: datetime) -> int:
        """How many there are between these two, both included."""
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
        """The first one that shows *reading* or more: where a reading of older zone data is now."""
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
        """The readings that count in a piece: not those of an overlap that count in the piece beside it."""
        floor, ceiling = piece.start + piece.offset, piece.end + piece.offset
        if self._overlap == "first":
            floor = max(floor, piece.start + piece.before)
        elif self._overlap == "second":
            ceiling = min(ceiling, piece.end + piece.after)
        return floor, ceiling

    def _moved(self, piece: Piece, low: int, high: int, *, back: bool = False) -> Iterator[int]:
        """The instants from *low* up to, not including, *high* at which readings happen that the gap before this piece
        has left out, unless others do then. They are looked for one by one: a rule may want every second of the gap."""
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
