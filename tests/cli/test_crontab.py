"""Crontabs: how they are read, how their lines are named, and how they become schedules."""

import io
import json
import re
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from duly.cli.schedules.crontab import name_jobs, read_crontab, slug_of
from tests.cli.conftest import Shell

CRONTAB = r"""
# m h dom mon dow  command
SHELL=/bin/bash
MAILTO = "ops@example.com"

0 3 * * *       /usr/local/bin/backup.sh full
30 3 * * 0      /usr/local/bin/backup.sh full
*/5 * * * *     cd /srv/app && /usr/bin/python3 manage.py clearsessions
@daily          certbot renew -q
@reboot         /usr/bin/start-me
CRON_TZ=Asia/Tokyo
0 9 * * mon-fri mail -s "100\% done" ops%Hello,%%all is well.
61 * * * *      never
"""

SYSTEM = """
17 *	* * *	root	cd / && run-parts --report /etc/cron.hourly
25 6	* * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
@weekly	backup	/usr/bin/backup --all
"""


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


def bad(text: str, **how: bool) -> dict[int, str]:
    return {one.line: one.reason for one in read_crontab(text, **how).bad}


# -- reading


def test_comments_and_blank_lines_of_a_crontab_are_ignored() -> None:
    assert read_crontab("# a comment\n\n   \t\n  # another\n\r\n") == ([], [])


def test_a_line_of_a_crontab_is_five_fields_and_a_command() -> None:
    [job] = read_crontab("  0 9 * * MON-FRI \t echo 'a  b'  # no comment\r\n").jobs
    assert (job.line, job.cron, job.command) == (1, "0 9 * * MON-FRI", "echo 'a  b'  # no comment")
    assert (job.stdin, job.user, job.environment, job.timezone) == (None, None, {}, None)


@pytest.mark.parametrize("nickname", ["@hourly", "@daily", "@midnight", "@Weekly", "@monthly", "@yearly", "@annually"])
def test_a_time_may_have_a_name(nickname: str) -> None:
    [job] = read_crontab(f"{nickname}\techo hi there").jobs
    assert (job.cron, job.command) == (nickname, "echo hi there")


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        ("mail ops", "mail ops", None),
        ("mail ops%hello", "mail ops", "hello\n"),
        ("mail ops%one%two%", "mail ops", "one\ntwo\n"),
        ("mail ops%one%%three", "mail ops", "one\n\nthree\n"),
        ("mail ops%", "mail ops", ""),
        (r"date +\%F", "date +%F", None),
        (r"date +\%F%100\% done", "date +%F", "100% done\n"),
        (r"echo \n\\", r"echo \n\\", None),
    ],
)
def test_a_percent_sign_begins_what_the_command_reads_unless_it_is_escaped(
    written: str, command: str, stdin: str | None
) -> None:
    [job] = read_crontab(f"* * * * * {written}").jobs
    assert (job.command, job.stdin) == (command, stdin)


def test_settings_hold_for_the_lines_below_them() -> None:
    text = "@daily a\nSHELL=/bin/sh\n@daily b\nPATH = '/bin: '\n\"X\" =  y z \nSHELL=\n@daily c"
    first, second, third = read_crontab(text).jobs
    assert first.environment == {}
    assert second.environment == {"SHELL": "/bin/sh"}
    assert third.environment == {"SHELL": "", "PATH": "/bin: ", "X": "y z"}


def test_a_zone_is_set_for_the_lines_below_it() -> None:
    text = "@daily a\nTZ=Asia/Tokyo\n@daily b\nCRON_TZ=:Europe/Paris\n@daily c\nCRON_TZ=\n@daily d\nTZ=\n@daily e"
    jobs = read_crontab(text).jobs
    assert [job.timezone for job in jobs] == [None, None, "Europe/Paris", None, None], "TZ is for the commands alone"
    assert jobs[2].environment == {"TZ": "Asia/Tokyo"}  # the command sees it, as under cron


def test_lines_in_a_zone_that_is_not_known_are_not_read_in_another() -> None:
    text = "CRON_TZ=Mars/Phobos\n@daily a\nTZ=Asia/Tokyo\n@daily b\nCRON_TZ=Asia/Tokyo\n@daily c"
    read = read_crontab(text)
    assert [job.command for job in read.jobs] == ["c"]
    assert [(one.line, one.text) for one in read.bad] == [(1, "CRON_TZ=Mars/Phobos"), (2, "@daily a"), (4, "@daily b")]
    assert "is not a time zone" in read.bad[0].reason
    assert read.bad[1].reason == "its time zone is not valid: see line 1"


def test_a_system_crontab_names_a_user() -> None:
    jobs, none = read_crontab(SYSTEM, system=True)
    assert not none
    assert [(job.user, job.cron) for job in jobs] == [
        ("root", "17 * * * *"),
        ("root", "25 6 * * *"),
        ("backup", "@weekly"),
    ]
    assert jobs[2].command == "/usr/bin/backup --all"


