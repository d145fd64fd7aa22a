"""``duly schedules put``: rules, policies and files."""

import getpass
import io
import json
import re
import sys

import pytest

from tests.cli.conftest import Shell, names, schedules, shown, warned_of

DAILY = ("--type", "report", "--cron", "0 9 * * *")
BRUSSELS = ("--timezone", "Europe/Brussels")


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


# -- putting


def test_schedules_put_says_what_it_did_and_when_the_schedule_fires_next(on: Shell) -> None:
    put = ("put", "weekly", "--type", "report", "--cron", "0 9 * * MON", *BRUSSELS)
    assert re.fullmatch(
        r"created weekly  cron 0 9 \* \* MON in Europe/Brussels  next 20\S+ 0[78]:00:00 UTC, in .+\n",
        schedules(on, *put),
    )
    assert schedules(on, *put).startswith("unchanged weekly  ")
    assert schedules(on, *put, "--payload", '{"to": "ada"}').startswith("changed weekly  ")
    assert [entry["act"] for entry in shown(on, "weekly")["history"]] == ["created", "changed"]
    assert shown(on, "weekly")["history"][0]["worker"] == getpass.getuser()


@pytest.mark.parametrize(
    ("options", "rule", "said"),
    [
        (["--cron", "@daily"], {"cron": "0 0 * * *"}, "cron 0 0 * * * in UTC"),
        (["--every", "90m"], {"every": "1h30m"}, "every 1h30m in UTC"),
        (["--every", "1h", "--anchor", "2030-01-01", *BRUSSELS], {"every": "1h", "start": "2029-12-31T23:00:00Z"}, ""),
        (["--yearly", "12-24"], {"yearly": "12-24", "at": "09:00"}, "yearly 12-24 09:00 in UTC"),
        (
            ["--yearly", "02-29", "--at", "18:30", "--leap", "mar1"],
            {"yearly": "02-29", "at": "18:30", "leap": "mar1"},
            "yearly 02-29 18:30, else 03-01",
        ),
        (["--once", "2035-05-01T09:00:00+02:00"], {"at": "2035-05-01T07:00:00Z"}, "next 2035-05-01 07:00:00 UTC"),
        (["--once", "2035-05-01T09:00", *BRUSSELS], {"at": "2035-05-01T09:00:00"}, "next 2035-05-01 07:00:00 UTC"),
        (["--template", "weekday-mornings"], {"cron": "0 9 * * MON-FRI"}, "cron 0 9 * * MON-FRI in UTC"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_kind_of_rule_can_be_put(lite: Shell, options: list[str], rule: dict[str, str], said: str) -> None:
    assert said in schedules(lite, "put", "it", "--type", "x", *options)
    put = shown(lite, "it")["rule"]
    assert {field: put.get(field) for field in rule} == rule


def test_a_change_that_ends_a_schedule_says_so_and_a_new_one_that_is_over_is_refused(lite: Shell) -> None:
    over = ["--type", "x", "--once", "2020-01-01T00:00:00Z"]
    refused = lite("schedules", "put", "it", *over)
    assert refused.code == 2
    assert "rule: it is over before it begins: its last was 2020-01-01T00:00:00Z, and nothing would fire" in refused.err
    schedules(lite, "put", "it", *DAILY)
    assert "it has ended: there is no next event" in schedules(lite, "put", "it", *over)


def test_the_delay_of_a_rule_is_counted_from_now(lite: Shell) -> None:
    assert "UTC, in 2h" in schedules(lite, "put", "later", "--type", "x", "--once", "+2h")


def test_each_policy_can_be_put(lite: Shell) -> None:
    schedules(lite, "put", "load", "--type", "load", "--every", "1h")
    words = "--misfire all --tolerance 1m --limit 7 --overlap queue --max-concurrent 2 --depends-on load --within 1h "
    words += "--start 2027-01-01 --end 2028-01-01T00:00:00Z --gap skip --dst-overlap both --jitter 5m --exclude SAT "
    words += "--exclude 12-25 --mode shadow"
    schedules(lite, "put", "it", *DAILY, *BRUSSELS, *words.split(), "--paused")
    written = shown(lite, "it")
    assert written["misfire"] == {"policy": "all", "tolerance": "1m", "limit": 7}
    assert (written["overlap"], written["max_concurrent"]) == ("queue", 2)
    assert written["depends_on"] == {"schedule": "load", "within": "1h"}
    assert (written["start"], written["end"]) == ("2026-12-31T23:00:00Z", "2028-01-01T00:00:00Z")
    assert (written["dst"], written["jitter"]) == ({"gap": "skip", "overlap": "both"}, "5m")
    assert (written["exclude"], written["mode"], written["enabled"]) == (["SAT", "12-25"], "shadow", False)


def test_a_paused_schedule_stays_paused_until_it_is_put_as_enabled(lite: Shell) -> None:
    assert schedules(lite, "put", "it", *DAILY, "--paused").endswith("  paused\n")
    assert schedules(lite, "put", "it", *DAILY).startswith("unchanged it")
    assert not shown(lite, "it")["enabled"]
    assert "next 20" in schedules(lite, "put", "it", *DAILY, "--enabled")


def test_putting_a_schedule_makes_the_database_and_reading_does_not(shell: Shell) -> None:
    shell.set(DULY_DATABASE_URL="sqlite:///new.db")
    assert "`duly migrate`" in shell("schedules", "list").err
    assert not (shell.folder / "new.db").exists()
    told = shell("schedules", "put", "it", *DAILY)
    assert (told.code, told.err) == (
        0,
        f"there was no database file {shell.folder / 'new.db'}: a new one was created\n" + warned_of("report"),
    )
    assert names(shell) == ["it"]


# -- files


def test_what_show_prints_can_be_edited_and_put(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules(on, "put", "it", *DAILY, *BRUSSELS, "--exclude", "SAT")
    written = shown(on, "it")
    kept = {field: value for field, value in written.items() if field not in ("occurrences", "events", "history")}
    on.write("it.json", json.dumps(kept))
    assert schedules(on, "put", "--file", "it.json").startswith("unchanged it")
    type_in(monkeypatch, json.dumps(kept | {"payload": 7}))
    assert schedules(on, "put", "it", "--file", "-").startswith("changed it")
    assert shown(on, "it")["payload"] == 7


def test_all_schedules_can_be_taken_to_another_database(lite: Shell) -> None:
    schedules(lite, "put", "zz-load", "--type", "load", "--every", "1h")
    schedules(lite, "put", "report", *DAILY, "--depends-on", "zz-load", "--within", "1h")
    schedules(lite, "put", "other", *DAILY, "--tenant", "acme")
    lite.write("all.json", schedules(lite, "list", "--json"))
    lite("migrate", "--db", "sqlite:///copy.db")
    assert len(schedules(lite, "put", "--file", "all.json", "--db", "sqlite:///copy.db").splitlines()) == 3
    for field in ("rule", "type", "tenant", "depends_on", "enabled"):
        there = lite("schedules", "list", "--json", "--db", "sqlite:///copy.db").json["schedules"]
        assert [one[field] for one in there] == [
            one[field] for one in lite("schedules", "list", "--json", "--db", "sqlite:///duly.db").json["schedules"]
        ]


def test_one_refused_schedule_of_a_list_does_not_keep_the_others(lite: Shell) -> None:
    good = {"name": "good", "type": "x", "rule": {"every": "1h"}}
    lite.write("some.json", json.dumps([{"name": "bad", "type": "x", "rule": {}, "foo": 1}, 7, good]))
    result = lite("schedules", "put", "--file", "some.json")
    assert result.code == 1
    assert result.out.startswith("created good")
    assert "bad: foo: is unknown; known: name, tenant" in result.err
    assert names(lite) == ["good"]


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        ("{", [], 2, "is not valid JSON"),
        ("7", [], 2, "expected an object"),
        ('{"type": "x", "rule": {"every": "1h"}}', [], 2, "name: is missing"),
        ('{"name": "a", "type": "x", "rule": {"every": "1h"}}', ["b"], 2, "'a' is not 'b'"),
        ("[]", ["b"], 2, "remove NAME"),
        (None, [], 1, "cannot read some.json: No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    lite: Shell, text: str | None, words: list[str], code: int, said: str
) -> None:
    if text is not None:
        lite.write("some.json", text)
    result = lite("schedules", "put", *words, "--file", "some.json")
    assert (result.code, result.out) == (code, "")
    assert said in result.err
