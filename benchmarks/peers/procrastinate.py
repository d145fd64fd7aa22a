"""Procrastinate on psycopg."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import procrastinate

from benchmarks.gate import Gate, Order, instant
from benchmarks.peers import Peer

CHUNK = 1000
CONCURRENCY = 10
POLL = 0.02


class Procrastinate(Peer):
    title = "Procrastinate"
    package = "procrastinate"
    # It fetches one job at a time, so concurrency only overlaps the round trips of fetching and finishing. For low
    # lateness it must poll: it is notified of new jobs, but not when a job becomes due.
    settings = "psycopg pool, concurrency=10; on time: polling every 20 ms; batch_defer in chunks of 1,000"
    keeps = "finished jobs and an event row for each change, as Duly does"
    left_sql = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    ended_sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
    drains_at_most, inserts_at_most = 2000, 20_000

    def add(self, url: str, orders: Iterator[Order]) -> None:
        asyncio.run(self._add(url, orders))

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        app, task = _app(url, Gate(), on_time=False)
        async with app.open_async():
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
            for order in orders:
                for dues in order.chunks(CHUNK):
                    jobs = [task.configure(schedule_at=instant(due)).make_new_job(due=due) for due in dues]
                    await app.job_manager.batch_defer_jobs_async(jobs=jobs)

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        asyncio.run(self._work(url, gate, on_time))

    async def _work(self, url: str, gate: Gate, on_time: bool) -> None:
        app, _ = _app(url, gate, on_time)
        async with app.open_async():
            loop = asyncio.get_running_loop()
            running = asyncio.current_task()
            assert running
            gate.ready(lambda: loop.call_soon_threadsafe(running.cancel))
            poll = {"fetch_job_polling_interval": POLL} if on_time else {}
            with contextlib.suppress(asyncio.CancelledError):
                await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, **poll)


def _app(url: str, gate: Gate, on_time: bool) -> tuple[procrastinate.App, Any]:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=20))

    @app.task(name="bench")
    async def handle(due: int) -> None:
        if on_time:
            gate.note(due)
        else:
            gate.count()

    return app, handle


PEERS = {"procrastinate": Procrastinate()}
