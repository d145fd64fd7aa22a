"""``duly schedules import`` of Celery beat, django-celery-beat and APScheduler."""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest
from apscheduler.triggers.cron import CronTrigger
from redis import Redis

from tests.brokers import RedisServer
from tests.cli.conftest import Shell
from tests.cli.test_compare import job_store
from tests.imports.jobs import pickled_job
from tests.imports.test_django_celery_beat import project

TASKS = """
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, schedule

app = Celery("shop", broker="memory://")
app.conf.timezone = "Europe/Brussels"
app.conf.task_routes = {"tasks.mail": "mails"}


@app.task(shared=False)
def nightly(how): ...


class Lunar(schedule): ...


app.conf.beat_schedule = {
    "nightly": {
        "task": "tasks.nightly",
        "schedule": crontab(hour=2, minute=30),
        "args": ("full",),
        "options": {"priority": 3},
    },
    "mail": {
        "task": "tasks.mail",
        "schedule": timedelta(minutes=10),
        "kwargs": {"to": [1, 2]},
        "options": {"expires": 60},
    },
    "rounded": {"task": "tasks.rounded", "schedule": 3600, "relative": True},
    "both": {"task": "tasks.both", "schedule": 30, "args": [1], "kwargs": {"a": 2}},
    "late": {"task": "tasks.late", "schedule": 30, "options": {"countdown": 5}},
    "date": {"task": "tasks.date", "schedule": 30, "args": [timedelta(1)]},
    "lunar": {"task": "tasks.lunar", "schedule": Lunar(30)},
    "quick": {"task": "tasks.quick", "schedule": 0.1},
    "odd": {"task": "tasks.odd", "schedule": 5400, "relative": True},
    "clock": {"task": "tasks.clock", "schedule": crontab(nowfun=lambda: None)},
    "none": {"task": "tasks.none", "schedule": None},
}


@app.on_after_finalize.connect
def add(sender, **more):
    sender.add_periodic_task(crontab(day_of_month=13, day_of_week="fri"), nightly.s("unlucky"), name="friday")
"""
IMPORT = ("schedules", "import", "--celery", "tasks:app")


@pytest.fixture
def shop(on: Shell) -> Shell:
    on.write("tasks.py", TASKS)
    return on


def stored(shell: Shell) -> dict[str, Any]:
    return {one["name"]: one for one in shell("schedules", "list", "--json").json["schedules"]}


def test_a_beat_schedule_becomes_schedules_that_send_its_tasks(shop: Shell) -> None:
    done = shop(*IMPORT)
    assert done.code == 1  # some could not be imported
    found = stored(shop)
    assert sorted(found) == ["friday", "mail", "nightly", "rounded"]
    nightly, mail = found["nightly"], found["mail"]
    assert (nightly["rule"], nightly["timezone"]) == ({"cron": "30 2 * * *"}, "Europe/Brussels")
    assert (nightly["type"], nightly["target"], nightly["payload"]) == (
        "tasks.nightly",
        {"celery": "tasks.nightly"},
        ["full"],
    )
    assert nightly["dst"] == {"gap": "shift", "overlap": "first"}
    assert (mail["target"], mail["payload"]) == ({"celery": {"task": "tasks.mail", "queue": "mails"}}, {"to": [1, 2]})
    assert (mail["rule"]["every"], mail["expires"]) == ("10m", "1m")
    assert found["rounded"]["rule"] == {"cron": "0 * * * *"}
    assert found["friday"]["rule"]["rrule"].startswith("FREQ=MINUTELY;BYMONTHDAY=13;BYDAY=FR")
    assert {one["mode"] for one in found.values()} == {"shadow"}
    assert {one["imported_from"] for one in found.values()} == {"celery tasks:app"}


def test_what_does_not_carry_over_is_told_by_name(shop: Shell) -> None:
    told = shop(*IMPORT).err.splitlines()
    expected = {
        "nightly: priority 3: Duly sends without a priority",
        "mail: its interval counts from the import; beat counts from its own last run",
        "mail: expires 1m: Duly sends no task later than that, but a task that is sent does not expire",
        "late: not imported: its option countdown 5 cannot be carried over: Duly has no delay beside the schedule",
        "date: not imported: args[0] is of type timedelta, which JSON cannot hold",
        "lunar: not imported: its schedule is a tasks.Lunar, and only its own code knows when it runs",
        "odd: not imported: its interval 1:30:00 is rounded to the clock (relative): write it as a crontab",
        "clock: not imported: its crontab has a clock of its own, nowfun, which no rule in Duly has",
        "none: not imported: it has no schedule",
        "8 jobs could not be imported",
    }
    assert expected - set(told) == set()
    assert any(line.startswith("quick: not imported: rule.every: 0:00:00.100000 is too short") for line in told)
    assert any(line.startswith("both: not imported: it has args and kwargs") for line in told)


