"""``rebound``: a program's own Duly on a database of the test, and back."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from duly import Birthday, Duly, Event, Failed, Invalid, Misuse, Rejected, Status, Timer, every, nats, webhook
from duly.signals import Completed
from duly.testing import UserBuilder, fired, rebound, travel
from tests.make import DAY, HOUR, START


@pytest.fixture
def real(tmp_path: Path) -> Duly:
    """The Duly of a module, with a database that no test may touch."""
    return Duly(f"sqlite:///{tmp_path}/real.db")


@pytest.fixture
def test_postgres(postgres_server: str) -> Iterator[str]:
    """The URL of a database for tests, which nobody has made yet."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def own_url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "sqlite" else str(request.getfixturevalue("test_postgres"))


async def test_the_real_database_is_never_touched(real: Duly, own_url: str, tmp_path: Path) -> None:
    @real.on("greet")
    async def greet(event: Event) -> None:
        await real.after(HOUR, "greeted")

    with rebound(real, own_url, start=START):
        async with travel(real) as time:
            await real.after(HOUR, "greet")
            await time.by(DAY)
            assert fired(real, "greet", at=START + HOUR)
            assert [event.type for event in await real.events.find()] == ["greeted", "greet"]
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a list of names
    assert real.settings.database_url == f"sqlite:///{tmp_path}/real.db"
    async with real:
        assert await real.events.find() == []


async def test_each_test_begins_with_nothing(real: Duly, own_url: str) -> None:
    for _ in range(2):
        with rebound(real, own_url):
            async with real:
                assert await real.events.find() == []
                assert await real.users.list() == []
                await real.after(HOUR, "greet", key="once")
                await real.every("hourly", every("1h"), "greet")
                await UserBuilder().with_key("u7").add_to(real)


async def test_what_one_opening_has_stored_the_next_one_finds(real: Duly, own_url: str) -> None:
    @real.on("greet")
    async def greet(event: Event) -> None: ...

    with rebound(real, own_url):
        async with real:
            await real.after(0, "greet", key="k")
        await real.tick()
        async with real:
            assert (await real.events.get("k")).status is Status.COMPLETED


async def test_the_clock_begins_now_unless_the_test_says_otherwise(real: Duly) -> None:
    with rebound(real):
        async with real:
            assert abs((datetime.now(UTC) - await real.now()).total_seconds()) < 5
    with rebound(real, start=START):
        async with real:
            assert await real.now() == START


async def test_nothing_leaves_the_test_and_answers_can_be_set(real: Duly) -> None:
    with rebound(real, start=START) as sent:
        sent["webhook"].answer(Failed("503"), Failed("503"))
        sent["nats"].answer(Rejected("no such subject"))
        async with travel(real) as time:
            await real.after(HOUR, "order.paid", {"order": 7}, target=webhook("https://shop.example/hook"))
            await real.after(2 * HOUR, "order.sent", {"order": 8}, target=nats("orders.sent"))
            await time.by(DAY)
            assert sent["webhook"].payloads == [{"order": 7}] * 3
            assert len(set(sent["webhook"].ids)) == 1
            assert [event.type for event in sent.events][-1] == "order.sent"
            assert fired(real, "order.paid", times=1)[0].attempts == 2
            assert fired(real, "order.sent", outcome="failed", times=1)
        with pytest.raises(Misuse, match="no channel 'email'; the channels are celery, command, http"):
            sent["email"]


async def test_a_command_is_recorded_and_not_run(real: Duly, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with rebound(real, start=START) as sent:
        async with travel(real) as time:
            await real.every("tidy", every("1d"), "tidy", target={"command": f"touch {made}"})
            await time.by(2 * DAY)
            assert [event.target for event in sent["command"].events] == [{"command": f"touch {made}"}] * 2
    assert not os.path.exists(made)  # noqa: ASYNC240, PTH110 - of a file that is not there


async def test_stored_targets_need_no_secret_key_of_the_program(real: Duly) -> None:
    with rebound(real, start=START) as sent:
        async with travel(real) as time:
            await real.targets.put("crm", "https://crm.example/in", headers={"Authorization": "secret"})
            await real.after(HOUR, "order.paid", target=webhook(target="crm"))
            await time.by(DAY)
            assert len(sent["webhook"].events) == 1


async def test_what_a_test_registers_is_forgotten_after_it(real: Duly) -> None:
    signals: list[Any] = []
    for _ in range(2):
        with rebound(real):

            @real.on("greet")
            @real.schedule(every("1h"), name="hourly")
            async def greet(event: Event) -> None: ...

            @real.check("greet")
            def check(timer: Timer) -> str:
                return "never"

            @real.event_types.register
            class NameDay(Birthday):
                name = "name_day"

            real.observe(signals.append, Completed)
            async with real:
                with pytest.raises(Invalid):
                    await real.after(HOUR, "greet")
    assert list(real.routes()) == list(Duly("sqlite://").routes())
    assert "name_day" not in real.event_types.names()
    with rebound(real):
        async with real:
            await real.after(0, "greet")
            assert await real.orphans() == []


async def test_what_the_program_has_registered_stays(real: Duly) -> None:
    @real.schedule(every("1h"))
    def hourly(event: Event) -> None: ...

    @real.event_types.register
    class NameDay(Birthday):
        name = "name_day"

    with rebound(real, start=START):
        async with travel(real) as time:
            await UserBuilder().add_to(real)
            assert {event.type for event in await real.events.find()} >= {"name_day"}
            assert len(await time.by(hours=2)) == 2


def test_synchronous_code_is_rebound_too(real: Duly, own_url: str) -> None:
    sync = real.sync

    @real.on("greet")
    def greet(event: Event) -> None:
        sync.after(HOUR, "later")

    with rebound(real, own_url, start=START):
        with sync:
            sync.after(HOUR, "greet", key="k")
        with travel(real) as time:
            time.by(DAY)
            assert sync.events.get("k").status is Status.COMPLETED
            assert len(sync.events.find()) == 2
        with sync:
            assert len(sync.events.find()) == 2


async def test_an_open_duly_is_not_rebound_and_none_is_left_open(real: Duly) -> None:
    async with real:
        with pytest.raises(Misuse, match="this Duly is open"), rebound(real):
            pass
    left = real
    with pytest.raises(Misuse, match="left open"), rebound(left):
        await left.__aenter__()
    async with real:
        assert await real.events.find() == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///real.db", "is a file"),
        ("postgresql://localhost/shop", "the database 'shop' may be a real one.*such as shop_test"),
    ],
)
def test_a_database_that_may_be_real_is_refused(real: Duly, url: str, why: str) -> None:
    with pytest.raises(Misuse, match=why), rebound(real, url):
        pass
    assert real.one_writer


async def test_many_tasks_share_the_database_in_memory(real: Duly) -> None:
    with rebound(real):
        async with real:
            await asyncio.gather(*(real.after(HOUR, "greet", number) for number in range(100)))
            async with real.transaction() as tx:
                await tx.execute("CREATE TABLE orders (id integer)")
                await real.after(HOUR, "greet", transaction=tx)
            assert len(await real.events.find(limit=200)) == 101
