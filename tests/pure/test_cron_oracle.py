"""Cron rules, held against brute force at every change of every zone's clocks.

`make exhaustive` tries every zone's name, change, expression and policy. The normal run tries each distinct set of
changes with some of them, always the same.
"""

import os
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise, product
from math import gcd
from typing import NamedTuple

import pytest

from duly.rules.notation import cron
from duly.rules.zones import PROBE
from tests.pure.oracle import (
    DAY,
    GAPS,
    HOUR,
    OVERLAPS,
    Zone,
    compare,
    cron_instants,
    midnight,
    read_cron,
    read_zone,
    zone_names,
)

EXHAUSTIVE = bool(os.environ.get("DULY_EXHAUSTIVE"))
STRIDE = 1 if EXHAUSTIVE else 17  # one case in so many is tried; has no divisor in common with their number
CHUNKS = 128 if EXHAUSTIVE else 32
FIRST, UNTIL = midnight(2015), midnight(2041)

FIXED = [
    "30 2 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "0 3 * * *",
    "59 23 * * *",
    "15,45 1-3 * * *",
    "7,*/20 1-3 * * *",  # begins with a number: fixed
    "5/15 0-4 * * SAT,SUN",
    "0 1 * * 0",
    "30 2 * * 7L",  # when Europe's clocks change
    "30 1 * * SUN#1",  # when America's do
    "0 0 13 * 5",
    "30 1 L * *",
    "0 9 LW * *",
    "0 9 15W * *",
    "0 9 * * FRI#2",
    "0 9 29 2 *",
    "0 0 */2 * SUN",
    "30 15 2 * * *",
    "*/20 30 0-2 * * *",  # only the seconds have a star: fixed
    "@monthly",
]
WILDCARD = [
    "*/5 * * * *",
    "0 */2 * * *",
    "*/20 9-17 * * MON-FRI",
    "* 2 * * SUN",
    "30 * * * *",
    "20,50 */25 */3 * * *",
    "@hourly",
]
WALKED = ["Europe/Brussels", "Australia/Lord_Howe", "Africa/Casablanca", "America/New_York", "Asia/Gaza"]


class Case(NamedTuple):
    expression: str
    gap: str = "after"
    overlap: str = "first"


CASES = [*(Case(*case) for case in product(FIXED, GAPS, OVERLAPS)), *map(Case, WILDCARD)]


def test_the_stride_reaches_every_case() -> None:
    assert gcd(STRIDE, len(CASES)) == 1


@cache
def zones() -> list[Zone]:
    """Every zone, or one for each set of changes; those that change most come first, so that chunks weigh the same."""
    everyone = [read_zone(name) for name in zone_names()]
    if not EXHAUSTIVE:
        everyone = list({(zone.offset(FIRST), *zone.changes(FIRST, UNTIL)): zone for zone in everyone}.values())
    return sorted(everyone, key=lambda zone: -len(zone.changes(FIRST, UNTIL)))


def moments(zone: Zone) -> Iterator[tuple[int, int]]:
    """What to look around at, and how far the clocks jump then: each change, a leap day and a new year."""
    yield from ((at, abs(after - before)) for at, before, after in zone.changes(FIRST, UNTIL))
    yield midnight(2024, 2, 29), HOUR
    yield midnight(2027), HOUR


def check(case: Case, zone: Zone, first: int, until: int, probes: list[int]) -> None:
    expected = cron_instants(case.expression, zone, first, until, case.gap, case.overlap)
    rule = cron(case.expression, timezone=zone.name, gap=case.gap, overlap=case.overlap)
    try:
        compare(rule, expected, first, until, probes)
    except AssertionError as wrong:
        wrong.add_note(f"cron{tuple(case)} in {zone.name}")
        raise


def test_no_zone_changes_its_clocks_twice_between_two_looks_at_them() -> None:
    for zone in map(read_zone, zone_names()):
        changes = [at for at, _, _ in zone.changes(midnight(1970), midnight(2100))]
        assert all(later - earlier > PROBE for earlier, later in pairwise(changes)), zone.name


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_cron_fires_as_every_minute_around_a_change_of_clocks_says(chunk: int) -> None:
    for number, zone in islice(enumerate(zones()), chunk, None, CHUNKS):
        for (at, jump), case in islice(product(moments(zone), CASES), number % STRIDE, None, STRIDE):
            reach = DAY if read_cron(case.expression).wildcard else 2 * DAY
            probes = [at + off for off in (-2 * jump, -jump, -jump // 2, 0, jump // 2, jump, 2 * jump)]
            check(case, zone, at - reach, at + reach, probes)


@pytest.mark.parametrize("expression", FIXED + WILDCARD)
@pytest.mark.parametrize("name", WALKED if EXHAUSTIVE else WALKED[:3])
def test_cron_fires_as_every_minute_of_whole_years_says(name: str, expression: str) -> None:
    cases = [case for case in CASES if case.expression == expression]
    first, until = midnight(2023), midnight(2029)
    if not EXHAUSTIVE:
        until = midnight(2024) if len(cases) == 1 else until  # wildcards fire too often for more
        cases = [cases[WALKED.index(name) * 4 % len(cases)]]  # each with its own gap and overlap
    for case in cases:
        check(case, read_zone(name), first, until, list(range(first, until, (until - first) // 12)))
