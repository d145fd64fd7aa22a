"""Records and tables have the same columns, and one field more needs a migration and nothing else."""

import asyncio
import sys

import msgspec
import pytest

from duly.records.api_key import ApiKey
from duly.records.columns import ColumnKind, columns_of
from duly.records.event import Event, NewEvent
from duly.records.history import Entry, FiredKey
from duly.records.schedule import Schedule
from duly.records.target import Known, Target
from duly.records.user import User
from duly.stores.columns.lists import OF_SUCCESSORS
from tests.conftest import AnyStore

TABLES: dict[str, type[msgspec.Struct]] = {
    "events": Event,
    "history": Entry,
    "schedules": Schedule,
    "users": User,
    "targets": Target,
    "destinations": Known,
    "api_keys": ApiKey,
    "fired_keys": FiredKey,
}

OF_THE_STORE = {
    "events": {"unsettled", "settled", "asked", "freed_key", "output", *OF_SUCCESSORS},
    "history": {"id", "subject"},
    "users": {"first_last", "last_first"},
    "destinations": {"spent_until", "probes"},
    "api_keys": {"hash"},
}
"""Columns that only the store itself needs."""

TOLD_FROM_OTHERS = {"interruptions"}

TYPES = {
    "sqlite": {
        ColumnKind.ID: "TEXT",
        ColumnKind.TEXT: "TEXT",
        ColumnKind.JSON: "TEXT",
        ColumnKind.SPAN: "INTEGER",
        ColumnKind.INSTANT: "INTEGER",
        ColumnKind.DAY: "TEXT",
        ColumnKind.TIME_OF_DAY: "TEXT",
        ColumnKind.FLAG: "INTEGER",
        ColumnKind.WHOLE: "INTEGER",
        ColumnKind.NUMBER: "REAL",
    },
    "postgres": {
        ColumnKind.ID: "uuid",
        ColumnKind.TEXT: "text",
        ColumnKind.JSON: "json",
        ColumnKind.SPAN: "bigint",
        ColumnKind.INSTANT: "timestamp with time zone",
        ColumnKind.DAY: "date",
        ColumnKind.TIME_OF_DAY: "text",
        ColumnKind.FLAG: "boolean",
        ColumnKind.WHOLE: "integer",
        ColumnKind.NUMBER: "double precision",
    },
}


async def table(store: AnyStore, name: str) -> dict[str, str]:
    """The columns of a table, with their types as the database calls them."""
    query = {
        "sqlite": f"SELECT name, type FROM pragma_table_info('{name}')",
        "postgres": "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_schema = 'duly' AND table_name = '{name}'",
    }[store.dialect]
    async with store.begin() as tx:
        return {row[0]: row[1] for row in await tx.fetch(query)}


@pytest.mark.parametrize("name", TABLES)
async def test_a_record_has_the_columns_of_its_table_with_their_types(store: AnyStore, name: str) -> None:
    types = TYPES[store.dialect]
    stored = {column.name: types[column.kind] for column in columns_of(TABLES[name])}
    there = await table(store, name)
    assert {column: there[column] for column in there if column not in OF_THE_STORE.get(name, ())} == {
        column: stored[column] for column in stored if column not in TOLD_FROM_OTHERS
    }


async def test_a_new_event_has_columns_of_events_and_may_have_a_delay(store: AnyStore) -> None:
    there = set(await table(store, "events"))
    assert {column.name for column in columns_of(NewEvent)} - there == {"delay", "once"}


@pytest.mark.broken_rows("its heads have no schedules")
async def test_a_new_field_of_a_record_needs_nothing_but_a_column(empty_url: str) -> None:
    """In a process of its own, where the records have that field before anybody else imports them."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.stores.one_field_more", empty_url, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await child.communicate()
    assert (child.returncode, errors.decode()) == (0, "")
