"""Which tests ``make quick`` runs, between two edits: what is likely to find a mistake within 90 seconds on two cores.

No test is named here. A test is `slow`, and left out, if one of these holds:

- its folder has no share below, as crashes, brokers, the command line and the pages of documentation have none
- its file is an oracle (``test_*_oracle.py``), or it has a timeout of its own: so it says itself that it takes long
- it has never taken less than SECONDS here
- it is not among the share of its folder, or of those that run on PostgreSQL: which ones these are follows from their
  names, so they are the same each time, and a new test is among them or not by itself

Tests of properties run with fewer examples instead (the profile `quick` of Hypothesis).
"""

import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SHARES = {"pure": 1, "stores": 1, "worker": 2, "api": 6, "http": 12}
"""Folder → one in so many of its tests."""

POSTGRES = 5  # of these, one in so many of those that run on PostgreSQL
SECONDS = 1.0
DURATIONS = "duly/durations"  # in pytest's cache: by test, the least that it ever took, where that is not quick


def holds_only_slow(path: Path) -> bool:
    """Whether a folder or file need not even be imported."""
    folder = path if path.is_dir() else path.parent
    return (folder.parent == TESTS and folder.name not in SHARES) or path.stem.endswith("_oracle")


def is_slow(test: pytest.Item, durations: Mapping[str, float]) -> bool:
    share = SHARES.get(test.path.parent.name)
    if share is None or holds_only_slow(test.path) or test.get_closest_marker("timeout") is not None:
        return True
    if durations.get(test.nodeid, 0.0) > SECONDS:
        return True
    return zlib.crc32(test.nodeid.encode()) % (share * POSTGRES if _on_postgres(test) else share) != 0


def _on_postgres(test: pytest.Item) -> bool:
    fixtures = getattr(test, "fixturenames", ())
    return "[postgres" in test.nodeid or "clean_postgres" in fixtures or "new_postgres" in fixtures


class Durations:
    """A plugin that remembers how long tests took."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache = config.cache
        self._took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        if self._cache is None or not self._took:
            return
        known: dict[str, float] = self._cache.get(DURATIONS, {})
        least = {test: min(took, known.get(test, took)) for test, took in self._took.items()}
        self._cache.set(DURATIONS, {test: took for test, took in (known | least).items() if took > SECONDS})
