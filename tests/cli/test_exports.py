"""Whole lists as CSV and as lines of JSON, counts, and the order of due times, on the command line."""

import csv
import io
import json
import subprocess
import sys

import pytest

from duly.cli.lists import exports
from tests.cli.conftest import Shell


def rows(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out, newline="")))


def add_user(shell: Shell, key: str, *, first: str = "Ada", zone: str = "Europe/London") -> None:
    done = shell("users", "add", "--key", key, "--first-name", first, "--last-name", "Lovelace",
                 "--date-of-birth", "1990-12-10", "--timezone", zone)  # fmt: skip
    assert done.code == 0, done.err


def test_all_events_are_exported_page_by_page(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST_LISTED", 2)
    ids = [on.at(f"2031-01-0{day}T00:00:00Z", "--type", "greet", "--payload", '{"n":1}') for day in (3, 1, 2)]
    done = on("events", "list", "--format", "csv")
    assert (done.code, done.err) == (0, "")
    found = rows(done.out)
    assert [row["id"] for row in found] == ids[::-1]
    assert (found[0]["due_at"], found[0]["payload"], found[0]["key"]) == ("2031-01-02T00:00:00Z", '{"n":1}', "")
    lines = on("events", "list", "--format", "jsonl", "--sort", "due").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [ids[1], ids[2], ids[0]]
    assert [json.loads(line) for line in lines] == on("events", "list", "--sort", "due", "--json").json["events"]


def test_an_export_has_the_columns_and_the_limit_that_are_asked_for(on: Shell) -> None:
    for day in (1, 2, 3):
        on.at(f"2031-01-0{day}T00:00:00Z", "--type", "greet")
    words = ("events", "list", "--sort", "due", "--columns", "type,due_at", "--limit", "2")
    assert on(*words, "--format", "csv").out == (
        "type,due_at\ngreet,2031-01-01T00:00:00Z\ngreet,2031-01-02T00:00:00Z\n"
    )
    assert on(*words, "--format", "jsonl").out.splitlines()[1] == '{"type":"greet","due_at":"2031-01-02T00:00:00Z"}'
    assert on("events", "list", "--status", "FAILED", "--columns", "id", "--format", "csv").out == "id\n"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_of_a_csv_file_is_a_formula(on: Shell, name: str) -> None:
    if name.startswith("\t"):
        assert exports._cell(name) == f"'{name}"
        return
    add_user(on, "a", first=name)
    assert rows(on("users", "list", "--format", "csv").out)[0]["first_name"] == f"'{name}"
    assert json.loads(on("users", "list", "--format", "jsonl").out)["first_name"] == name


def test_users_and_schedules_are_exported(on: Shell) -> None:
    add_user(on, "a")
    add_user(on, "b", first='Éva, "the" first', zone="UTC")
    found = rows(on("users", "list", "--format", "csv").out)
    assert [(row["key"], row["first_name"], row["attributes"]) for row in found] == [
        ("b", 'Éva, "the" first', "{}"),
        ("a", "Ada", "{}"),
    ]
    for name in ("daily", "hourly"):
        on("schedules", "put", name, "--type", "digest", "--every", "1h")
    found = rows(on("schedules", "list", "--format", "csv").out)
    assert [(row["name"], row["enabled"]) for row in found] == [("daily", "true"), ("hourly", "true")]
    assert json.loads(found[0]["rule"])["every"] == "1h"
    assert len(on("schedules", "list", "--format", "jsonl").out.splitlines()) == 2


def test_lists_are_counted(on: Shell) -> None:
    on.at("2031-01-01T00:00:00Z", "--type", "greet")
    assert on("events", "list", "--count").out == "1\n"
    assert on("events", "list", "--status", "FAILED", "--count").out == "0\n"
    assert on("users", "list", "--count", "--json").json == {"count": {"value": 0, "exact": True}}
    assert on("schedules", "list", "--count").out == "0\n"


def test_users_are_found_by_name_key_and_zone(on: Shell) -> None:
    add_user(on, "a")
    add_user(on, "b", first="Bob", zone="UTC")

    def found(*words: str) -> list[str]:
        return [user["key"] for user in on("users", "list", *words, "--json").json["users"]]

    assert found("--name", "ada") == found("--key", "a") == found("--timezone", "Europe/London") == ["a"]
    assert found("--name", "ada", "--timezone", "UTC") == []
    assert on("users", "list", "--timezone", "Mars/Base").code == 2


def test_the_next_page_by_due_time_begins_where_the_list_says(on: Shell) -> None:
    ids = [on.at(f"2031-01-0{day}T00:00:00Z", "--type", "greet") for day in (2, 1, 3)]
    words = ("events", "list", "--sort", "due", "--limit", "2")
    first = on(*words)
    after = first.err.split("--after ")[1].strip()
    assert after == f"2031-01-02T00:00:00Z/{ids[0]}"
    assert [event["id"] for event in on(*words, "--after", after, "--json").json["events"]] == [ids[2]]


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "--format", "csv"),
        ("--count", "--format", "csv"),
        ("--count", "--limit", "3"),
        ("--format", "xml"),
        ("--sort", "colour"),
        ("--sort", "due", "--stuck"),
        ("--sort", "due", "--after", "x"),
    ],
)
def test_options_that_exclude_each_other_are_wrong_use(lite: Shell, words: tuple[str, ...]) -> None:
    assert lite("events", "list", *words).code == 2


def test_a_reader_that_stops_early_ends_the_export(lite: Shell) -> None:
    for day in range(1, 10):
        lite.at(f"2031-01-0{day}T00:00:00Z", "--type", "greet", "--payload", json.dumps("x" * 60_000))
    command = [sys.executable, "-m", "duly", "events", "list", "--format", "jsonl", "--db", "sqlite:///duly.db"]
    with subprocess.Popen(command, cwd=lite.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=60) == 1
