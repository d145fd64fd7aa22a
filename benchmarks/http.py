"""Benchmarks of the HTTP API: creates, reads and memory, beside a bare Starlette application that stores one row for
each request."""

import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import aiohttp
import psutil

from benchmarks.crew import Broken
from benchmarks.peers import Peer
from benchmarks.reads import FIRST, LARGE, SMALL, USUAL, WARM_UP, event_id, seed, user_id
from benchmarks.usage import Usage
from benchmarks.workloads import TIMEOUT, Figures
from duly import Duly

AT_ONCE = 16  # concurrent connections
IN_BULK = 1000  # timers in one bulk request
TIMER = {"type": "invoice.overdue", "due_at": "2040-01-01T00:00:00Z", "payload": {"invoice": 7, "amount": "12.50"}}


class Server:
    """A process that serves HTTP, with its address and the headers for requests."""

    def __init__(self, process: subprocess.Popen[str], address: str, headers: dict[str, str]) -> None:
        self.process, self.address, self.headers = psutil.Process(process.pid), address, headers

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        async with aiohttp.ClientSession(self.address, connector=connector, headers=self.headers) as session:
            yield session


@contextlib.contextmanager
def serving(url: str, scope: str = "write") -> Iterator[Server]:
    """Runs ``duly serve``, with an API key whose rate limit is never reached."""
    secret = asyncio.run(_key(url, scope))
    command = [sys.executable, "-m", "duly", "serve", "--no-worker", "--port", "0", "--db", url]
    quiet = {"DULY_LOG_FORMAT": "json"}
    with started(command, quiet, re.compile(r"Duly serves (http://[\d.:]+)")) as (process, address):
        yield Server(process, address, {"Authorization": f"Bearer {secret}"})


@contextlib.contextmanager
def bare(url: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "benchmarks.bare_http", url]
    with started(command, {}, re.compile(r"(http://[\d.:]+)")) as (process, address):
        yield Server(process, address, {})