def test_importing_again_changes_nothing_and_keeps_what_an_operator_changed(shop: Shell) -> None:
    shop(*IMPORT)
    assert shop("schedules", "pause", "nightly").code == 0
    again = shop(*IMPORT, "--json").json
    assert {one["change"] for one in again["schedules"]} == {"unchanged"}
    assert stored(shop)["nightly"]["enabled"] is False
    live = shop(*IMPORT, "--mode", "live", "--json").json
    assert {one["change"] for one in live["schedules"]} == {"changed"}
    assert {one["mode"] for one in stored(shop).values()} == {"live"}
    assert {one["change"] for one in shop(*IMPORT, "--json").json["schedules"]} == {"unchanged"}


def test_an_application_is_the_same_source_with_and_without_the_name_of_its_object(shop: Shell) -> None:
    without = (*IMPORT[:-1], "tasks")
    shop(*IMPORT)
    again = shop(*without, "--json").json
    assert again["source"] == "celery tasks:app"
    assert {one["change"] for one in again["schedules"]} == {"unchanged"}
    assert not [one for one in again["refused"] if "already exists" in one["reason"]]


def test_a_dry_run_tells_and_changes_nothing(shell: Shell) -> None:
    shell.set(DULY_DATABASE_URL="sqlite:///duly.db")
    shell.write("tasks.py", TASKS)
    done = shell(*IMPORT, "--dry-run")
    assert "4 created (a dry run: nothing was done)" in done.out
    assert not (shell.folder / "duly.db").exists()


def test_prune_deletes_the_schedules_of_jobs_that_are_gone_and_of_no_others(shop: Shell) -> None:
    shop(*IMPORT)
    shop("schedules", "put", "own", "--type", "own", "--every", "1h")
    shop.write("tasks.py", TASKS.replace('"mail": {', '"post": {').replace('("full",)', "(timedelta(1),)"))
    del sys.modules["tasks"]
    told = shop(*IMPORT)
    assert "1 schedule is not in the other scheduler any more, and goes on: mail; add --prune to delete it" in told.err
    pruned = shop(*IMPORT, "--prune", "--json").json
    assert pruned["gone"] == [{"name": "mail", "deleted": True, "reason": None}]
    assert sorted(stored(shop)) == ["friday", "nightly", "own", "post", "rounded"]


def test_a_schedule_of_that_name_from_elsewhere_is_not_overwritten(shop: Shell) -> None:
    shop("schedules", "put", "nightly", "--type", "own", "--every", "1h")
    done = shop(*IMPORT)
    assert (
        "nightly: not imported: a schedule 'nightly' that was not imported already exists: give a --prefix" in done.err
    )
    assert stored(shop)["nightly"]["type"] == "own"
    assert shop(*IMPORT, "--prefix", "beat.").out.endswith("4 created\n")
    assert "beat.nightly" in stored(shop)
    compared = shop("schedules", "compare", "--celery", "tasks:app", "--prefix", "beat.", "--json").json
    assert all(job["imported"] for job in compared["jobs"] if job["name"] != "quick")


def test_the_jobs_of_apscheduler_become_schedules_for_handlers_of_their_functions(on: Shell) -> None:
    url = job_store(on.folder, report=CronTrigger(hour=9, timezone="Europe/Brussels"))
    done = on("schedules", "import", "--apscheduler", url)
    assert done.code == 0, done.err
    one = stored(on)["report"]
    assert (one["type"], one["payload"]) == ("shop.jobs:report", {"args": [1], "kwargs": {}})
    assert (one["misfire"]["policy"], one["misfire"]["tolerance"], one["overlap"]) == ("skip", "1s", "skip")
    assert (one["retry"]["max_attempts"], one["mode"]) == (1, "shadow")
    on("schedules", "import", "--apscheduler", url, "--max-attempts", "4", "--misfire", "latest", "--mode", "live")
    one = stored(on)["report"]
    assert (one["retry"]["max_attempts"], one["mode"], one["misfire"]["policy"]) == (4, "live", "latest")
    on("schedules", "import", "--apscheduler", url)
    assert stored(on)["report"]["retry"]["max_attempts"] == 4


