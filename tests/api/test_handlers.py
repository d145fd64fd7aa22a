"""Whatever a handler does, its event ends in the right status with a reason, and its neighbours are not delayed."""

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from duly import Delivered, Duly, Event, Failed, Misuse, Rejected, Retry, Status, Timer, Unreachable
from duly.channels.python import handlers
from duly.engine import pool
from duly.ports.transactions import Transaction
from duly.signals import ChannelDown, ChannelUp, DeadLettered, HandlerAbandoned
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, START
from tests.worker.running_worker import Told, until, working

DEADLINE = timedelta(seconds=0.2)
ONCE = Retry(max_attempts=1)

DELAY, LONG = 20.0, timedelta(minutes=1)
"""Neighbours that wait for something to go past a long deadline are late; on a busy machine they are just slow."""


async def outcome(app: Duly, *, hangs: bool = False, **options: Any) -> Event:
    """What becomes of an odd event, with three neighbours beside it that must complete, and not wait for it."""
    event = await app.at(START, "odd", **({"retry": ONCE} | options))
    neighbours = await app.add_many([Timer(START, "neighbour") for _ in range(3)])
    done, given_up = [], []

    @app.on("neighbour")
    async def neighbour(_: Event) -> None:
        done.append(time.monotonic())

    app.observe(lambda _: given_up.append(time.monotonic()), DeadLettered)
    began = time.monotonic()
    await app.tick()
    assert {(await app.events.get(id)).status for id in neighbours} == {Status.COMPLETED}
    assert max(done) < (given_up[0] if hangs else began + DELAY), "its neighbours waited for it"
    return await app.events.get(event.id)


# -- what it returns

FINE: list[Any] = [None, Delivered()]
GARBAGE: list[Any] = [
    True,
    False,
    0,
    7,
    "",
    "done",
    [],
    {},
    object(),
    b"x",
    ValueError("returned, not raised"),
    Delivered,
]


@pytest.mark.parametrize("returned", FINE, ids=repr)
async def test_a_handler_that_returns_none_or_delivered_completes_its_event(app: Duly, returned: Any) -> None:
    @app.on("odd")
    async def odd(_: Event) -> Any:
        return returned

    assert (await outcome(app)).status is Status.COMPLETED


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_handler_that_returns_garbage_leaves_a_dead_letter_that_says_what_to_return(
    app: Duly, plain: bool
) -> None:
    for n, returned in enumerate(GARBAGE):

        async def awaited(_: Event, returned: Any = returned) -> Any:
            return returned

        app.on(f"odd-{n}")((lambda _, returned=returned: returned) if plain else awaited)
    ids = await app.add_many([Timer(START, f"odd-{n}", retry=Retry(max_attempts=9)) for n in range(len(GARBAGE))])
    await app.tick()
    for id, returned in zip(ids, GARBAGE, strict=True):
        event = await app.events.get(id)
        assert (event.status, event.attempts) == (Status.FAILED, 1)
        assert f"returned {type(returned).__name__}" in (event.last_error or "")


async def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async(app: Duly) -> None:
    async def forgotten() -> None: ...

    app.on("odd")(lambda _: forgotten())
    event = await outcome(app)
    assert event.status is Status.FAILED
    assert "declare it `async def`" in (event.last_error or "")


async def test_an_asynchronous_generator_is_no_result_of_a_handler(app: Duly) -> None:
    @app.on("odd")
    async def odd(_: Event) -> Any:
        yield 1

    assert "returned async_generator" in str((await outcome(app)).last_error)


async def test_each_outcome_that_a_handler_returns_is_taken_at_its_word(app: Duly) -> None:
    answers = {"later": Failed("busy", HOUR), "never": Rejected("410"), "down": Unreachable("broker", MINUTE)}
    for type, answer in answers.items():
        app.on(type)(lambda _, answer=answer: answer)
    ids = await app.add_many([Timer(START, type) for type in answers])
    await app.tick()
    later, never, down = [await app.events.get(id) for id in ids]
    assert (later.status, later.ready, later.attempts) == (Status.PENDING, START + HOUR, 1)
    assert (never.status, never.last_error) == (Status.FAILED, "410")
    assert (down.status, down.ready, down.attempts) == (Status.PENDING, START + MINUTE, 0)


