"""Time zones, read only from the ``tzdata`` package: the system's files are often older, and would take precedence.

This is the only module that knows the offset of a zone from UTC. It returns offsets as pieces: periods with a constant
offset. Instants and offsets are whole seconds here; a wall-clock reading is an instant plus its offset.
"""

import difflib
import importlib.resources
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata

VERSION: str = tzdata.IANA_VERSION
"""The release of the zone data that all local times are computed with, such as 2026f."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WALL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock on the wall has no zone
SECOND = timedelta(seconds=1)

UNCONFIGURED = "Factory"
"""The zone of a machine whose zone was never configured; no valid zone for a schedule."""

OFFSET = re.compile(r"(?:etc/)?(?:gmt|utc|z)?\s*([+\u2212-])(\d{1,2})(?::?\d\d)?")

LONGEST_ABBREVIATION = 4
"""Characters of an abbreviation at most. For these no similar name is suggested: MST is no replacement for CST."""

NO_PLACE = {
    "EST": "UTC-5 all year, without summer time; New York is America/New_York",
    "MST": "UTC-7 all year, without summer time; Denver is America/Denver",
    "HST": "UTC-10 all year, without summer time; Honolulu is Pacific/Honolulu",
    "EST5EDT": "New York's time; its name is America/New_York",
    "CST6CDT": "Chicago's time; its name is America/Chicago",
    "MST7MDT": "Denver's time; its name is America/Denver",
    "PST8PDT": "Los Angeles' time; its name is America/Los_Angeles",
    "CET": "Brussels' time; name your own city, such as Europe/Berlin",
    "MET": "Brussels' time; name your own city, such as Europe/Berlin",
    "EET": "Athens' time; name your own city, such as Europe/Athens",
    "WET": "Lisbon's time; name your own city, such as Europe/Lisbon",
}
"""Abbreviations that zone data keeps for old programs, with their meaning there."""

BLOCK = 2**25  # seconds, a little more than a year
PROBE = BLOCK // 64  # six days: since 1970, two changes of a zone's offset were at least nearly seven days apart
FIRST = (datetime(1, 12, 1, tzinfo=UTC) - EPOCH) // SECOND  # seconds since 1970; local times stay within datetime
LAST = (datetime(9999, 12, 1, tzinfo=UTC) - EPOCH) // SECOND


class Piece(NamedTuple):
    """A period with a constant offset. Its ends are changes of the offset, or are too far away to matter."""

    start: int
    end: int
    offset: int
    before: int  # the offset that ended at the start
    after: int  # the offset that begins at the end


class Zone:
    """The offsets of a zone from UTC, past and future, as far as they are known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._info = _load(name)
        self._pieces: dict[int, tuple[Piece, ...]] = {}
        self._changes: dict[int, tuple[tuple[int, int], ...]] = {}

    def piece(self, instant: int) -> Piece:
        """The piece that contains an instant."""
        block = instant // BLOCK
        pieces = self._pieces.get(block)
        if pieces is None:
            pieces = self._pieces[block] = self._pieces_of(block)
        for piece in pieces:
            if instant < piece.end:
                return piece
        raise ValueError(f"{instant} is not in its own block")  # cannot happen: the last piece ends past the block

    def offset(self, instant: int) -> int:
        return self.piece(instant).offset

    def _pieces_of(self, block: int) -> tuple[Piece, ...]:
        """The pieces that overlap a block. A piece that does not end in this block ends at the next change, if that is
        in the next block: so the changes up to a year away from any instant are known."""
        start, end = (block - 1) * BLOCK, (block + 2) * BLOCK
        changes = [change for each in (block - 1, block, block + 1) for change in self._changes_of(each)]
        offset = self._probe(start)
        bounds = [(start, offset), *changes, (end, changes[-1][1] if changes else offset)]
        pieces = []
        before = offset
        for (begins, offset), (ends, after) in pairwise(bounds):
            pieces.append(Piece(begins, ends, offset, before, after))
            before = offset
        return tuple(piece for piece in pieces if piece.end > block * BLOCK)

    def _changes_of(self, block: int) -> tuple[tuple[int, int], ...]:
        """The changes of the offset within a block: each with its instant and the new offset."""
        found = self._changes.get(block)
        if found is None:
            changes = []
            offset = self._probe(block * BLOCK)
            for low in range(block * BLOCK, (block + 1) * BLOCK, PROBE):
                later = self._probe(low + PROBE)
                if later != offset:
                    changes.append((self._change_between(low, low + PROBE, offset), later))
                    offset = later
            found = self._changes[block] = tuple(changes)
        return found

    def _change_between(self, low: int, high: int, offset: int) -> int:
        while high - low > 1:
            middle = (low + high) // 2
            if self._probe(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _probe(self, instant: int) -> int:
        utc = EPOCH + timedelta(seconds=max(FIRST, min(instant, LAST)))
        return (self._info.fromutc(utc.replace(tzinfo=self._info)).replace(tzinfo=UTC) - utc) // SECOND


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """The zone with an IANA name. Raises ValueError, with a suggestion, for any other name."""
    if not isinstance(name, str) or name not in names():
        raise ValueError(f"{name!r:.60} is not a time zone{_meant(name)}")
    return Zone(name)


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    return frozenset((importlib.resources.files(tzdata) / "zones").read_text().split()) - {UNCONFIGURED}


def seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    return (instant - EPOCH) // SECOND


def instant_of(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def reading_of(wall: datetime) -> int:
    """A wall-clock reading as seconds since the clock showed 1970-01-01T00:00:00."""
    return (wall - WALL_EPOCH) // SECOND


def wall_of(reading: int) -> datetime:
    return WALL_EPOCH + timedelta(seconds=reading)


def to_wall(instant: datetime, name: str) -> datetime:
    """The naive local date and time of a zone at an instant."""
    return instant.astimezone(UTC).replace(tzinfo=None) + timedelta(seconds=zone(name).offset(seconds_of(instant)))


def _load(name: str) -> ZoneInfo:
    with (importlib.resources.files(tzdata) / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def zone_warning(name: str | None) -> str | None:
    """A warning for a valid zone that is seldom the intended one, or None."""
    if name is None:
        return None
    if (found := NO_PLACE.get(name)) is not None:
        return f"{name} is an abbreviation and stands for {found}"
    if (reversed_sign := OFFSET.fullmatch(name.lower())) is not None and int(reversed_sign[2]):
        sign = "-" if reversed_sign[1] == "+" else "+"
        return f"{name} is UTC{sign}{reversed_sign[2]}: the sign in its name is reversed, and there is no summer time"
    return None


def _meant(name: object) -> str:
    if OFFSET.fullmatch(str(name).strip().lower()):
        return ": an offset from UTC has no summer time; name a place instead, such as Europe/Brussels"
    known = {known.lower(): known for known in names() if not OFFSET.fullmatch(known.lower())}
    by_city = {known.rpartition("/")[2]: known for known in known}
    asked = str(name).strip().lower().replace(" ", "_")[:60]
    close = [known[asked]] if asked in known else [known[by_city[asked]]] if asked in by_city else []
    if not close and len(asked) > LONGEST_ABBREVIATION:
        close = [known[each] for each in difflib.get_close_matches(asked, known, 2)]
    return f": did you mean {' or '.join(close)}?" if close else ": write its IANA name, such as Europe/Brussels"
