"""The jobs of APScheduler 3's SQLAlchemy job store. Neither APScheduler nor the jobs' own code is imported."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duly.errors import Misuse
from duly.imports.apscheduler.pickles import MOST_BYTES, BadPickle, read_pickle
from duly.imports.apscheduler.rules import times_of
from duly.imports.apscheduler.triggers import Trigger, read_trigger
from duly.imports.apscheduler.values import moment, told
from duly.imports.databases import Query, read_rows
from duly.imports.found import Found, FoundJob, RefusedJob, Unfit, mapping, sequence
from duly.rules.policies import LONGEST_TOLERANCE, MOST_CONCURRENT, MOST_MISSED
from duly.values.durations import format_duration

TABLE = "apscheduler_jobs"
"""The table that APScheduler makes, unless it is told another name."""

USUAL_GRACE = timedelta(seconds=1)

MOST_NAMED = 5
"""Jobs that a remark names."""

_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)
_REFERENCE = re.compile(r"[\w.]+:[\w.]+")


class Job(NamedTuple):
    """A job as it is stored, checked."""

    id: str
    function: str
    trigger: Trigger
    args: list[Any]
    kwargs: dict[str, Any]
    executor: str
    grace: timedelta | None
    coalesce: bool
    max_instances: int
    next_run: datetime | None  # None while it is paused


def jobs_query(table: str) -> Query:
    """The rows of the job store; states that are too long to be read are left out."""
    if not _TABLE_NAME.fullmatch(table):
        raise Misuse(f"{table!r:.60} is not the name of a table")
    return Query(
        table,
        "SELECT id, length(job_state) AS size, "
        f"CASE WHEN length(job_state) <= {MOST_BYTES} THEN job_state END AS state FROM {table} ORDER BY id",
        "APScheduler",
    )


async def read_job_store(url: str, table: str = TABLE) -> Found:
    """The jobs of a database."""
    [rows] = await read_rows(url, [jobs_query(table)])
    return found_in(rows)


def found_in(rows: Sequence[Mapping[str, Any]]) -> Found:
    """The jobs of the rows of a job store. A job that cannot be read harms no other."""
    found = Found([], [])
    for row in rows:
        try:
            found.jobs.append(schedule_of(read_job(row)))
        except (Unfit, BadPickle) as error:
            found.refused.append(RefusedJob(str(row["id"]), str(error)))
    return found._replace(remarks=_remarks([job.old for job in found.jobs]))


def _remarks(jobs: list[Job]) -> tuple[str, ...]:
    """APScheduler gives a job a second of grace unless it is told otherwise, which few want."""
    strict = [job.id for job in jobs if job.grace is not None and job.grace <= USUAL_GRACE]
    if not strict:
        return ()
    many = "1 job skips" if len(strict) == 1 else f"{len(strict)} jobs skip"
    whose = "its" if len(strict) == 1 else "their"
    names = ", ".join(strict[:MOST_NAMED]) + (" and others" if len(strict) > MOST_NAMED else "")
    return (
        f"{many} runs that begin later than {whose} misfire_grace_time of a second: {names}; --misfire latest makes up "
        "for the last one",
    )


def read_job(row: Mapping[str, Any]) -> Job:
    if row["state"] is None and row["size"] is not None:
        raise Unfit(f"its state has {row['size']:,} bytes; at most {MOST_BYTES:,} are read")
    if not isinstance(row["state"], bytes):
        raise Unfit(f"its state is {told(row['state'])}, not binary")
    state = read_pickle(row["state"])
    if not isinstance(state, dict):
        raise Unfit(f"its state is {told(state)}, not the dictionary that APScheduler 3 writes")
    if state.get("version", 1) != 1:
        raise Unfit(f"its state has the version {told(state['version'])}; version 1, of APScheduler 3, is read")
    if (id := state.get("id")) != row["id"]:
        raise Unfit(f"its state is that of another job, {id!r:.60}")
    function = state.get("func")
    if not isinstance(function, str) or not _REFERENCE.fullmatch(function):
        raise Unfit(f"its function is {told(function)}, not a reference such as shop.jobs:report")
    return Job(
        id=str(id),
        function=function,
        args=sequence(state.get("args"), "args"),
        kwargs=mapping(state.get("kwargs"), "kwargs"),
        trigger=read_trigger(state.get("trigger")),
        executor=str(state.get("executor")),
        grace=_grace(state.get("misfire_grace_time")),
        coalesce=bool(state.get("coalesce")),
        max_instances=_whole("max_instances", state.get("max_instances"), MOST_CONCURRENT),
        next_run=moment(state.get("next_run_time"), "its next_run_time"),
    )


def _grace(value: Any) -> timedelta | None:
    return None if value is None else timedelta(seconds=_whole("misfire_grace_time", value, 10**9))


def _whole(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise Unfit(
            f"its {name} is {value if type(value) is int else told(value)}, not a whole number from 1 to {most:,}"
        )
    return value


def schedule_of(job: Job) -> FoundJob:
    """A job as a schedule whose events a handler for its function receives."""
    times, notes = times_of(job.trigger, job.next_run)
    payload = {"args": job.args, "kwargs": job.kwargs}
    more = {"max_concurrent": job.max_instances} if job.max_instances > 1 else {}
    schedule = {
        "type": job.function,
        "payload": payload,
        **times,
        **_misfire(job),
        "overlap": "skip",
        **more,
        "retry": {"max_attempts": 1},
        **({"enabled": False} if job.next_run is None else {}),
    }
    return FoundJob(job.id, schedule, (*notes, *_about(job)), job)


def _misfire(job: Job) -> dict[str, Any]:
    """The policy for runs that are found late: APScheduler drops those that are later than their grace time, and of
    several it runs one, if they coalesce."""
    if job.grace is None or job.grace > LONGEST_TOLERANCE:
        if job.coalesce:
            return {}
        return {"misfire": {"policy": "all", "limit": MOST_MISSED}}
    return {"misfire": {"policy": "skip", "tolerance": format_duration(job.grace)}}


def _about(job: Job) -> tuple[str, ...]:
    if job.executor == "default":
        return ()
    return (f"executor {job.executor!r:.40}: a worker of Duly runs async handlers itself and others in threads",)
