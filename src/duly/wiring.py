"""Turns settings into stores, channels and routes: together with ``duly.py``, the only place that knows all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duly.channels.brokers.registry import BROKERS, make_channel
from duly.channels.lazy import LazyChannel
from duly.channels.missing import MissingChannel
from duly.channels.python.handlers import DEADLINE
from duly.config import Settings, redacted
from duly.decide.targets.commands import COMMAND, TIMEOUTS
from duly.decide.targets.targets import HTTP, WEBHOOK
from duly.errors import BadSetting, Misuse
from duly.extras import install
from duly.ports import Channel, Clock, DestinationLookup, Route
from duly.stores.sqlite.store import SqliteStore
from duly.stores.statements.statements import StoreQueries

if TYPE_CHECKING:
    from duly.stores.postgres.callers_connection import SyncCallersTransaction
    from duly.stores.postgres.store import PostgresStore

    AnyStore = SqliteStore | PostgresStore

COMMAND_DEADLINE = TIMEOUTS[1] + timedelta(minutes=1)
"""The deadline for commands: longer than any command's own, which ends an attempt first."""

COMMANDS_ADVICE = "start one with `duly worker --commands`"
"""What to do where commands wait for a worker."""

CLOSING_LIMIT_S = 1.0
"""Seconds for channels to close their connections: a broker that does not answer must not delay the exit."""

WEB_DEADLINE = timedelta(minutes=6)
"""The deadline for webhooks and HTTP requests: longer than any target's own timeout, which ends an attempt first."""


def open_store(settings: Settings, clock: Clock | None) -> "AnyStore":
    """The store for the database URL."""
    url = settings.database_url
    options: dict[str, Any] = {
        "clock": clock,
        "soon": settings.poll_interval,
        "timeout": settings.store_timeout,
        "key_memory": settings.key_memory,
    }
    if url.startswith("sqlite://"):
        path = url.removeprefix("sqlite://").removeprefix("/")
        return SqliteStore(path or ":memory:", **options)
    try:
        from duly.stores.postgres.store import PostgresStore
    except ImportError as error:
        needed = f"the PostgreSQL driver to be installed: {install('postgres')}"
        raise BadSetting("DULY_DATABASE_URL", redacted(url), needed) from error
    return PostgresStore(url, **options, api_role=settings.api_role)


def make_channels(settings: Settings, destinations: DestinationLookup) -> dict[str, Channel]:
    """All channels of Duly. Every process may schedule for all of them; one without the address of a broker leaves the
    delivery to other workers."""

    def webhook() -> Channel:
        from duly.channels.http.sender import Sender
        from duly.channels.http.webhook import Webhook

        return Webhook(Sender(settings.webhook_allow), destinations, settings.secret_key)

    def request() -> Channel:
        from duly.channels.http.request import HttpRequest
        from duly.channels.http.sender import Sender

        return HttpRequest(Sender(settings.webhook_allow), destinations, settings.secret_key)

    brokers = {name: make_channel(name, getattr(settings, f"{name}_url"), settings.broker_allow) for name in BROKERS}
    return {WEBHOOK: LazyChannel(webhook), HTTP: LazyChannel(request), COMMAND: command_channel(settings), **brokers}


def channels_apart(
    settings: Callable[[], Settings], given: Mapping[str, Channel]
) -> Callable[[str, DestinationLookup], AbstractAsyncContextManager[Channel]]:
    """Opens a channel for a single use, apart from those that deliver. *given* are the channels that stand in the place
    of Duly's own: they are used as they are."""

    @asynccontextmanager
    async def opened(name: str, destinations: DestinationLookup) -> AsyncIterator[Channel]:
        if name in given:
            yield given[name]
            return
        if name in (WEBHOOK, HTTP) and not find_spec("aiohttp"):
            yield MissingChannel(name, "cannot send requests over HTTP", "nothing is sent", install("webhooks"))
            return
        channel = make_channels(settings(), destinations)[name]
        try:
            yield channel
        finally:
            if (close := getattr(channel, "close", None)) is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(close(), CLOSING_LIMIT_S)

    return opened


def command_channel(settings: Settings) -> Channel:
    """The channel that runs commands, if this process was told to."""
    if settings.commands is not None:
        from duly.channels.command.channel import CommandChannel

        return CommandChannel(settings.commands)
    return MissingChannel(COMMAND, "runs no commands", "commands are not run", COMMANDS_ADVICE)


def routes_of(channels: Mapping[str, Channel]) -> dict[str, Route]:
    """A lane for each channel that this process can serve."""
    web = () if find_spec("aiohttp") else (WEBHOOK, HTTP)  # without aiohttp, other workers serve them
    return {
        name: _route(name, channel)
        for name, channel in channels.items()
        if not isinstance(channel, MissingChannel) and (name not in web or not isinstance(channel, LazyChannel))
    }


def _route(name: str, channel: Channel) -> Route:
    if name == COMMAND:
        return Route(channel, COMMAND_DEADLINE, ends_with_lease=True)
    return Route(channel, WEB_DEADLINE if isinstance(channel, LazyChannel) else DEADLINE)


def callers_transaction(store: Any, opened: object, given: Any) -> StoreQueries:
    """A wrapper of a caller's transaction, in which Duly can run its statements. *opened* is the store that this Duly
    has opened; *store* may be a request's confined view of it."""
    if isinstance(given, StoreQueries):
        if getattr(given, "store", opened) is not opened:
            raise Misuse("this transaction belongs to another Duly and would write to another database")
        return given
    refuse_foreign_on_sqlite(store, given)
    from duly.stores.postgres.callers_connection import CallersTransaction

    return CallersTransaction(store, given)


def sync_callers_transaction(store: Any, connection: Any) -> "SyncCallersTransaction":
    """The same for a synchronous connection."""
    refuse_foreign_on_sqlite(store, connection)
    from duly.stores.postgres.callers_connection import SyncCallersTransaction

    return SyncCallersTransaction(store, connection)


def refuse_foreign_on_sqlite(store: object, connection: Any) -> None:
    if isinstance(store, SqliteStore) or type(connection).__module__.partition(".")[0] in ("sqlite3", "apsw"):
        raise Misuse(
            f"transaction= got a {type(connection).__module__} connection. On SQLite, Duly takes only its own: two "
            "SQLite libraries on one file break each other's locks and lose committed rows. Use "
            "`async with duly.transaction() as tx:`, `await tx.execute(…)` for your writes, and transaction=tx."
        )
