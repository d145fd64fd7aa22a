"""Measures how attacks of one tenant affect a quiet tenant, on one ``duly serve`` with its worker."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import aiohttp

from benchmarks.crew import Broken
from benchmarks.http import started
from benchmarks.peers import Peer
from benchmarks.workloads import TIMEOUT, Figures, quantile
from duly import Duly, Event, OfTenant, Timer, rrule

ATTACKS = ("rules", "previews", "sockets", "pages", "keys", "due", "rules,previews,sockets,pages,keys,due")
"""The attacks of the other tenant; the last is all of them at once."""

RATE = 20  # requests a second of the quiet tenant
DUE = timedelta(seconds=1)  # after which each timer of the quiet tenant is due
FLOOD = 100_000  # events of the attacking tenant that are due at one instant
CHUNK = 5000
STORED = 65  # schedules of the attacking tenant that fire each second, with rules that take long to evaluate
MONTHS = ",".join(map(str, range(1, 13)))
WARMING = 2  # seconds that do not count: a new server still connects and plans queries
SETTLING = 2.0  # seconds from the start of an attack to the measurement


class Noticed(NamedTuple):
    """The measurements of the quiet tenant in milliseconds: the duration of its requests, and the lateness of its
    events."""

    requests: list[float]
    lateness: list[float]


def worst(_peer: Peer, url: str, attack: int, seconds: int) -> Figures:
    """Measures the quiet tenant, which puts timers and reads them back, first alone and then during an attack."""
    names = ATTACKS[attack]
    mine, theirs = asyncio.run(_keys(url))
    command = [sys.executable, "-m", "duly", "serve", "--app", "benchmarks.worst_app:duly", "--port", "0", "--db", url]
    with started(command, {"DULY_LOG_FORMAT": "json"}, re.compile(r"Duly serves (http://[\d.:]+)")) as (_, address):
        alone = asyncio.run(_quiet(url, address, mine, "alone", seconds))
        with _attacking(url, names, address, theirs):
            beside = asyncio.run(_quiet(url, address, mine, "beside", seconds))
    figures: Figures = {}
    for what, before, after in zip(("request", "late"), alone, beside, strict=True):
        p99_alone, p99 = quantile(sorted(before), 0.99), quantile(sorted(after), 0.99)
        figures |= {
            f"{what}_alone_p99_ms": p99_alone,
            f"{what}_p50_ms": quantile(sorted(after), 0.5),
            f"{what}_p99_ms": p99,
            f"{what}_times": p99 / p99_alone,
        }
    return figures


async def _keys(url: str) -> tuple[str, str]:
    """API keys of the quiet and of the attacking tenant, with default limits."""
    async with Duly(url) as duly:
        made = [await duly.keys.create(name, tenant=name, scope="write") for name in ("quiet", "other")]
        return made[0].secret, made[1].secret


@contextlib.contextmanager
def _attacking(url: str, names: str, address: str, secret: str) -> Iterator[None]:
    if "rules" in names:
        asyncio.run(_store_rules(url))
    command = [sys.executable, "-m", "benchmarks.attacks", names, address, secret]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise Broken("the attack did not begin: see above")
            time.sleep(SETTLING)
            if "due" in names:
                asyncio.run(_flood(url))
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)


async def _store_rules(url: str) -> None:
    """Stores schedules of the attacking tenant, so that the worker evaluates rules each second. Each has 365 positions
    of its own, so that no cached rule serves another schedule."""
    async with Duly(url) as duly:
        for number in range(STORED):
            positions = ",".join(str(place) for place in range(1, 367) if place != 2 + number)
            rule = rrule(f"FREQ=SECONDLY;BYMONTH={MONTHS};BYSETPOS={positions}")
            await duly.every(f"each-second-{number}", rule, "bench", tenant="other")


async def _flood(url: str) -> None:
    async with Duly(url) as duly:
        due = datetime.now(UTC) + timedelta(seconds=FLOOD / 20_000)
        for start in range(0, FLOOD, CHUNK):
            await duly.add_many(Timer(due, "bench", tenant="other") for _ in range(start, start + CHUNK))


async def _quiet(url: str, address: str, secret: str, phase: str, seconds: int) -> Noticed:
    """Sends requests at a fixed rate, without waiting for the answer of the one before."""
    took: list[float] = []
    known = [f"{phase}-0"]  # keys of stored timers, which can be read back
    headers = {"Authorization": f"Bearer {secret}"}
    async with aiohttp.ClientSession(address, headers=headers) as session, asyncio.TaskGroup() as group:

        async def one(number: int) -> None:
            began = time.perf_counter()
            if number % 2 == 0:
                key = f"{phase}-{number // 2}"
                due = (datetime.now(UTC) + DUE).isoformat().replace("+00:00", "Z")
                body = {"type": "bench", "due_at": due}
                async with session.put(f"/v1/timers/{key}", json=body) as answer:
                    await answer.read()
                known[0] = key
            else:
                async with session.get(f"/v1/timers/{known[0]}") as answer:
                    await answer.read()
            if answer.status not in (200, 201):
                raise Broken(f"the quiet tenant was answered with {answer.status}")
            took.append(1000 * (time.perf_counter() - began))

        await one(0)
        begin = time.perf_counter()
        for number in range(1, RATE * (WARMING + seconds)):
            await asyncio.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
            if number == RATE * WARMING:
                took.clear()
            group.create_task(one(number))
    await asyncio.sleep(2 * DUE.total_seconds())
    return Noticed(took, await _lateness(url, phase))


async def _lateness(url: str, phase: str) -> list[float]:
    async with Duly(url) as duly, asyncio.timeout(TIMEOUT):
        while True:
            events = [
                event
                for event in await duly.events.find(OfTenant("quiet"), limit=1000)
                if str(event.key).startswith(phase) and _counts(event)
            ]
            if all(event.executed is not None for event in events):
                return [1000 * (event.executed - event.due).total_seconds() for event in events if event.executed]
            await asyncio.sleep(0.5)


def _counts(event: Event) -> bool:
    """Whether an event was scheduled after the warm-up: every second request puts a timer, with its number in the
    key."""
    return 2 * int(str(event.key).rpartition("-")[2]) >= RATE * WARMING
