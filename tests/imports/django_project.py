"""A Django project with django-celery-beat: its own migrations make the tables, and its own models write the rows.

Run in a process of its own, because a process has one Django. Prints, as JSON, when its scheduler would run each task.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command


def database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path.removeprefix("/")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "PASSWORD": parts.password or "",
    }


def write_tasks() -> None:
    from django_celery_beat.models import (
        ClockedSchedule,
        CrontabSchedule,
        IntervalSchedule,
        PeriodicTask,
        SolarSchedule,
    )

    def crontab(**fields: Any) -> CrontabSchedule:
        return CrontabSchedule.objects.create(**{"minute": "30", "hour": "2", "timezone": "Europe/Brussels", **fields})

    nightly, hourly = crontab(), IntervalSchedule.objects.create(every=6, period="hours")
    later = ClockedSchedule.objects.create(clocked_time=datetime(2031, 5, 1, 9, tzinfo=UTC))
    sunrise = SolarSchedule.objects.create(event="sunrise", latitude=50, longitude=4)

    def task(name: str, **fields: Any) -> None:
        PeriodicTask.objects.create(
            **{"name": name, "task": f"shop.{name.replace(' ', '_')}", "crontab": nightly, **fields}
        )

    task("nightly", args='["full"]', queue="mails", priority=5, headers='{"a": "b"}')
    task("friday the 13th", crontab=crontab(day_of_month="13", day_of_week="fri"), kwargs='{"unlucky": true}')
    task("wrapped", crontab=crontab(day_of_week="fri-mon", timezone="America/New_York"))
    task("once", crontab=crontab(hour="9"), one_off=True)
    task("once later", crontab=crontab(hour="9"), one_off=True, start_time=datetime(2031, 3, 1, 12, tzinfo=UTC))
    task("once and done", one_off=True, total_run_count=1)
    task("clocked", crontab=None, clocked=later, one_off=True)
    task("interval", crontab=None, interval=hourly, last_run_at=datetime(2026, 1, 1, 5, 0, 0, 1234, tzinfo=UTC))
    task("new interval", crontab=None, interval=hourly)
    task("interval from", crontab=None, interval=hourly, start_time=datetime(2031, 1, 1, tzinfo=UTC))
    task("bounded", start_time=datetime(2030, 1, 1, tzinfo=UTC), expires=datetime(2031, 1, 2, 1, 30, tzinfo=UTC))
    task("perishable", expire_seconds=120)
    task("off", enabled=False)
    task("sunrise", crontab=None, solar=sunrise)
    task("exchange", exchange="news", routing_key="a.b")
    task("both", args="[1]", kwargs='{"b": 2}')
    task("bad args", args="[1")


def runs(name: str, start: datetime, days: int) -> list[str]:
    """The runs of a task by the scheduler's own entry, which is asked in the moment of each run."""
    from celery import Celery
    from django_celery_beat.models import PeriodicTask
    from django_celery_beat.schedulers import ModelEntry

    entry = ModelEntry(PeriodicTask.objects.get(name=name), app=Celery("test"))
    zone = entry.schedule.tz
    found: list[str] = []
    last = start
    while True:
        local = last.astimezone(zone)
        entry.schedule.nowfun = lambda at=local: at
        last = (last + entry.schedule.remaining_estimate(local)).astimezone(UTC)
        if last > start + timedelta(days=days):
            return found
        found.append(last.isoformat())


def main(url: str, asked: list[str]) -> None:
    settings.configure(
        DATABASES={"default": database(url)},
        INSTALLED_APPS=["django_celery_beat"],
        USE_TZ=True,
        TIME_ZONE="UTC",
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    django.setup()
    if not asked:
        call_command("migrate", verbosity=0)
        write_tasks()
    print(json.dumps({name: runs(name, datetime(2030, 1, 1, tzinfo=UTC), 400) for name in asked}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
