"""``duly events list --due DAY``: what goes out on a day, on the clocks of a zone."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Shell

NOW = datetime.now(UTC)
TOMORROW = (NOW + timedelta(days=1)).date()


def due(shell: Shell, *words: str) -> list[str]:
    done = shell("events", "list", *words, "--json")
    assert done.code == 0, done.err
    return [event["id"] for event in done.json["events"]]


def test_a_day_has_the_events_between_two_midnights_of_its_zone(on: Shell) -> None:
    eve, first, last = (
        on.at(f"{day}T{time}Z", "--type", "greet")
        for day, time in (("2031-03-29", "22:59:59"), ("2031-03-29", "23:00:00"), ("2031-03-30", "21:59:59"))
    )  # on 30 March, clocks in Brussels change: the day has 23 hours
    morning = on.at("2031-03-30T22:00:00Z", "--type", "greet")
    words = ("--due", "2031-03-30", "--timezone", "Europe/Brussels")
    assert due(on, *words) == [first, last]
    assert due(on, "--due", "2031-03-30") == [last, morning]
    assert due(on, *words, "--sort", "-created") == [last, first]
    assert eve not in due(on, *words)
    assert on("events", "list", *words, "--count").out == "2\n"


def test_tomorrow_is_what_waits_the_next_one_first(on: Shell) -> None:
    evening, morning = (on.at(f"{TOMORROW}T{hour}:00:00Z", "--type", "greet") for hour in ("20", "08"))
    cancelled = on.at(f"{TOMORROW}T09:00:00Z", "--type", "greet")
    on("events", "cancel", cancelled)
    assert due(on, "--due", "tomorrow") == [morning, evening]
    assert due(on, "--due", "tomorrow", "--sort", "-due") == [evening, morning]
    assert due(on, "--due", "tomorrow", "--status", "CANCELLED") == [cancelled]
    assert due(on, "--due", "yesterday") == []


def test_occurrences_that_have_no_event_yet_are_told_beside_the_events(on: Shell) -> None:
    on("schedules", "put", "hourly", "--type", "report", "--cron", "0 * * * *")
    on("schedules", "put", "paused", "--type", "report", "--cron", "0 * * * *")
    on("schedules", "pause", "paused")
    found = on("events", "list", "--due", "tomorrow", "--json").json
    assert found["by_rule"] == [
        {
            "schedule": "hourly",
            "tenant": "default",
            "type": "report",
            "occurrences": 24 - len([one for one in found["events"] if one["schedule"] == "hourly"]),
            "first_at": found["by_rule"][0]["first_at"],
            "last_at": f"{TOMORROW}T23:00:00Z",
        }
    ]
    assert found["by_rule_complete"] is True
    told = on("events", "list", "--due", "tomorrow").err
    assert "occurrences by the rules of schedules, whose events are made when the ones before them begin:" in told
    assert on("events", "list", "--due", "tomorrow", "--type", "other", "--json").json["by_rule"] == []
    assert on("events", "list", "--due", "tomorrow", "--key", "k", "--json").json["by_rule"] == []


def test_counts_and_exports_of_a_day_tell_them_too(on: Shell) -> None:
    on("schedules", "put", "hourly", "--type", "report", "--cron", "0 * * * *")
    told = on("events", "list", "--due", "tomorrow").err.splitlines()[-2:]
    counted = on("events", "list", "--due", "tomorrow", "--count")
    assert (counted.out in ("0\n", "1\n"), counted.err.splitlines()) == (True, told)
    exported = on("events", "list", "--due", "tomorrow", "--format", "csv", "--columns", "type")
    assert (exported.out in ("type\n", "type\nreport\n"), exported.err.splitlines()) == (True, told)
    as_json = on("events", "list", "--due", "tomorrow", "--count", "--json").json
    assert as_json["count"]["value"] + as_json["by_rule"][0]["occurrences"] == 24
    assert set(on("events", "list", "--count", "--json").json) == {"count"}


def test_the_rest_of_today_is_told_too_and_nothing_of_the_past(on: Shell) -> None:
    on("schedules", "put", "ticking", "--type", "report", "--cron", "* * * * * *")
    found = on("events", "list", "--due", "today", "--json").json
    assert [one["schedule"] for one in found["by_rule"]] == ["ticking"]
    assert found["by_rule"][0]["first_at"] > found["events"][0]["due_at"]
    assert on("events", "list", "--due", "today", "--status", "COMPLETED", "--json").json["by_rule"] == []
    assert on("events", "list", "--due", "yesterday", "--json").json["by_rule"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("--due", "someday"),
        ("--due", "2031-02-30"),
        ("--due", "tomorrow", "--timezone", "Mars/Base"),
        ("--due", "tomorrow", "--due-from", "-1h"),
        ("--due", "9999-12-31"),
    ],
)
def test_what_is_no_day_is_wrong_use(lite: Shell, words: tuple[str, ...]) -> None:
    done = lite("events", "list", *words)
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