@pytest.mark.parametrize(
    "returned",
    [
        Failed("a\x00b\ud800"),
        Rejected("a\x00b\ud800"),
        Failed(None),  # type: ignore[arg-type]
        Rejected({"code": 410}),  # type: ignore[arg-type]
        Failed("x" * 1_000_000),
        Failed("x", retry_after="soon"),  # type: ignore[arg-type]
        Failed("x", retry_after=timedelta.max),
        Unreachable("a\x00b\ud800"),
        Unreachable("x", retry_after=None),  # type: ignore[arg-type]
        Unreachable("x", retry_after=timedelta.max),
        Unreachable("x", retry_after=timedelta.min),
    ],
    ids=lambda returned: repr(returned)[:60].encode("ascii", "backslashreplace").decode(),
)
async def test_an_outcome_that_cannot_be_stored_is_still_settled(app: Duly, returned: Any) -> None:
    """Left under way, it would be delivered again and again until it had been interrupted five times."""
    calls: list[Event] = []

    @app.on("odd")
    async def odd(event: Event) -> Any:
        calls.append(event)
        return returned if len(calls) == 1 else Rejected("tried again at once")

    event = await outcome(app, retry=Retry(max_attempts=2))
    gc.collect()  # a runner that died is told of here, and not in the middle of another test
    assert event.status in (Status.PENDING, Status.FAILED)
    assert event.last_error
    assert len(await app.events.history(event.id)) == len(calls)


# -- what it raises


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Rude(BaseException):
    """Neither an Exception nor one of Python's own."""


RAISED: dict[str, tuple[BaseException, str]] = {
    "an error": (ValueError("no such invoice"), "ValueError: no such invoice"),
    "an error without words": (ValueError(), "ValueError"),
    "an error that cannot be shown": (Mute(), "Mute: (its message cannot be shown)"),
    "an error with NUL": (ValueError("a\x00b"), "ValueError: a\\0b"),
    "an error with a lone surrogate": (ValueError("a\ud800b"), "ValueError: a\\ud800b"),
    "SystemExit": (SystemExit(3), "SystemExit: 3"),
    "KeyboardInterrupt": (KeyboardInterrupt(), "KeyboardInterrupt"),
    "StopIteration": (StopIteration(), "StopIteration"),
    "GeneratorExit": (GeneratorExit(), "GeneratorExit"),
    "CancelledError": (asyncio.CancelledError(), "ancelled"),
    "TimeoutError": (TimeoutError(), "TimeoutError"),
    "a group": (ExceptionGroup("several", [ValueError("x")]), "ExceptionGroup: several"),
    "a group of the worst": (BaseExceptionGroup("several", [KeyboardInterrupt()]), "BaseExceptionGroup: several"),
    "a BaseException": (Rude("me"), "Rude: me"),
}


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_handler_raises_is_a_failure_with_its_reason(duly: OpenDuly, name: str, plain: bool) -> None:
    app = await duly(concurrency=1)  # whoever is stopped by it would stop its neighbours
    error, reason = RAISED[name]

    def shout(_: Event) -> None:
        raise error

    async def later(_: Event) -> None:
        raise error

    app.on("odd", deadline=LONG)(shout if plain else later)
    event = await outcome(app)
    assert event.status is Status.FAILED
    assert reason in (event.last_error or "")
    [entry] = await app.events.history(event.id)
    assert entry.detail == event.last_error


async def test_an_endless_error_is_cut(app: Duly) -> None:
    @app.on("odd")
    async def odd(_: Event) -> None:
        raise ValueError("x" * 10_000_000)

    assert len((await outcome(app)).last_error or "") <= 2000


async def test_a_handler_that_takes_no_event_fails_and_says_so(app: Duly) -> None:
    app.on("odd")(lambda: None)
    assert "TypeError" in str((await outcome(app)).last_error)


