"""``duly templates``: list, show, put and delete; and schedules that are put from one."""

import json
from typing import Any

from tests.cli.conftest import Shell


def done(shell: Shell, *words: object) -> str:
    result = shell(*words)
    assert result.code == 0, result.err
    return result.out


def read(shell: Shell, *words: object) -> Any:
    return json.loads(done(shell, *words, "--json"))


def test_a_template_is_put_shown_used_and_deleted(on: Shell) -> None:
    words = ("--type", "report", "--cron", "0 9 * * MON", "--timezone", "Europe/Brussels", "--misfire", "skip")
    assert done(on, "templates", "put", "mine", *words) == "template mine: created\n"
    assert done(on, "templates", "put", "mine", *words, "--payload", '{"a": 1}') == "template mine: replaced\n"
    shown = done(on, "templates", "show", "mine")
    assert "cron 0 9 * * MON" in shown
    assert '{"a":1}' in shown
    listed = done(on, "templates", "list")
    assert "built in" in listed
    assert "own" in next(line for line in listed.splitlines() if line.startswith("mine"))
    done(on, "schedules", "put", "s", "--template", "mine", "--payload", "[]", "--every", "1h", "--timezone", "UTC")
    made = read(on, "schedules", "show", "s")
    assert (made["type"], made["payload"], made["rule"]["every"], made["misfire"]["policy"]) == (
        "report",
        [],
        "1h",
        "skip",
    )
    assert done(on, "templates", "delete", "mine") == "template mine: deleted\n"
    assert on("templates", "show", "mine").code == 1
    assert done(on, "schedules", "show", "s")


def test_a_built_in_template_is_a_rule_and_needs_a_type(on: Shell) -> None:
    done(on, "schedules", "put", "s", "--type", "x", "--template", "hourly")
    assert read(on, "schedules", "show", "s")["rule"]["cron"] == "0 * * * *"
    assert "give --type" in on("schedules", "put", "s", "--template", "hourly").err
    assert (
        "cannot be used together"
        in on("schedules", "put", "s", "--type", "x", "--template", "hourly", "--every", "1h").err
    )


def test_files_of_schedules_name_templates_too(on: Shell) -> None:
    done(on, "templates", "put", "mine", "--type", "report", "--every", "1h")
    on.write("some.json", '[{"name": "a", "template": "mine"}, {"name": "b", "template": "mine", "type": "other"}]')
    done(on, "schedules", "put", "--file", "some.json")
    assert [one["type"] for one in read(on, "schedules", "list")["schedules"]] == ["report", "other"]


def test_wrong_use_is_told(on: Shell) -> None:
    done(on, "templates", "put", "mine", "--type", "report")
    for words, told in (
        (("templates", "put", "x"), "would be empty"),
        (("templates", "put", "hourly", "--type", "x"), "built-in template"),
        (("templates", "put", "x", "--at", "09:00"), "a rule is missing"),
        (("templates", "put", "x", "--type", "", "--cron", "x"), "cron"),
        (("templates", "delete", "hourly"), "cannot be deleted"),
        (("schedules", "put", "s", "--template", "mine"), "rule: is missing, and template"),
        (("schedules", "put", "s", "--template", "nothing"), "there is no template 'nothing'"),
        (("schedules", "put", "s", "--template", "mine", "--at", "09:00"), "a rule is missing"),
    ):
        result = on(*words)
        assert result.code == 2, (words, result)
        assert told in result.err, (words, result.err)


def test_long_lists_have_pages(on: Shell) -> None:
    first = read(on, "templates", "list", "--limit", "2")
    assert [one["name"] for one in first["templates"]] == ["business-hours", "daily-9am"]
    rest = read(on, "templates", "list", "--after", first["next"])
    assert (len(rest["templates"]), rest["next"]) == (11, None)
