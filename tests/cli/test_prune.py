"""``duly prune``: what would go, and then that it goes."""

import time

import pytest

from tests.cli.conftest import Shell


@pytest.fixture
def finished(on: Shell) -> Shell:
    """Two greetings that have fired, a dead letter, and a greeting that waits; a second ago."""
    for type in ("greet", "greet", "reject"):
        on.at("now", "--type", type)
    on.at("in", "1d", "--type", "greet")
    on("tick", "--app", "shop")
    on.set(DULY_RETENTION="1s")
    time.sleep(1.05)  # by the database's clock, which a command cannot move
    return on


def test_it_shows_what_would_go_and_then_deletes_it(finished: Shell) -> None:
    would = finished("prune", "--dry-run")
    assert (would.code, would.err) == (0, "")
    heading, row, told = would.out.splitlines()
    assert heading.split() == ["status", "type", "events", "oldest", "ended", "(UTC)"]
    assert row.split()[:3] == ["COMPLETED", "greet", "2"]
    assert told == "2 events would be deleted, with their history (DULY_RETENTION=1s)"
    assert len(finished("events", "list", "--json").json["events"]) == 4
    done = finished("prune", "--json")
    assert done.code == 0
    [kind] = done.json["kinds"]
    assert [done.json[field] for field in ("events", "dry_run", "retention")] == [2, False, "1s"]
    assert (kind["status"], kind["type"], kind["events"]) == ("COMPLETED", "greet", 2)
    assert sorted(event["status"] for event in finished("events", "list", "--json").json["events"]) == [
        "FAILED",
        "PENDING",
    ]
    nothing = finished("prune")
    assert (nothing.code, nothing.out) == (
        0,
        "nothing to delete: no finished event is older than DULY_RETENTION=1s allows\n",
    )


def test_a_bad_retention_is_wrong_usage(on: Shell) -> None:
    on.set(DULY_RETENTION="failed=1d")
    refused = on("prune")
    assert refused.code == 2
    assert refused.err.startswith("duly: DULY_RETENTION='failed=1d'")
    assert "dead letters stay until somebody replays or discards them" in refused.err


def test_a_file_that_is_not_there_is_not_created(shell: Shell) -> None:
    refused = shell("prune", "--dry-run", "--db", "sqlite:///none.db")
    assert refused.code == 1
    assert "there is no database file none.db" in refused.err
