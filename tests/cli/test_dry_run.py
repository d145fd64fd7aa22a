"""``--dry-run``: what an act would do, and nothing of it."""

import json

from tests.cli.conftest import Shell

DAILY = ("--type", "report", "--cron", "0 9 * * *", "--timezone", "Europe/Brussels")
LATER = ("--type", "report", "--cron", "0 17 * * *", "--timezone", "Europe/Brussels")
ADA = ("--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10", "--timezone", "UTC")


def test_a_dry_run_shows_the_consequence_and_the_next_ten_on_all_clocks(lite: Shell) -> None:
    lite("schedules", "put", "daily", *DAILY)
    before = lite("schedules", "show", "daily", "--json").out
    tried = lite("schedules", "put", "daily", *LATER, "--dry-run", "--viewer", "Asia/Tokyo")
    assert tried.code == 0
    lines = tried.out.splitlines()
    assert lines[0] == "daily  (a dry run: nothing was done)"
    assert lines[1].startswith("The next event moves from ")
    assert " 09:00 Europe/Brussels to " in tried.out
    heading = next(number for number, line in enumerate(lines) if line.startswith("NEXT (UTC)"))
    assert lines[heading].split()[-2:] == ["Europe/Brussels", "Asia/Tokyo"]
    assert len(lines) == heading + 11
    assert all(" 17:00:00  " in line for line in lines[heading + 1 :])
    assert lite("schedules", "show", "daily", "--json").out == before


def test_every_act_on_a_schedule_can_be_tried(lite: Shell) -> None:
    lite("schedules", "put", "daily", *DAILY)
    before = lite("schedules", "show", "daily", "--json").out
    for act, told in (
        (("pause", "daily"), "It is paused"),
        (("resume", "daily"), "No event moves, and none is skipped."),
        (("skip", "daily", "--reason", "a holiday"), "1 occurrence is skipped"),
        (("reschedule", "daily", "+400h"), "occurrences are skipped"),
        (("delete", "daily"), "It is deleted, and 1 waiting event is cancelled."),
    ):
        tried = lite("schedules", *act, "--dry-run")
        assert (tried.code, told in " ".join(tried.out.split())) == (0, True), tried.out
        record = json.loads(lite("schedules", *act, "--dry-run", "--json").out)
        [one] = next(iter(record.values())) if len(record) == 1 else [record]
        assert told in one["consequence"]["message"]
    assert lite("schedules", "show", "daily", "--json").out == before


def test_acts_on_a_user_can_be_tried(lite: Shell) -> None:
    lite("users", "add", *ADA, "--key", "ada")
    before = lite("users", "show", "ada", "--json").out
    tried = lite("users", "update", "ada", "--timezone", "Asia/Tokyo", "--dry-run")
    assert tried.out.startswith("Ada Lovelace  (a dry run: nothing was done)")
    assert "The next event of type birthday moves from " in " ".join(tried.out.split())
    record = json.loads(lite("users", "delete", "ada", "--dry-run", "--json").out)
    assert record["consequence"]["cancelled"]["count"] == 1
    assert "It is deleted" in lite("users", "delete", "ada", "--dry-run").out
    assert lite("users", "show", "ada", "--json").out == before


def test_a_dry_run_makes_no_database_and_a_viewer_needs_one(lite: Shell) -> None:
    lite("schedules", "put", "daily", *DAILY)
    assert lite("schedules", "skip", "daily", "--viewer", "UTC").code == 2
    wrong = lite("schedules", "skip", "daily", "--dry-run", "--viewer", "Mars/Olympus")
    assert (wrong.code, "viewer" in wrong.err) == (2, True)
    missing = lite("schedules", "put", "x", *DAILY, "--dry-run", "--db", "sqlite:///no-such.db")
    assert missing.code != 0
    assert "no-such.db" in missing.err