# -- how long it takes


def hanging(release: threading.Event) -> Callable[[Event], None]:
    """A plain handler that goes on until the test lets it go."""

    def hang(_: Event) -> None:
        release.wait(10)

    return hang


async def test_a_handler_that_hangs_is_stopped_at_its_deadline(app: Duly) -> None:
    ended: list[str] = []

    @app.on("odd", deadline=DEADLINE)
    async def hang(_: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    event = await outcome(app, hangs=True)
    assert (event.status, event.last_error) == (Status.FAILED, "went on past its deadline of 0.2 s and was cancelled")
    assert ended == ["cleaned up"]


async def test_a_plain_handler_that_hangs_is_left_behind_at_its_deadline(app: Duly) -> None:
    release = threading.Event()
    heard: list[Any] = []
    app.observe(heard.append, HandlerAbandoned)
    app.on("odd", deadline=DEADLINE)(hanging(release))
    try:
        event = await outcome(app, hangs=True)
    finally:
        release.set()
    assert event.status is Status.FAILED
    assert event.last_error == "went on past its deadline of 0.2 s; its thread still runs and cannot be stopped"
    assert [(signal.event.id, signal.threads) for signal in heard] == [(event.id, 1)], "and that is told"
    assert (await app.events.history(event.id))[-1].detail == event.last_error


async def test_a_handler_that_will_not_be_cancelled_is_left_behind(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ABANDONED_AFTER_S", 0.05)
    release, abandoned = asyncio.Event(), asyncio.Event()
    app.observe(lambda _: abandoned.set(), HandlerAbandoned)

    @app.on("odd", deadline=DEADLINE)
    async def stubborn(_: Event) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    try:
        event = await outcome(app, hangs=True)
        assert event.status is Status.FAILED
        assert "past its deadline" in (event.last_error or "")
        async with asyncio.timeout(30):
            await abandoned.wait()
    finally:
        release.set()
        await asyncio.sleep(0.01)
    assert (await app.events.get(event.id)) == event, "what it does afterwards changes nothing"


async def test_a_hung_handler_leaves_its_place_to_the_next(duly: OpenDuly) -> None:
    """With room for one, its neighbours wait for its deadline and no longer, whatever it does with its thread."""
    app = await duly(concurrency=1)
    release = threading.Event()
    app.on("odd", deadline=DEADLINE)(hanging(release))
    served: list[Event] = []

    @app.on("after")
    async def after(event: Event) -> None:
        served.append(event)

    await app.add_many([Timer(START - HOUR, "odd", retry=ONCE) for _ in range(2)] + [Timer(START, "after")])
    try:
        async with asyncio.timeout(30):
            await app.tick()
    finally:
        release.set()
    assert len(served) == 1


async def test_while_too_many_plain_handlers_hang_no_more_are_started_and_all_else_goes_on(
    duly: OpenDuly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "HUNG_AT_LEAST", 2)
    app, release = await duly(concurrency=2), threading.Event()
    told, served = Told(app), set[str]()
    app.on("odd", deadline=DEADLINE)(hanging(release))

    @app.on("plain")
    def plain(event: Event) -> None:
        served.add(event.type)

    @app.on("async")
    async def not_plain(event: Event) -> None:
        served.add(event.type)

    await app.add_many([Timer(START - HOUR, "odd", retry=ONCE) for _ in range(2)])
    try:
        async with working(app):
            await until(lambda: len(told.of(ChannelDown)) == 2, "both lanes of plain handlers are down")
            assert [signal.threads for signal in told.of(HandlerAbandoned)][-1] == 2
            assert "find out what they wait for" in told.of(ChannelDown)[0].reason
            waiting = await app.at(START, "plain")
            await app.at(START, "async")
            await until(lambda: served == {"async"}, "what needs no thread is served")
            assert (await app.events.get(waiting.id)).version == 1, "it was not claimed"
            release.set()
            await until(lambda: served == {"async", "plain"}, "as soon as threads have returned, so is the rest")
            await until(lambda: len(told.of(ChannelUp)) == 2, "and that is told")
    finally:
        release.set()


async def test_a_deadline_spends_an_attempt_and_the_next_may_succeed(app: Duly, clock: ManualClock) -> None:
    calls: list[int] = []

    @app.on("odd", deadline=DEADLINE)
    async def slow_at_first(event: Event) -> None:
        calls.append(event.attempt)
        if event.attempt == 1:
            await asyncio.Event().wait()

    event = await app.at(START, "odd", retry=Retry(max_attempts=2, base=MINUTE))
    await app.tick()
    clock.advance(HOUR)
    await app.tick()
    assert (calls, (await app.events.get(event.id)).status) == ([1, 2], Status.COMPLETED)


async def test_a_handler_that_blocks_the_loop_is_late_and_not_lost(app: Duly) -> None:
    @app.on("odd", deadline=timedelta(seconds=5))
    async def block(_: Event) -> None:
        time.sleep(0.05)  # noqa: ASYNC251 - that is the point

    event = await app.at(START, "odd")
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED


# -- what it leaves behind

name: ContextVar[str] = ContextVar("name", default="nobody")


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_context_variable_that_one_handler_sets_is_not_seen_by_the_next(duly: OpenDuly, plain: bool) -> None:
    app = await duly(concurrency=1)
    seen: list[str] = []

    def look(event: Event) -> None:
        seen.append(name.get())
        name.set(str(event.payload))

    async def look_later(event: Event) -> None:
        look(event)
        await asyncio.sleep(0)
        assert name.get() == str(event.payload)

    app.on("odd")(look if plain else look_later)
    token = name.set("the application")
    try:
        await app.add_many([Timer(START, "odd", n) for n in range(20)])
        await app.tick()
        assert seen == ["the application"] * 20, "each starts from where the worker was started"
        assert name.get() == "the application"
    finally:
        name.reset(token)


async def test_a_plain_handler_does_not_block_the_others(app: Duly) -> None:
    gate = threading.Barrier(5, timeout=30)

    @app.on("odd")
    def meet(_: Event) -> None:
        gate.wait()

    ids = await app.add_many([Timer(START, "odd") for _ in range(5)])
    await app.tick()
    assert {(await app.events.get(id)).status for id in ids} == {Status.COMPLETED}


async def test_an_object_may_be_a_handler(app: Duly) -> None:
    class Greeter:
        def __init__(self) -> None:
            self.greeted: list[str] = []

        async def __call__(self, event: Event) -> None:
            self.greeted.append(event.id)

    greeter = app.on("odd")(Greeter())
    assert (await outcome(app)).id in greeter.greeted


# -- transactional handlers


@pytest.fixture
async def ledger(app: Duly) -> Duly:
    async with app.transaction() as tx:
        await tx.execute("CREATE TABLE effects (name text)")
    return app


async def effects(app: Duly) -> int:
    async with app.transaction() as tx:
        return int(await tx.fetchval("SELECT count(*) FROM effects"))


async def test_the_effect_and_the_settlement_commit_together(ledger: Duly) -> None:
    @ledger.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO effects VALUES ($1)", event.id)
        await ledger.after(HOUR, "follow.up", transaction=tx)

    event = await ledger.at(START, "close")
    await ledger.tick()
    assert ((await ledger.events.get(event.id)).status, await effects(ledger)) == (Status.COMPLETED, 1)
    assert [entry.act for entry in await ledger.events.history(event.id)] == ["delivered"]
    assert len(await ledger.events.find()) == 2


@pytest.mark.parametrize(
    "ending", [ValueError("no"), SystemExit(1), Failed("busy"), Rejected("410"), "garbage"], ids=repr
)
async def test_an_effect_whose_handler_fails_is_undone(ledger: Duly, ending: Any) -> None:
    @ledger.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> Any:
        await tx.execute("INSERT INTO effects VALUES ($1)", event.id)
        if isinstance(ending, BaseException):
            raise ending
        return ending

    event = await ledger.at(START, "close", retry=ONCE)
    await ledger.tick()
    dead = await ledger.events.get(event.id)
    assert (dead.status, await effects(ledger)) == (Status.FAILED, 0)
    assert dead.last_error


async def test_a_handler_that_breaks_its_transaction_fails_with_the_reason(ledger: Duly) -> None:
    @ledger.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO effects VALUES ($1)", event.id)
        with contextlib.suppress(Exception):
            await tx.execute("INSERT INTO no_such_table VALUES (1)")
            return
        await tx.execute("SELECT 1")

    event = await ledger.at(START, "close", retry=ONCE)
    await ledger.tick()
    found = await ledger.events.get(event.id)
    assert (found.status, await effects(ledger)) in [(Status.FAILED, 0), (Status.COMPLETED, 1)]
    assert (found.status is Status.FAILED) is (ledger.store.dialect == "postgres"), "PostgreSQL aborts the whole"


async def test_a_handler_that_lost_its_claim_is_undone(ledger: Duly, clock: ManualClock, duly: OpenDuly) -> None:
    if ledger.store.dialect == "sqlite":
        return  # nobody else can claim while a transaction is open
    other = await duly()

    @ledger.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO effects VALUES ($1)", event.id)
        clock.advance(DAY)
        assert await other.store.claim_interrupted("another", ["handler:close"], HOUR)

    event = await ledger.at(START, "close")
    await ledger.tick()
    found = await ledger.events.get(event.id)
    assert (found.status, found.worker, await effects(ledger)) == (Status.PROCESSING, "another", 0)


async def test_a_transactional_handler_that_hangs_is_undone(ledger: Duly) -> None:
    @ledger.on("close", transactional=True, deadline=DEADLINE)
    async def close(event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO effects VALUES ($1)", event.id)
        await asyncio.Event().wait()

    event = await ledger.at(START, "close", retry=ONCE)
    await ledger.tick()
    found = await ledger.events.get(event.id)
    assert (found.status, await effects(ledger)) == (Status.FAILED, 0)
    assert "past its deadline" in (found.last_error or "")


async def test_a_transactional_handler_that_will_not_be_cancelled_does_not_hold_up_the_others(ledger: Duly) -> None:
    """On SQLite its transaction is the only one that can write."""
    release = asyncio.Event()

    @ledger.on("close", transactional=True, deadline=DEADLINE)
    async def stubborn(_: Event, tx: Transaction) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    @ledger.on("neighbour")
    async def neighbour(_: Event) -> None: ...

    event = await ledger.at(START, "close", retry=ONCE)
    [other] = await ledger.add_many([Timer(START, "neighbour")])
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(15):
                await ledger.tick()
        found = await ledger.events.get(event.id), await ledger.events.get(other)
    finally:
        release.set()
        await asyncio.sleep(0.05)
    assert [event.status for event in found] == [Status.FAILED, Status.COMPLETED]


async def test_scheduling_beside_the_transaction_says_what_to_pass(ledger: Duly) -> None:
    if ledger.store.dialect != "sqlite":
        return

    @ledger.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> None:
        await ledger.at(START, "follow.up")

    event = await ledger.at(START, "close", retry=ONCE)
    await ledger.tick()
    assert "pass transaction=tx" in str((await ledger.events.get(event.id)).last_error)


async def test_a_handler_also_serves_what_waits_under_its_former_types(app: Duly) -> None:
    seen: list[str] = []
    await app.at(START, "old")
    await app.at(START, "older")

    @app.on("new", also=["old", "older"])
    async def renamed(event: Event) -> None:
        seen.append(event.type)

    await app.at(START, "new")
    await app.tick()
    assert sorted(seen) == ["new", "old", "older"]


def test_a_former_type_that_has_a_handler_of_its_own_is_refused(app: Duly) -> None:
    app.on("old")(lambda _: None)
    with pytest.raises(Misuse, match="'old' already has a handler"):
        app.on("new", also=["old"])(lambda _: None)
    with pytest.raises(Misuse, match=r"also='old' must be a list of types, such as also=\['old'\]"):
        app.on("newer", also="old")(lambda _: None)
