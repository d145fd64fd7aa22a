"""Rows written past the store's statements, for the states that its statements take long to reach, or must never."""

from collections.abc import Sequence
from typing import Any

from duly.records.event import Event, Status

COLUMNS = (
    "id tenant type lane status due ready version attempts unsettled stands_for payload target retry key "
    "correlation_id series occurrence head held last_error created claimed executed worker "
    "scheduled timezone zone_data gated destination"
).split()


async def keep(store: Any, *events: Event) -> Sequence[Event]:
    """Write events as they are, whatever their status."""
    places = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
    statement = f"INSERT INTO duly.events ({', '.join(COLUMNS)}) VALUES ({places})"
    async with store.begin() as tx:
        for event in events:
            await tx.execute(spelled(store, statement), *_row(store, event))
    return events


async def write(store: Any, statement: str, *values: Any) -> None:
    """Run a statement that names tables as PostgreSQL does: ``duly.events``."""
    async with store.begin() as tx:
        await tx.execute(spelled(store, statement), *values)


async def ask(store: Any, query: str, *values: Any) -> Any:
    """The first value of a query's answer."""
    async with store.begin() as tx:
        return await tx.fetchval(spelled(store, query), *values)


def spelled(store: Any, statement: str) -> str:
    """SQLite has no schemas, so it has no ``duly.``."""
    return statement.replace("duly.", "") if store.dialect == "sqlite" else statement


def _row(store: Any, event: Event) -> list[Any]:
    instants = {
        name: None if value is None else store.instant(value)
        for name in ("due", "ready", "created", "claimed", "executed", "scheduled")
        for value in [getattr(event, name)]
    }
    written = {
        "status": event.status.value,
        "unsettled": event.interruptions + (event.status is Status.PROCESSING),
        "payload": event.payload_json,
        "target": event.target_json,
        "retry": event.retry_json,
        "head": event.head if store.dialect == "postgres" else int(event.head),
        "gated": event.gated if store.dialect == "postgres" else int(event.gated),
        **instants,
    }
    return [written[name] if name in written else getattr(event, name) for name in COLUMNS]
