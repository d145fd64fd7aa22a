"""Crontabs: how they are read, how their lines are named, and how they become schedules."""

import re

import pytest

from duly.cli.schedules.imports.crontab import read_crontab
from duly.cli.schedules.imports.job_names import name_jobs, slug_of

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


def test_a_comment_names_the_next_line_that_runs_a_command() -> None:
    text = "# name: nightly report\n\nPATH=/bin\n# another comment\n@daily a\n@daily b\n## NAME:c\n@daily c"
    assert [(job.command, job.name) for job in read_crontab(text).jobs] == [
        ("a", "nightly report"),
        ("b", None),
        ("c", "c"),
    ]
    assert read_crontab("# my name: none\n# surname: x\n@daily a").jobs[0].name is None


def test_a_name_that_names_nothing_or_is_taken_is_told() -> None:
    text = (
        "# name: a\n# name: b\n@daily x\n# name: b\n@daily y\n# name:\n@daily z\n# name: " + "n" * 300 + "\n# name: end"
    )
    assert [job.name for job in read_crontab(text).jobs] == ["b", None, None]
    assert bad(text) == {
        1: "names no line: below it is another name",
        4: "the name 'b' is taken: see line 2",
        6: "the name must have 1 to 200 characters, has 0",
        8: "the name must have 1 to 200 characters, has 300",
        9: "names no line: below it is none with a command",
    }


def test_a_line_that_cannot_be_read_takes_its_name_with_it() -> None:
    read = read_crontab("# name: a\n61 * * * * x\n@daily y")
    assert [(job.command, job.name) for job in read.jobs] == [("y", None)]
    assert [one.line for one in read.bad] == [2]


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
