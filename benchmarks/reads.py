"""Measures reading events among a million: by id, by key, and page by page with each filter."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta

from benchmarks.peers import Peer
from benchmarks.workloads import Figures, quantile, tidy
from duly import DueBetween, Duly, ExecutedLate, InStatus, OfSeries, OfType, OfUser
from duly.ports import Page
from duly.records.specs import Spec

LARGE = "large"  # tenants
SMALL = "small"
USUAL = "default"
SCHEDULES = 100
USERS = 5000
FIRST = datetime(2025, 1, 1, tzinfo=UTC)  # when the first event is due
LIMIT = 100  # events on a page
WARM_UP = 20  # repetitions of each query that are not timed

DIALECTS: Mapping[str, Mapping[str, str]] = {
    "postgres": {
        "numbers": "",
        "source": "generate_series(1, {events}) AS numbers (n)",
        "table": "duly.events",
        "id": "lpad(to_hex({n}), 8, '0') || '-0000-7000-8000-000000000000'",
        "as_id": "::uuid",
        "as_json": "::json",
        "at": "timestamptz '2025-01-01Z' + ({n}) * interval '1 second'",
        "no": "false",
    },
    "sqlite": {
        "numbers": "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {events})",
        "source": "numbers",
        "table": "events",
        "id": "format('%08x-0000-7000-8000-000000000000', {n})",
        "as_id": "",
        "as_json": "",
        "at": "1735689600000000 + ({n}) * 1000000",
        "no": "0",
    },
}

# The events are due one second apart. One of a thousand belongs to the small tenant; rare types and statuses are old.
SEED = """\
INSERT INTO {table} (id, tenant, type, lane, status, due, ready, version, attempts, payload, key, series, occurrence,
                     head, rule, created, claimed, executed, settled, worker)
{numbers}
SELECT ({own_id}){as_id},
       CASE WHEN n % 1000 = 0 THEN 'small' WHEN n % 2 = 0 THEN 'large' ELSE 'default' END,
       CASE WHEN n < {tenth} AND n % {rare} IN (0, 2, 3) THEN 'rare' ELSE 'type-' || n % 7 END,
       'handler:bench',
       {status}, {due}, CASE WHEN {status} = 'PENDING' THEN {due} END, 2, 1,
       '{{"n": 1, "invoice": "2025-000123", "amount": "12.50", "currency": "EUR"}}',
       CASE WHEN n % 5 = 0 THEN 'key-' || n END,
       CASE n % 20 WHEN 4 THEN 'schedule:' || {schedule} WHEN 6 THEN 'user:' || {user} || ':birthday' END,
       CASE WHEN n % 20 IN (4, 6) THEN 'number ' || n END,
       {no}, CASE WHEN n % 20 = 6 THEN '{{"yearly": "03-15", "at": "09:00"}}'{as_json} END,
       {created}, {due}, CASE WHEN {status} = 'COMPLETED' THEN {due} END,
       CASE WHEN {status} = 'COMPLETED' THEN {due} END, 'worker-1'
