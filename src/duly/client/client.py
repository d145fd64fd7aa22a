"""``Client``: the verbs of Duly on a server, over HTTP."""

import asyncio
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

import msgspec

from duly.client.event_types import EventTypes
from duly.client.events import Events
from duly.client.protocol.answers import log_warnings, problems_of
from duly.client.protocol.connection import LARGEST_BULK_BYTES, ServerConnection, place
from duly.client.protocol.group import check_tenant, said
from duly.client.protocol.refusals import here_only, refuse_transaction
from duly.client.protocol.writing import ANY_CHANNEL, instants, timer_body
from duly.client.schedules.schedules import Schedules
from duly.client.schedules.templates import Templates
from duly.client.targets import Targets
from duly.client.users.users import Users
from duly.client.workers import Workers
from duly.decide.figures.stats import By, by_problems
from duly.decide.keys import required_fresh
from duly.decide.planning import plan
from duly.decide.series.forecast import STEP
from duly.errors import Invalid, Misuse
from duly.ids import new_ids
from duly.ports import Added
from duly.records.event import EVENT_JSON, Event, NewEvent, Timer, TimerOptions
from duly.records.figures.forecast import FORECAST_JSON, Forecast
from duly.records.figures.stats import STATS_JSON, Stats
from duly.records.finding.search import USUALLY_FOUND, SearchResult, SearchResults, check_most, read_search
from duly.records.results import CancelResult, PutChange
from duly.records.schedule import Schedule, ScheduleOptions
from duly.records.wire.answers import EVENT_WITH_CHANGE, TimerResult, TimerResults
from duly.rules.recurrence import Rule
from duly.values.durations import format_duration
from duly.values.instants import read_delay, read_due
from duly.verbs.marks import reads

if TYPE_CHECKING:
    from duly.sync import SyncClient

TIMERS_PER_REQUEST = 5000
"""Timers in one request; the server takes twice as many."""

CHANGES = {"changed": "moved"}
"""Names of changes that differ between the API and the verbs."""

PUT_TIMER = msgspec.json.Decoder(EVENT_WITH_CHANGE)

RENAMED_OF_TIMER = {"after": "due", "due_at": "due"}
"""Names of a timer's fields that differ between JSON and the verbs."""

DEFAULT_TENANT = "default"
"""The tenant of a timer that names none."""

IN_THE_SERVER = "it must be called in the program that runs the events: use Duly there, or `duly serve --app`"


TIMERS = msgspec.json.Decoder(TimerResults)
FOUND = msgspec.json.Decoder(SearchResults)


def change_of(status: str) -> PutChange:
    return PutChange(CHANGES.get(status, status))


class PutTimerReader:
    """Reads the answer to a timer that was put: the event, and what has changed."""

    def decode(self, written: bytes) -> Added:
        told: Any = PUT_TIMER.decode(written)
        log_warnings(told.warnings)
        return Added(EVENT_JSON.read(told), change_of(told.change))


