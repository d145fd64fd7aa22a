"""``duly demo``: timers, a schedule, birthdays, webhooks and a handler that fails twice, live; made to be killed and
started again."""

import asyncio
import contextlib
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import App, Parameter

from duly.cli.demo.views import TENANT, Lines, Screen, View
from duly.cli.invocation import Hidden
from duly.config import read_settings, without_login
from duly.decide.retry import Retry
from duly.decide.targets.secrets import SecretKeys
from duly.decide.targets.targets import webhook
from duly.duly import Duly
from duly.errors import BadSetting, Conflict, Invalid, Misuse, NotFound, Problem, StoreUnavailable
from duly.records.event import Event, Status, Timer
from duly.records.specs import InStatus, OneOf
from duly.rules.notation import every
from duly.rules.zones import to_wall
from duly.timer_service.messages import TIMER
from duly.values.durations import format_duration, parse_duration
from duly.verbs.events.events import MOST

if TYPE_CHECKING:
    from duly.cli.demo.broker import DemoBroker
    from duly.cli.demo.receiver import Receiver

RECEIVER = "receiver"
DATABASE = "sqlite:///duly-demo.db"
KEY = SecretKeys("what the demo keeps secret is for everybody to see")  # if there is no DULY_SECRET_KEY
LEASE = timedelta(seconds=3)  # short, so that events interrupted by a crash are retried soon
ROUND = timedelta(seconds=15)
"""How often the demo plans its timers again."""

DURATION_WITHOUT_TERMINAL = timedelta(seconds=15)
"""How long the demo runs without a terminal."""

THIS_YEARS_BIRTHDAY_WITHIN = timedelta(days=1)
"""Birthday events farther ahead than this are next year's."""


class Guest(NamedTuple):
    """A user whose birthday is today, some seconds after the start of the demo."""

    first_name: str
    last_name: str
    timezone: str
    seconds: int


GUESTS = (
    Guest("Ada", "Lovelace", "Europe/London", 5),
    Guest("Grace", "Hopper", "America/New_York", 7),
    Guest("Katsuko", "Saruhashi", "Asia/Tokyo", 9),
)


def register(commands: App) -> None:
    commands.command(demo)


def demo(
    *,
    for_: Annotated[
        str | None,
        Parameter(
            name="--for",
            help="Stop after this time, such as 20s (default: run until Ctrl-C, or 15s without a terminal)",
            metavar="SPAN",
        ),
    ] = None,
    invocation: Hidden,
) -> None:
    """Watch events fire, kill it, start it again: nothing is lost.

    It keeps its events in duly-demo.db in the current folder, and receives its own webhooks on this host.
    """
    if invocation.app:
        raise Misuse("the demo has its own handlers: remove --app")
    watched = sys.stdout.isatty() and not invocation.json
    span = _span(for_) if for_ is not None else None if watched else DURATION_WITHOUT_TERMINAL
    url = invocation.db or DATABASE
    view = Screen(url) if watched else Lines(url, json=invocation.json)
    quiet = logging.getLogger("duly")  # the view shows the same, more readably
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    asyncio.run(run(url, view, span))


def _duly(url: str, view: View, broker: "DemoBroker | None") -> Duly:
    try:
        duly = Duly(
            url,
            lease=LEASE,
            poll_interval=timedelta(seconds=1),
            shutdown_grace=timedelta(seconds=1),
            secret_key=read_settings(database_url=url).secret_key or KEY,
            webhook_allow="127.0.0.0/8",
            channels={} if broker is None else {TIMER: broker.broker.channel},
        )
    except BadSetting as error:
        if error.name != "DULY_DATABASE_URL":
            raise
        raise Misuse(f"--db {without_login(url)!r} cannot be used: expected {error.allowed}") from None

    @duly.on("tea.ready")
    async def pour(event: Event) -> None:
        pass

    @duly.on("heartbeat")
    async def beat(event: Event) -> None:
        pass

    @duly.on("payment.charge")
    def charge(event: Event) -> None:
        if event.attempt < 3:
            raise ConnectionError("the bank says 503")

    @duly.on("report.build")
    async def build(event: Event) -> None:
        await asyncio.sleep(3)  # long enough to be killed meanwhile

    @duly.on("birthday")
    async def greet(event: Event) -> None:
        user = str(event.user_id)
        view.remark(event, _when(event, (await duly.users.next_events([user])).get(user)))

    return duly


