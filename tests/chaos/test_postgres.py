"""Faults on PostgreSQL: it crashes, falls silent and ends connections, while processes die and freeze."""

from pathlib import Path

import pytest

from tests.chaos.faults import PostgresFaults, ProcessFaults, luck_of
from tests.chaos.processes import Place
from tests.chaos.receiver import Receiver
from tests.chaos.report import summary
from tests.chaos.run import LOOKAHEAD, MINUTES, OPTIONS, SPANS, Run
from tests.servers import Postgres


@pytest.mark.timeout(420 + 60 * MINUTES)
async def test_a_server_that_crashes_and_processes_that_vanish_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with Postgres() as server, Receiver("127.0.0.1") as receiver:
        url = server.create_database("chaos")
        places = [
            Place("worker", url, OPTIONS),
            Place("worker", url, OPTIONS),
            Place("worker", url, OPTIONS | LOOKAHEAD),
            Place("caller", url, OPTIONS),
        ]
        async with Run(tmp_path, url, receiver, places) as run:
            on_processes = ProcessFaults(run.processes, run.app, run.log, SPANS, luck_of(run.seed, "processes"))
            on_store = PostgresFaults(server, run.log, SPANS, luck_of(run.seed, "store"))
            await run.suffer(
                processes={
                    on_processes.kill_worker: 6,
                    on_processes.freeze_worker: 3,
                    on_processes.retire_worker: 2,
                    on_processes.kill_caller: 2,
                },
                store={
                    on_store.crash: 4,
                    on_store.freeze: 3,
                    on_store.freeze_past_leases: 1,
                    on_store.terminate_backends: 4,
                },
            )
            await run.settle()
            comparison = await run.judge()
    assert len(comparison.events) > 300, summary(comparison)
