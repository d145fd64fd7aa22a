"""What `make quick` leaves out, asked of pytest itself."""

import json
import subprocess
import sys
from pathlib import Path

from tests.quick import DURATIONS, SHARES, TESTS, holds_only_slow

QUICK = "tests/pure/test_ids.py::test_ids_are_uuids_of_version_7"
LONG = "tests/pure/test_ids.py::test_ids_sort_by_the_time_they_were_made"


def chosen(folder: Path, *paths: str) -> list[str]:
    """The tests that would run, with a cache of their own."""
    command = [sys.executable, "-m", "pytest", "--quick", "--collect-only", "-q", "-o", f"cache_dir={folder}", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS.parent)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_slow_tests_and_most_tests_on_postgres_are_left_out(tmp_path: Path) -> None:
    remembered = tmp_path / "v" / DURATIONS
    remembered.parent.mkdir(parents=True)
    remembered.write_text(json.dumps({LONG: 5.0}))
    tests = chosen(tmp_path, "tests/pure/test_ids.py", "tests/stores/test_settle.py")
    sqlite, postgres = (sum(f"[{store}" in test for test in tests) for store in ("sqlite", "postgres"))
    assert (QUICK in tests, LONG in tests) == (True, False)
    assert 0 < 2 * postgres < sqlite


def test_folders_without_a_share_and_oracles_are_not_even_imported() -> None:
    assert not [folder for folder in SHARES if holds_only_slow(TESTS / folder)]
    assert holds_only_slow(TESTS / "crash")
    assert holds_only_slow(TESTS / "crash/test_kills.py")
    assert holds_only_slow(TESTS / "pure/test_cron_oracle.py")
    assert all((TESTS / folder).is_dir() for folder in SHARES)
