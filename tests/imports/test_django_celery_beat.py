"""The tables of django-celery-beat, made by its own migrations and filled by its own models, on both databases."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.decide.series.preview import table_of
from duly.errors import Misuse, NotFound, StoreUnavailable
from duly.imports.celery.runs import runs_of_task
from duly.imports.celery.tables import found_in, read_tables
from duly.imports.comparison import compare
from duly.imports.found import Found, FoundJob
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.policies import FIELDS as POLICIES

PROJECT = Path(__file__).parent / "django_project.py"
START = datetime(2030, 1, 1, tzinfo=UTC)


def project(url: str, *asked: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(PROJECT), url, *asked], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["sqlite", "postgres"])
def django_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/django.sqlite3"
    if request.param == "postgres":
        url = str(request.getfixturevalue("new_postgres")())
    project(url)
    return url


def job(found: Found, name: str) -> FoundJob:
    return next(one for one in found.jobs if one.name == name)


async def test_the_tasks_of_django_celery_beat_are_read(django_url: str) -> None:
    found = await read_tables(django_url)
    nightly = job(found, "nightly")
    assert nightly.schedule == {
        "type": "shop.nightly",
        "target": {"celery": {"task": "shop.nightly", "queue": "mails"}},
        "payload": ["full"],
        "rule": {"cron": "30 2 * * *"},
        "timezone": "Europe/Brussels",
        "dst": {"gap": "shift"},
    }
    assert nightly.notes == (
        "priority 5: Duly sends without a priority",
        "headers {'a': 'b'}: Duly sends its own headers alone",
    )
    assert {one.name: one.reason for one in found.refused} == {
        "bad args": "its args are not valid JSON: Input data was truncated",
        "both": "it has args and kwargs, and a payload becomes one of them: write all its arguments as kwargs, there "
        "or by `duly schedules put`",
        "exchange": "its option exchange 'news' cannot be carried over: Duly sends to queues alone",
        "once and done": "it is a one-off task and has run",
        "sunrise": "it follows the sun (sunrise), and Duly has no solar rules",
    }
    assert {one.name: one.schedule["rule"] for one in found.jobs if one.name != "nightly"} == {
        "bounded": {"cron": "30 2 * * *"},
        "clocked": {"at": "2031-05-01T09:00:00Z"},
        "friday the 13th": {"rrule": "FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR;BYHOUR=2;BYMINUTE=30;BYSECOND=0"},
        "interval": {"every": "6h", "start": "2026-01-01T05:00:00Z"},
        "interval from": {"every": "6h", "start": "2031-01-01T00:00:00Z"},
        "new interval": {"every": "6h"},
        "off": {"cron": "30 2 * * *"},
        "once": {"rrule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=30;BYSECOND=0;COUNT=1"},
        "once later": {
            "rrule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=30;BYSECOND=0;COUNT=1",
            "start": "2031-03-01T12:59:59",
        },
        "perishable": {"cron": "30 2 * * *"},
        "wrapped": {"cron": "30 2 * * 0,1,5,6"},
    }
    bounded = job(found, "bounded").schedule
    assert (bounded["start"], bounded["end"]) == ("2030-01-01T00:00:00Z", "2031-01-02T01:29:59.999999Z")
    assert job(found, "perishable").schedule["expires"] == "2m"
    assert [one.name for one in found.jobs if one.schedule.get("enabled") is False] == ["off"]
    assert len(found.remarks) == 1


async def test_their_runs_are_those_of_their_own_scheduler_over_both_changes_of_clocks(django_url: str) -> None:
    found = await read_tables(django_url)
    asked = ["nightly", "friday the 13th", "wrapped"]
    theirs = project(django_url, *asked)
    for name in asked:
        runs, at = runs_of_task(job(found, name).old), START
        for expected in theirs[name]:
            at = runs(at) or START
            assert at.isoformat() == expected, name
        assert theirs[name]


async def test_their_schedules_fire_as_they_run(django_url: str) -> None:
    found = await read_tables(django_url)
    for name in ("nightly", "friday the 13th", "wrapped", "interval", "new interval", "bounded", "clocked"):
        fires_as_it_runs(job(found, name), name)


def fires_as_it_runs(one: FoundJob, name: str) -> None:
    fields = read_schedule(one.schedule, name=name)
    policies = {field: fields[field] for field in POLICIES if field in fields}
    table = table_of(fields["rule"], fields.get("timezone"), policies, START)
    found = compare(table, runs_of_task(one.old), START, START + timedelta(days=800), "celery")
    assert found.differences == []
    assert found.same


async def test_a_one_off_task_fires_once_at_the_next_time_of_its_crontab(django_url: str) -> None:
    found = await read_tables(django_url)
    for name, expected in (("once", "2030-01-01T08:30:00+00:00"), ("once later", "2031-03-02T08:30:00+00:00")):
        one = job(found, name)
        fields = read_schedule(one.schedule, name=name)
        policies = {field: fields[field] for field in POLICIES if field in fields}
        table = table_of(fields["rule"], fields["timezone"], policies, START)
        only = table.after(START)
        assert only is not None
        assert (only.at.isoformat(), table.after(only.at)) == (expected, None)
        same = compare(table, runs_of_task(one.old), START, START + timedelta(days=800), "celery")
        assert (same.same, same.differences) == (1, [])


async def test_a_database_without_the_tables_is_named(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "empty.sqlite3").touch()
    for url in (f"sqlite:///{tmp_path}/empty.sqlite3", postgres_url):
        with pytest.raises(NotFound, match="no table django_celery_beat_periodictask: is it the database of django-"):
            await read_tables(url)


async def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no database file"):
        await read_tables(f"sqlite:///{tmp_path}/none.sqlite3")
    assert not (tmp_path / "none.sqlite3").exists()
    with pytest.raises(StoreUnavailable, match=r"cannot connect to postgresql://ada:\*\*\*@127.0.0.1:1/shop"):
        await read_tables("postgresql://ada:secret@127.0.0.1:1/shop")
    with pytest.raises(Misuse, match=r"mysql://ada:\*\*\*@host/shop' cannot be read: expected sqlite"):
        await read_tables("mysql://ada:secret@host/shop")
    (tmp_path / "text.sqlite3").write_text("no database at all, but some text of more than a hundred bytes" * 5)
    with pytest.raises(Misuse, match="the tables of django-celery-beat cannot be read"):
        await read_tables(f"sqlite:///{tmp_path}/text.sqlite3")


ROW = {
    "name": "one",
    "task": "shop.one",
    "args": "[]",
    "kwargs": "{}",
    "crontab_id": None,
    "interval_id": 1,
    "one_off": 0,
    "enabled": 1,
}
EVERY_FIVE = {"id": 1, "every": 5, "period": "minutes"}


@pytest.mark.parametrize(
    ("task", "times"),
    [
        ({"args": 5}, {}),
        ({"kwargs": "[1]"}, {}),
        ({"interval_id": 2}, {}),
        ({"interval_id": None}, {}),
        ({"start_time": "soon"}, {}),
        ({"expires": "0001-01-01 00:00:00"}, {}),
        ({"last_run_at": "9999-12-31 23:59:59", "one_off": 1}, {}),
        ({"expire_seconds": "many"}, {}),
        ({}, {"every": None}),
        ({}, {"every": "five"}),
        ({}, {"period": "weeks"}),
    ],
)
def test_a_row_that_somebody_has_broken_is_refused_and_harms_no_other(
    task: dict[str, Any], times: dict[str, Any]
) -> None:
    good = {"id": 3, **{name: value for name, value in EVERY_FIVE.items() if name != "id"}}
    found = found_in([ROW | task, ROW | {"name": "good", "interval_id": 3}], [], [EVERY_FIVE | times, good], [], [])
    assert [one.name for one in found.refused] == ["one"]
    assert [one.name for one in found.jobs] == ["good"]


def test_tables_of_an_older_version_with_a_column_less_are_refused_row_by_row() -> None:
    old = {name: value for name, value in ROW.items() if name != "one_off"}
    assert [one.reason for one in found_in([old], [], [EVERY_FIVE], [], []).refused] == [
        "its row cannot be read: 'one_off'"
    ]
