"""Lists with the columns that somebody wants: the fields of the records, as ``--json`` names them."""

import pytest

from tests.cli.conftest import Shell


def test_events_are_listed_with_the_columns_that_are_asked_for(on: Shell) -> None:
    id = on.at("2031-12-01T09:00:00Z", "--type", "greet", "--payload", '{"name": "Ada"}', "--expires", "90m")
    header, row = on("events", "list", "--columns", "id, due_at,expires,payload,key").out.splitlines()
    assert header.split() == ["ID", "DUE_AT", "EXPIRES", "PAYLOAD", "KEY"]
    assert row.split("  ")[:3] == [id, "2031-12-01 09:00:00", "1h30m"]
    assert row.rstrip().endswith('{"name":"Ada"}')


@pytest.mark.parametrize(
    ("noun", "columns", "known"),
    [("events", "id,colour", "lateness_seconds"), ("schedules", "colour", "policies"), ("users", "", "first_name"),
     ("targets", "sealed", "headers"), ("keys", "hash", "hint")],
)  # fmt: skip
def test_an_unknown_column_is_refused_with_the_known_ones(on: Shell, noun: str, columns: str, known: str) -> None:
    refused = on(noun, "list", "--columns", columns)
    assert refused.code == 2
    assert "there is no such column; known columns: " in refused.err
    assert (known in refused.err) == (known != "policies")


def test_every_list_has_the_columns_of_its_record(on: Shell) -> None:
    on("schedules", "put", "digest", "--type", "digest", "--every", "1h", "--expires", "2h")
    on("users", "add", "--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10",
       "--timezone", "Europe/London")  # fmt: skip
    on("keys", "create", "console")
    for noun, columns, told in (
        ("schedules", "name,type,expires,enabled", ["digest", "digest", "2h", "yes"]),
        ("users", "first_name,date_of_birth,attributes", ["Ada", "1990-12-10", "{}"]),
        ("keys", "name,scope,all_tenants", ["console", "read", "no"]),
    ):
        listed = on(noun, "list", "--columns", columns)
        assert (listed.code, listed.out.splitlines()[1].split()) == (0, told), noun
