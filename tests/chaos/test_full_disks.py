"""The same on SQLite, with a disk that is full again and again."""

from pathlib import Path

import pytest

from tests.chaos.disks import small_disk
from tests.chaos.faults import ProcessFaults, SqliteFaults, luck_of
from tests.chaos.processes import Place
from tests.chaos.receiver import Receiver
from tests.chaos.report import summary
from tests.chaos.run import LOOKAHEAD, MINUTES, OPTIONS, SPANS, Run


@pytest.mark.timeout(420 + 60 * MINUTES)
async def test_a_disk_that_is_full_for_a_while_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with small_disk() as disk, Receiver("127.0.0.1") as receiver:
        url = f"sqlite:///{disk}/duly.db"
        places = [
            Place("worker", url, OPTIONS),
            Place("worker", url, OPTIONS | LOOKAHEAD),
            Place("caller", url, OPTIONS),
        ]
        async with Run(tmp_path, url, receiver, places) as run:
            on_processes = ProcessFaults(run.processes, run.app, run.log, SPANS, luck_of(run.seed, "processes"))
            on_store = SqliteFaults(disk / "duly.db", run.log, SPANS, luck_of(run.seed, "store"))
            await run.suffer(
                processes={
                    on_processes.kill_worker: 5,
                    on_processes.freeze_worker: 1,
                    on_processes.kill_caller: 2,
                    on_processes.retire_worker: 2,
                },
                store={on_store.fill_disk: 6, on_store.fill_disk_past_leases: 1, on_store.hold_lock: 1},
            )
            await run.settle()
            comparison = await run.judge()
    assert len(comparison.events) > 200, summary(comparison)
