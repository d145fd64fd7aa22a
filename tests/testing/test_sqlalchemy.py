"""``session_in``: SQLAlchemy's ORM in the transaction of a transactional handler."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from duly import Duly, Event, Misuse, Retry
from duly.sqlalchemy import session_in
from duly.testing import ManualClock, fired, travel
from tests.make import DAY, HOUR


class Base(DeclarativeBase): ...


class Row(Base):
    __tablename__ = "rows"

    name: Mapped[str] = mapped_column(primary_key=True)
    told: Mapped[dict[str, Any]] = mapped_column(JSONB)


@pytest.fixture
async def app(clean_postgres: str, clock: ManualClock) -> AsyncIterator[Duly]:
    engine = create_async_engine(clean_postgres.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()
    async with Duly(clean_postgres, clock=clock) as app:
        yield app


async def names(app: Duly) -> list[str]:
    async with app.transaction() as tx, session_in(tx) as session:
        return list(await session.scalars(select(Row.name).order_by(Row.name)))


async def test_models_and_the_completion_commit_together_or_not_at_all(app: Duly) -> None:
    @app.on("write", transactional=True)
    async def write(event: Event, tx: Any) -> None:
        async with session_in(tx) as session:
            session.add(Row(name=event.payload, told={"attempt": event.attempt}))
        if event.attempt < 2 and event.payload == "late":
            raise ConnectionError("after the session has ended")

    await app.after(HOUR, "write", "at once")
    await app.after(HOUR, "write", "late", retry=Retry(max_attempts=2, base=HOUR))
    async with travel(app) as time:
        await time.by(HOUR)
        assert await names(app) == ["at once"]
        await time.by(DAY)
        fired(app, "write", times=2)
    async with app.transaction() as tx, session_in(tx) as session:
        assert (await session.get_one(Row, "late")).told == {"attempt": 2}


async def test_commits_and_rollbacks_within_are_of_savepoints(app: Duly) -> None:
    async def fail() -> None:
        async with app.transaction() as tx, session_in(tx) as session:
            session.add(Row(name="committed", told={}))
            await session.commit()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await names(app) == []
    async with app.transaction() as tx, session_in(tx) as session:
        session.add(Row(name="kept", told={}))
        await session.commit()
        session.add(Row(name="kept", told={}))
        with pytest.raises(IntegrityError):
            await session.commit()
        await session.rollback()
        session.add(Row(name="also kept", told={}))
    assert await names(app) == ["also kept", "kept"]


async def test_an_error_of_the_session_undoes_the_handlers_other_writes(app: Duly) -> None:
    @app.on("write", transactional=True)
    async def write(event: Event, tx: Any) -> None:
        await tx.execute("INSERT INTO rows VALUES ($1, $2)", "by hand", "{}")
        async with session_in(tx) as session:
            session.add(Row(name="by hand", told={}))

    await app.after(HOUR, "write", retry=Retry(max_attempts=1))
    async with travel(app) as time:
        await time.by(HOUR)
        [event] = fired(app, "write", outcome="failed")
    assert await names(app) == []
    assert "duplicate key" in str((await app.events.get(event.id)).last_error)


async def test_timers_are_set_and_cancelled_in_the_session(app: Duly) -> None:
    async with app.transaction() as tx, session_in(tx, expire_on_commit=False) as session:
        row = Row(name="order", told={})
        session.add(row)
        await app.after(HOUR, "remind", key="order", transaction=session)
        await session.commit()
        assert row.name == "order"

    async def fail() -> None:
        async with app.transaction() as tx, session_in(tx) as session:
            assert await app.cancel("order", transaction=session) == "cancelled"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await app.events.get("order")).status == "PENDING"


async def test_the_connection_goes_back_as_it_came(app: Duly) -> None:
    """SQLAlchemy gives it readers of JSON of its own, which the next handler must not meet."""
    for _ in range(3):
        async with app.transaction() as tx:
            async with session_in(tx) as session:
                await session.scalars(select(Row))
            assert await tx.fetchval("SELECT '{}'::jsonb") == await tx.fetchval("SELECT '{}'::json") == "{}"


async def test_sessions_of_several_handlers_do_not_meet(app: Duly) -> None:
    at_once = asyncio.Barrier(5)
    seen: list[list[str]] = []

    @app.on("write", transactional=True)
    async def write(event: Event, tx: Any) -> None:
        async with session_in(tx) as session:
            session.add(Row(name=event.payload, told={}))
            await session.flush()
            await at_once.wait()
            seen.append(list(await session.scalars(select(Row.name))))
            await at_once.wait()

    for name in "abcde":
        await app.after(HOUR, "write", name)
    async with travel(app) as time:
        await time.by(HOUR)
        fired(app, "write", times=5)
    assert sorted(seen) == [["a"], ["b"], ["c"], ["d"], ["e"]]


async def test_another_transaction_is_refused(app: Duly) -> None:
    async with Duly("sqlite://") as lite, lite.transaction() as tx:
        with pytest.raises(Misuse, match="session_in\\(\\) got a SqliteTransaction"):
            async with session_in(tx):
                pass
