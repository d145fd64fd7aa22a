"""A full disk can be read and not written. The disks are real, and so is the PostgreSQL that has its tables on one."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import NamedTuple

import httpx
import psycopg
import pytest

from duly import Duly, Event, InStatus, Status, Timer
from duly.api.app import create_api
from duly.errors import NotWritable
from duly.signals import Completed, StoreDown, StoreUp
from tests.disks import SmallDisk
from tests.servers import Postgres
from tests.worker.running_worker import Logged, Told, Watched, running, until, working

NOW, LATER = timedelta(), timedelta(hours=1)
BIG = "x" * 20_000
"""A payload for which no database has space left over in its files for long."""


class Place(NamedTuple):
    """Where a database is."""

    disk: SmallDisk
    url: str


@pytest.fixture(scope="module")
def place_of_a_server() -> Iterator[Place]:
    """A database of a PostgreSQL, with its tables on a small disk and all else elsewhere."""
    with SmallDisk(megabytes=24) as disk, Postgres() as server:
        folder = disk.folder / "tables"
        folder.mkdir()
        owner = server.log.parent.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            connection.execute("CREATE DATABASE small TABLESPACE small")
        yield Place(disk, server.url.rpartition("/")[0] + "/small")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "postgres":
        yield request.getfixturevalue("place_of_a_server")
    else:
        with SmallDisk(megabytes=6) as disk:
            yield Place(disk, f"sqlite:///{disk.folder}/duly.db")


@contextlib.contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    disk.fill()
    try:
        yield
    finally:
        disk.free()


@contextlib.asynccontextmanager
async def served(duly: Duly) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_api(duly, keyless=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield http


def is_ready(http: httpx.AsyncClient, status: int) -> Callable[[], object]:
    async def answered() -> bool:
        return (await http.get("/readyz")).status_code == status

    return answered


class Held:
    """A handler that waits until it may go on, and notes what it did."""

    def __init__(self, duly: Duly) -> None:
        self.ids: list[str] = []
        self.started = 0
        self.may_go_on = asyncio.Event()
        duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        self.started += 1
        await self.may_go_on.wait()
        self.ids.append(event.id)


async def test_a_full_disk_is_one_outage_however_often_it_is_read() -> None:
    with SmallDisk(megabytes=6) as disk:
        file = disk.folder / "duly.db"
        duly = Duly(f"sqlite:///{file}", poll_interval="20ms")
        told, held, watched = Told(duly), Held(duly), Watched(duly)
        with Logged() as logged:
            async with duly:
                ids = await duly.add_many(Timer(NOW, "task") for _ in range(50))
                async with working(duly):
                    await until(lambda: held.started == 50, "all are under way")
                    with full(disk):
                        held.may_go_on.set()
                        await until(lambda: told.of(StoreDown), "the outage is noticed")
                        tries, looks = len(watched.settled), watched.looks
                        await until(
                            lambda: len(watched.settled) >= tries + 4 and watched.looks >= looks + 20,
                            "it has tried to write a few times more, and has read many times",
                        )
                        assert not told.of(StoreUp), "what is read says nothing about what can be written"
                    await until(lambda: told.of(StoreUp), "its end is noticed")
                    await until(lambda: len(told.of(Completed)) == 50, "all are done")
        [down] = told.of(StoreDown)
        assert down.error == f"the disk of {file} is full: free some space; writing is tried again every few seconds"
        assert [act for act in logged.acts if not act.startswith("event.")] == ["store.not_writable", "store.back"]
        assert sorted(held.ids) == sorted(ids), "each once"


async def test_the_end_of_a_full_disk_is_noticed_also_where_there_is_nothing_left_to_write() -> None:
    with SmallDisk(megabytes=6) as disk:
        duly = Duly(f"sqlite:///{disk.folder}/duly.db", poll_interval="20ms", lease="1s", store_timeout="950ms")
        told, held = Told(duly), Held(duly)
        async with duly:
            await duly.after(NOW, "task")
            async with working(duly):
                await until(lambda: held.started == 1, "it is under way")
                with full(disk):
                    await until(lambda: told.of(StoreDown), "its lease cannot be renewed")
                await until(lambda: told.of(StoreUp), "its end is noticed")
                held.may_go_on.set()


async def test_scheduling_on_a_full_disk_is_an_error_and_nothing_is_stored(place: Place) -> None:
    async with Duly(place.url) as duly:
        with full(place.disk):
            with contextlib.suppress(NotWritable):
                while True:  # until what is left over in its files is used up
                    await duly.after(LATER, "task", BIG)
            stored = await duly.events.find(InStatus(Status.PENDING), limit=1000)
            with pytest.raises(NotWritable, match="free some space"):
                await duly.after(LATER, "task", BIG)
            assert await duly.events.find(InStatus(Status.PENDING), limit=1000) == stored, "it can still be read"
        await duly.after(LATER, "task", BIG)


async def test_a_server_is_not_ready_while_its_database_cannot_be_written(place: Place) -> None:
    async with Duly(place.url) as duly, served(duly) as http:
        numbers = count()

        async def ask() -> httpx.Response:
            timer = {"after": "1h", "type": "task", "payload": BIG}
            return await http.put(f"/v1/timers/{next(numbers)}", json=timer)

        assert (await ask()).status_code == 201
        assert (await http.get("/readyz")).status_code == 200
        with full(place.disk):
            while (answer := await ask()).status_code == 201:
                pass
            assert answer.status_code == 503
            assert "nothing was changed" in answer.json()["detail"], "it is not as if nobody knew"
            await until(is_ready(http, 503), "it says so")
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/v1/events")).status_code == 200, "it can still be read"
        await until(is_ready(http, 200), "it is ready again")
        assert (await ask()).status_code == 201


async def test_a_server_is_not_ready_when_only_its_worker_wanted_to_write() -> None:
    with SmallDisk(megabytes=6) as disk:
        duly = Duly(f"sqlite:///{disk.folder}/duly.db")
        told, held = Told(duly), Held(duly)
        async with duly, served(duly) as http:
            await duly.add_many(Timer(NOW, "task", BIG) for _ in range(10))
            async with working(duly):
                await until(lambda: held.started == 10, "all are under way")
                with full(disk):
                    held.may_go_on.set()
                    await until(lambda: told.of(StoreDown), "the outage is noticed")
                    await until(is_ready(http, 503), "the server says so too")
                await until(is_ready(http, 200), "it is ready again")


async def test_a_worker_that_starts_on_a_full_disk_waits_for_space() -> None:
    with SmallDisk(megabytes=6) as disk:
        url = f"sqlite:///{disk.folder}/duly.db"
        async with Duly(url) as before:
            await before.after(NOW, "task")
        duly = Duly(url)
        told, held = Told(duly), Held(duly)
        held.may_go_on.set()
        disk.fill()
        async with running(duly):
            await until(lambda: told.of(StoreDown), "it has found no space even to read")
            disk.free()
            await until(lambda: told.of(Completed), "it is done")
        assert [down.readable for down in told.of(StoreDown)] == [True]
        assert len(told.of(StoreUp)) == 1