FROM {source}
"""
STATUS = """\
CASE WHEN n > {events} - {tenth} THEN 'PENDING' WHEN n < {tenth} AND n % {rare} IN (8, 9) THEN 'SKIPPED'
            WHEN n % 2000 IN (0, 12, 13) THEN 'FAILED' ELSE 'COMPLETED' END"""


def event_id(number: int) -> str:
    return f"{number:08x}-0000-7000-8000-000000000000"


def schedule_id(number: int) -> str:
    return event_id(10**9 + number % SCHEDULES)


def user_id(number: int) -> str:
    return event_id(2 * 10**9 + number % USERS)


async def seed(duly: Duly, events: int) -> None:
    """Inserts events of two large tenants and a small one: timers, and events of schedules and users. Most of them are
    completed."""
    words = DIALECTS[duly.store.dialect]
    tenth, rare = events // 10, events // 200
    id = words["id"]
    filled = dict(words) | {
        "numbers": words["numbers"].format(events=events),
        "source": words["source"].format(events=events),
        "own_id": id.format(n="n"),
        "schedule": id.format(n=f"{10**9} + n / 20 % {SCHEDULES}"),
        "user": id.format(n=f"{2 * 10**9} + n / 20 % {USERS}"),
        "status": STATUS.format(events=events, tenth=tenth, rare=rare),
        "due": words["at"].format(n="n"),
        "created": words["at"].format(n="n - 3600"),
        "tenth": str(tenth),
        "rare": str(rare),
    }
    async with duly.store.begin() as tx:
        await tx.execute(SEED.format(**filled))
    tidy(duly.settings.database_url)


class Looker:
    """A reader that queries a different event each time, and pages through results from the newest to the oldest, then
    again from the newest."""

    def __init__(self, duly: Duly, events: int) -> None:
        self.duly, self._events = duly, events
        self._chance = random.Random(7)
        self._after: dict[tuple[Spec | None, str], str | None] = {}

    def number(self, step: int = 1, of: int = 0) -> int:
        """A random event number that is *of* modulo *step*."""
        return self._chance.randrange(1, self._events // step) * step + of

    def by_key(self) -> Awaitable[object]:
        number = self.number(10)
        return self.duly.events.by_key(f"key-{number}", tenant=SMALL if number % 1000 == 0 else LARGE)

    def first(self, spec: Spec | None = None, tenant: str = LARGE, pages: int = 0) -> Awaitable[Page]:
        """The first page, or the page after *pages* pages."""
        after = event_id(self._events - 2 * pages * LIMIT) if pages else None  # every other event has another tenant
        return self.duly.events.page(spec, tenant=tenant, limit=LIMIT, after=after)

    async def turn(self, spec: Spec | None, tenant: str = LARGE) -> None:
        after = self._after.get((spec, tenant))
        page = await self.duly.events.page(spec, tenant=tenant, limit=LIMIT, after=after)
        self._after[spec, tenant] = page.next

    @property
    def an_hour(self) -> Spec:
        start = FIRST + timedelta(seconds=self._events // 3)
        return DueBetween(start, start + timedelta(hours=1))


QUESTIONS: Mapping[str, Callable[[Looker], Awaitable[object]]] = {
    "an event by its id": lambda look: look.duly.events.get(event_id(look.number())),
    "an event by its key": lambda look: look.by_key(),
    "the first page": lambda look: look.first(),
    "the fiftieth page": lambda look: look.first(pages=49),
    "the first page of the usual tenant": lambda look: look.first(tenant=USUAL),
    "a type of which there are few": lambda look: look.turn(OfType("rare")),
    "a status of which there are few": lambda look: look.turn(InStatus("SKIPPED")),
    "the same, of the usual tenant": lambda look: look.turn(InStatus("SKIPPED"), USUAL),
    "dead letters": lambda look: look.turn(InStatus("FAILED")),
    "dead letters of a type": lambda look: look.turn(InStatus("FAILED") & OfType("rare")),
    "a small tenant": lambda look: look.turn(None, SMALL),
    "a type of a small tenant": lambda look: look.turn(OfType("rare"), SMALL),
    "due within an hour": lambda look: look.turn(look.an_hour),
    "completed late": lambda look: look.turn(ExecutedLate(timedelta(minutes=5))),
    "a schedule's": lambda look: look.first(OfSeries(f"schedule:{schedule_id(look.number())}")),
    "a user's": lambda look: look.first(OfUser(user_id(look.number()))),
}


def reads(_peer: Peer, url: str, events: int, rounds: int) -> Figures:
    """Measures the time of each query over *rounds* repetitions."""
    return asyncio.run(_reads(url, events, rounds))


async def _reads(url: str, events: int, rounds: int) -> Figures:
    async with Duly(url) as duly:
        await seed(duly, events)
        look = Looker(duly, events)
        took = [
            sorted([await _took(ask, look) for _ in range(WARM_UP + rounds)][WARM_UP:]) for ask in QUESTIONS.values()
        ]
    p99 = [quantile(times, 0.99) for times in took]
    return {"p50_ms": [quantile(times, 0.5) for times in took], "p99_ms": p99, "worst_p99_ms": max(p99)}


async def _took(ask: Callable[[Looker], Awaitable[object]], look: Looker) -> float:
    """The time of one query in milliseconds."""
    start = time.perf_counter()
    await ask(look)
    return 1000 * (time.perf_counter() - start)
