"""``duly schedules compare``: the runs of another scheduler beside those of its schedules, before anybody switches."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from apscheduler.triggers.cron import CronTrigger

from tests.cli.conftest import Shell
from tests.imports.jobs import pickled_job

TASKS = """
from celery import Celery
from celery.schedules import crontab

app = Celery("shop", broker="memory://")
app.conf.timezone = "Europe/Brussels"
app.conf.beat_schedule = {
    "nightly": {"task": "tasks.nightly", "schedule": crontab(hour=2, minute=30), "args": ["full"]},
    "hourly": {"task": "tasks.hourly", "schedule": crontab(minute=0)},
}
"""
ONLY_NIGHTLY = TASKS.replace('"hourly":', '"nightly":')


def job_store(folder: Path, **triggers: Any) -> str:
    """The URL of a job store with these jobs."""
    database = apsw.Connection(str(folder / "jobs.sqlite3"))
    database.execute(
        "CREATE TABLE apscheduler_jobs (id text PRIMARY KEY, next_run_time float, job_state blob NOT NULL)"
    )
    for id, trigger in triggers.items():
        state = pickled_job(id, trigger=trigger, next_run_time=datetime(2026, 1, 1, tzinfo=UTC))
        database.execute("INSERT INTO apscheduler_jobs VALUES (?, 0, ?)", (id, state))
    database.close()
    return f"sqlite:///{folder}/jobs.sqlite3"


def test_runs_that_differ_are_listed_with_their_local_times_and_the_reason(lite: Shell) -> None:
    lite.write("tasks.py", TASKS)
    done = lite("schedules", "compare", "--celery", "tasks:app")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("nightly cron 30 2 * * * in Europe/Brussels: 400 runs in both")
    assert lines[0].endswith("in both")
    assert lines[1].startswith("hourly cron 0 * * * * in Europe/Brussels: 9,")
    assert lines[1].endswith(" runs in both, 1 run in one alone")
    assert lines[2].endswith("  only in Duly: the clocks go back, and show 02:00 twice: this is the second time")
    assert lines[2].startswith("  20")
    assert " 02:00:00  20" in lines[2]
    assert lines[3].endswith(": 1 job with runs that differ")
    assert done.err == "not imported yet, and compared as they would be: nightly, hourly\n"


def test_equal_runs_exit_with_0(lite: Shell) -> None:
    lite.write("tasks.py", ONLY_NIGHTLY.replace("minute=0", "minute=30, hour=2"))
    done = lite("schedules", "compare", "--celery", "tasks:app")
    assert (done.code, done.out.splitlines()[-1][-21:]) == (0, "the same runs in both")


def test_a_job_that_cannot_be_compared_differs(lite: Shell) -> None:
    lite.write(
        "tasks.py",
        TASKS + 'app.conf.beat_schedule = {"both": {"task": "a", "schedule": 9, "args": [1], "kwargs": {"b": 2}}}\n',
    )
    done = lite("schedules", "compare", "--celery", "tasks:app")
    assert done.code == 1
    assert done.out.endswith("; 1 job cannot be compared\n")
    assert done.err.startswith("both: it has args and kwargs")


def test_a_stored_schedule_is_compared_as_it_is_now(lite: Shell) -> None:
    lite.write("tasks.py", ONLY_NIGHTLY.replace("minute=0", "minute=30, hour=2"))
    put = ("schedules", "put", "nightly", "--type", "tasks.nightly", "--timezone", "Europe/Brussels")
    assert lite(*put, "--cron", "30 2 * * *", "--gap", "shift", "--exclude", "12-25").code == 0
    told = lite("schedules", "compare", "--celery", "tasks:app", "--json").json
    [job] = told["jobs"]
    assert (job["imported"], told["same"]) == (True, False)
    assert {(one["local_at"][5:], one["only_in"], one["reason"]) for one in job["differences"]} == {
        ("12-25T02:30:00", "celery", "Duly excludes this day")
    }


def test_of_frequent_jobs_the_beginning_and_the_changes_of_clocks_are_compared(lite: Shell) -> None:
    lite.write("tasks.py", ONLY_NIGHTLY.replace("crontab(minute=0)", "crontab()"))
    done = lite("schedules", "compare", "--celery", "tasks:app", "--json")
    [job] = done.json["jobs"]
    assert (done.code, job["whole"], len(job["differences"])) == (1, False, 60)
    assert 20_000 < job["in_both"] < 45_000
    assert len(job["compared"]) in (2, 3)
    told = lite("schedules", "compare", "--celery", "tasks:app", "--limit", "2")
    assert "  and 58 more: --limit shows them\n" in told.out
    assert told.err.startswith("of nightly, with more than 20,000 runs, the first days and those around changes of ")


def test_a_job_of_which_not_all_runs_were_compared_is_named_also_where_no_clocks_change(lite: Shell) -> None:
    lite.write("tasks.py", ONLY_NIGHTLY.replace('"Europe/Brussels"', '"UTC"').replace("crontab(minute=0)", "crontab()"))
    done = lite("schedules", "compare", "--celery", "tasks:app")
    assert done.code == 0
    assert "nightly cron * * * * *: 18,720 runs in both\n" in done.out
    assert done.err.startswith(
        "of nightly, with more than 20,000 runs, the first days and those around changes of clocks were compared"
    )


def test_a_comparison_that_ends_because_nearly_all_runs_differ_says_so(lite: Shell) -> None:
    lite.write("tasks.py", ONLY_NIGHTLY.replace("minute=0", "minute='*/10'"))
    put = ("schedules", "put", "nightly", "--type", "tasks.nightly", "--cron", "5/10 * * * *")
    assert lite(*put).code == 0
    done = lite("schedules", "compare", "--celery", "tasks:app", "--days", "120", "--limit", "0")
    assert done.code == 1
    assert ": 0 runs in both, 10,000 runs in one alone\n" in done.out
    assert done.err == "of nightly, no more runs were compared after 10,000 that differ\n"


def test_what_apscheduler_does_when_clocks_change_is_listed(lite: Shell) -> None:
    url = job_store(lite.folder, early=CronTrigger(hour="1-2", minute=30, timezone="Europe/Brussels"))
    told = lite("schedules", "compare", "--apscheduler", url, "--json").json
    [job] = told["jobs"]
    found = [(one["local_at"][11:16], one["only_in"], one["reason"]) for one in job["differences"]]
    twice = "the clocks go back, and show 02:30 twice: this is the second time"
    assert ("02:30", "apscheduler", f"{twice}, and it is found again without end") in found
    assert {only_in for _, only_in, reason in found if "clocks go forward" in reason} == {"Duly"}


def test_celery_must_be_installed_to_be_asked(lite: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apscheduler.triggers.combining", None)
    url = job_store(lite.folder, early=CronTrigger(hour=9, timezone="UTC"))
    done = lite("schedules", "compare", "--apscheduler", url)
    assert done.code == 2
    assert "comparing asks APScheduler itself: run it where APScheduler 3 is installed" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "the scheduler is missing: give --celery MODULE:APP, --django-celery-beat URL or --apscheduler URL"),
        (
            ("--celery", "tasks:app", "--apscheduler", "sqlite:///a"),
            "--celery and --apscheduler cannot be used together",
        ),
        (("--celery", "tasks:app", "--table", "a"), "--table goes with --apscheduler"),
        (("--celery", "tasks:app", "--days", "0"), "--days must be 1 to 3,660"),
        (("--celery", "nothing:app"), "there is no module 'nothing'"),
        (("--celery", "tasks.py"), "write the name of the module instead, such as --celery tasks:app"),
        (("--celery", "tasks:nothing"), "--celery: tasks has no 'nothing'"),
        (("--celery", "tasks:crontab"), "is of type type, not a Celery application"),
        (("--celery", "broken:app"), "--celery cannot import broken: ZeroDivisionError"),
        (("--apscheduler", "mysql://ada:secret@host/shop"), "expected sqlite:///file.db or postgresql://"),
        (("--apscheduler", "sqlite:///none.sqlite3"), "there is no database file none.sqlite3"),
        (("--apscheduler", "sqlite:///duly.db", "--table", "a b"), "'a b' is not the name of a table"),
        (("--apscheduler", "sqlite:///duly.db"), "no table apscheduler_jobs: is it the database of APScheduler?"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(lite: Shell, words: tuple[str, ...], told: str) -> None:
    lite.write("tasks.py", TASKS)
    lite.write("broken.py", "1 / 0\n")
    done = lite("schedules", "compare", *words)
    assert done.code in (1, 2)
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert "secret" not in done.err