@contextlib.contextmanager
def started(
    command: list[str], more: dict[str, str], says: re.Pattern[str]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(command, env=os.environ | more, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := says.search(line):
                break
        else:
            raise Broken(f"{command} did not start")
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # else a full pipe blocks it
        if not asyncio.run(_is_ready(found[1])):
            raise Broken(f"{command} is not ready in time")
        yield process, found[1]
        drain.terminate()
        drain.wait()
    finally:
        process.terminate()
        process.wait(TIMEOUT)


async def _is_ready(address: str) -> bool:
    async with aiohttp.ClientSession(address) as session:
        for _ in range(int(100 * TIMEOUT)):
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/readyz") as answer:
                    if answer.status in (200, 404):  # the bare application has no /readyz
                        return True
            await asyncio.sleep(0.01)
    return False


async def _key(url: str, scope: str) -> str:
    async with Duly(url) as duly:
        return (await duly.keys.create("benchmarks", scope=scope, rate=1_000_000, all_tenants=True)).secret


# -- creates


def http_creates(_peer: Peer, url: str, many: int, bulk: int) -> Figures:
    """Measures creating timers one by one, each with its own key, over 16 connections, and a thousand per request. On
    PostgreSQL, also an application that only stores one row for each request."""
    bare_rate = 0.0
    if url.startswith("postgresql"):
        with bare(url) as server:
            bare_rate, *_ = asyncio.run(singles(server, url, many))
    with serving(url) as server:
        rate, latencies, usage = asyncio.run(singles(server, url, many))
        in_bulk = asyncio.run(_bulk(server, bulk))
    return {
        "bare_per_second": bare_rate,
        "bare_percent": 100 * rate / bare_rate if bare_rate else 0.0,
        "singles_per_second": rate,
        "bulk_per_second": in_bulk,
        "p50_ms": 1e3 * statistics.median(latencies),
        "p99_ms": 1e3 * _percentile(latencies, 99),
        "api_us_per_request": 1e6 * usage.workers / many,
        "server_us_per_request": 1e6 * usage.server / many,
    }


async def singles(server: Server, url: str, many: int, first: int = 0) -> tuple[float, list[float], Usage]:
    """Creates timers, one per request; *first* is the number in the key of the first timer."""
    body, latencies = json.dumps(TIMER).encode(), list[float]()
    async with server.session() as session:

        async def put(keys: Iterator[str]) -> None:
            headers = {"Content-Type": "application/json"}
            for key in keys:
                began = time.perf_counter()
                async with session.put(f"/v1/timers/{key}", data=body, headers=headers) as answer:
                    await answer.read()
                    if answer.status != 201:
                        raise Broken(f"a timer was answered with {answer.status}: {await answer.text()}")
                latencies.append(time.perf_counter() - began)

        warming = (f"warming-{first + number}" for number in range(10 * AT_ONCE))
        await asyncio.gather(*(put(warming) for _ in range(AT_ONCE)))
        latencies.clear()
        with Usage([server.process], url) as usage:
            start = time.perf_counter()
            left = (f"invoice-{first + number}" for number in range(many))
            await asyncio.gather(*(put(left) for _ in range(AT_ONCE)))
            took = time.perf_counter() - start
    return many / took, latencies, usage


async def _bulk(server: Server, many: int) -> float:
    body = json.dumps({"timers": [TIMER] * IN_BULK}).encode()
    async with server.session() as session:
        start = time.perf_counter()
        for _ in range(many // IN_BULK):
            headers = {"Content-Type": "application/json"}
            async with session.post("/v1/timers", data=body, headers=headers) as answer:
                done = await answer.json()
                if done.get("created") != IN_BULK:
                    raise Broken(f"a thousand timers were answered with {answer.status}: {done}")
        return many / (time.perf_counter() - start)


# -- reads


def http_reads(_peer: Peer, url: str, events: int, rounds: int) -> Figures:
    """Measures the time of each query over HTTP among *events*, one query after another."""
    asyncio.run(_seed(url, events))
    with serving(url, scope="admin") as server:
        took = asyncio.run(_looks(server, events, rounds))
    p99 = [_percentile(times, 99) for times in took.values()]
    p50 = [statistics.median(times) for times in took.values()]
    return {"p50_ms": p50, "p99_ms": p99, "worst_p99_ms": max(p99)}


async def _seed(url: str, events: int) -> None:
    async with Duly(url) as duly:
        await seed(duly, events)


def questions(events: int) -> dict[str, tuple[str, str]]:
    """The queries by name, each with its path and tenant; each request fills in the path's placeholders."""
    start = FIRST + timedelta(seconds=events // 3)
    hour = urlencode({"due_from": start.isoformat(), "due_to": (start + timedelta(hours=1)).isoformat()})
    return {
        "an event by its id": ("/v1/events/{id}", LARGE),
        "a timer by its key": ("/v1/timers/{key}", LARGE),
        "the first page": ("/v1/events", LARGE),
        "the first page of the usual tenant": ("/v1/events", USUAL),
        "a type of which there are few": ("/v1/events?type=rare", LARGE),
        "a status of which there are few": ("/v1/events?status=SKIPPED", LARGE),
        "dead letters": ("/v1/events?status=FAILED", LARGE),
        "a small tenant": ("/v1/events", SMALL),
        "a type of a small tenant": ("/v1/events?type=rare", SMALL),
        "due within an hour": (f"/v1/events?{hour}", LARGE),
        "completed late": ("/v1/events?late_by=5m", LARGE),
        "a user's": ("/v1/events?user_id={user}", LARGE),
    }


async def _looks(server: Server, events: int, rounds: int) -> dict[str, list[float]]:
    chance, took = random.Random(7), dict[str, list[float]]()
    async with server.session() as session:
        for name, (path, tenant) in questions(events).items():
            times, cursor = list[float](), None
            for _ in range(WARM_UP + rounds):
                number = 1000 * chance.randrange(1, events // 1000) + 10  # an event of the large tenant, with a key
                named = path.format(id=event_id(number), key=f"key-{number}", user=user_id(chance.randrange(5000)))
                asked = named if cursor is None else f"{named}{'&' if '?' in named else '?'}cursor={cursor}"
                began = time.perf_counter()
                async with session.get(asked, headers={"Duly-Tenant": tenant}) as answer:
                    found = await answer.json()
                times.append(1e3 * (time.perf_counter() - began))
                if answer.status != 200:
                    raise Broken(f"{asked} was answered with {answer.status}: {found}")
                cursor = None if "{" in path else found.get("next_cursor")
            took[name] = sorted(times[WARM_UP:])
    return took


# -- memory


def http_memory(_peer: Peer, url: str, requests: int) -> Figures:
    """Measures the resident memory of a server over *requests*: creates, reads, lists and errors in turn."""
    samples: list[float] = []
    with serving(url) as server:
        asyncio.run(_various(server, requests, samples))
    tenth = max(1, len(samples) // 10)
    before, after = statistics.median(samples[tenth : 2 * tenth]), statistics.median(samples[-tenth:])
    return {
        "before_mb": before,
        "after_mb": after,
        "most_mb": max(samples),
        "growth_percent": 100 * (after / before - 1),
    }


async def _various(server: Server, requests: int, samples: list[float]) -> None:
    every = max(1, requests // 100)
    async with server.session() as session:

        async def ask(numbers: Iterator[int]) -> None:
            for number in numbers:
                method, path, body = _request(number)
                async with session.request(method, path, json=body) as answer:
                    await answer.read()
                    if answer.status >= 500:
                        raise Broken(f"{method} {path} was answered with {answer.status}")
                if number % every == 0:
                    samples.append(server.process.memory_info().rss / 2**20)

        left = iter(range(requests))
        await asyncio.gather(*(ask(left) for _ in range(AT_ONCE)))


def _request(number: int) -> tuple[str, str, Any]:
    match number % 5:
        case 0:
            return "PUT", f"/v1/timers/memory-{number}", TIMER
        case 1:
            return "GET", f"/v1/timers/memory-{number - 1}", None
        case 2:
            return "GET", "/v1/events?limit=10", None
        case 3:
            return "PUT", f"/v1/timers/bad-{number}", {"due_at": number}
        case _:
            return "POST", "/v1/timers", {"timers": [TIMER] * 3}


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