def test_a_crontab_line_that_cannot_be_read_is_told_with_its_number_and_the_reason() -> None:
    text = "@reboot x\n61 25 * * * x\n0 9 * *\nhello\n@daily\n0 9 * * *\n@fortnightly x\n* * * * * %in\n0 0 30 2 * x"
    reasons = bad(text)
    assert list(reasons) == list(range(1, 10))
    for line, reason in (
        (1, "@reboot is not a time"),
        (2, "minute '61': 61 is out of range: 0 to 59; hour '25'"),
        (3, "neither a setting"),
        (4, "neither a setting"),
        (5, "has a time, but no command after it"),
        (6, "has a time, but no command after it"),
        (7, "is unknown; known: @yearly"),
        (8, "has no command before its first %"),
        (9, "does not exist in month"),
    ):
        assert reason in reasons[line]
    assert bad("0 9 * * * echo", system=True) == {1: "has a time, but no user and command after it"}


# -- naming


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --full", "backup"),
        ("certbot renew -q", "certbot-renew"),
        ("cd /srv/app && /usr/bin/python3.11 manage.py clearsessions >> /var/log/x 2>&1", "manage-clearsessions"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts"),
        ("[ -d /x ] && find /tmp -mtime +7 -delete", "find"),
        ("env FOO=1 nice -n 10 /opt/Sync-Job.py", "sync-job"),
        ("FOO=1 $HOME/bin/tidy", "tidy"),
        ("curl -s https://example.com/ping > /dev/null", "curl"),
        ("/opt/böse/größe", "gr-e"),
        ("!!!", "command"),
        ("x" * 500, "x" * 60),
    ],
)
def test_a_line_is_named_after_its_program(command: str, name: str) -> None:
    assert slug_of(command) == name


def test_a_job_keeps_its_name_whatever_stands_around_it_and_no_other_job_has_it() -> None:
    lines = ["0 1 * * * sync a/", "0 2 * * * sync b/", "0 3 * * * /opt/sync b/", "0 3 * * * sync b/"]
    names = name_jobs(read_crontab("\n".join(lines)).jobs)
    assert len(set(names)) == 4
    assert all(re.fullmatch("sync-[0-9a-f]{6}(-2)?", name) for name in names)
    assert names[3] == f"{names[1]}-2", "the same command again"
    turned = name_jobs(read_crontab("\n".join(["0 5 * * * sync c/", lines[2], "9 9 * * * sync a/"])).jobs)
    assert turned[1:] == [names[2], names[0]]


# -- importing


def test_each_crontab_line_becomes_a_schedule_and_bad_ones_are_told(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    result = on("schedules", "import", "crontab", "--timezone", "Europe/Brussels")
    assert result.code == 1
    assert "5 created" in result.out
    assert result.err.splitlines() == [
        "line 10, '@reboot         /usr/bin/start-me': @reboot is not a time: run the command when your program starts",
        "line 13, '61 * * * *      never': minute '61': 61 is out of range: 0 to 59",
        "2 lines could not be imported",
    ]
    made = listed(on)
    slugs = sorted(re.sub("-[0-9a-f]{6}(-2)?$", "", name) for name in made)
    assert slugs == ["backup-full", "backup-full", "certbot-renew", "mail", "manage-clearsessions"]
    mail, backup = named(made, "mail"), named(made, "backup-full")
    assert made[mail]["payload"] == {
        "command": 'mail -s "100% done" ops',
        "stdin": "Hello,\n\nall is well.\n",
        "user": None,
        "environment": {"SHELL": "/bin/bash", "MAILTO": "ops@example.com"},
    }
    assert (made[mail]["type"], made[mail]["rule"]) == ("command", {"cron": "0 9 * * MON-FRI"})
    assert (made[mail]["timezone"], made[backup]["timezone"]) == ("Asia/Tokyo", "Europe/Brussels")


def test_importing_the_same_file_again_changes_nothing(on: Shell) -> None:
    on.write("crontab", CRONTAB)
    on("schedules", "import", "crontab")
    on("schedules", "pause", named(listed(on), "mail"))
    before = listed(on)
    again = on("schedules", "import", "crontab")
    assert "5 unchanged" in again.out
    assert listed(on) == before
    history = on("schedules", "show", named(before, "backup-full"), "--json").json["history"]
    assert [entry["act"] for entry in history] == ["created"]


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
    assert result.err == "the file names no time zone, so its times are read as UTC: use --timezone for another zone\n"
    made = listed(tab)
    assert any(name.startswith("etc-run-parts-") for name in made)
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
    assert f"a schedule {mail!r} that is not from a crontab already exists: give a --prefix" in refused["reason"]
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