def _when(event: Event, following: Event | None) -> str:
    said = f"{event.local:%a %H:%M:%S} in {event.timezone}"
    return said if following is None else f"{said}; the next is planned for {following.local:%Y-%m-%d %H:%M:%S}"


def _round(*, webhooks: bool) -> list[Timer]:
    """The timers that the demo plans at its start, and again every 15 seconds."""

    def timer(seconds: float, type: str, payload: str, retry: Retry, target: str | None = None) -> Timer:
        goes = None if target is None else webhook(target=target)
        return Timer(timedelta(seconds=seconds), type, payload, tenant=TENANT, target=goes, retry=retry)

    retry = Retry(max_attempts=5, base=timedelta(seconds=1), factor=2, max=timedelta(seconds=2))
    orders = (5, 8, 11) if webhooks else ()
    return [
        *(timer(seconds, "order.shipped", f"order {seconds}", retry, RECEIVER) for seconds in orders),
        timer(1, "tea.ready", "green tea", retry),
        timer(2, "payment.charge", "order 5", retry),
        timer(3, "report.build", "takes 3 s", retry),
        timer(4, "tea.ready", "oolong", retry),
        timer(6, "tea.ready", "black tea", retry),
        timer(8, "tea.ready", "rooibos", retry),
        timer(10, "tea.ready", "mint", retry),
    ]


async def run(url: str, view: View, span: timedelta | None) -> None:
    """The demo in this view, so long or until it is interrupted."""
    async with (
        _brokering(view) as broker,
        _duly(url, view, broker) as duly,
        _receiving(view) as receiver,
        _serving(duly) as api,
    ):
        counts, unfinished = await _counts(duly), await _unfinished(duly)
        now = await duly.now()
        with view:
            overdue = sum(event.due < now for event in unfinished)
            view.welcome(counts, overdue, receiver.url if receiver else None, broker.url if broker else None, api)
            if span is not None:
                view.say(f"It ends by itself after {format_duration(span)}; --for changes that.")
            duly.observe(view.hear)
            if receiver is not None:
                await _introduce(duly, receiver)
            await duly.every("heartbeat", every("2s"), "heartbeat", "every 2 s", tenant=TENANT)
            await _invite(duly)
            rounds = _plan_rounds(duly, span, broker, webhooks=receiver is not None)
            works = [rounds, _watch(duly, view), *([broker.take_in(duly), broker.listen()] if broker else [])]
            helpers = [asyncio.create_task(work) for work in works]
            if span is not None:
                asyncio.get_running_loop().call_later(span.total_seconds(), duly.stop)
            try:
                await duly.run()
            finally:
                for helper in helpers:
                    helper.cancel()
                await asyncio.gather(*helpers, return_exceptions=True)
            unfinished = await _unfinished(duly)
            view.look(unfinished, await duly.now())
        view.farewell(len(unfinished))


@contextlib.asynccontextmanager
async def _receiving(view: View) -> AsyncIterator["Receiver | None"]:
    """The receiver of webhooks; None if the libraries for webhooks are not installed."""
    if not (find_spec("aiohttp") and find_spec("cryptography")):
        yield None
        return
    from duly.cli.demo.receiver import Receiver

    async with Receiver(view.receive) as receiver:
        yield receiver


@contextlib.asynccontextmanager
async def _brokering(view: View) -> AsyncIterator["DemoBroker | None"]:
    """The broker; None if NATS is not installed."""
    if not (find_spec("aiohttp") and find_spec("nats")):
        yield None
        return
    from duly.cli.demo.broker import DemoBroker, server

    if (binary := server()) is None:
        yield None
        return
    async with DemoBroker(binary, TENANT, view.receive) as broker:
        yield broker


