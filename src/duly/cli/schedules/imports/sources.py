"""Options that name another scheduler, whose jobs are imported or compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from duly.cli.apps import import_attribute
from duly.errors import Misuse
from duly.imports.apscheduler.job_store import TABLE, read_job_store
from duly.imports.apscheduler.runs import runs_of_job
from duly.imports.celery.application import read_application, ready
from duly.imports.celery.runs import runs_of_schedule, runs_of_task
from duly.imports.celery.tables import read_tables
from duly.imports.databases import place_of
from duly.imports.found import Found, NextRun


class Scheduler(NamedTuple):
    """Another scheduler and what was found there."""

    kind: str  # such as celery
    place: str  # such as shop.tasks:app, or the URL of a database without its login
    found: Found
    runs: Callable[[Any], NextRun]  # of a found job's `old`
    same: str | None = None  # another text for the same place, such as shop.tasks


USUAL_APP = "app"
"""The name of a Celery application in its module, where none is given."""

WHICH = "--celery MODULE:APP, --django-celery-beat URL or --apscheduler URL"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    """Options that name another scheduler."""

    celery: Annotated[
        str | None, Parameter(help="Celery application whose beat_schedule is read, such as shop.tasks:app",
                              metavar="MODULE:APP")
    ] = None  # fmt: skip
    django_celery_beat: Annotated[
        str | None, Parameter(help="Database with the tables of django-celery-beat", metavar="URL")
    ] = None
    apscheduler: Annotated[
        str | None, Parameter(help="Database with the SQLAlchemy job store of APScheduler 3", metavar="URL")
    ] = None
    table: Annotated[
        str | None, Parameter(help=f"With --apscheduler: table of the job store (default: {TABLE})", metavar="NAME")
    ] = None

    @property
    def given(self) -> list[str]:
        """The options that are given; one may be."""
        names = ("celery", "django_celery_beat", "apscheduler")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]

    async def read(self) -> Scheduler:
        """The jobs of the scheduler that is named."""
        if len(self.given) != 1:
            told = f"{' and '.join(self.given)} cannot be used together" if self.given else "the scheduler is missing"
            raise Misuse(f"{told}: give {WHICH}")
        if self.table is not None and self.apscheduler is None:
            raise Misuse("--table goes with --apscheduler")
        if self.celery is not None:
            app = import_attribute("--celery", self.celery, USUAL_APP)
            _check_application(self.celery, app)
            ready(app)
            module, _, name = self.celery.partition(":")
            name = name or USUAL_APP
            same = module if name == USUAL_APP else None
            return Scheduler("celery", f"{module}:{name}", read_application(app), runs_of_schedule, same)
        if self.django_celery_beat is not None:
            found = await read_tables(self.django_celery_beat)
            return Scheduler("django-celery-beat", place_of(self.django_celery_beat), found, runs_of_task)
        assert self.apscheduler is not None
        table = self.table or TABLE
        found = await read_job_store(self.apscheduler, table)
        place = place_of(self.apscheduler) + ("" if table == TABLE else f" table {table}")
        return Scheduler("apscheduler", place, found, runs_of_job)


NOTHING_NAMED = SchedulerOptions()


def _check_application(written: str, app: Any) -> None:
    if not all(hasattr(app, name) for name in ("conf", "loader", "finalize", "timezone")):
        raise Misuse(f"--celery {written!r} is of type {type(app).__name__}, not a Celery application")
