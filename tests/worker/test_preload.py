"""What sends webhooks is loaded before the first one is claimed, and not by the event loop; without any, it holds up
nothing."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.receiving import Receiver
from tests.worker.running_worker import PATIENCE

WORKER = """
import asyncio, json, resource, sys, threading
from datetime import timedelta
from duly import Duly, Event, webhook
from duly.engine.destinations import preload as when
from duly.signals import Claimed, Completed, GivenBack, WorkerStarted

url, receiver, does = sys.argv[1:]
duly = Duly(url, webhook_allow="127.0.0.0/8", secret_key="k" * 40, poll_interval="1h")
told = {"loaded_by": None, "claimed": []}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "aiohttp.client":  # of "aiohttp" itself it is asked whether it is there
            told["loaded_by"] = "the loop" if threading.current_thread() is threading.main_thread() else "a thread"


sys.meta_path.insert(0, Finder)
duly.observe(lambda signal: told["claimed"].append([signal.event.lane, sorted(loaded())]), Claimed)


def loaded():
    return [name for name in ("aiohttp", "duly.channels.http.webhook") if name in sys.modules and not loading(name)]


def loading(name):
    return getattr(sys.modules[name].__spec__, "_initializing", False)


@duly.on("greet")
async def greet(event: Event) -> None: ...


async def sent() -> None:
    await duly.after(timedelta(), "due", target=webhook(receiver))


async def worked() -> None:
    done = asyncio.Event()
    duly.observe(lambda _: done.set(), Completed)
    if does.startswith("finds a webhook"):
        await sent()
    if does == "finds a webhook and no descriptor":
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
        duly.observe(lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, limit), GivenBack)
    if does == "finds a greeting":
        when.IDLE_WITHIN_S = 3600
        await duly.after(timedelta(), "greet")
    if does == "gets a webhook":
        duly.observe(lambda _: tasks.append(asyncio.create_task(sent())), WorkerStarted)
    running = asyncio.create_task(duly.run())
    await done.wait()
    duly.stop()
    await running


async def main() -> None:
    async with duly:
        if does == "ticks with a webhook":
            await sent()
            await duly.tick()
        elif does == "ticks with a greeting":
            await duly.after(timedelta(hours=1), "due", target=webhook(receiver))
            await duly.after(timedelta(), "greet")
            await duly.tick()
        else:
            await worked()


tasks = []
asyncio.run(main())
print(json.dumps(told))
"""
"""Tells what was loaded at each claim, and who has begun to load it."""

ALL = ["aiohttp", "duly.channels.http.webhook"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


async def told(url: str, receiver: Receiver, does: str) -> Any:
    """By a worker in an interpreter of its own, where nothing is loaded yet."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, url, receiver.url, does), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.parametrize("does", ["finds a webhook", "gets a webhook"])
async def test_a_worker_has_loaded_the_http_library_before_it_claims_a_webhook(
    url: str, receiver: Receiver, does: str
) -> None:
    assert await told(url, receiver, does) == {"loaded_by": "a thread", "claimed": [["webhook", ALL]]}
    assert len(receiver.received) == 1


async def test_a_worker_loads_the_http_library_only_after_it_has_run_what_is_due(url: str, receiver: Receiver) -> None:
    assert (await told(url, receiver, "finds a greeting"))["claimed"] == [["handler:greet", []]]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_http_library_that_could_not_be_loaded_at_first_is_loaded_later(url: str, receiver: Receiver) -> None:
    told_of = await told(url, receiver, "finds a webhook and no descriptor")
    assert told_of["claimed"][0] == ["webhook", []]
    assert len(told_of["claimed"]) >= 2
    assert len(receiver.received) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_tick_with_a_webhook_loads_the_http_library_first(url: str, receiver: Receiver) -> None:
    expected = {"loaded_by": "a thread", "claimed": [["webhook", ALL]]}
    assert await told(url, receiver, "ticks with a webhook") == expected
    assert len(receiver.received) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_tick_with_nothing_to_send_does_not_load_the_http_library(url: str, receiver: Receiver) -> None:
    expected = {"loaded_by": None, "claimed": [["handler:greet", []]]}
    assert await told(url, receiver, "ticks with a greeting") == expected