def test_a_job_store_of_the_same_relative_name_in_another_folder_is_another_source(
    lite: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_DATABASE_URL", f"sqlite:///{lite.folder}/duly.db")
    relative = ("schedules", "import", "--apscheduler", "sqlite:///jobs.sqlite3")
    for job in ("report", "backup"):
        (folder := lite.folder / job).mkdir()
        job_store(folder, **{job: CronTrigger(hour=9, timezone="Europe/Brussels")})
        monkeypatch.chdir(folder)
        assert lite(*relative, "--prune").code == 0
    assert sorted(stored(lite)) == ["backup", "report"], "the second import has pruned nothing of the first"
    assert (
        lite(*relative[:-1], f"sqlite:///{folder}/jobs.sqlite3", "--json").json["schedules"][0]["change"] == "unchanged"
    )


APP_OF_THE_JOBS = """
from pathlib import Path

from duly import Duly, Event

duly = Duly()


def report(number):
    Path("told").write_text(f"report {number}")


@duly.on("shop.jobs:report")
def run(event: Event) -> None:
    report(*event.payload["args"], **event.payload["kwargs"])
"""


def test_a_handler_for_the_function_runs_the_job(on: Shell) -> None:
    on.write("jobs.py", APP_OF_THE_JOBS)
    url = job_store(on.folder, report=CronTrigger(hour=9, timezone="Europe/Brussels"))
    assert on("schedules", "import", "--apscheduler", url, "--mode", "live").code == 0
    assert on("schedules", "trigger", "report").code == 0
    assert on("tick", "--app", "jobs:duly").code == 0
    assert on.told() == ["report 1"]


def test_a_malicious_job_harms_neither_the_others_nor_this_process(lite: Shell) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return open, (str(lite.folder / "done"), "w")

    url = job_store(lite.folder, report=CronTrigger(hour=9, timezone="UTC"))
    database = apsw.Connection(str(lite.folder / "jobs.sqlite3"))
    state = pickled_job("evil", trigger=Evil(), next_run_time=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(1))
    database.execute("INSERT INTO apscheduler_jobs VALUES ('evil', 0, ?)", (state,))
    database.close()
    done = lite("schedules", "import", "--apscheduler", url)
    assert done.code == 1
    assert "evil: not imported: its trigger io.open is made with arguments" in done.err
    assert list(stored(lite)) == ["report"]
    assert not (lite.folder / "done").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give the FILE of a crontab, or --celery MODULE:APP, --django-celery-beat URL or --apscheduler URL"),
        (("crontab", "--celery", "tasks:app"), "--celery cannot be used together with a crontab file"),
        (("--celery", "tasks:app", "--system"), "--celery cannot be used together with --system"),
        (("--celery", "tasks:app", "--type", "a"), "--celery cannot be used together with --type"),
        (("--celery", "tasks:app", "--mode", "dark"), "mode: must be one of live, shadow"),
    ],
)
def test_options_that_do_not_go_together_are_refused(lite: Shell, words: tuple[str, ...], told: str) -> None:
    lite.write("tasks.py", TASKS)
    done = lite("schedules", "import", *words)
    assert (done.code, told in done.err) == (2, True), done.err


def test_the_tasks_of_django_celery_beat_are_imported_and_compared(lite: Shell) -> None:
    url = f"sqlite:///{lite.folder}/django.sqlite3"
    project(url)
    done = lite("schedules", "import", "--django-celery-beat", url)
    assert done.code == 1
    assert "sunrise: not imported: it follows the sun (sunrise), and Duly has no solar rules" in done.err
    assert "tasks without a queue go to 'celery'" in done.err
    assert stored(lite)["off"]["enabled"] is False
    assert {
        one["change"] for one in lite("schedules", "import", "--django-celery-beat", url, "--json").json["schedules"]
    } == {"unchanged"}
    compared = lite("schedules", "compare", "--django-celery-beat", url, "--days", "2000", "--json").json
    assert {job["name"]: (job["imported"], job["differences"]) for job in compared["jobs"]} == {
        name: (True, []) for name in stored(lite)
    }
    assert len(compared["refused"]) == 5


def test_a_live_import_warns_that_no_worker_sends_tasks(shop: Shell) -> None:
    warning = "warning: no worker sends tasks to Celery yet: they wait until one runs with DULY_CELERY_URL\n"
    assert warning not in shop(*IMPORT).err, "in shadow, nothing is sent"
    assert warning not in shop(*IMPORT, "--mode", "live", "--dry-run").err
    assert warning in shop(*IMPORT, "--mode", "live").err
    with RedisServer() as broker:
        shop.set(DULY_CELERY_URL=broker.url)
        shop("schedules", "trigger", "nightly")
        assert shop("tick").code == 0
    assert warning not in shop(*IMPORT).err, "one has sent them"


def test_an_imported_task_reaches_the_queue_that_the_application_sends_it_to(lite: Shell) -> None:
    lite.write("tasks.py", TASKS)
    with RedisServer() as broker:
        lite.set(DULY_CELERY_URL=broker.url)
        lite(*IMPORT, "--mode", "live")
        for name in ("mail", "nightly"):
            assert lite("schedules", "trigger", name).code == 0
        assert lite("tick").code == 0
        with Redis.from_url(broker.url) as redis:
            [mail], [nightly] = redis.lrange("mails", 0, -1), redis.lrange("celery", 0, -1)
    for message, task, args in ((mail, "tasks.mail", [[], {"to": [1, 2]}]), (nightly, "tasks.nightly", [["full"], {}])):
        written = json.loads(message)
        assert written["headers"]["task"] == task
        assert json.loads(base64.b64decode(written["body"]))[:2] == args
