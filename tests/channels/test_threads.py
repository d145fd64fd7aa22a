"""Threads are used again, and end with whom they served."""

import asyncio
import threading

import pytest

from duly.channels.celery import Celery
from duly.channels.threads import Threads
from tests.servers import free_port
from tests.worker.watching import until


def running() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "duly-handler"}


async def test_threads_end_when_they_are_told_to_also_one_that_is_busy() -> None:
    before, threads, may_end = running(), Threads(), threading.Event()
    await threads.call(lambda: None)
    busy = asyncio.create_task(threads.call(may_end.wait))
    await asyncio.sleep(0)
    await threads.call(lambda: None)
    mine = running() - before
    assert len(mine) == 2
    threads.end()
    may_end.set()
    await busy
    await until(lambda: not any(thread.is_alive() for thread in mine), "both have ended")


async def test_tries_to_connect_leave_no_thread_behind() -> None:
    before = running()
    for _ in range(5):
        client = Celery(f"redis://127.0.0.1:{free_port()}/0")
        with pytest.raises(Exception, match="Connection refused"):
            await client.open()
        await client.close()
    await until(lambda: not running() - before, "all have ended")
