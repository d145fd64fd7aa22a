"""duly.sync: the same calls for synchronous code."""

import inspect
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly import Conflict, Duly, Event, Invalid, Misuse, NotFound, OfType, Retry, Status, Timer, Unauthenticated, every
from duly.ids import new_id
from duly.records.api_key import write_key
from duly.records.results import Replayed
from duly.sync import Sync
from duly.testing import ManualClock
from duly.verbs.events import dead_letters
from tests.dead_letters import dead
from tests.make import DAY, HOUR, START


@pytest.fixture
def app(url: str, clock: ManualClock) -> Duly:
    return Duly(url, clock=clock)


@pytest.fixture
def sync(app: Duly) -> Iterator[Sync]:
    with app.sync as sync:
        yield sync


def test_the_synchronous_calls_do_what_the_asynchronous_ones_do(app: Duly, sync: Sync, clock: ManualClock) -> None:
    greeted: list[Event] = []

    @app.on("greet")
    def greet(event: Event) -> None:
        greeted.append(event)

    event = sync.at(START + HOUR, "greet", {"name": "Ada"}, key="k", tenant="acme")
    assert sync.after(2 * HOUR, "greet").due == START + 2 * HOUR
    assert sync.after("2h", "greet").due == sync.after(7200, "greet").due == START + 2 * HOUR
    sync.add_many([Timer(START + HOUR, "greet", n) for n in range(3)])
    schedule = sync.every("hourly", every("1h"), "digest")
    assert schedule.name == "hourly"
    assert sync.tick().processed == 0
    assert greeted == []
    clock.advance(HOUR)
    assert sync.tick().processed == 4
    assert len(greeted) == 4
    assert sync.events.by_key("k", tenant="acme").status is Status.COMPLETED
    assert [entry.act for entry in sync.events.history(event.id)] == ["delivered"]
    assert len(sync.events.find(OfType("greet"), limit=2)) == 2


def test_synchronous_code_can_reschedule_replay_cancel_and_discard_events(
    app: Duly, sync: Sync, clock: ManualClock
) -> None:
    @app.on("hopeless")
    def hopeless(_: Event) -> None:
        raise ConnectionError

    event = sync.at(START + HOUR, "hopeless", retry=Retry(max_attempts=1))
    assert sync.events.reschedule(event.id, START).due == START
    sync.tick()
    assert sync.events.get(event.id).status is Status.FAILED
    assert sync.events.replay(event.id, by="ada").status is Status.PENDING
    sync.tick()
    assert sync.events.discard(event.id).status is Status.CANCELLED
    other = sync.at(START + DAY, "hopeless")
    assert sync.events.cancel(other.id) == "cancelled"
    assert sync.cancel(other.id) == "nothing"


def test_synchronous_calls_raise_the_errors_of_the_asynchronous_ones(sync: Sync) -> None:
    event = sync.at(START, "greet", tenant="acme")
    with pytest.raises(Invalid, match="type"):
        sync.at(START, "")
    with pytest.raises(NotFound, match="there is no event with id or key '7'"):
        sync.events.get("7")
    with pytest.raises(NotFound):
        sync.events.get(event.id, tenant="other")
    with pytest.raises(Conflict):
        sync.events.replay(event.id)


