"""The users for the import benchmark: any number of them, always the same, in forty zones, with birthdays on every day
of seventy years."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from duly.cli.users.files import read_users
from duly.verbs.users.bulk_import import ImportLine

COLUMNS = ("key", "first_name", "last_name", "date_of_birth", "timezone")

ZONES = """\
Africa/Cairo Africa/Johannesburg Africa/Lagos Africa/Nairobi America/Anchorage America/Argentina/Buenos_Aires
America/Bogota America/Caracas America/Chicago America/Denver America/Halifax America/Los_Angeles America/Mexico_City
America/New_York America/Phoenix America/Santiago America/Sao_Paulo America/St_Johns Asia/Bangkok Asia/Dhaka Asia/Dubai
Asia/Karachi Asia/Kathmandu Asia/Kolkata Asia/Manila Asia/Seoul Asia/Shanghai Asia/Singapore Asia/Tehran Asia/Tokyo
Atlantic/Azores Australia/Adelaide Australia/Lord_Howe Australia/Sydney Europe/Brussels Europe/Istanbul Europe/London
Pacific/Auckland Pacific/Chatham Pacific/Honolulu
""".split()

FIRST_NAMES = (
    "Amara Béatrice Chen Dmitri Élodie Farid Grace Hiroshi Ines João Katarzyna Liam Mónica Noor Øyvind Priya".split()
)
LAST_NAMES = "Abebe Björk Costa Dlamini Eriksen Fernández García Haddad Ito Jansen Kowalska Li Müller".split()

FIRST_DAY = date(1940, 1, 1)
LAST_DAY = date(2010, 12, 31)
DAYS = (LAST_DAY - FIRST_DAY).days + 1
STRIDE = 7919  # days; a prime, so that neighbours in the file are born years apart, and each birthday has all zones

LEAP_YEAR = 1988  # a year with all 366 days


def write_people(path: Path, many: int) -> None:
    """Writes a CSV file of *many* users."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_people(many))


def read_people(path: Path) -> Iterator[ImportLine]:
    """The rows of the CSV file, as `duly users import` reads them."""
    with path.open("rb") as file:
        yield from read_users(file, "csv")


def born_today(dues: Sequence[datetime]) -> Iterator[Mapping[str, Any]]:
    """Users whose birthday events are due at these instants, each at the local time of the user's zone."""
    zones = [zone for name in ZONES if not _shows_again(zone := ZoneInfo(name), dues)]
    for n, due in enumerate(dues):
        zone = zones[n % len(zones)]
        local = due.astimezone(zone)
        yield {
            "key": f"born-today-{n}",
            "first_name": FIRST_NAMES[n % len(FIRST_NAMES)],
            "last_name": LAST_NAMES[n % len(LAST_NAMES)],
            "date_of_birth": local.date().replace(year=LEAP_YEAR).isoformat(),
            "timezone": zone.key,
            "delivery_time": local.time().isoformat("seconds"),
        }


def _people(many: int) -> Iterator[Sequence[str]]:
    for n in range(many):
        born = FIRST_DAY + timedelta(days=n * STRIDE % DAYS)
        first, last = FIRST_NAMES[n % len(FIRST_NAMES)], LAST_NAMES[n % len(LAST_NAMES)]
        yield f"user-{n:07}", first, last, born.isoformat(), ZONES[n % len(ZONES)]


def _shows_again(zone: ZoneInfo, dues: Sequence[datetime]) -> bool:
    """Whether the instants lie in the repeated hour of a clock change: the time of day would mean the hour before."""
    return any(due.astimezone(zone).fold for due in (dues[0], dues[-1]))
