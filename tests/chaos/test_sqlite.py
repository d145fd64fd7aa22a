"""Faults on SQLite: processes die and freeze, and another one holds the file's write lock."""

from pathlib import Path

import pytest

from tests.chaos.faults import ProcessFaults, SqliteFaults, luck_of
from tests.chaos.processes import Place
from tests.chaos.receiver import Receiver
from tests.chaos.report import summary
from tests.chaos.run import LOOKAHEAD, MINUTES, OPTIONS, SPANS, Run


@pytest.mark.timeout(420 + 60 * MINUTES)
async def test_a_file_that_is_locked_and_processes_that_vanish_lose_and_repeat_nothing(tmp_path: Path) -> None:
    file = tmp_path / "duly.db"
    url = f"sqlite:///{file}"
    places = [
        Place("worker", url, OPTIONS),
        Place("worker", url, OPTIONS),
        Place("worker", url, OPTIONS | LOOKAHEAD),
        Place("caller", url, OPTIONS),
    ]
    with Receiver("127.0.0.1") as receiver:
        async with Run(tmp_path, url, receiver, places) as run:
            on_processes = ProcessFaults(run.processes, run.app, run.log, SPANS, luck_of(run.seed, "processes"))
            on_store = SqliteFaults(file, run.log, SPANS, luck_of(run.seed, "store"))
            await run.suffer(
                processes={
                    on_processes.kill_worker: 6,
                    on_processes.freeze_worker: 3,
                    on_processes.retire_worker: 2,
                    on_processes.kill_caller: 2,
                },
                store={on_store.hold_lock: 5, on_store.hold_lock_past_leases: 2},
            )
            await run.settle()
            comparison = await run.judge()
    assert len(comparison.events) > 300, summary(comparison)
