"""A broker's library is loaded when its first message is to be sent, and not before."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import duly
from duly.channels.brokers.registry import BROKERS
from tests.brokers import RedisServer

SOURCE = Path(duly.__file__).parents[1]

URLS = {
    "nats": "nats://127.0.0.1:1",
    "redis": "redis://127.0.0.1:1",
    "rabbitmq": "amqp://127.0.0.1:1",
    "kafka": "kafka://127.0.0.1:1",
    "celery": "redis://127.0.0.1:1",
}

LOADED = f"""
import sys
print(sorted({{engine for engine in {[engine.library for engine in BROKERS.values()]!r} if engine in sys.modules}}))
"""

WORKER = """
import asyncio
from datetime import timedelta
from duly import Duly, Event, to
from duly.signals import Completed

duly = Duly("sqlite://", poll_interval="10ms")


@duly.on("greet")
async def greet(event: Event) -> None:
    if {target!r} is None:
        await asyncio.sleep(0.1)  # long enough for whatever a worker does beside
        duly.stop()


@duly.observe
def sent(signal: object) -> None:
    if isinstance(signal, Completed) and signal.event.target is not None:
        duly.stop()


async def main() -> None:
    async with duly:
        await duly.after(timedelta(), "greet")
        if {target!r}:
            await duly.after(timedelta(), "greet", target={target!r})
        await duly.run(signals=False)


asyncio.run(main())
"""


def run(code: str, **variables: str) -> str:
    urls = {f"DULY_{name.upper()}_URL": url for name, url in URLS.items()}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **urls, **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_duly_loads_no_library_of_a_broker() -> None:
    assert run(f"from duly import *\nfrom duly import to\nimport duly.wiring\nDuly('sqlite://'){LOADED}") == "[]"


def test_a_worker_without_events_for_brokers_loads_no_library_of_a_broker() -> None:
    assert run(WORKER.format(target=None) + LOADED) == "[]"


def test_a_worker_with_an_event_for_one_broker_loads_its_library_alone() -> None:
    with RedisServer() as server:
        target = {"redis": "orders"}
        assert run(WORKER.format(target=target) + LOADED, DULY_REDIS_URL=server.url) == "['redis']"


@pytest.mark.parametrize("name", BROKERS)
def test_each_library_of_a_broker_is_an_extra_by_the_name_of_its_channel(name: str) -> None:
    extras = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [everything] = extras["optional-dependencies"]["all"]
    assert name in extras["optional-dependencies"]
    assert name in re.split(r"[\[\],]", everything)
