"""``Duly``: the object that applications use. It offers the verbs, opens the store, and runs the worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import msgspec

from duly.channels.missing import MissingChannel
from duly.channels.python.handlers import DEADLINE, Handlers
from duly.config import Settings, read_settings
from duly.decide.calendars.event_types import EventType, shipped
from duly.decide.figures.stats import By
from duly.decide.own_checks import Check, CheckedChannels, OwnChecks
from duly.decide.retry import DEFAULT, Retry
from duly.decide.targets.commands import COMMAND
from duly.engine.destinations.broker_health import tell_what_is_not_served
from duly.engine.destinations.destination_cache import DestinationCache
from duly.engine.destinations.target_tester import TargetTester
from duly.engine.fairness.limits import Unlimited
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.presence.never_served import NeverServed
from duly.engine.retention.prune import SHARE_BY_HAND, Tally, prune
from duly.engine.series.code_schedules import CodeSchedules, origin_of, orphaned, put_declared
from duly.engine.series.follow_settings import follow_for_a_while, follow_settings
from duly.engine.series.put_schedule import ScheduleDraft, checked
from duly.engine.series.put_users import Calendars
from duly.engine.stopping import signal_handlers
from duly.engine.tick import run_what_is_ready
from duly.engine.upkeep import nothing_to_follow
from duly.engine.worker import Worker
from duly.errors import Misuse, StoreUnavailable
from duly.observers.logs import observe_with_logs
from duly.observers.metrics.metrics import Metrics
from duly.ports import Channel, Clock, CreatedEvent, Route, Transaction
from duly.records.event import lane_of
from duly.records.figures.forecast import Forecast
from duly.records.figures.stats import Stats
from duly.records.finding.search import USUALLY_FOUND, SearchResult
from duly.records.results import Pruned
from duly.records.schedule import Schedule, ScheduleOptions
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.signals import ChannelNotServed, Created, FileCreated, Observer, Opened, PassEnded, Signals, TypeNotServed
from duly.stores.sqlite.store import SqliteStore
from duly.stores.statements.statements import StoreQueries
from duly.values.durations import EXAMPLES as A_DURATION
from duly.values.durations import parse_duration
from duly.verbs.event_types import SettableEventTypes
from duly.verbs.events.events import Events
from duly.verbs.figures.forecast import forecast
from duly.verbs.figures.stats import stats
from duly.verbs.keys import Keys
from duly.verbs.marks import reads
from duly.verbs.requests import Requests
from duly.verbs.schedules.schedules import Schedules
from duly.verbs.schedules.templates import Templates
from duly.verbs.search import search
from duly.verbs.targets import Targets
from duly.verbs.timers import TimerVerbs
from duly.verbs.users.users import Users
from duly.verbs.workers import Workers
from duly.wiring import (
    CLOSING_LIMIT_S,
    COMMANDS_ADVICE,
    callers_transaction,
    channels_apart,
    command_channel,
    make_channels,
    open_store,
    routes_of,
    sync_callers_transaction,
)

if TYPE_CHECKING:
    from duly.stores.postgres.callers_connection import SyncCallersTransaction
    from duly.sync import Sync
    from duly.wiring import AnyStore

Function = TypeVar("Function", bound=Callable[..., Any])


class Duly(TimerVerbs):
    """A durable scheduler on one database.

    Every call that schedules returns when the event is safe on disk. Times are aware datetimes; payloads are any JSON
    values.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        clock: Clock | None = None,
        channels: Mapping[str, Channel] | None = None,
        migrate: bool = True,
        settings: Settings | None = None,
        **overrides: Any,
    ) -> None:
        self.settings = settings or read_settings(database_url=database_url, **_known(overrides))
        self._handlers = Handlers(lambda: self.settings.concurrency)
        self._code_schedules = CodeSchedules()
        self._own_checks = OwnChecks()
        self._migrate = migrate
        self._signals = Signals(self.settings.late_after)
        self._worker: Worker | None = None
        self._logged = False
        self._metrics: Metrics | None = None
        self._opened = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker_loop: asyncio.AbstractEventLoop | None = None
        self._sync: Sync | None = None
        self._bind(open_store(self.settings, clock), shipped(), channels or {})

    def _bind(self, store: "AnyStore", types: Collection[EventType], channels: Mapping[str, Channel]) -> None:
        """Joins the verbs to a store, and to the channels of the settings with *channels* in their places."""
        self.store: AnyStore = store
        self._opens = store
        self.store.on_created = self._tell_created
        self.destination_cache = DestinationCache(self.store)
        self._channels: CheckedChannels[Channel] = CheckedChannels(
            {**make_channels(self.settings, self.destination_cache), **channels}, self._own_checks
        )
        self.events = Events(self.store, self._channels, self.transaction_of)
        self.targets = Targets(
            self.store,
            self.destination_cache.forget,
            self.settings.secret_key,
            self._signals,
            transaction_of=self.transaction_of,
            channels=self._channels,
            tester=TargetTester(self.store, channels_apart(lambda: self.settings, channels)),
        )
        self.schedules = Schedules(self.store, self._channels, self.transaction_of, self.store)
        self.templates = Templates(self.store, self._channels, self.transaction_of)
        self.event_types = SettableEventTypes(types, self.store, self.transaction_of)
        self.calendars = Calendars(self.event_types, self.settings.delivery_time, self._channels, self._handlers.lanes)
        self.event_types.plan_with(self.calendars)
        self.users = Users(self.store, self.calendars, self.transaction_of)
        self.keys = Keys(self.store)
        self.workers = Workers(self.store, self.store)
        self._never_served = NeverServed(self._lanes_here, self.workers.never_served, self._tell_never_served)
        self.requests = Requests(self.store)

    # -- handlers, schedules in code, observers

    def on(
        self,
        type: str,
        *,
        also: Collection[str] = (),
        transactional: bool = False,
        deadline: timedelta = DEADLINE,
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the handler of an event type; async or plain def.

        *also* names types that it handles as well, such as former names of its type: what waits under them is served.
        A transactional handler gets the transaction as its second argument: its effect and the event's completion
        commit together.
        """

        def register(function: Function) -> Function:
            if isinstance(also, str):
                raise Misuse(f"also={also!r:.60} must be a list of types, such as also=[{also!r:.60}]")
            for one in (type, *also):
                self._handlers.register(one, function, transactional=transactional, deadline=deadline)
            self._code_schedules.add_function(function)
            return function

        return register

    def schedule(
        self,
        rule: Rule,
        *,
        name: str | None = None,
        type: str | None = None,
        payload: Any = None,
        tenant: str = "default",
        retry: Retry = DEFAULT,
        tags: Collection[str] | None = None,
        timezone: str | None = None,
        deadline: timedelta = DEADLINE,
        **policies: Unpack[PolicyOptions],
    ) -> Callable[[Function], Function]:
        """Run the decorated function by a rule, under its own name unless another is given. The schedule is stored when
        the worker starts; a paused schedule stays paused. The policies are those of ``schedules.put``."""

        def register(function: Function) -> Function:
            if not callable(function):
                raise Misuse(f"@duly.schedule must decorate a function, not {function!r:.50}")
            own = name or getattr(function, "__qualname__", None) or repr(function)
            draft = ScheduleDraft(
                name=own,
                rule=rule,
                type=type or own,
                payload=payload,
                tenant=tenant,
                retry=retry,
                tags=tags,
                timezone=timezone,
                policies=policies,
                origin=origin_of(function),
            )
            checked(draft, self._channels)  # here, where the traceback shows the author's line
            self._handlers.register(type or own, function, deadline=deadline)
            self._code_schedules.add_function(function)
            self._code_schedules.drafts.append(draft)
            return function

        return register

    def check(self, type: str) -> Callable[[Check], Check]:
        """Register the decorated function as a check of timers of an event type. It gets the timer and yields problems,
        as a ``Problem`` or as text; a timer with problems is not stored."""

        def register(check: Check) -> Check:
            self._own_checks.add(type, check)
            return check

        return register

    def observe(self, observer: Observer, *kinds: type) -> Callable[[], None]:
        """Call *observer* with each signal of these kinds (or all but those of batches), after it was committed. Call
        the returned function to stop."""
        return self._signals.observe(observer, *kinds)

    def metrics(self) -> Metrics:
        """The metrics of this process, counted from the first call on: ``REGISTRY.register(duly.metrics())``, or
        ``await duly.metrics().text()``."""
        if self._metrics is None:
            self._metrics = Metrics(self._signals, self.store, self._poll_age, lambda: self.loop)
        return self._metrics

    def _poll_age(self) -> timedelta | None:
        return None if self._worker is None else self._worker.pulse.since

    async def _look_whether_served(self, lanes: Iterable[str], transaction: Any = None) -> None:
        """Tells of lanes that no worker has ever served. A caller's transaction does not wait for that."""
        if transaction is None:
            await self._never_served.look(lanes)
        elif self.loop is not None:
            self._never_served.look_beside(lanes, self.loop)

    def _tell_never_served(self, lane: str) -> None:
        self._begin_to_log()
        type = lane.partition(":")[2]
        self._signals.emit(ChannelNotServed(COMMAND, COMMANDS_ADVICE) if lane == COMMAND else TypeNotServed(type))

    def _lanes_here(self) -> set[str]:
        """The lanes of which nobody has to be told: this process has their handlers."""
        return set(self._handlers.lanes) | ({COMMAND} if self.settings.commands is not None else set())

    def _begin_to_log(self) -> None:
        """Starts logging. Not done in the constructor, because the application may configure logging after it."""
        if not self._logged:
            self._logged = True
            observe_with_logs(self._signals)

    def _tell_created(self, events: Sequence[CreatedEvent]) -> None:
        if self._signals.wanted(Created):
            ids: dict[tuple[str, str, str], list[str]] = {}
            for event in events:
                ids.setdefault((event.type, event.tenant, event.lane), []).append(event.id)
            for of_all, these in ids.items():
                self._signals.emit(Created(these, *of_all))

    # -- open, run, stop

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._opened == 0:
            await self.store.open(migrate=self._migrate)
            self._loop = loop
            if isinstance(self.store, SqliteStore) and self.store.made is not None:
                self._begin_to_log()
                self._signals.emit(FileCreated(str(self.store.made)))
                self.store.made = None
            self._signals.emit(Opened())
        elif loop is not self._loop:
            raise Misuse("this Duly is open in another event loop (duly.sync has its own loop): create a second Duly")
        self._opened += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._opened -= 1
        if self._opened == 0:
            await self._never_served.close()
            await self._close_channels()
            await self.store.close()

    async def _close_channels(self) -> None:
        """Closes all channels at the same time, within CLOSING_LIMIT_S: a broker that does not answer must not delay
        the exit."""
        closes = [close() for channel in self._channels.values() if (close := getattr(channel, "close", None))]
        closing = [asyncio.ensure_future(close) for close in closes]
        _, left = await asyncio.wait(closing, timeout=CLOSING_LIMIT_S) if closing else ((), ())
        for task in left:
            task.cancel()
        for done in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(done, Exception):
                raise done

    async def run(self, *, signals: bool = True, name: str | None = None, lanes: Collection[str] | None = None) -> None:
        """Work until stopped: by ``stop()``, or by SIGTERM or SIGINT unless *signals* is False. Waits for a database
        that cannot be reached. With *lanes*, only timers of those lanes are run: no queries are made for schedules,
        users and targets."""
        self._worker = worker = self._new_worker(name, lanes)
        self._worker_loop = asyncio.get_running_loop()
        with _stopping_by_signals(lambda now: self.stop(now=now), self._worker_loop if signals else None):
            try:
                if await self._open_patiently(worker, declared=lanes is None):
                    try:
                        if lanes is None:
                            advice = {channel.name: channel.advice for channel in self.absent()}
                            await tell_what_is_not_served(self.store, advice, self._signals)
                        await worker.run()
                    finally:
                        await self.__aexit__()
            finally:
                self._worker = None

    async def _open_patiently(self, worker: Worker, *, declared: bool) -> bool:
        """Opens the store, and retries while it cannot be reached; returns False if the worker was stopped before."""
        outage = StoreBackoff(self._signals)
        while True:
            opening = asyncio.create_task(self._open_with(declared))
            try:
                if await worker.stopping.comes_before(opening):
                    return False
                opening.result()
            except StoreUnavailable as error:
                if await worker.stopping.wait(outage.failed(error)):
                    return False
            else:
                outage.over()
                return True
            finally:
                opening.cancel()

    async def _open_with(self, declared: bool) -> None:
        async with self:
            if declared:
                await self._put_declared()
            await self.__aenter__()

    async def tick(self, *, within: timedelta | str | None = None, signals: bool = False) -> PassEnded:
        """Run everything that is due now, once; return the figures of the pass. Events that become due meanwhile are
        left for the next pass. After *within*, or with *signals* at SIGTERM or SIGINT, no more events are started, and
        the pass ends like a stopped ``run``."""
        span = None if within is None else _positive(within)
        worker = self._new_worker(None)
        async with self:
            await self._put_declared()
            await follow_for_a_while(self.store, self.calendars)
            with _stopping_by_signals(
                lambda now: worker.stop(now=now), asyncio.get_running_loop() if signals else None
            ):
                return await worker.tick(span)

    def stop(self, *, now: bool = False) -> None:
        """Let ``run`` stop claiming, finish the events under way and return; with *now*, they are given back at once.
        Any thread may call it."""
        if self._worker is not None and self._worker_loop is not None:
            self._worker_loop.call_soon_threadsafe(partial(self._worker.stop, now=now))

    # -- schedules, retention, forecast

    async def every(
        self, name: str, rule: Rule, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Fire repeatedly by a rule. A second call with this name replaces the schedule. The options are those of
        ``schedules.put``."""
        schedule = await self.schedules.put(name, rule, type, payload, **options)
        if schedule.consequence is None:  # not a dry run, which tells nobody
            await self._look_whether_served([lane_of(schedule.type, schedule.target)], options.get("transaction"))
        return schedule

    async def prune(self, *, dry_run: bool = False, on_progress: Callable[[Pruned], object] | None = None) -> Pruned:
        """Delete finished events that are older than the setting ``retention``, with their history, in small batches;
        or, with *dry_run*, tell what would be deleted. Workers do the same all the time."""
        tally = Tally()
        batches = prune(self.store, self.settings.retention, share=SHARE_BY_HAND, dry_run=dry_run)
        async for batch in batches:
            tally.add(batch.gone)
            if on_progress is not None:
                on_progress(tally.result(dry_run=dry_run))
        return tally.result(dry_run=dry_run)

    @reads
    async def search(self, text: str, *, tenant: str = "default", limit: int = USUALLY_FOUND) -> list[SearchResult]:
        """Find what has this id, key or name, or a name that begins so, the best match first: events by their id (which
        is the webhook-id) or key, users by id, key or name, schedules and targets by name. The text may be pasted with
        blanks or quotes around it, or as a header."""
        return await search(self.store, text, tenant, limit)

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
        rules of schedules and users, with pauses, exclusions, ends, jitter and changes of clocks.

        Without *from_*, it begins with the step that is under way; without *to*, it has 24 steps; without *step*, the
        steps are an hour long, or as long as the range needs. See docs/forecast.md for what cannot be known.
        """
        return await forecast(self.store, from_, to, step, tenant)

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
        together and by day (UTC); with *by* ``"type"`` or ``"lane"``, also of each type or lane.

        Without *to*, it ends now; without *from_*, it has 30 days. `duly.schedules.stats` tells the same of a schedule.
        """
        return await stats(self.store, from_, to, tenant, by=by)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A database transaction: ``await tx.execute(…)`` for your own writes, ``transaction=tx`` for Duly's."""
        async with self.store.lend() as tx:
            yield tx

    @property
    def sync(self) -> "Sync":
        """The same calls for synchronous code."""
        if self._sync is None:
            from duly.sync import Sync

            self._sync = Sync(self)
        return self._sync

    # -- internal

    async def now(self) -> datetime:
        """The current time by the store's clock, which is the authoritative one."""
        return await self.store.now()

    @property
    def signals(self) -> Signals:
        return self._signals

    @property
    def channels(self) -> Collection[str]:
        """The names of the channels on which events can be sent."""
        return self._channels

    @property
    def worker(self) -> Worker | None:
        """The worker that ``run`` runs in this process at the moment."""
        return self._worker

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which this Duly is open."""
        return self._loop if self._opened else None

    @property
    def one_writer(self) -> bool:
        """Whether the database is SQLite."""
        return self.database_path is not None

    @property
    def database_path(self) -> str | None:
        """The file of a SQLite database, or ``:memory:``; None on PostgreSQL."""
        return self._opens.path if isinstance(self._opens, SqliteStore) else None

    @contextlib.contextmanager
    def rebound(self, store: "AnyStore", settings: Settings, channels: Mapping[str, Channel]) -> Iterator[None]:
        """Another database and other channels within this context: ``duly.testing`` puts a test's own in their places.
        What is registered meanwhile is forgotten at the end."""
        if self._opened:
            raise Misuse("this Duly is open: rebind it before it is opened")
        before = dict(vars(self))
        self.settings = settings
        self._handlers, self._code_schedules = self._handlers.copy(), self._code_schedules.copy()
        self._own_checks, self._signals = self._own_checks.copy(), self._signals.copy()
        self._bind(store, [*self.event_types], channels)
        try:
            yield
        finally:
            left_open = self._opened
            vars(self).update(before, _sync=self._sync)
            if left_open:
                raise Misuse(
                    "this Duly was left open: end `async with duly:` or `with duly.sync:` before the test ends"
                )

    @contextlib.asynccontextmanager
    async def by_hand(self) -> AsyncIterator[Callable[[datetime], Awaitable[datetime | None]]]:
        """A worker that works only when it is called, until nothing is ready any more, and then tells when more will
        be. ``duly.testing`` calls it each time it has moved the clock, with the time that it shows."""
        async with self:
            await self._put_declared()
            await follow_for_a_while(self.store, self.calendars)
            async with self._new_worker(None, unlimited=True).by_hand() as loop:
                yield partial(run_what_is_ready, loop, self.store)

    def lend(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        return self.store.lend()

    def foreign(self, connection: Any) -> "SyncCallersTransaction":
        """A wrapper of a caller's synchronous connection, in which Duly can run its statements."""
        return sync_callers_transaction(self.store, connection)

    def transaction_of(self, given: Any) -> StoreQueries | None:
        """A wrapper of the caller's transaction, in which Duly can run its statements."""
        return None if given is None else callers_transaction(self.store, self._opens, given)

    def routes(self) -> dict[str, Route]:
        """The routes of this process: a lane for each handler and each channel."""
        return {**dict(self._handlers.routes()), **routes_of(self._channels)}

    def serve_commands(self, folders: Sequence[str] = ()) -> None:
        """Run commands as well. Requests over HTTP may name the programs in these *folders*, and no others."""
        self.settings = msgspec.structs.replace(self.settings, commands=read_settings(commands=list(folders)).commands)
        self._channels[COMMAND] = command_channel(self.settings)

    def absent(self) -> list[MissingChannel]:
        """The channels that this process does not serve: brokers that it cannot reach, and commands."""
        return [channel for channel in self._channels.values() if isinstance(channel, MissingChannel)]

    def _new_worker(self, name: str | None, lanes: Collection[str] | None = None, *, unlimited: bool = False) -> Worker:
        self._begin_to_log()
        routes = {lane: route for lane, route in self.routes().items() if lanes is None or lane in lanes}
        return Worker(
            self.store,
            routes,
            self.settings,
            self._signals,
            name,
            self.destination_cache,
            limits=Unlimited(self.settings.concurrency) if unlimited else None,
            timers_only=lanes is not None,
            follow=nothing_to_follow if lanes is not None else partial(follow_settings, self.store, self.calendars),
        )

    async def orphans(self) -> list[Schedule]:
        """The schedules that this program once declared in code, and does not declare any more. They still fire."""
        return await orphaned(self.store, self._code_schedules)

    async def _put_declared(self) -> None:
        """Stores the schedules that the code declares, and reports those that it does not declare any more."""
        await put_declared(self.store, self._code_schedules, self._channels, self._signals)


@contextlib.contextmanager
def _stopping_by_signals(stop: Callable[[bool], None], loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    caught = []
    for number, handler in signal_handlers(stop).items() if loop else ():
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # on other platforms or threads
            loop.add_signal_handler(number, handler)  # type: ignore[union-attr]
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)  # type: ignore[union-attr]


def _positive(within: timedelta | str) -> timedelta:
    try:
        span = within if isinstance(within, timedelta) else parse_duration(within)
    except (ValueError, AttributeError):
        raise Misuse(f"within={within!r:.50} cannot be used: expected {A_DURATION}") from None
    if span <= timedelta():
        raise Misuse(f"within={within!r:.50} leaves no time to run events: give a longer duration")
    return span


def _known(overrides: dict[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(overrides) - set(Settings.__struct_fields__)):
        raise Misuse(f"Duly has no option {unknown[0]!r}; known: {', '.join(Settings.__struct_fields__)}")
    return overrides
