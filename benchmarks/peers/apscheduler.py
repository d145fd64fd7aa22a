"""APScheduler 3 with its SQLAlchemy job store on PostgreSQL."""

import threading
from collections.abc import Iterator

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.gate import Gate, Order, instant
from benchmarks.peers import Peer

gate = Gate()  # global: APScheduler finds a job by module and name, so the job can only use globals


def count(_due: int) -> None:
    gate.count()


def note(due: int) -> None:
    gate.note(due)


class APScheduler(Peer):
    title = "APScheduler 3"
    package = "apscheduler"
    # One thread for the jobs: they do nothing, and more threads only compete for the interpreter. The rate is that
    # of one DELETE and commit for each job; APScheduler cannot add or remove several jobs at once.
    settings = "SQLAlchemyJobStore on psycopg, BackgroundScheduler, a pool of one thread, misfire_grace_time=None"
    keeps = "deletes a job as it starts, so a crash loses it; no history; one scheduler for each job store"
    left_sql = "SELECT count(*) FROM apscheduler_jobs"
    drains_at_most = inserts_at_most = 2000
    several = False
    adds_per_second = 300

    def add(self, url: str, orders: Iterator[Order]) -> None:
        scheduler = _scheduler(url)
        scheduler.start(paused=True)
        for order in orders:
            job = note if order.step >= 1000 else count
            for due in order.dues():
                scheduler.add_job(job, "date", run_date=instant(due), args=[due], misfire_grace_time=None)
        scheduler.shutdown()

    def work(self, url: str, own_gate: Gate, on_time: bool) -> None:
        global gate
        gate = own_gate
        scheduler = _scheduler(url)
        scheduler.start(paused=True)
        over = threading.Event()
        gate.ready(over.set)
        scheduler.resume()
        over.wait()
        scheduler.shutdown()


def _scheduler(url: str) -> BackgroundScheduler:
    store = SQLAlchemyJobStore(url.replace("postgresql://", "postgresql+psycopg://"))
    return BackgroundScheduler(
        jobstores={"default": store}, executors={"default": ThreadPoolExecutor(1)}, timezone="UTC"
    )


PEERS = {"apscheduler": APScheduler()}
