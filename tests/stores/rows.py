"""Rows written past the store's statements, for the states that its statements take long to reach, or must never."""

from collections.abc import Sequence
from typing import Any

import msgspec

from duly.ports.events import EventPort
from duly.records.columns import columns_of
from duly.records.event import Event, Status
from tests.conftest import AnyStore

COLUMNS = ["unsettled" if column.field == "interruptions" else column.name for column in columns_of(Event)]


async def keep(store: AnyStore, *events: Event) -> Sequence[Event]:
    """Write events as they are, whatever their status."""
    places = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
    statement = f"INSERT INTO duly.events ({', '.join(COLUMNS)}) VALUES ({places})"
    async with store.begin() as tx:
        for event in events:
            await tx.execute(spelled(store, statement), *_row(store, event))
    return events


async def event_of(store: EventPort, id: str) -> Event:
    """The stored event, which must exist."""
    event = await store.get(id)
    assert event is not None, id
    return event


async def event_with_key(store: EventPort, key: str) -> Event:
    """The default tenant's event with this key, which must exist."""
    event = await store.by_key("default", key)
    assert event is not None, key
    return event


async def write(store: AnyStore, statement: str, *values: Any) -> None:
    """Run a statement that names tables as PostgreSQL does: ``duly.events``."""
    async with store.begin() as tx:
        await tx.execute(spelled(store, statement), *values)


async def ask(store: AnyStore, query: str, *values: Any) -> Any:
    """The first value of a query's answer."""
    async with store.begin() as tx:
        return await tx.fetchval(spelled(store, query), *values)


def spelled(store: AnyStore, statement: str) -> str:
    """SQLite has no schemas, so it has no ``duly.``."""
    return statement.replace("duly.", "") if store.dialect == "sqlite" else statement


def _row(store: AnyStore, event: Event) -> list[Any]:
    unsettled = event.interruptions + (event.status is Status.PROCESSING)
    stored = msgspec.structs.replace(event, interruptions=unsettled)
    return [store.written(column, [getattr(stored, column.field)])[0] for column in columns_of(Event)]
