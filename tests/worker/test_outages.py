import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from duly import Duly, Event, InStatus, Status, Timer
from duly.errors import StoreError, StoreUnavailable
from duly.signals import Completed, StoreDown, StoreUp, WorkerStopped
from tests.servers import Postgres
from tests.worker.running_worker import Logged, Told, Watched, running, until, working

NOW = timedelta()

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(10_000)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that these tests may kill."""
    with Postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> str:
    return server.create_database(f"outage_{random.getrandbits(48):x}")


@asynccontextmanager
async def outage(server: Postgres) -> AsyncIterator[None]:
    """Whatever becomes of the test, the server runs again after it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as one_after_the_other:
        try:
            await loop.run_in_executor(one_after_the_other, server.kill)
            yield
        finally:
            await loop.run_in_executor(one_after_the_other, server.start)


@asynccontextmanager
async def locked(file: Path) -> AsyncIterator[None]:
    """Another process holds the file's write lock."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(file), stdin=pipe, stdout=pipe)
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"held\n"
        yield
    finally:
        await process.communicate(b"\n")
        assert process.returncode == 0


class Effects:
    """A handler that takes its time and notes what it did. After *most* it waits until it may go on."""

    def __init__(self, duly: Duly, most: int | None = None) -> None:
        self.ids: list[str] = []
        self.may_go_on = asyncio.Event()
        self._most = most
        duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        await asyncio.sleep(random.uniform(0, 0.02))
        if self._most is not None and len(self.ids) >= self._most:
            await self.may_go_on.wait()
        self.ids.append(event.id)


async def completed(duly: Duly) -> int:
    return len(await duly.events.find(InStatus(Status.COMPLETED), limit=1000))


def assert_said(told: Told, logged: Logged, *, times: int = 1, down: str = "store.unreachable") -> None:
    assert (len(told.of(StoreDown)), len(told.of(StoreUp))) == (times, times)
    acts = [act for act in logged.acts if not act.startswith("event.")]
    assert acts == [down, "store.back"] * times, "once each, not once for every try"


async def test_a_worker_survives_outages_in_the_middle_of_work(database: str, server: Postgres) -> None:
    duly = Duly(database, concurrency=10, batch_size=20, lease="12s")
    told, effects = Told(duly), Effects(duly)
    ids: list[str] = []
    with Logged() as logged:
        async with duly, working(duly):
            for outages in range(1, 6):
                middle = len(ids) + 30
                ids += await duly.add_many(Timer(NOW, "task") for _ in range(200))
                await until(lambda n=middle: len(effects.ids) > n, "it is in the middle of the work")
                async with outage(server):
                    await until(lambda n=outages: len(told.of(StoreDown)) == n, "the outage is noticed")
                await until(lambda n=outages: len(told.of(StoreUp)) == n, "the end of the outage is noticed")

            async def all_are_done() -> bool:
                return await completed(duly) == 1000

            await until(all_are_done, "all are done")
        assert_said(told, logged, times=5)
    assert sorted(effects.ids) == sorted(ids), "each once: whoever had it kept it through the outage"


LETS_NOBODY_IN = {
    "closed": ('ALTER DATABASE "{name}" ALLOW_CONNECTIONS false', 'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'),
    "renamed": ('ALTER DATABASE "{name}" RENAME TO "{name}_old"', 'ALTER DATABASE "{name}_old" RENAME TO "{name}"'),
    "not for this user": ('ALTER ROLE "{name}" NOLOGIN', 'ALTER ROLE "{name}" LOGIN'),
}


@pytest.mark.parametrize("how", LETS_NOBODY_IN)
async def test_a_database_that_lets_nobody_in_for_a_while_is_waited_for(
    database: str, server: Postgres, how: str
) -> None:
    """At the start, that would be a mistake; later, it is an outage as any."""
    name = database.rpartition("/")[2]
    away, back = (statement.format(name=name) for statement in LETS_NOBODY_IN[how])
    hang_up = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'".encode()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'CREATE ROLE "{name}" LOGIN SUPERUSER'.encode())
        duly = Duly(database.replace("postgres@", f"{name}@"), poll_interval="100ms")
        told, effects = Told(duly), Effects(duly)
        async with duly, working(duly):
            await duly.after(NOW, "task")
            await until(lambda: len(told.of(Completed)) == 1, "it works")
            with admin.transaction():
                admin.execute("LOCK TABLE pg_database")  # or somebody may come in again before it is renamed
                admin.execute(hang_up)
                admin.execute(away.encode())
            admin.execute(hang_up)
            await until(lambda: told.of(StoreDown), "the outage is noticed")
            with pytest.raises(StoreUnavailable):
                await duly.after(NOW, "task")
            admin.execute(back.encode())
            await until(lambda: told.of(StoreUp), "the end of the outage is noticed")
            await duly.after(NOW, "task")
            await until(lambda: len(told.of(Completed)) == 2, "it works again")
    assert len(effects.ids) == 2


async def test_a_database_that_lets_nobody_in_is_told_at_the_start(database: str) -> None:
    for wrong, told in ((f"{database}_x", "create the database first"),
                        (database.replace("postgres@", "nobody@"), "check the user and password")):  # fmt: skip
        with pytest.raises(StoreError, match=told) as raised:
            async with Duly(wrong):
                pytest.fail("it is open")
        assert not isinstance(raised.value, StoreUnavailable)


async def test_a_store_that_is_down_when_the_worker_starts_is_waited_for(database: str, server: Postgres) -> None:
    async with Duly(database) as before:
        ids = await before.add_many(Timer(NOW, "task") for _ in range(20))
    duly = Duly(database)
    told, effects = Told(duly), Effects(duly)
    with Logged() as logged:
        async with AsyncExitStack() as stack:
            async with outage(server):
                await stack.enter_async_context(running(duly))
                await until(lambda: told.of(StoreDown), "the outage is noticed")
            await until(lambda: len(told.of(Completed)) == 20, "all are done")
        assert_said(told, logged)
    assert sorted(effects.ids) == sorted(ids)


async def test_a_store_that_goes_down_before_the_worker_starts_is_waited_for(database: str, server: Postgres) -> None:
    duly = Duly(database)
    told, effects = Told(duly), Effects(duly)
    with Logged() as logged:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(duly)
            ids = await duly.add_many(Timer(NOW, "task") for _ in range(20))
            async with outage(server):
                await stack.enter_async_context(running(duly))
                await until(lambda: told.of(StoreDown), "the outage is noticed")
            await until(lambda: len(told.of(Completed)) == 20, "all are done")
        assert_said(told, logged)
    assert sorted(effects.ids) == sorted(ids)


async def test_a_worker_is_woken_by_new_events_again_after_an_outage(database: str, server: Postgres) -> None:
    duly = Duly(database, poll_interval="60s", lease="10m")
    watched, effects = Watched(duly), Effects(duly)
    async with duly, working(duly):
        await until(lambda: watched.asleep and watched.asleep > 50, "it sleeps until the next poll")
        async with outage(server):
            pass
        async with Duly(database) as other:
            for number in range(1, 4):
                await other.after(NOW, "task")
                await until(lambda n=number: len(effects.ids) == n, "it is delivered long before the next poll")


async def test_a_worker_can_be_stopped_during_an_outage(database: str, server: Postgres) -> None:
    duly = Duly(database, shutdown_grace="500ms")
    told, effects = Told(duly), Effects(duly)
    async with duly:
        await duly.add_many(Timer(NOW, "task") for _ in range(500))
        async with AsyncExitStack() as stack:
            async with working(duly):
                await until(lambda: effects.ids, "it is in the middle of the work")
                await stack.enter_async_context(outage(server))
                await until(lambda: told.of(StoreDown), "the outage is noticed")
            assert told.of(WorkerStopped)


async def test_a_worker_that_waits_to_run_an_interrupted_event_alone_can_be_stopped_during_an_outage(
    database: str, server: Postgres
) -> None:
    """It wants to deliver an interrupted event alone, and what is under way cannot be settled."""
    duly = Duly(database, lease="1s", store_timeout="950ms", shutdown_grace="500ms")
    told = Told(duly)
    under_way, released = asyncio.Event(), asyncio.Event()

    @duly.on("task")
    async def task(_event: Event) -> None:
        under_way.set()
        await released.wait()

    async with duly:
        async with duly.store.lend() as tx:
            await duly.after(NOW, "task", transaction=tx)
            [interrupted] = await tx.claim("vanished", {"handler:task": 1}, timedelta(milliseconds=1))
        await duly.after(NOW, "task")
        async with AsyncExitStack() as stack:
            async with working(duly):
                await under_way.wait()

                async def it_is_pressing() -> bool:
                    return await duly.store.now() - interrupted.due > timedelta(seconds=2)

                await until(it_is_pressing, "the interrupted event has waited for longer than a lease")
                await stack.enter_async_context(outage(server))
                released.set()
                await until(lambda: told.of(StoreDown), "the outage is noticed")
            assert told.of(WorkerStopped)


async def test_a_worker_survives_a_locked_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    duly = Duly(url, concurrency=10, batch_size=20, lease="12s", store_timeout="200ms")
    told, effects = Told(duly), Effects(duly, most=50)
    with Logged() as logged:
        async with duly:
            ids = await duly.add_many(Timer(NOW, "task") for _ in range(500))
            async with working(duly):
                await until(lambda: len(effects.ids) == 50, "it is in the middle of the work")
                async with locked(tmp_path / "duly.db"):
                    effects.may_go_on.set()
                    await until(lambda: told.of(StoreDown), "the outage is noticed")
                    await asyncio.sleep(1)
                await until(lambda: len(told.of(Completed)) == 500, "all are done")
        assert_said(told, logged, down="store.not_writable")
    assert sorted(effects.ids) == sorted(ids)


async def test_a_file_that_is_locked_for_a_moment_is_no_outage(tmp_path: Path) -> None:
    duly = Duly(f"sqlite:///{tmp_path}/duly.db", concurrency=10, batch_size=20)
    told, effects = Told(duly), Effects(duly, most=50)
    async with duly:
        ids = await duly.add_many(Timer(NOW, "task") for _ in range(500))
        async with working(duly):
            await until(lambda: len(effects.ids) == 50, "it is in the middle of the work")
            async with locked(tmp_path / "duly.db"):
                effects.may_go_on.set()
                before = await completed(duly)
                await asyncio.sleep(0.5)
                assert await completed(duly) == before < 500, "nothing can be written"
            await until(lambda: len(told.of(Completed)) == 500, "all are done")
    assert not told.of(StoreDown)
    assert sorted(effects.ids) == sorted(ids)


async def test_a_transaction_that_is_given_up_while_the_file_is_locked_leaves_nothing_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    async with Duly(url) as duly:
        async with locked(tmp_path / "duly.db"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2), duly.transaction():
                    pytest.fail("the file is locked")
        await duly.after(NOW, "task")
        async with Duly(url) as other:  # nor does it keep others out
            await other.after(NOW, "task")
