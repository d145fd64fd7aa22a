"""The record is the only list of its fields: what a row has, how it is selected, given and read follows from it."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Any

import msgspec
import pytest

from duly.records.columns import Column, ColumnKind, columns_of, only, without
from duly.records.event import Event, Status
from duly.records.marks import Internal, LookedUp
from duly.records.user import User
from duly.stores.columns.dialects import DIALECTS, POSTGRES, SQLITE
from duly.stores.columns.readers import row_reader

AT = datetime(2026, 11, 18, 4, 30, tzinfo=UTC)
MICROS = (AT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Colour(StrEnum):
    RED = "red"


class Ship(msgspec.Struct, frozen=True):
    id: str
    cargo_json: str | None
    sailed: datetime
    colour: Colour = Colour.RED
    captain: LookedUp[str | None] = None
    afloat: Internal[bool] = True
    berth: LookedUp[int] = 0


class Yacht(Ship, frozen=True, kw_only=True):
    """A record with some fields more."""

    built: date | None = None
    rings: time | None = None
    masts: int = 1
    knots: float | None = None


def test_each_field_that_is_stored_is_a_column() -> None:
    assert columns_of(Ship) == (
        Column("id", "id", ColumnKind.ID),
        Column("cargo_json", "cargo", ColumnKind.JSON, optional=True),
        Column("sailed", "sailed", ColumnKind.INSTANT),
        Column("colour", "colour", ColumnKind.TEXT, choices=Colour),
        Column("afloat", "afloat", ColumnKind.FLAG),
    )
    assert "schedule" not in [column.field for column in columns_of(Event)]


def test_a_new_field_is_selected_and_given_in_both_dialects() -> None:
    more = columns_of(Yacht)[len(columns_of(Ship)) :]
    assert SQLITE.select(more, "y") == "y.built, y.rings, y.masts, y.knots"
    assert POSTGRES.select(more, "y") == "to_char(y.built::timestamp, 'YYYY-MM-DD'), y.rings, y.masts, y.knots"
    assert SQLITE.rows(more) == (
        "(SELECT value ->> 0 AS built, value ->> 1 AS rings, value ->> 2 AS masts, value ->> 3 AS knots "
        "FROM jsonb_each(:rows)) AS given"
    )
    assert POSTGRES.rows(more) == (
        "unnest(:built::text[]::date[], :rings::text[], :masts::bigint[], :knots::double precision[]) "
        "AS given (built, rings, masts, knots)"
    )


def test_json_and_id_columns_are_exchanged_as_text() -> None:
    assert POSTGRES.select(columns_of(Ship), "s") == "s.id::text, s.cargo::text, s.sailed, s.colour, s.afloat"
    assert (
        POSTGRES.rows(columns_of(Ship)[:2]) == "unnest(:id::uuid[], :cargo_json::text[]::json[]) AS given (id, cargo)"
    )
    assert SQLITE.select(columns_of(Ship)) == "id, cargo, sailed, colour, afloat"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_expression_is_selected_from_the_same_table(dialect: str) -> None:
    interruptions = only(columns_of(Event), "interruptions")
    assert DIALECTS[dialect].select(interruptions, "e").startswith("e.unsettled - (e.status = 'PROCESSING')")
    assert DIALECTS[dialect].select(interruptions).startswith("unsettled - (status = 'PROCESSING')")


ROWS: dict[str, tuple[Any, ...]] = {
    "sqlite": ("1", None, MICROS, "red", 0, "1990-03-15", "09:00:00", 3, 7.5),
    "postgres": ("1", None, AT, "red", False, "1990-03-15", "09:00:00", 3, 7.5),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_new_field_is_read_in_both_dialects(dialect: str) -> None:
    yacht = Yacht("1", None, AT, Colour.RED, afloat=False, built=date(1990, 3, 15), rings=time(9), masts=3, knots=7.5)
    reader = row_reader(Yacht, DIALECTS[dialect])
    assert reader.read(ROWS[dialect]) == yacht
    assert reader.read((*ROWS[dialect], "more", None)) == yacht
    assert reader.rest((*ROWS[dialect], "more", None)) == ("more", None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_column_is_read_as_none(dialect: str) -> None:
    reader = row_reader(Yacht, DIALECTS[dialect])
    assert reader.read((*ROWS[dialect][:5], None, None, 1, None)) == Yacht("1", None, AT, afloat=False)
    assert reader.joined((None,) * 9) is None
    assert reader.joined(ROWS[dialect]) == reader.read(ROWS[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_fields_without_a_column_come_from_the_caller_or_are_constant(dialect: str) -> None:
    columns = without(columns_of(Ship), "sailed", "colour")
    reader = row_reader(Ship, DIALECTS[dialect], columns, given=("sailed",), constants={"colour": "blue"})
    blue: Any = "blue"  # no Colour: a constant is taken as it is
    assert reader.read(("1", "{}", 1, "rest"), AT) == Ship("1", "{}", AT, blue, afloat=True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_field_may_be_called_what_it_likes(dialect: str) -> None:
    fields = [("date", date), ("time", time), ("record", str), ("row", str | None), ("EPOCH", int)]
    Odd = msgspec.defstruct("Odd", fields)
    read = row_reader(Odd, DIALECTS[dialect]).read
    assert read(("1990-03-15", "09:00:00", "r", None, 7)) == Odd(date(1990, 3, 15), time(9), "r", None, 7)


def test_only_fields_that_exist_can_be_left_out() -> None:
    assert without(columns_of(User), *(column.field for column in columns_of(User))) == ()
    with pytest.raises(KeyError, match="mast"):
        without(columns_of(User), "mast")


class Several(msgspec.Struct):
    one: int | str


class Strange(msgspec.Struct):
    one: list[str]


@pytest.mark.parametrize(("record", "why"), [(Several, "Several.one has several types"), (Strange, "Strange.one")])
def test_a_field_that_no_column_can_hold_is_refused(record: type[msgspec.Struct], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        columns_of(record)


def test_a_status_that_nobody_knows_is_no_event() -> None:
    columns = only(columns_of(Event), "status")
    others = {field: None for field in Event.__struct_fields__ if field != "status"}
    reader = row_reader(Event, SQLITE, columns, constants=others)
    assert reader.read(("FAILED",)).status is Status.FAILED
    with pytest.raises(KeyError):
        reader.read(("LOST",))
