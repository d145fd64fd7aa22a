"""The same on PostgreSQL, with a worker that is cut off from it: no packet arrives, and nobody is told."""

from pathlib import Path

import pytest

from tests.chaos.faults import PostgresFaults, ProcessFaults, luck_of
from tests.chaos.processes import Place
from tests.chaos.receiver import Receiver
from tests.chaos.report import summary
from tests.chaos.run import LOOKAHEAD, MINUTES, OPTIONS, SPANS, Run
from tests.network import Namespace
from tests.servers import Postgres


@pytest.mark.timeout(420 + 60 * MINUTES)
async def test_a_worker_that_is_cut_off_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with Namespace() as other, Postgres(networks=[other.network]) as server, Receiver(other.host) as receiver:
        url = server.create_database("chaos")
        places = [
            Place("worker", other.reaching(url), OPTIONS, other),
            Place("worker", url, OPTIONS | LOOKAHEAD),
            Place("worker", url, OPTIONS),
            Place("caller", url, OPTIONS),
        ]
        async with Run(tmp_path, url, receiver, places) as run:
            on_processes = ProcessFaults(run.processes, run.app, run.log, SPANS, luck_of(run.seed, "processes"))
            on_store = PostgresFaults(server, run.log, SPANS, luck_of(run.seed, "store"))
            await run.suffer(
                processes={on_processes.cut_worker_off: 5, on_processes.kill_worker: 3, on_processes.retire_worker: 1},
                store={on_store.crash: 2, on_store.freeze: 1, on_store.terminate_backends: 2},
            )
            await run.settle()
            comparison = await run.judge()
    assert len(comparison.events) > 300, summary(comparison)