@contextlib.asynccontextmanager
async def _serving(duly: Duly) -> AsyncIterator[str | None]:
    """The address of the API; None if the libraries of the server are not installed."""
    if not all(find_spec(package) for package in ("starlette", "uvicorn", "httptools", "jinja2")):
        yield None
        return
    from duly.api.app import create_api
    from duly.api.server.server import address_of, http_server, listen

    try:
        listening = listen("127.0.0.1", duly.settings.port)
    except Misuse:  # another process uses the port
        listening = listen("127.0.0.1", 0)
    server = http_server(create_api(duly, keyless=TENANT), timedelta(seconds=1))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        await serving


async def _introduce(duly: Duly, receiver: "Receiver") -> None:
    """Stores the receiver as a target. It has another port and secret in each run; events that wait for the target go
    to the new address."""
    with contextlib.suppress(Conflict, NotFound):
        await duly.targets.enable(RECEIVER, tenant=TENANT)
    try:
        await duly.targets.put(RECEIVER, receiver.url, secret=receiver.secret, tenant=TENANT)
    except Misuse:  # encrypted with another key
        await duly.targets.delete(RECEIVER, tenant=TENANT)
        await duly.targets.put(RECEIVER, receiver.url, secret=receiver.secret, tenant=TENANT)


async def _invite(duly: Duly) -> None:
    """Adds the guests. Guests whom an earlier run has greeted are deleted first, because a user has only one birthday a
    year."""
    for guest in GUESTS:
        with contextlib.suppress(NotFound):
            before = await duly.users.by_key(guest.first_name, tenant=TENANT)
            ahead, soon = await duly.users.ahead(before.id), await duly.now() + THIS_YEARS_BIRTHDAY_WITHIN
            if ahead and ahead[0].due < soon:
                continue  # not greeted yet
            await duly.users.delete(before.id, reason="was greeted")
        when = to_wall(await duly.now() + timedelta(seconds=guest.seconds), guest.timezone)
        await duly.users.add(
            tenant=TENANT,
            key=guest.first_name,
            first_name=guest.first_name,
            last_name=guest.last_name,
            date_of_birth=when.date().replace(year=1992),  # a leap year, because today may be 29 February
            timezone=guest.timezone,
            delivery_time=when.time().replace(microsecond=0),
        )


async def _plan_rounds(duly: Duly, span: timedelta | None, broker: "DemoBroker | None", *, webhooks: bool) -> None:
    """Plans the rounds; starts none that could not end before the demo does."""
    left = span
    while left is None or left >= min(DURATION_WITHOUT_TERMINAL, span or DURATION_WITHOUT_TERMINAL):
        with contextlib.suppress(StoreUnavailable):
            await duly.add_many(_round(webhooks=webhooks))
        if broker is not None:
            await broker.ask()
        await asyncio.sleep(ROUND.total_seconds())
        left = None if left is None else left - ROUND


async def _watch(duly: Duly, view: View) -> None:
    while True:
        with contextlib.suppress(StoreUnavailable):
            view.look(await _unfinished(duly), await duly.now())
        for _ in range(3):
            view.refresh()
            await asyncio.sleep(0.1)


async def _unfinished(duly: Duly) -> list[Event]:
    return await duly.events.find(OneOf("status", (Status.PENDING, Status.PROCESSING)), tenant=TENANT, limit=MOST)


async def _counts(duly: Duly) -> Counter[Status]:
    """The number of events in each status that an earlier run left; read in pages, as there may be many."""
    counts: Counter[Status] = Counter()
    for status in (Status.PENDING, Status.PROCESSING, Status.COMPLETED, Status.FAILED):
        after: str | None = None
        while page := await duly.events.find(InStatus(status), tenant=TENANT, limit=MOST, after=after):
            counts[status] += len(page)
            after = page[-1].id
    return counts


def _span(written: str) -> timedelta:
    try:
        span = parse_duration(written)
    except ValueError as error:
        raise Invalid([Problem("for", str(error))]) from None
    if span < timedelta(seconds=1):
        raise Invalid([Problem("for", f"{written} is too short: at least 1s")])
    return span
