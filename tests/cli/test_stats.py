"""``duly schedules stats``: figures for people, and the JSON of the API for programs."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Shell


@pytest.fixture
def ran(on: Shell) -> Shell:
    """A schedule whose events have ended: one completed, one was skipped; and a dead letter of another type."""
    on("schedules", "put", "pulse", "--every", "1h", "--type", "greet")
    on("schedules", "trigger", "pulse")
    on("schedules", "skip", "pulse")
    on.at("now", "--type", "reject")
    on("tick", "--app", "shop")
    return on


def test_a_schedule_has_a_line_for_each_day_with_runs_and_a_total(ran: Shell) -> None:
    done = ran("schedules", "stats", "pulse")
    assert done.code == 0, done.err
    title, *lines = [line.split() for line in done.out.rstrip().split("\n")]
    assert title == ["DAY", "RUNS", "OK", "FAILED", "SKIPPED", "TOOK", "p50", "p95", "p99", "LATE", "p50", "p95", "p99"]
    total = lines[-1]
    assert total[:5] == ["total", "1", "100.0%", "0", "1"]
    assert [word for word in total[5:] if word not in ("ms", "s")] == total[5::2]
    assert all(line[2:6] == total[1:5] for line in lines[:-1])  # unless it was midnight: then there are two
    assert done.err.startswith("from 20")


def test_without_a_name_each_type_has_a_line(ran: Shell) -> None:
    done = ran("schedules", "stats")
    assert [line.split()[:5] for line in done.out.rstrip().split("\n")[1:]] == [
        ["greet", "1", "100.0%", "0", "1"],
        ["reject", "1", "0.0%", "1", "0"],
        ["total", "2", "50.0%", "1", "1"],
    ]


def test_programs_get_the_json_of_the_api(ran: Shell) -> None:
    begin = f"{datetime.now(UTC) - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    told = ran("schedules", "stats", "pulse", "--from", begin, "--to", "+1h", "--json").json
    assert list(told) == ["from", "to", "total", "days", "groups"]
    assert (told["total"]["runs"], told["total"]["success_rate"]) == (1, 1.0)
    assert sum(day["runs"] for day in told["days"]) == 1
    assert told["days"][0].keys() == {*told["total"], "day"}
    assert ran("schedules", "stats", "--tenant", "nobody", "--json").json["total"]["runs"] == 0


def test_what_cannot_be_told_is_wrong_use(ran: Shell) -> None:
    done = ran("schedules", "stats", "pulse", "--from", "+2h")
    assert (done.code, "must be after the start of the range" in done.err) == (2, True)
    done = ran("schedules", "stats", "nobody")
    assert (done.code, "there is no schedule 'nobody'" in done.err) == (1, True)
