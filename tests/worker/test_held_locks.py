"""SQLite has one writer: another process that has the lock and does not go on stops everybody else."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from duly import Duly, InStatus, Status
from duly.api.app import create_api
from duly.errors import NotWritable
from duly.stores.sqlite.store import SqliteStore
from tests.worker.running_worker import until

LATER, HOURS = timedelta(hours=1), timedelta(hours=9)

HOLD = """
import asyncio, sys
from duly import Duly

async def main():
    async with Duly(sys.argv[1]) as duly, duly.transaction() as tx:
        await tx.execute("DELETE FROM events")
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        raise KeyError("so that nothing is deleted")

asyncio.run(main())
"""


@asynccontextmanager
async def frozen(url: str) -> AsyncIterator[int]:
    """The id of a process that is stopped in the middle of a transaction, until the end of this."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, url, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGSTOP)
        await until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        await process.communicate(b"\n")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not tell who has a lock")
async def test_a_writer_that_waits_for_a_frozen_process_is_told_which_one_it_is(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/duly.db", tmp_path / "duly.db"
    async with Duly(url, store_timeout="200ms") as duly:
        before = await duly.after(LATER, "task")
        async with frozen(url) as pid:
            with pytest.raises(NotWritable) as told:
                await duly.after(LATER, "task")
            said = (
                rf"process {pid}, which is stopped \(continue it with `kill -CONT {pid}`\), has held the write lock on "
            )
            assert re.match(rf"{said}{re.escape(str(file))} for 0\.\d+ s: ", str(told.value))
            [found] = await duly.events.find(InStatus(Status.PENDING))
            assert found.id == before.id, "it can be read, and nothing was stored"
        await duly.after(LATER, "task")


async def test_a_server_is_not_ready_while_a_frozen_process_has_the_lock(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    async with Duly(url, store_timeout="200ms") as duly:
        transport = httpx.ASGITransport(create_api(duly, keyless=True))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def is_ready() -> bool:
                return (await http.get("/readyz")).status_code == 200

            async def is_not_ready() -> bool:
                return not await is_ready()

            assert await is_ready()
            async with frozen(url):
                assert (await http.put("/v1/timers/a", json={"after": "1h", "type": "x"})).status_code == 503
                await until(is_not_ready, "it says so")
            await until(is_ready, "it is ready again")


async def test_a_worker_that_waits_for_a_lock_can_be_stopped(tmp_path: Path) -> None:
    url, store = f"sqlite:///{tmp_path}/duly.db", SqliteStore(str(tmp_path / "duly.db"), timeout=HOURS)
    await store.open()
    try:
        async with frozen(url):
            waiting = asyncio.create_task(store.try_writing())
            await until(lambda: store._at_work, "it has begun")
            store.stop_waiting()
            with pytest.raises(NotWritable):
                await asyncio.wait_for(waiting, 30)
            with pytest.raises(NotWritable):  # and from now on, nobody begins to wait
                await asyncio.wait_for(store.try_writing(), 30)
        await store.try_writing()
    finally:
        await store.close()


async def test_a_store_is_closed_although_a_write_waits_for_a_lock(tmp_path: Path) -> None:
    url, store = f"sqlite:///{tmp_path}/duly.db", SqliteStore(str(tmp_path / "duly.db"), timeout=HOURS)
    await store.open()
    async with frozen(url):
        waiting = asyncio.create_task(store.try_writing())
        await until(lambda: store._at_work, "it has begun")
        await asyncio.wait_for(store.close(), 30)
        with pytest.raises(NotWritable):
            await waiting
    await store.open()
    await store.try_writing()
    await store.close()
