"""Threads are used again, and end with whom they served."""

import asyncio
import threading
from datetime import timedelta

import pytest

from duly.channels.brokers.celery import Celery
from duly.channels.python.handlers import ThreadHandler
from duly.channels.python.threads import Threads
from duly.records.event import Unreachable
from tests.make import make_event
from tests.servers import free_port
from tests.worker.running_worker import until


def running() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "duly-handler"}


async def test_all_threads_end_when_told_to_also_a_busy_one() -> None:
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


async def test_calls_that_nobody_waits_for_any_more_are_counted_until_they_return() -> None:
    threads, may_end, told = Threads(lambda: 2), threading.Event(), list[str | None]()
    threads.watchers.append(lambda: told.append(threads.down))
    calls = [asyncio.create_task(threads.call(may_end.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    for number, call in enumerate(calls, 1):
        call.cancel()
        await asyncio.wait([call])
        assert threads.hung == number
    down = threads.down
    assert down is not None
    assert down.startswith("3 threads of plain def handlers are still running after their deadlines")
    claimed_before = await ThreadHandler("odd", pytest.fail, threads).deliver(make_event())
    assert claimed_before == Unreachable(down, timedelta(), told=True)
    may_end.set()
    await until(lambda: threads.hung == 0, "all have returned")
    assert threads.down is None
    assert [reason is None for reason in told] == [False, True], "told once when it is down, and once when it is not"
    threads.end()


async def test_tries_to_connect_leave_no_thread_behind() -> None:
    before = running()
    for _ in range(5):
        client = Celery(f"redis://127.0.0.1:{free_port()}/0")
        with pytest.raises(Exception, match="Connection refused"):
            await client.open()
        await client.close()
    await until(lambda: not running() - before, "all have ended")
