"""PgQueuer on asyncpg."""

import asyncio
import json
import time
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.core.qm import QueueManager
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.gate import Gate, Order
from benchmarks.peers import Peer

CHUNK = 5000
BATCH = 1000


class PgQueuer(Peer):
    title = "PgQueuer"
    package = "pgqueuer"
    # A pool rather than one connection, so that claiming and logging overlap; uvloop, as its own command line does;
    # batches of 1,000 instead of 10, which halves the cost of an event; no cap on concurrent tasks, which would
    # add two CTEs to the dequeue. It wakes for the next deferred job, but sleeps for at least 0.1 s, which cannot be
    # configured.
    settings = "asyncpg pool, uvloop, batch_size=1000; enqueue in chunks of 5,000"
    keeps = "deletes finished jobs and keeps three log rows for each; does not fence the completion of a job"
    left_sql = "SELECT count(*) FROM pgqueuer"
    ended_sql = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"

    def add(self, url: str, orders: Iterator[Order]) -> None:
        _run(self._add(url, orders))

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        async with asyncpg.create_pool(url) as pool:
            queries = Queries(AsyncpgPoolDriver(pool))
            if not await queries.schema_is_installed():
                await queries.install()
            for order in orders:
                for dues in order.chunks(CHUNK):
                    now = time.time()  # PgQueuer takes delays, not instants; the handler reads the job's due time
                    await queries.enqueue(
                        ["bench"] * len(dues),
                        [json.dumps({"due": due}).encode() for due in dues],
                        [0] * len(dues),
                        [timedelta(seconds=due / 1e6 - now) for due in dues],
                    )

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        _run(self._work(url, gate, on_time))

    async def _work(self, url: str, gate: Gate, on_time: bool) -> None:
        async with asyncpg.create_pool(url) as pool:
            manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

            @manager.entrypoint("bench")
            async def handle(job: Job) -> None:
                if on_time:
                    gate.note(int(job.execute_after.timestamp() * 1e6))
                else:
                    gate.count()

            loop = asyncio.get_running_loop()
            gate.ready(lambda: loop.call_soon_threadsafe(manager.shutdown.set))
            await manager.run(batch_size=BATCH)


def _run(work: Coroutine[Any, Any, None]) -> None:
    uvloop.run(work)


PEERS = {"pgqueuer": PgQueuer()}
