"""``duly schedules why-not``."""

import json
import re

from tests.cli.conftest import Shell, schedules

BRUSSELS = ("--type", "report", "--cron", "30 2 * * *", "--timezone", "Europe/Brussels")


def test_why_not_names_the_cause_and_the_time_on_its_clocks(lite: Shell) -> None:
    schedules(lite, "put", "nightly", *BRUSSELS, "--exclude", "2035-01-02")
    assert schedules(lite, "why-not", "nightly", "--at", "2035-01-02T02:30") == (
        "2035-01-02 02:30:00 Europe/Brussels: excluded: 2035-01-02 is excluded, by '2035-01-02'\n"
    )
    gap = schedules(lite, "why-not", "nightly", "--at", "2035-03-25T02:30")
    assert "gap: the clocks of Europe/Brussels skip 2035-03-25 02:30 that day: it fires at 2035-03-25T01:00:00Z" in gap
    assert re.search(r"before_creation: .*created later", schedules(lite, "why-not", "nightly", "--at", "-1h"))


def test_why_not_as_json_is_what_the_api_answers(lite: Shell) -> None:
    schedules(lite, "put", "nightly", *BRUSSELS, "--paused")
    told = json.loads(schedules(lite, "why-not", "nightly", "--at", "2035-01-02T01:30:00Z", "--json"))
    assert (told["kind"], told["local_at"]) == ("paused", "2035-01-02T02:30:00")
    assert told["by"]


def test_why_not_of_no_time_or_no_schedule_says_what_is_wrong(lite: Shell) -> None:
    schedules(lite, "put", "nightly", *BRUSSELS)
    soon = lite("schedules", "why-not", "nightly", "--at", "soon")
    nobody = lite("schedules", "why-not", "nobody", "--at", "now")
    assert (soon.code, nobody.code) == (2, 1)
    assert "'soon' is neither an instant nor a local time" in soon.err
    assert "there is no schedule 'nobody'" in nobody.err
