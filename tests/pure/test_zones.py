import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest
import tzdata

from duly.rules import zones
from duly.rules.zones import BLOCK, EPOCH, NO_PLACE, SECOND, names, seconds_of, to_wall, zone, zone_warning


def transitions(name: str) -> list[tuple[int, int, int]]:
    """When the offset changes, from what to what, as the file itself says it."""
    data = (files(tzdata) / "zoneinfo" / name).read_bytes()

    def header(at: int) -> tuple[int, ...]:
        return struct.unpack(">4sc15x6l", data[at : at + 44])[2:]

    isutc, isstd, leap, times, types, chars = header(0)
    start = 44 + 5 * times + 6 * types + chars + 8 * leap + isstd + isutc
    isutc, isstd, leap, times, types, chars = header(start)
    start += 44
    instants = struct.unpack(f">{times}q", data[start : start + 8 * times])
    kinds = data[start + 8 * times : start + 9 * times]
    table = start + 9 * times
    offsets = [struct.unpack(">lbb", data[table + 6 * n : table + 6 * n + 6])[0] for n in range(types)]
    found, before = [], offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:
            found.append((instant, before, offsets[kind]))
        before = offsets[kind]
    return found


@pytest.mark.parametrize("part", range(8))
def test_every_change_of_offset_in_the_zone_files_since_1970_is_known(part: int) -> None:
    for name in sorted(names())[part::8]:
        place = zone(name)
        for instant, before, after in transitions(name):
            if instant > 0:
                piece, earlier = place.piece(instant), place.piece(instant - 1)
                assert (piece.start, piece.before, piece.offset) == (instant, before, after), name
                assert (earlier.end, earlier.offset, earlier.after) == (instant, before, after), name


@pytest.mark.parametrize("name", ["UTC", "Europe/Brussels", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Tokyo"])
def test_the_periods_of_a_zone_follow_one_another_without_a_gap(name: str) -> None:
    place, at = zone(name), seconds_of(datetime(2020, 1, 1, tzinfo=UTC))
    end = seconds_of(datetime(2060, 1, 1, tzinfo=UTC))
    while at < end:
        piece = place.piece(at)
        assert piece.start <= at < piece.end
        assert place.piece(piece.end - 1) == piece or piece.end - at > BLOCK
        assert place.piece(piece.end).offset == piece.after
        at = piece.end


def test_the_zones_are_those_of_the_package_and_not_of_the_system() -> None:
    assert zones.VERSION == tzdata.IANA_VERSION
    assert len(names()) > 590
    assert to_wall(datetime(2026, 7, 1, 12, tzinfo=UTC), "Europe/Brussels").hour == 14
    assert zone("Europe/Brussels") is zone("Europe/Brussels")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("europe/brussels", "did you mean Europe/Brussels?"),
        ("Brussels", "did you mean Europe/Brussels?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Brusels", "did you mean Europe/Brussels"),
        ("CEST+1", "is not a time zone"),
        ("../../etc/passwd", "is not a time zone"),
        ("", "write its IANA name, such as Europe/Brussels"),
        ("posixrules", "is not a time zone"),
        ("GMT+2", "an offset from UTC has no summer time; name a place instead, such as Europe/Brussels"),
        ("utc-5", "an offset from UTC has no summer time"),
        ("+02:00", "an offset from UTC has no summer time"),
        ("CST", "write its IANA name"),
        ("Factory", "write its IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_what_was_meant(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time zone") as refused:
        zone(name)
    assert message in str(refused.value)
    assert "Etc/GMT" not in str(refused.value)  # Etc/GMT+2 is UTC-2


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "EST",
            "EST is an abbreviation and stands for UTC-5 all year, without summer time; New York is America/New_York",
        ),
        ("CET", "CET is an abbreviation and stands for Brussels' time; name your own city, such as Europe/Berlin"),
        ("Etc/GMT+2", "Etc/GMT+2 is UTC-2: the sign in its name is reversed, and there is no summer time"),
        ("Etc/GMT-14", "Etc/GMT-14 is UTC+14: the sign in its name is reversed, and there is no summer time"),
        *((name, None) for name in ("UTC", "GMT", "GMT0", "GMT+0", "Etc/GMT-0", "Europe/Brussels", None)),
    ],
)
def test_a_zone_that_is_seldom_meant_is_accepted_with_a_warning(name: str | None, warning: str | None) -> None:
    assert name is None or zone(name)
    assert zone_warning(name) == warning


@pytest.mark.parametrize("name", NO_PLACE)
def test_the_warnings_about_zone_abbreviations_are_true(name: str) -> None:
    """Where it names one zone, that one has had the same time for years; else none has summer time."""
    said = NO_PLACE[name]
    days = [datetime(2025, 1, 1, 12, tzinfo=UTC) + timedelta(days=7 * week) for week in range(52)]
    if "all year" in said:
        offset = int(said.split()[0].removeprefix("UTC"))
        assert {to_wall(day, name) - day.replace(tzinfo=None) for day in days} == {timedelta(hours=offset)}
    else:
        assert [to_wall(day, name) for day in days] == [to_wall(day, said.split()[-1]) for day in days]


def test_instants_survive_a_conversion_to_seconds_and_back() -> None:
    assert seconds_of(EPOCH) == 0
    assert seconds_of(EPOCH + SECOND / 2) == 0
    assert seconds_of(EPOCH - SECOND / 2) == -1