class Client:
    """A Duly on a server, behind its HTTP API: the same verbs, with the same arguments, results and errors.

    *timeout* is the total time of a call. Until it ends, failed or lost connections, 503 and 429 are retried under the
    same Idempotency-Key, so that nothing happens twice. *tenant* is for keys of all tenants; other keys have a tenant
    of their own. *tls* is for a server whose certificate was signed by your own authority.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        tenant: str | None = None,
        timeout: timedelta | float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if not 0 < seconds <= 86_400:
            raise Misuse(f"timeout= must be more than 0 seconds and at most a day, not {timeout!s:.50}")
        self._connection = ServerConnection(url, key, tenant, seconds, tls)
        self._opened = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sync: SyncClient | None = None
        self.events = Events(self._connection)
        self.schedules = Schedules(self._connection)
        self.templates = Templates(self._connection)
        self.users = Users(self._connection)
        self.targets = Targets(self._connection)
        self.event_types = EventTypes(self._connection)
        self.workers = Workers(self._connection)

    def __repr__(self) -> str:
        tenant = "" if self._connection.tenant is None else f", tenant={self._connection.tenant!r}"
        return f"Client({self._connection.url!r}{tenant})"

    # -- open and close

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._opened == 0:
            await self._connection.open()
            self._loop = loop
        elif loop is not self._loop:
            raise Misuse(
                "this Client is open in another event loop (its .sync has its own loop): create a second Client"
            )
        self._opened += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._opened -= 1
        if self._opened == 0:
            await self._connection.close()

    # -- schedule timers

    async def at(
        self,
        due: datetime,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once at an instant. With a *key*, a second call moves the first event, unless it has started. A key that
        has fired stays fired: with the same due time, the call returns the event; with another one, it raises
        AlreadyFired, unless *once* is False."""
        return required_fresh(await self.put(due, type, payload, transaction=transaction, **options))

    async def after(
        self,
        delay: timedelta | float | str,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once, after a delay from the server's current time: a timedelta, a number of seconds, or text such as
        ``1h``. The options are those of ``at``.

        Each call is due at another time. So if its *key* has fired, it always raises AlreadyFired, unless *once* is
        False: where calls are repeated, use ``put``, or ``at`` with a time that belongs to the command.
        """
        planned = self._planned(read_delay(delay), type, payload, transaction=transaction, **options)
        return required_fresh(await self._put(planned))

    async def put(
        self,
        due: datetime | timedelta | float | str | None = None,
        type: str = "",
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Added:
        """Do the same as ``at``, given an instant, or as ``after``, given a delay; also return whether the event was
        created, moved or left unchanged, or whether its *key* had already fired.

        With *quiet* instead of a due time, it is due so long after the last call with its *key*, at most *max_wait*
        after the first one: ``put(type="index", key="doc-7", quiet="1m", max_wait="10m")``.
        """
        return await self._put(self._planned(due, type, payload, transaction=transaction, **options))

    async def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        """Schedule many timers; return their ids, in order.

        If one timer is invalid, none is sent. Problems that only the server can find, such as an unknown channel or a
        key that belongs to an event of another type, raise Invalid too; the other timers are scheduled then.
        """
        refuse_transaction(transaction)
        given = list(timers)
        for timer in given:
            if isinstance(timer, Timer) and timer.tenant != DEFAULT_TENANT:
                check_tenant(self._connection, timer.tenant)
        planned = plan(given, ANY_CHANNEL, new_ids)
        results: list[TimerResult] = []
        for chunk in _chunks(planned):
            results += await self._send(chunk)
        refused = [
            problem
            for index, result in enumerate(results)
            for problem in problems_of(result.errors, f"[{index}].", RENAMED_OF_TIMER)
        ]
        if refused:
            raise Invalid(refused)
        return [str(result.id) for result in results]

    async def every(
        self, name: str, rule: Rule, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Fire repeatedly by a rule. A second call with this name replaces the schedule. The options are those of
        ``schedules.put``."""
        return await self.schedules.put(name, rule, type, payload, **options)

    async def cancel(
        self,
        id: str,
        *,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> CancelResult:
        """Cancel an event, by its id or key: ``cancelled``, ``running`` (it was asked to stop), ``fired`` or
        ``nothing``. Does the same as ``events.cancel``."""
        return await self.events.cancel(id, tenant=tenant, transaction=transaction, by=by, reason=reason)

    @reads
    async def search(self, text: str, *, tenant: str | None = None, limit: int = USUALLY_FOUND) -> list[SearchResult]:
        """Find what has this id, key or name, or a name that begins so, the best match first: events by their id (which
        is the webhook-id) or key, users by id, key or name, schedules and targets by name."""
        check_tenant(self._connection, tenant)
        check_most(limit)
        asked = {"q": read_search(text).text, "limit": str(limit)}
        return (await self._connection.ask("GET", place("search"), reads=FOUND, query=asked)).results

    @reads
    async def forecast(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        step: timedelta | float | str | None = None,
        *,
        tenant: str | None = None,
    ) -> Forecast:
        """Tell how many events are known to become due in each step: those that wait, and those that follow by the
        rules of schedules and users. Without *from_*, it begins with the step that is under way; without *to*, it has
        24 steps; without *step*, the steps are an hour long, or as long as the range needs."""
        check_tenant(self._connection, tenant)
        asked = {
            **instants({"from": from_, "to": to}),
            "step": None if step is None else format_duration(STEP.read("step", step)),
        }
        return await self._connection.ask("GET", place("forecast"), reads=FORECAST_JSON, query=said(**asked))

    @reads
    async def stats(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        *,
        by: By | None = None,
        tenant: str | None = None,
    ) -> Stats:
        """Tell what has become of events: how many runs, how they ended, how long they took, and how late they began,
        together and by day (UTC); with *by* ``"type"`` or ``"lane"``, also of each type or lane. Without *to*, it ends
        now; without *from_*, it has 30 days."""
        check_tenant(self._connection, tenant)
        if problems := by_problems(by):
            raise Invalid(problems)
        query = said(**instants({"from": from_, "to": to}), by=by)
        return await self._connection.ask("GET", place("stats"), reads=STATS_JSON, query=query)

    @property
    def sync(self) -> "SyncClient":
        """The same calls for synchronous code: ``with Client(…).sync as duly:``."""
        if self._sync is None:
            from duly.sync import SyncClient

            self._sync = SyncClient(self)
        return self._sync

    # -- refused over HTTP

    def on(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("on", IN_THE_SERVER)

    def schedule(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("@schedule", f"{IN_THE_SERVER}; or put a schedule with `every` and a target")

    def check(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("check", IN_THE_SERVER)

    def observe(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("observe", IN_THE_SERVER)

    def run(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("run", IN_THE_SERVER)

    def prune(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("prune", IN_THE_SERVER)

    def tick(self, *_: Any, **__: Any) -> NoReturn:
        raise here_only("tick", IN_THE_SERVER)

    def stop(self) -> NoReturn:
        raise here_only("stop", IN_THE_SERVER)

    def transaction(self) -> NoReturn:
        raise here_only("transaction", "use Duly on the database itself, or call after your commit, with a key=")

    @property
    def keys(self) -> NoReturn:
        raise here_only("keys", "create keys where the server runs, with `duly keys create`")

    # -- internal

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which this Client is open."""
        return self._loop if self._opened else None

    @property
    def one_writer(self) -> bool:
        return False

    def lend(self) -> AbstractAsyncContextManager[Any]:
        self.transaction()

    def foreign(self, connection: Any) -> None:
        """Refuses a database connection, with the reason why a Client cannot use it."""
        refuse_transaction(connection)

    def _planned(
        self,
        due: Any,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> NewEvent:
        refuse_transaction(transaction)
        check_tenant(self._connection, options.pop("tenant", None))
        [planned] = plan((Timer(read_due(due), type, payload, **options),), ANY_CHANNEL, new_ids)
        return planned

    async def _put(self, planned: NewEvent) -> Added:
        """Sends a timer; one without a key as a batch of one. Both have an Idempotency-Key: a retried request does not
        start the delay again."""
        if planned.key is not None:
            put, reads = place("timers", planned.key), PutTimerReader()
            return await self._connection.ask(
                "PUT", put, timer_body(planned), reads=reads, once=True, renamed=RENAMED_OF_TIMER
            )
        [result] = await self._send([_raw(planned)])
        if result.errors:
            raise Invalid(problems_of(result.errors, renamed=RENAMED_OF_TIMER))
        return Added(await self.events.get(str(result.id)), change_of(result.status))

    async def _send(self, timers: Sequence[msgspec.Raw]) -> list[TimerResult]:
        answer = await self._connection.ask("POST", place("timers"), {"timers": timers}, reads=TIMERS, once=True)
        log_warnings(answer.warnings)
        results: list[TimerResult] = answer.results
        return results


def _raw(event: NewEvent) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(timer_body(event)))


def _chunks(events: Sequence[NewEvent]) -> Iterator[Sequence[msgspec.Raw]]:
    chunk: list[msgspec.Raw] = []
    size = 0
    for raw in map(_raw, events):
        if chunk and (len(chunk) >= TIMERS_PER_REQUEST or size + len(raw) > LARGEST_BULK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(raw)
        size += len(raw)
    if chunk:
        yield chunk
