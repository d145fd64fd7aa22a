"""The job store of APScheduler 3, written by APScheduler itself on both databases."""

import pickle
import re
import sys
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from datetime import timezone as fixed_offset
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytz
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from duly.decide.series.preview import table_of
from duly.errors import Misuse, NotFound
from duly.imports.apscheduler.job_store import found_in, read_job, read_job_store, schedule_of
from duly.imports.apscheduler.runs import made, runs_of_job
from duly.imports.comparison import Compared, compare
from duly.imports.found import Found, FoundJob, Unfit
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.policies import FIELDS as POLICIES
from tests.imports.jobs import pickled_job, row

START = datetime(2030, 1, 31, 22, 17, tzinfo=UTC)
BRUSSELS = zoneinfo.ZoneInfo("Europe/Brussels")
WALL = START.replace(tzinfo=None)


def report(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a job was run")


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, as SQLAlchemy writes its URL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.sqlite3"
    return str(request.getfixturevalue("new_postgres")()).replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def scheduler(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A scheduler that stores jobs and runs none. Its function can be imported here, but not when it is read."""
    shop = ModuleType("shop_of_jobs")
    shop.report = report  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_of_jobs", shop)
    # Its thread looks into the store once more after the store has closed its pool.
    store = SQLAlchemyJobStore(engine=create_engine(store_url, poolclass=NullPool))
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="Europe/Brussels")
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown()


async def test_the_jobs_of_a_job_store_are_read(
    scheduler: Any, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(id: str, trigger: str, **more: Any) -> Any:
        return scheduler.add_job("shop_of_jobs:report", trigger, id=id, **more)

    add("nightly", "cron", hour=2, minute=30, args=["full"], kwargs={"dry": False})
    add("mondays", "cron", day_of_week="mon", hour=9, misfire_grace_time=None, coalesce=False, max_instances=3)
    add("month end", "cron", day="last", hour=18, jitter=120, executor="default")
    add("hourly", "interval", hours=1, start_date=datetime(2030, 1, 1, tzinfo=UTC), misfire_grace_time=600)
    add("once", "date", run_date="2031-05-01 09:00:00")
    add("paused", "cron", hour=4).pause()
    monkeypatch.delitem(sys.modules, "shop_of_jobs")
    found = await read_job_store(store_url)
    assert found.refused == []
    jobs = {one.name: one.schedule for one in found.jobs}
    assert jobs["nightly"] == {
        "type": "shop_of_jobs:report",
        "payload": {"args": ["full"], "kwargs": {"dry": False}},
        "rule": {"cron": "30 2 * * *"},
        "timezone": "Europe/Brussels",
        "dst": {"gap": "shift"},
        "misfire": {"policy": "skip", "tolerance": "1s"},
        "overlap": "skip",
        "retry": {"max_attempts": 1},
    }
    assert jobs["mondays"]["rule"] == {"cron": "0 9 * * 1"}
    assert jobs["mondays"]["misfire"] == {"policy": "all", "limit": 1000}
    assert (jobs["mondays"]["overlap"], jobs["mondays"]["max_concurrent"]) == ("skip", 3)
    assert (jobs["month end"]["rule"], jobs["month end"]["jitter"]) == ({"cron": "0 18 L * *"}, "2m")
    assert jobs["hourly"]["rule"] == {"every": "1h", "start": "2030-01-01T00:00:00Z"}
    assert jobs["hourly"]["misfire"] == {"policy": "skip", "tolerance": "10m"}
    assert jobs["once"]["rule"] == {"at": "2031-05-01T07:00:00Z"}
    assert [name for name, one in jobs.items() if one.get("enabled") is False] == ["paused"]
    for one in found.jobs:
        read_schedule(one.schedule, name=one.name)


async def test_a_job_store_may_have_another_table(store_url: str) -> None:
    store = SQLAlchemyJobStore(store_url, tablename="my_jobs")
    store.start(None, "default")
    store.engine.dispose()
    assert await read_job_store(store_url, "my_jobs") == Found([], [], ())
    with pytest.raises(NotFound, match="no table apscheduler_jobs: is it the database of APScheduler"):
        await read_job_store(store_url)
    with pytest.raises(Misuse, match="is not the name of a table"):
        await read_job_store(store_url, "my_jobs; DROP TABLE my_jobs")


# -- pickles of all protocols, and zones of all libraries


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "trigger",
    [
        CronTrigger(
            hour=9, timezone="Europe/Brussels", start_date="2030-01-01", end_date=datetime(2031, 1, 1, tzinfo=UTC)
        ),
        CronTrigger(day="1st mon,last,15-20/2", month="jan-mar", second="*/10", year="2030-2032", timezone="UTC"),
        IntervalTrigger(seconds=90, start_date="2030-01-01 00:00:00.5", timezone="America/New_York", jitter=3),
        DateTrigger(datetime(2031, 10, 26, 2, 30, fold=1, tzinfo=BRUSSELS)),
        OrTrigger([CronTrigger(hour=9, timezone="UTC"), CronTrigger(hour=17, timezone="UTC")]),
        AndTrigger([OrTrigger([CronTrigger(hour=9, timezone="UTC")])], jitter=5),
    ],
    ids=str,
)
def test_triggers_are_read_in_every_protocol(trigger: Any, protocol: int) -> None:
    job = read_job(row("one", pickled_job("one", protocol, trigger=trigger)))
    last = START
    for _ in range(50):
        theirs = plain(pickle.loads(pickle.dumps(trigger, protocol))).get_next_fire_time(None, last)
        ours = made(job.trigger).get_next_fire_time(None, last)
        if theirs is None or ours is None:
            assert ours is theirs
            break
        assert ours.astimezone(UTC) == theirs.astimezone(UTC)
        last = theirs.astimezone(UTC) + timedelta(microseconds=1)


def plain(trigger: Any) -> Any:
    """The trigger without its jitter, which is random."""
    for each in [trigger, *getattr(trigger, "triggers", [])]:
        if hasattr(each, "jitter"):
            each.jitter = None
    return trigger


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (BRUSSELS, "Europe/Brussels"),
        (UTC, "UTC"),
        (zoneinfo.ZoneInfo("UTC"), "UTC"),
        (fixed_offset(timedelta(hours=2)), "Etc/GMT-2"),
        (fixed_offset(timedelta(hours=-5)), "Etc/GMT+5"),
    ],
)
def test_zones_are_read_by_their_names(zone: Any, name: str) -> None:
    job = read_job(row("one", pickled_job("one", trigger=CronTrigger(hour=9, timezone=zone))))
    assert schedule_of(job).schedule["timezone"] == name


def test_zones_of_pytz_are_read_by_their_names_and_offsets() -> None:
    """As APScheduler up to 3.10 has stored them."""
    zone = pytz.timezone("Europe/Brussels")
    at = zone.localize(WALL.replace(2031, 10, 26, 2, 30, 0), is_dst=False)
    trigger = CronTrigger(hour=9, timezone=BRUSSELS)
    trigger.timezone, trigger.end_date = zone, at
    job = read_job(row("one", pickled_job("one", trigger=trigger, next_run_time=pytz.utc.localize(WALL))))
    schedule = schedule_of(job).schedule
    assert (schedule["timezone"], schedule["end"]) == ("Europe/Brussels", "2031-10-26T01:30:00Z")


@pytest.mark.parametrize("fold", [0, 1])
def test_an_instant_in_an_overlap_is_the_one_that_was_meant(fold: int) -> None:
    at = datetime(2031, 10, 26, 2, 30, 0, 250, fold=fold, tzinfo=BRUSSELS)
    job = read_job(row("one", pickled_job("one", next_run_time=at)))
    assert job.next_run == at.astimezone(UTC)


def test_an_interval_counts_from_its_next_run_where_that_was_moved() -> None:
    trigger = IntervalTrigger(hours=6, start_date=datetime(2030, 1, 1, tzinfo=UTC), timezone="UTC")

    def rule(next_run: datetime) -> Any:
        return schedule_of(read_job(row("one", pickled_job("one", trigger=trigger, next_run_time=next_run)))).schedule[
            "rule"
        ]

    own = {"every": "6h", "start": "2030-01-01T00:00:00Z"}
    assert rule(datetime(2030, 2, 1, 12, tzinfo=UTC)) == own
    assert rule(datetime(2030, 2, 1, 12, 0, 0, 2, tzinfo=UTC)) == own  # floating-point noise
    assert rule(datetime(2030, 2, 1, 11, 59, 59, 999_998, tzinfo=UTC)) == own
    assert rule(datetime(2030, 2, 1, 13, tzinfo=UTC)) == {"every": "6h", "start": "2030-02-01T13:00:00Z"}


# -- what cannot be carried over


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"args": (date(2030, 1, 1),)}, r"args\[0\] is made by datetime.date, which JSON cannot hold"),
        ({"args": ([{"a": {1, 2}}],)}, r"args\[0\]\[0\]\['a'\] is a set, which JSON cannot hold"),
        ({"kwargs": {"rate": float("inf")}}, r"kwargs\['rate'\] is inf"),
        ({"kwargs": {"of": {1: 2}}}, "a key that is no text"),
        ({"args": (b"raw",)}, r"args\[0\] is of type bytes"),
        ({"args": (BRUSSELS,)}, r"args\[0\] is made by"),
        ({"func": "os.system"}, "not a reference such as shop.jobs:report"),
        ({"id": "other"}, "that of another job, 'other'"),
        ({"version": 2}, "version 1, of APScheduler 3, is read"),
        ({"max_instances": 0}, "its max_instances is 0"),
        ({"next_run_time": WALL}, "its next_run_time has no time zone"),
        ({"trigger": None}, "its trigger is of type NoneType"),
        ({"trigger": CronTrigger(year="2030,2032", timezone="UTC")}, "its year 2030,2032 leaves years out"),
        ({"trigger": CronTrigger(year="*/2", timezone="UTC")}, "leaves years out"),
        ({"trigger": CronTrigger(week="1-10", hour="*", timezone="UTC")}, "weeks together with every minute or every"),
        (
            {"trigger": OrTrigger([CronTrigger(hour=9, timezone="UTC"), IntervalTrigger(hours=1, timezone="UTC")])},
            "combines others than cron by 'or'",
        ),
        (
            {"trigger": OrTrigger([CronTrigger(hour=9, timezone="UTC"), CronTrigger(day=1, hour=17, timezone="UTC")])},
            "differ in day, hour: make a job of each of them",
        ),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(changes: dict[str, Any], reason: str) -> None:
    found = found_in([row("bad", pickled_job(**{"id": "bad", **changes})), row("good", pickled_job("good"))])
    assert [one.name for one in found.jobs] == ["good"]
    assert re.search(reason, found.refused[0].reason), found.refused[0].reason


def test_another_executor_is_told() -> None:
    [job] = found_in([row("one", pickled_job("one", executor="processpool"))]).jobs
    assert job.notes == ("executor 'processpool': a worker of Duly runs async handlers itself and others in threads",)


# -- the runs


def compared(trigger: Any, days: int = 400, next_run: datetime | None = START) -> Compared:
    job: FoundJob = schedule_of(read_job(row("one", pickled_job("one", trigger=trigger, next_run_time=next_run))))
    fields = read_schedule(job.schedule, name="one")
    policies = {field: fields[field] for field in POLICIES if field in fields and field != "jitter"}
    table = table_of(fields["rule"], fields.get("timezone"), policies, START)
    return compare(table, runs_of_job(job.old), START, START + timedelta(days=days), "apscheduler")


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = (
        st.tuples(number, number).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: f"{min(pair)}-{max(pair)}")
    )
    step = st.integers(2, (high - low) // 2).map(lambda step: f"*/{step}")
    return st.lists(st.one_of(number.map(str), span, step), min_size=1, max_size=3).map(",".join)


DAYS = st.one_of(numbers(1, 28), st.sampled_from(["last", "1st mon", "last fri", "2nd tue,15", "5th sun,last,3"]))
CRONS = st.fixed_dictionaries(
    {"hour": numbers(0, 23), "minute": numbers(0, 59)},
    optional={
        "month": numbers(1, 12),
        "day": DAYS,
        "day_of_week": st.one_of(numbers(0, 6), st.sampled_from(["mon-fri", "sat,sun"])),
        "second": st.sampled_from(["0", "30", "5,10"]),
        "week": numbers(1, 53),
    },
)


@given(CRONS, st.sampled_from(["UTC", "Europe/Brussels", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]))
@settings(max_examples=25, deadline=None)
def test_a_cron_trigger_and_its_rule_run_at_the_same_instants_except_when_clocks_change(
    fields: dict[str, str], zone: str
) -> None:
    try:
        found = compared(CronTrigger(**fields, timezone=zone))
    except Unfit:
        return
    assert not [one for one in found.differences if "clocks" not in one.reason]


@pytest.mark.parametrize(
    "trigger",
    [
        CronTrigger(week="1,53", hour=9, timezone="Europe/Brussels"),
        CronTrigger(week="1", day_of_week="mon", hour=9, timezone="Europe/Brussels"),
        CronTrigger(day="1st mon", day_of_week="mon-wed", hour=9, timezone="Europe/Brussels"),
        CronTrigger(day="last", day_of_week="fri", timezone="Europe/Brussels"),
        CronTrigger(day=13, day_of_week="fri", timezone="Europe/Brussels"),
        CronTrigger(year="2030-2031", month=1, day=31, timezone="Europe/Brussels"),
        CronTrigger(hour=9, start_date="2030-03-01 09:00:00", end_date="2030-05-01 09:00:00", timezone=BRUSSELS),
        CronTrigger(second="*/7", hour=3, day="*/9", timezone="Europe/Brussels"),
        IntervalTrigger(minutes=7, start_date=datetime(2030, 2, 1, 0, 0, 0, 500, tzinfo=UTC), timezone="UTC"),
        IntervalTrigger(days=1, end_date=datetime(2030, 5, 1, tzinfo=UTC), start_date=START, timezone="UTC"),
        DateTrigger(datetime(2030, 6, 1, 9, tzinfo=BRUSSELS)),
        OrTrigger([CronTrigger(hour=9, timezone="UTC"), CronTrigger(hour=17, timezone="UTC")]),
        AndTrigger([CronTrigger(day=13, hour=0, timezone="UTC"), CronTrigger(day_of_week="fri", timezone="UTC")]),
    ],
    ids=str,
)  # fmt: skip
def test_these_triggers_run_as_their_rules_also_when_clocks_change(trigger: Any) -> None:
    found = compared(trigger, 800, next_run=None)
    assert found.differences == []
    assert found.same


def test_jobs_that_skip_what_is_a_second_late_are_named() -> None:
    rows = [row("strict", pickled_job("strict")), row("lax", pickled_job("lax", misfire_grace_time=None))]
    [remark] = found_in(rows).remarks
    assert remark.startswith("1 job skips runs that begin later than its misfire_grace_time of a second: strict;")
