"""Crontabs become schedules that run their commands, and keep them when lines change."""

import io
import json
import os
import pwd
import re
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cli.conftest import Shell, Spawn, warned_of
from tests.cli.test_crontab import CRONTAB, SYSTEM
from tests.cli.test_serve import ask, ready


@pytest.fixture
def tab(shell: Shell) -> Shell:
    shell.set(DULY_DATABASE_URL="sqlite:///duly.db")
    shell.write("crontab", CRONTAB)
    return shell


def named(made: Iterable[str], slug: str) -> str:
    """The first of the schedules that are named after a program."""
    return min(name for name in made if re.fullmatch(f"{slug}-[0-9a-f]{{6}}", name))


def listed(shell: Shell) -> dict[str, Any]:
    return {one["name"]: one for one in shell("schedules", "list", "--json").json["schedules"]}


# -- importing


def test_each_crontab_line_becomes_a_schedule_and_bad_ones_are_told(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    result = on("schedules", "import", "crontab", "--timezone", "Europe/Brussels")
    assert result.code == 1
    assert "5 created" in result.out
    reboot, never, many, *remarks = result.err.splitlines()[1:]
    assert reboot.startswith(
        "line 10, '@reboot         /usr/bin/start-me': @reboot is not a time, so there is no schedule"
    )
    assert "leave this line in the crontab" in reboot
    assert never == "line 13, '61 * * * *      never': minute '61': 61 is out of range: 0 to 59"
    assert many == "2 lines could not be imported"
    assert [line.split(":")[0] for line in remarks] == ["MAILTO does not carry over, nothing is mailed"]
    made = listed(on)
    slugs = sorted(re.sub("-[0-9a-f]{6}(-2)?$", "", name) for name in made)
    assert slugs == ["backup-full", "backup-full", "certbot-renew", "mail", "manage-clearsessions"]
    mail, backup = named(made, "mail"), named(made, "backup-full")
    assert (made[mail]["type"], made[mail]["rule"]) == ("command", {"cron": "0 9 * * MON-FRI"})
    assert (made[mail]["timezone"], made[backup]["timezone"]) == ("Asia/Tokyo", "Europe/Brussels")


def test_a_line_runs_what_cron_ran(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    on("schedules", "import", "crontab")
    me = pwd.getpwuid(os.getuid())
    mail = listed(on)[named(listed(on), "mail")]
    assert mail["target"]["command"] == {
        "shell": 'mail -s "100% done" ops',
        "stdin": "Hello,\n\nall is well.\n",
        "environment": {
            "PATH": "/usr/bin:/bin",
            "HOME": me.pw_dir,
            "SHELL": "/bin/bash",
            "MAILTO": "ops@example.com",
            "LOGNAME": me.pw_name,
            "USER": me.pw_name,
        },
        "folder": me.pw_dir,
    }
    assert (mail["payload"], mail["retry"]["max_attempts"]) == (None, 1)


def test_a_crontab_may_set_its_own_path_and_home(tab: Shell) -> None:
    tab.write("crontab", "PATH=/opt/bin\nHOME=/srv\nLOGNAME=root\n0 1 * * * x\nHOME=here\n0 2 * * * y\n")
    assert tab("schedules", "import", "crontab").code == 0
    first, second = sorted(listed(tab).values(), key=lambda one: one["imported_as"])
    assert (first["target"]["command"]["folder"], first["target"]["command"]["environment"]["PATH"]) == (
        "/srv",
        "/opt/bin",
    )
    assert first["target"]["command"]["environment"]["LOGNAME"] == pwd.getpwuid(os.getuid()).pw_name, "as under cron"
    assert second["target"]["command"]["folder"] == pwd.getpwuid(os.getuid()).pw_dir, "a relative folder is none"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as other users")
def test_lines_of_a_system_crontab_run_as_their_users(lite: Shell) -> None:
    folder = lite.folder
    lines = (
        f"SHELL=/bin/bash\nHOME={folder}\n0 1 * * * daemon  id -un; echo $HOME $LOGNAME $BASH\n0 2 * * * root id -un\n"
    )
    lite.write("etc", f"{lines}0 3 * * * nobody-here x\n")
    told = lite("schedules", "import", "etc", "--system", "--json").json
    [unknown] = told["bad"]
    assert "there is no user 'nobody-here' on this machine" in unknown["reason"]
    names = [one["name"] for one in told["schedules"]]
    lite("schedules", "trigger", *names)
    assert "2 completed" in lite("tick", "--commands").out
    events = lite("events", "list", "--status", "completed", "--json").json["events"]
    printed = {lite.show(one["id"])["history"][-1]["output"] for one in events}
    assert printed == {f"daemon\n{folder} daemon /bin/bash\n", "root\n"}
    assert acts(lite("schedules", "import", "etc", "--system", "--json").json) == {3: "unchanged", 4: "unchanged"}


def test_only_root_imports_lines_of_other_users(tab: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    tab.write("etc", SYSTEM)
    [first, *_] = tab("schedules", "import", "etc", "--system", "--json").json["bad"]
    assert first["reason"] == "it runs as 'root': only root can import it, and run it with a worker of its own"


def test_a_handler_of_ones_own_gets_the_line_as_its_payload(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    result = on("schedules", "import", "crontab", "--type", "shell.run")
    assert "5 created" in result.out
    assert "MAILTO" not in result.err
    mail = listed(on)[named(listed(on), "mail")]
    assert (mail["type"], mail["target"], mail["retry"]["max_attempts"]) == ("shell.run", None, 3)
    assert mail["payload"] == {
        "command": 'mail -s "100% done" ops',
        "stdin": "Hello,\n\nall is well.\n",
        "user": None,
        "environment": {"SHELL": "/bin/bash", "MAILTO": "ops@example.com"},
    }


def test_a_command_runs_once_unless_told_otherwise(tab: Shell) -> None:
    tab.write("crontab", "0 1 * * * x\n")
    tab("schedules", "import", "crontab", "--max-attempts", "4")
    [one] = listed(tab).values()
    assert one["retry"]["max_attempts"] == 4
    assert "1 unchanged" in tab("schedules", "import", "crontab").out
    assert "retry.max_attempts: 4 → 2" in tab("schedules", "import", "crontab", "--max-attempts", "2").out
    [one] = listed(tab).values()
    assert one["retry"]["max_attempts"] == 2


def test_commands_have_the_deadline_that_an_import_gives_them_and_keep_it(tab: Shell) -> None:
    tab.write("crontab", "0 1 * * * x\n")
    tab("schedules", "import", "crontab", "--timeout", "36h")
    [one] = listed(tab).values()
    assert one["target"]["command"]["timeout"] == "36h"
    assert "1 unchanged" in tab("schedules", "import", "crontab").out
    tab.write("crontab", "5 1 * * * x%y\n")
    assert "1 changed" in tab("schedules", "import", "crontab").out
    [one] = listed(tab).values()
    assert (one["target"]["command"]["stdin"], one["target"]["command"]["timeout"]) == ("y\n", "36h")
    assert "target.command.timeout: 36h → 2d" in tab("schedules", "import", "crontab", "--timeout", "2d").out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--timeout", "8d"), 2, "timeout: must be from 100ms to 7d, not '8d'"),
        (("--timeout", "soon"), 2, "timeout: expected "),
        (("--timeout", "1h", "--type", "own"), 2, "--timeout and --type cannot be used together"),
        (
            ("--timeout", "1h", "--celery", "a:b"),
            2,
            "--celery cannot be used together with a crontab file or --timeout",
        ),
    ],
)
def test_a_deadline_that_no_command_has_is_wrong_use(tab: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = tab("schedules", "import", "crontab", *words)
    assert (done.code, said in done.err) == (code, True), done
    assert not (tab.folder / "duly.db").exists()


def test_importing_the_same_file_again_changes_nothing(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    on("schedules", "import", "crontab")
    on("schedules", "pause", named(listed(on), "mail"))
    on.write("crontab", CRONTAB.replace("*/5", "*/10"))
    assert "1 changed, 4 unchanged" in on("schedules", "import", "crontab").out
    before = listed(on)
    again = on("schedules", "import", "crontab")
    assert "5 unchanged" in again.out
    assert listed(on) == before
    history = on("schedules", "show", named(before, "backup-full"), "--json").json["history"]
    assert [entry["act"] for entry in history] == ["created"]


def test_importing_again_without_a_zone_keeps_that_of_the_schedules(on: Shell) -> None:
    on.write("crontab", "0 2 * * * report\nCRON_TZ=Asia/Tokyo\n0 9 * * * opens\n")
    on("schedules", "import", "crontab", "--timezone", "Europe/Brussels")
    told = on("schedules", "import", "crontab")
    assert "2 unchanged" in told.out
    assert told.err.endswith("1 line without a time zone: kept in Europe/Brussels, as at the last import\n")
    on.write("crontab", "0 2 * * * report\n0 3 * * * other\nCRON_TZ=Asia/Tokyo\n0 9 * * * opens\n")
    told = on("schedules", "import", "crontab")
    assert "1 created, 2 unchanged" in told.out
    assert "line 2 without a time zone: read as UTC: use --timezone for another zone\n" in told.err
    on("schedules", "import", "crontab", "--timezone", "UTC")
    assert sorted(one["timezone"] for one in listed(on).values()) == ["Asia/Tokyo", "UTC", "UTC"]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("CRON_TZ=Asia/Tokyo\n0 2 * * * x\n", ""),
        (
            "0 2 * * * x\n",
            "the file names no time zone, so its times are read as UTC: use --timezone for another zone\n",
        ),
        (
            "TZ=Asia/Tokyo\n0 2 * * * x\n",
            "the file names no time zone, so its times are read as UTC (TZ is for the commands, CRON_TZ for the "
            "times): use --timezone for another zone\n",
        ),
    ],
)
def test_a_missing_time_zone_is_remarked_where_there_is_none(tab: Shell, text: str, remark: str) -> None:
    tab.write("crontab", text)
    told = tab("schedules", "import", "crontab")
    assert [line for line in told.err.splitlines(keepends=True) if "time zone" in line] == ([remark] if remark else [])


def test_a_line_with_another_time_changes_its_schedule(tab: Shell) -> None:
    tab("schedules", "import", "crontab")
    tab.write("crontab", CRONTAB.replace("0 3 * * *", "0 4 * * *"))
    assert "1 changed, 4 unchanged" in tab("schedules", "import", "crontab").out
    made = listed(tab)
    assert made[named(made, "backup-full")]["rule"] == {"cron": "0 4 * * *"}


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(tab: Shell) -> None:
    told = tab("schedules", "import", "crontab", "--dry-run")
    assert "5 created (a dry run: nothing was done)" in told.out
    assert not (tab.folder / "duly.db").exists()
    tab("schedules", "import", "crontab")
    tab.write("crontab", CRONTAB.replace("0 3 * * *", "0 4 * * *") + "0 1 * * * new\n")
    before = listed(tab)
    told = tab("schedules", "import", "crontab", "--dry-run")
    assert "1 created, 1 changed, 4 unchanged (a dry run: nothing was done)" in told.out
    assert listed(tab) == before


def test_a_dry_run_does_nothing_on_either_store(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    assert on("schedules", "import", "crontab", "--dry-run", "--json").json["dry_run"]
    assert listed(on) == {}


def test_options_decide_what_the_lines_become(tab: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SYSTEM.encode())))
    tab("migrate")
    words = "--system --prefix etc- --type shell.run --mode shadow --paused --tenant acme".split()
    result = tab("schedules", "import", "-", *words)
    assert result.code == 0
    remark = "the file names no time zone, so its times are read as UTC: use --timezone for another zone\n"
    assert result.err == warned_of("shell.run") + remark
    made = listed(tab)
    assert any(name.startswith("etc-run-parts-") for name in made)
    assert {one["imported_from"] for one in made.values()} == {"crontab - with prefix etc-"}
    one = made[named(made, "etc-backup")]
    assert (one["type"], one["mode"], one["enabled"], one["tenant"]) == ("shell.run", "shadow", False, "acme")
    assert one["payload"]["user"] == "backup"


def test_a_system_crontab_without_its_option_is_warned_of(tab: Shell) -> None:
    tab.write("crontab", SYSTEM)
    assert "if this is a system crontab, add --system" in tab("schedules", "import", "crontab").err


def test_a_schedule_from_elsewhere_is_not_overwritten(tab: Shell) -> None:
    tab("schedules", "import", "crontab")
    mail = named(listed(tab), "mail")
    tab("schedules", "delete", mail)
    tab("schedules", "put", mail, "--type", "newsletter", "--every", "1h")
    before = listed(tab)[mail]
    result = tab("schedules", "import", "crontab", "--json")
    assert result.code == 1
    [refused] = [one for one in result.json["bad"] if one["line"] == 12]
    assert f"a schedule {mail!r} that was not imported already exists: give a --prefix" in refused["reason"]
    assert listed(tab)[mail] == before
    assert len(listed(tab)) == 5


@pytest.mark.parametrize("columns", [80, 130, 160])
def test_the_table_of_imported_crontab_lines_fits_the_terminal(tab: Shell, columns: int) -> None:
    tab.set(COLUMNS=str(columns))
    told = tab("schedules", "import", "crontab", "--timezone", "Europe/Brussels").out
    assert all(len(line.rstrip()) <= columns for line in told.splitlines())
    for part in ("manage-clearsessions", "cron */5 * * * *", "Europe/Brussels"):
        assert part in told
    assert ("cd /srv/app" in told) is (columns >= 160)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 1, "cannot read nowhere: No such file or directory"),
        (["binary"], 2, "binary is not text in UTF-8"),
        (["crontab", "--timezone", "Mars/Phobos"], 2, "'Mars/Phobos' is not a time zone"),
        (["crontab", "--mode", "shadw"], 2, "mode: must be one of live, shadow"),
        (["crontab", "--max-attempts", "0"], 2, "max_attempts: must be 1 to"),
        (["crontab", "--type", ""], 2, "type: must have 1 to"),
        ([], 2, "FILE"),
    ],
)
def test_a_file_that_is_no_crontab_is_refused(tab: Shell, words: list[str], code: int, said: str) -> None:
    (tab.folder / "binary").write_bytes(b"\xff\xfe\x00")
    result = tab("schedules", "import", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert not (tab.folder / "duly.db").exists()


def test_a_crontab_with_nothing_to_import_says_so(tab: Shell) -> None:
    tab.write("crontab", "# nothing\n")
    result = tab("schedules", "import", "crontab")
    assert (result.code, result.out) == (0, "nothing to import\n")


def test_a_crontab_import_is_told_to_programs_in_json(tab: Shell) -> None:
    told = json.loads(tab("schedules", "import", "crontab", "--json").out)
    assert [(one["line"], one["change"]) for one in told["schedules"]] == [
        (line, "created") for line in (6, 7, 8, 9, 12)
    ]
    assert [one["line"] for one in told["bad"]] == [10, 13]


# -- names and places


FILE = """\
0 1 * * * backup --all
# name: nightly-report
0 2 * * * report --mail
0 3 * * * rotate logs
"""


def imported(shell: Shell, text: str, *words: str) -> Any:
    shell.write("crontab", text)
    return shell("schedules", "import", "crontab", *words, "--json").json


def acts(told: Any) -> dict[int, str]:
    return {one["line"]: one["change"] for one in told["schedules"]}


def test_a_comment_names_the_schedule_of_the_line_below_it(on: Shell) -> None:
    told = imported(on, FILE)
    assert [one["name"] for one in told["schedules"]][1] == "nightly-report"
    assert told["source"] == f"crontab {on.folder / 'crontab'}"
    changed = imported(on, FILE.replace("0 2 * * * report --mail", "30 2 * * * other-report"))
    assert acts(changed) == {1: "unchanged", 3: "changed", 4: "unchanged"}
    assert listed(on)["nightly-report"]["target"]["command"]["shell"] == "other-report"


def test_a_line_keeps_its_schedule_when_it_moves_and_a_changed_one_takes_over_that_of_its_place(on: Shell) -> None:
    before = {one["name"]: one["id"] for one in imported(on, FILE)["schedules"]}
    backup, report, rotate = before
    moved = imported(
        on, "0 3 * * * rotate logs\n# name: nightly-report\n0 2 * * * report --mail\n0 1 * * * backup --all\n"
    )
    assert acts(moved) == dict.fromkeys((1, 3, 4), "unchanged")
    assert moved["gone"] == []
    changed = imported(on, "0 3 * * * rotate logs --all\n# name: nightly-report\n0 2 * * * report --mail\n"
                           "45 1 * * * save --everything\n")  # fmt: skip
    assert acts(changed) == {1: "changed", 3: "unchanged", 4: "changed"}
    assert [one["id"] for one in changed["schedules"]] == [before[rotate], before[report], before[backup]]
    assert changed["schedules"][2]["differences"] == [
        {"field": "rule.cron", "old": "0 1 * * *", "new": "45 1 * * *"},
        {"field": "target.command.shell", "old": "backup --all", "new": "save --everything"},
    ]


def test_a_line_that_gets_a_name_goes_on_under_it(on: Shell) -> None:
    [backup, *_] = (one["name"] for one in imported(on, FILE)["schedules"])
    on("schedules", "pause", backup)
    on("schedules", "import", "crontab")
    told = imported(on, f"# name: nightly-backup\n{FILE}")
    assert acts(told) == {2: "renamed", 4: "unchanged", 5: "unchanged"}
    made = listed(on)
    assert backup not in made
    assert (made["nightly-backup"]["enabled"], made["nightly-backup"]["imported_as"]) == (False, "2")
    assert acts(imported(on, FILE)) == dict.fromkeys((1, 3, 4), "unchanged"), "without the comment, it keeps the name"


def test_a_schedule_that_others_depend_on_keeps_its_name(on: Shell) -> None:
    [backup, *_] = before = [one["name"] for one in imported(on, FILE)["schedules"]]
    on("schedules", "put", "after", "--type", "x", "--every", "1h", "--depends-on", backup, "--within", "1h")
    told = imported(on, f"# name: nightly-backup\n{FILE}")
    assert acts(told) == {4: "unchanged", 5: "unchanged"}
    [refused] = told["bad"]
    assert (refused["line"], refused["reason"]) == (2, f"cannot delete schedule {backup!r}: after depends on it")
    assert sorted(listed(on)) == sorted([*before, "after"])
    assert f"imported from  crontab {on.folder / 'crontab'}, as 1 " in on("schedules", "show", backup).out


def test_what_an_operator_has_changed_stays(on: Shell) -> None:
    imported(on, FILE)
    on("schedules", "pause", "nightly-report")
    on.write("edited", json.dumps(listed(on)["nightly-report"] | {"overlap": "skip", "misfire": {"policy": "skip"}}))
    assert on("schedules", "put", "--file", "edited").code == 0
    assert acts(imported(on, FILE))[3] == "unchanged"
    assert acts(imported(on, FILE.replace("0 2", "0 4")))[3] == "changed"
    one = listed(on)["nightly-report"]
    assert (one["enabled"], one["overlap"], one["misfire"]["policy"]) == (False, "skip", "skip")
    assert one["rule"] == {"cron": "0 4 * * *"}


def test_a_shadow_import_goes_live_with_another(on: Shell) -> None:
    imported(on, FILE, "--mode", "shadow")
    assert acts(imported(on, FILE)) == dict.fromkeys((1, 3, 4), "unchanged")
    assert {one["mode"] for one in listed(on).values()} == {"shadow"}
    assert acts(imported(on, FILE, "--mode", "live")) == dict.fromkeys((1, 3, 4), "changed")
    assert {one["mode"] for one in listed(on).values()} == {"live"}


# -- lines that are gone


SHORT = "0 1 * * * backup --all\n"


def test_a_schedule_whose_line_is_gone_stays_until_it_is_pruned(on: Shell) -> None:
    imported(on, FILE)
    on("schedules", "put", "of-mine", "--type", "x", "--every", "1h")
    on.write("other", "0 5 * * * other\n")
    on("schedules", "import", "other", "--prefix", "more-")
    on.write("crontab", SHORT)
    told = on("schedules", "import", "crontab")
    assert told.code == 0
    assert re.search(r"^– +gone +nightly-report ", told.out, re.MULTILINE)
    assert "2 schedules are not in the file any more, and go on: nightly-report, rotate-logs-" in told.err
    assert "add --prune to delete them" in told.err
    assert len(listed(on)) == 5
    dry = on("schedules", "import", "crontab", "--prune", "--dry-run")
    assert "1 unchanged, 2 deleted (a dry run: nothing was done)" in dry.out
    assert len(listed(on)) == 5
    assert "1 unchanged, 2 deleted\n" in on("schedules", "import", "crontab", "--prune").out
    assert sorted(re.sub("-[0-9a-f]{6}$", "", name) for name in listed(on)) == ["backup", "more-other", "of-mine"]
    assert "1 unchanged\n" in on("schedules", "import", "crontab", "--prune").out


def test_nothing_is_pruned_while_a_line_cannot_be_read(tab: Shell) -> None:
    imported(tab, FILE)
    told = imported(tab, "0 1 * * * backup --all\n0 25 * * * rotate logs\n", "--prune")
    assert [(one["name"].partition("-")[0], one["deleted"]) for one in told["gone"]] == [
        ("nightly", False),
        ("rotate", False),
    ]
    assert len(listed(tab)) == 3
    assert "mend it first" in tab("schedules", "import", "crontab", "--prune").err
    told = imported(tab, "0 1 * * * backup --all\n@reboot start-me\n", "--prune")
    assert [one["deleted"] for one in told["gone"]] == [True, True], "@reboot has never been a schedule"
    assert len(listed(tab)) == 1


def test_nothing_is_taken_over_while_a_line_cannot_be_read(tab: Shell) -> None:
    before = {one["name"]: one["id"] for one in imported(tab, FILE)["schedules"]}
    broken = FILE.replace("0 3 * * * rotate logs", "0 33 * * * rotate logs\n0 5 * * * other")
    told = imported(tab, broken)
    assert acts(told) == {1: "unchanged", 3: "unchanged", 5: "created"}
    assert [one["name"].partition("-")[0] for one in told["gone"]] == ["rotate"]
    told = imported(tab, broken.replace("33", "4"))
    assert acts(told) == {1: "unchanged", 3: "unchanged", 4: "changed", 5: "unchanged"}
    assert before.items() <= {one["name"]: one["id"] for one in told["schedules"]}.items()


def test_a_schedule_that_others_depend_on_is_not_pruned(on: Shell) -> None:
    imported(on, FILE)
    on("schedules", "put", "after", "--type", "x", "--every", "1h", "--depends-on", "nightly-report", "--within", "1h")
    on.write("crontab", SHORT)
    told = on("schedules", "import", "crontab", "--prune")
    assert told.code == 1
    assert "nightly-report is not in the file any more, but cannot delete schedule" in told.err
    assert len(listed(on)) == 3


def test_the_same_line_in_two_files_needs_a_prefix(tab: Shell) -> None:
    imported(tab, SHORT)
    tab.write("other", SHORT)
    told = tab("schedules", "import", "other")
    assert told.code == 1
    file = tab.folder / "crontab"
    told_how = f"if its file was moved here, give --moved-from {file}; give a --prefix to have both"
    assert f"that was imported from crontab {file} already exists: {told_how}" in told.err
    assert tab("schedules", "import", "other", "--prefix", "other-").code == 0
    assert len(listed(tab)) == 2


def test_a_file_that_was_moved_keeps_its_schedules(tab: Shell) -> None:
    before = {one["name"]: one["id"] for one in imported(tab, FILE)["schedules"]}
    (tab.folder / "crontab").rename(tab.folder / "moved")
    told = tab("schedules", "import", "moved", "--moved-from", "crontab", "--json").json
    assert acts(told) == dict.fromkeys((1, 3, 4), "unchanged")
    assert {name: one["id"] for name, one in listed(tab).items()} == before
    assert {one["imported_from"] for one in listed(tab).values()} == {f"crontab {tab.folder / 'moved'}"}


def test_standard_input_needs_a_prefix_to_be_pruned(tab: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(text: str, *words: str) -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return tab("schedules", "import", "-", *words)

    refused = piped(FILE, "--prune")
    assert (refused.code, refused.out) == (2, "")
    assert "standard input has no name" in refused.err
    assert "3 created" in piped(FILE, "--prefix", "ada-").out
    assert "1 unchanged, 2 deleted" in piped(SHORT, "--prefix", "ada-", "--prune").out


def test_schedules_from_before_they_remembered_their_source_are_taken_over(on: Shell) -> None:
    lines = FILE.replace("# name: nightly-report\n", "")
    imported(on, lines, "--type", "command")
    before = listed(on)
    for name in before:
        on("schedules", "delete", name)
    on.write("old", json.dumps({"schedules": list(before.values())}))
    assert on("schedules", "put", "--file", "old").code == 0
    assert {one["imported_from"] for one in listed(on).values()} == {None}
    ids = {one["id"] for one in listed(on).values()}
    assert acts(imported(on, lines, "--type", "command")) == dict.fromkeys((1, 2, 3), "unchanged")
    told = imported(on, lines)
    assert acts(told) == dict.fromkeys((1, 2, 3), "changed"), "they had a handler, and run their commands now"
    made = listed(on).values()
    assert {one["id"] for one in made} == ids
    assert {(one["imported_from"], one["retry"]["max_attempts"]) for one in made} == {(told["source"], 1)}


def test_a_schedule_that_was_put_over_http_is_never_taken_over(tab: Shell, spawn: Spawn) -> None:
    """A caller may guess the name and write the work of a line; its policies would hold for the command then."""
    tab("schedules", "import", "crontab", "--type", "command")
    name, of_line = next(iter(listed(tab).items()))
    assert tab("schedules", "delete", name).code == 0
    base = ready(spawn("serve", "--port", "0", DULY_DATABASE_URL=f"sqlite:///{tab.folder}/duly.db"))
    put = {"type": "command", "rule": {"every": "1m"}, "payload": of_line["payload"], "overlap": "skip"}
    assert ask("PUT", f"{base}/v1/schedules/{name}", json=put).status_code == 201
    result = tab("schedules", "import", "crontab", "--json")
    assert result.code == 1
    assert f"a schedule {name!r} that was not imported already exists" in result.out
    assert listed(tab)[name]["target"] is None