def test_a_transaction_commits_or_leaves_nothing(sync: Sync) -> None:
    with sync.transaction() as tx:
        tx.execute("CREATE TABLE effects (name text)")
        tx.execute("INSERT INTO effects VALUES ($1)", "sent")
        event = sync.at(START, "greet", transaction=tx)
        sync.add_many([Timer(START, "greet")], transaction=tx)
        assert tx.fetchval("SELECT count(*) FROM effects") == 1
        assert [tuple(row) for row in tx.fetch("SELECT name FROM effects")] == [("sent",)]
        assert tuple(tx.fetchrow("SELECT name FROM effects")) == ("sent",)
    assert sync.events.get(event.id) == event

    def fail() -> None:
        with sync.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES ('twice')")
            sync.at(START, "greet", transaction=tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(sync.events.find()) == 2
    with sync.transaction() as tx:
        assert tx.fetchval("SELECT count(*) FROM effects") == 1


def test_a_call_that_forgets_the_open_transaction_does_not_wait_for_ever(sync: Sync, app: Duly) -> None:
    with sync.transaction() as tx:
        sync.at(START, "greet", transaction=tx)
        if app.store.dialect == "postgres":
            sync.at(START, "greet")
            return
        for forgetful in (
            lambda: sync.at(START, "greet"),
            lambda: sync.every("hourly", every("1h"), "digest"),
            lambda: sync.events.cancel("00000000-0000-7000-8000-000000000000"),
            sync.tick,
        ):
            with pytest.raises(Misuse, match="transaction=tx"):
                forgetful()


def test_verbs_that_read_run_beside_an_open_transaction_on_sqlite_and_no_others(tmp_path: Path) -> None:
    """What begins a transaction as well would wait for ever."""
    key = write_key(bytes(32))
    given: dict[str, Any] = {"id": new_id(), "ids": [new_id()], "what": every("1h"), "rule": every("1h"), "rows": []}
    given |= {"due": START, "start": START, "end": START + HOUR, "secret": key, "secrets": [key], "events": []}
    read, refused = set(), set()
    with Duly(f"sqlite:///{tmp_path / 'duly.db'}").sync as sync, sync.transaction():
        for group in Sync.GROUPS:
            for name in dir(getattr(sync, group)):
                if (group, name) == ("event_types", "register"):  # it asks no store, and takes a class
                    continue
                verb = getattr(getattr(sync, group), name)
                parameters = inspect.signature(verb).parameters.values()
                positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
                needed = [one.name for one in positional if one.default is one.empty]
                try:
                    verb(*(given.get(one, "x") for one in needed))
                except (NotFound, Invalid, Unauthenticated):
                    read.add(f"{group}.{name}")
                except Misuse as error:
                    if "transaction=tx" not in str(error):
                        raise
                    refused.add(f"{group}.{name}")
                else:
                    read.add(f"{group}.{name}")
    assert sorted(read) == [
        "event_types.get", "event_types.names", "event_types.remove", "event_types.removed",
        "event_types.settings", "events.by_key", "events.count", "events.dead_letters", "events.find",
        "events.get", "events.history", "events.page", "events.why", "keys.get", "keys.known", "keys.list",
        "keys.made_any", "keys.named", "keys.recognise", "schedules.count", "schedules.get",
        "schedules.history", "schedules.list", "schedules.preview", "schedules.stats",
            "schedules.why_not",
            "targets.destinations", "targets.list",
        "targets.signing_secret", "templates.get", "templates.list", "users.ahead", "users.by_key",
        "users.count", "users.events", "users.get", "users.history", "users.list", "workers.lanes",
        "workers.list",
    ]  # fmt: skip
    assert len(refused) > 30


def test_duly_sync_has_public_names_only(sync: Sync) -> None:
    for name in ("store", "settings", "run", "observe", "loop", "_signals", "wat"):
        with pytest.raises(AttributeError, match=f"'Sync' object has no attribute '{name}'"):
            getattr(sync, name)
    with pytest.raises(AttributeError, match="'SyncGroup' object has no attribute '_store'"):
        sync.events._store  # type: ignore[attr-defined]  # noqa: B018 - asking is the test
    with pytest.raises(AttributeError, match="'Events' object has no attribute 'wat'"):
        sync.events.wat  # type: ignore[attr-defined]  # noqa: B018 - as above
    assert {"at", "tick", "events", "transaction"} <= set(dir(sync))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in processes that leave it to their parent."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_synchronous_call_that_is_interrupted_does_not_go_on(
    sync: Sync, app: Duly, interruptible: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 1)
    sync.wait_for(dead(app.store, 100))
    waiting, interrupted = threading.get_ident(), threading.Event()
    told: list[Replayed] = []

    def interrupt_the_first(done: Replayed) -> None:
        told.append(done)
        if len(told) == 1:
            signal.pthread_kill(waiting, signal.SIGINT)
            interrupted.wait(10)

    with pytest.raises(KeyboardInterrupt):
        sync.events.replay_all(progress=interrupt_the_first)
    interrupted.set()
    assert sync.events.replay_all().events in (98, 99), "the one that was under way, and all after it"
    assert len(told) <= 2


def test_duly_sync_is_opened_and_closed_as_often_as_needed(app: Duly) -> None:
    threads = set(threading.enumerate())
    with app.sync:
        with app.sync as sync:
            sync.at(START, "greet")
        assert len(app.sync.events.find()) == 1
    with app.sync as sync:
        assert len(sync.events.find()) == 1
    assert set(threading.enumerate()) <= threads, "nothing is left running"


def test_duly_sync_that_is_not_open_says_so(app: Duly) -> None:
    with pytest.raises(Misuse, match=r"with duly\.sync"):
        app.sync.at(START, "greet")
    with pytest.raises(Misuse, match=r"with duly\.sync"):
        app.sync.events.find()


def test_a_database_that_cannot_be_opened_leaves_nothing_running(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    folder = tmp_path / "a folder.db"
    folder.mkdir()
    app = Duly(f"sqlite:///{folder}")
    for _ in range(2):
        with pytest.raises(Exception, match="cannot open"):
            app.sync.__enter__()
    assert set(threading.enumerate()) <= threads


def test_many_threads_may_share_duly_sync(sync: Sync) -> None:
    def add(n: int) -> None:
        for m in range(10):
            sync.at(START, "greet", key=f"{n}-{m}")

    threads = [threading.Thread(target=add, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sync.events.find(limit=1000)) == 50


async def test_a_synchronous_call_refuses_to_block_the_loop_that_it_waits_for(url: str) -> None:
    async with Duly(url) as app:
        with pytest.raises(Misuse, match="with the same call of duly instead"):
            app.sync.at(START, "greet")
        with pytest.raises(Misuse, match="with the same call of duly instead"):
            app.sync.events.find()


async def test_in_a_plain_handler_duly_sync_is_open_already(url: str, clock: ManualClock) -> None:
    async with Duly(url, clock=clock) as app:

        @app.on("order")
        def order(event: Event) -> None:
            app.sync.after(HOUR, "reminder", event.payload)

        await app.at(START, "order", 7)
        await app.tick()
        [reminder] = await app.events.find(OfType("reminder"))
        assert (reminder.payload, reminder.due) == (7, START + HOUR)
