"""Commands as targets: how they are written, what is wrong with them, and what a caller over HTTP may say."""

from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Invalid, cron, to
from duly import command as from_duly
from duly.config import Settings, read_settings
from duly.decide.checks import target_problems
from duly.decide.targets.command_allow import CommandAllow, program_problem, read_folders
from duly.decide.targets.commands import COMMAND, FIELDS, LONGEST, MOST_ARGUMENTS, command, spelled_out, timeout_of
from duly.errors import BadSetting
from tests.make import START, a_user

FOLDERS = ("/opt/jobs", "/srv/more jobs")
ADMIN = CommandAllow(FOLDERS, names=True, starts=True)


def problems(spec: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in target_problems({COMMAND: spec}, [COMMAND])}


def closed(spec: Any, allow: CommandAllow = ADMIN) -> list[str]:
    return [problem.path for problem in allow.problems(spelled_out(spec))]


# -- written


def test_a_line_of_shell_is_the_target_itself_unless_it_has_options() -> None:
    assert to.command("backup.sh --all") == from_duly("backup.sh --all") == {"command": "backup.sh --all"}
    assert command("backup.sh", timeout=timedelta(minutes=10)) == {"command": {"shell": "backup.sh", "timeout": "10m"}}
    assert command(argv=("tar", "c"), folder="/srv") == {"command": {"argv": ["tar", "c"], "folder": "/srv"}}
    assert command("x", stdin="", environment={"A": "1"}) == {
        "command": {"shell": "x", "stdin": "", "environment": {"A": "1"}}
    }


def test_the_constructor_has_each_field_of_a_command() -> None:
    every: dict[str, Any] = dict.fromkeys(FIELDS, "1s") | {"argv": ["1s"]}
    assert set(command(**every)["command"]) == set(FIELDS)


def test_a_command_has_a_deadline_of_a_day_unless_it_says_another() -> None:
    assert timeout_of(spelled_out("x")) == timedelta(days=1)
    assert timeout_of({"shell": "x", "timeout": "90s"}) == timedelta(seconds=90)


# -- checked


@pytest.mark.parametrize(
    "spec",
    [
        "true",
        "echo 'ä€𝄞' | tee /tmp/x\n# two lines",
        "x" * LONGEST,
        {"shell": "x", "stdin": "with\x00NUL", "environment": {"_A1": "", "LD_PRELOAD": "x"}, "folder": "/"},
        {"argv": ["prog"]},
        {"argv": ["prog", ""] + ["x"] * (MOST_ARGUMENTS - 2), "timeout": "7d"},
    ],
)
def test_a_valid_command_has_no_problems(spec: Any) -> None:
    assert problems(spec) == {}


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        (7, "", "expected a line of shell, or an object with shell or argv, not int"),
        (None, "", "not NoneType"),
        ("", "", "is empty"),
        (" \n", "", "is empty"),
        ("a\0b", "", "NUL"),
        ("x" * (LONGEST + 1), "", "has 100,001 bytes; at most 100,000"),
        ("€" * LONGEST, "", "has 300,000 bytes"),
        ({}, "", "needs either shell"),
        ({"shell": "x", "argv": ["x"]}, "", "needs either shell"),
        ({"shell": 7}, ".shell", "expected text, not int"),
        ({"shell": "x", "cwd": "/"}, ".cwd", "is not known; known: shell, argv, stdin, environment, folder, timeout"),
        ({"argv": "ls -l"}, ".argv", "expected a list such as"),
        ({"argv": []}, ".argv", "expected a list such as"),
        ({"argv": [""]}, ".argv[0]", "is empty: the first argument is the program"),
        ({"argv": ["x", 7]}, ".argv[1]", "expected text, not int"),
        ({"argv": ["x", "a\0"]}, ".argv[1]", "NUL"),
        ({"argv": ["x"] * (MOST_ARGUMENTS + 1)}, ".argv", "has 1,001 arguments; at most 1,000"),
        ({"argv": ["x" * LONGEST] * 11}, "", "more than 1,000,000 bytes"),
        ({"shell": "x", "stdin": 7}, ".stdin", "expected text, not int"),
        ({"shell": "x", "environment": ["A"]}, ".environment", "expected an object"),
        ({"shell": "x", "environment": {"A=B": "1"}}, ".environment", "'A=B' is not the name of a variable"),
        ({"shell": "x", "environment": {"A": 1}}, ".environment.A", "expected text, not int"),
        ({"shell": "x", "environment": {"DULY_EVENT_ID": "1"}}, ".environment.DULY_EVENT_ID", "is set by Duly"),
        ({"shell": "x", "environment": {f"A{n}": "" for n in range(501)}}, ".environment", "has 501 variables"),
        ({"shell": "x", "folder": "data"}, ".folder", "is not an absolute path"),
        ({"shell": "x", "folder": "~"}, ".folder", "is not an absolute path"),
        ({"shell": "x", "timeout": "soon"}, ".timeout", "expected a duration"),
        ({"shell": "x", "timeout": 10}, ".timeout", "expected a duration"),
        ({"shell": "x", "timeout": "8d"}, ".timeout", "must be from 100ms to 7d"),
    ],
)
def test_each_problem_of_a_command_is_told_where_it_is(spec: Any, path: str, told: str) -> None:
    [(where, message)] = problems(spec).items()
    assert where == f"target.command{path}"
    assert told in message


async def test_all_problems_of_a_command_are_told_at_once(app: Duly) -> None:
    wrong = {"argv": ["x", 1], "stdin": 2, "environment": {"3": "4"}, "folder": "5", "timeout": "6", "seven": 8}
    with pytest.raises(Invalid) as caught:
        await app.at(START, "x", target={"command": wrong})
    assert len(caught.value.problems) == 6
    assert await app.events.find() == []


async def test_a_command_is_stored_and_read_on_timers_and_schedules(app: Duly) -> None:
    target = command(argv=["backup", "--all"], environment={"LEVEL": "9"}, timeout="2h")
    event = await app.at(START, "backup", target=target)
    assert ((await app.events.get(event.id)).target, event.lane, event.via) == (target, "command", None)
    stored = await app.schedules.put("nightly", cron("0 3 * * *"), "backup", target=target)
    assert (stored.target, stored.via) == (target, None)


async def test_users_events_run_no_commands(app: Duly) -> None:
    """Whoever made the target: the payload has names in it that users choose."""
    with pytest.raises(Invalid, match="a user's event cannot run a command"):
        await app.users.add(**a_user(target=command("cat")))
    with pytest.raises(Invalid, match="a user's event cannot run a command"):
        await app.event_types.update("birthday", target=command("cat"))


class Greeter:
    """An event type of an application, which would send all users to a command."""

    name = "greeting"
    depends_on = ()

    def rule(self, user: Any, at: Any) -> Any:
        return cron("0 9 * * *")

    def message(self, user: Any) -> str:
        return f"hello {user.first_name}"

    def target(self, user: Any) -> dict[str, Any]:
        return command("cat")


async def test_an_event_type_cannot_send_users_to_a_command(app: Duly) -> None:
    app.event_types.register(Greeter())
    with pytest.raises(Invalid, match=r"greeting\.target: a user's event cannot run a command"):
        await app.users.add(**a_user())


# -- over HTTP


@pytest.mark.parametrize("argv", [["/opt/jobs/backup"], ["/opt/jobs/sub/x.sh", "-c", "rm -rf /"], ["/srv/more jobs/x"]])
def test_a_caller_may_name_programs_in_the_open_folders(argv: list[str]) -> None:
    assert closed({"argv": argv, "stdin": "text", "timeout": "1h"}) == []


@pytest.mark.parametrize(
    "program",
    [
        "backup",
        "./backup",
        "/opt/jobs",
        "/opt/jobs/",
        "/opt/jobs/../../bin/sh",
        "/opt/jobs/./x",
        "/opt/jobs//x",
        "//opt/jobs/x",
        "/opt/jobsx/y",
        "/opt/job",
        "/bin/sh",
        "/OPT/jobs/x",
        " /opt/jobs/x",
        "~/x",
    ],
)
def test_a_caller_may_name_no_other_program(program: str) -> None:
    assert program_problem(program, FOLDERS) is not None
    assert closed({"argv": [program]}) == ["target.command.argv[0]"]


def test_a_caller_may_say_nothing_that_changes_what_a_program_does() -> None:
    assert closed("/opt/jobs/backup") == ["target.command.shell"]
    spec = {"argv": ["/opt/jobs/x"], "environment": {"LANG": "C"}, "folder": "/opt/jobs"}
    assert closed(spec) == ["target.command.environment", "target.command.folder"]


@pytest.mark.parametrize("allow", [CommandAllow(), CommandAllow(FOLDERS), CommandAllow(FOLDERS, starts=True)])
def test_only_an_admin_key_of_all_tenants_names_commands(allow: CommandAllow) -> None:
    assert closed({"argv": ["/opt/jobs/x"]}, allow) == ["target.command"]


def test_without_folders_even_that_key_names_none() -> None:
    [problem] = CommandAllow(names=True).problems({"argv": ["/opt/jobs/x"]})
    assert "the server opens none" in problem.message


# -- the setting


@pytest.mark.parametrize(
    ("written", "folders"),
    [
        ("", None),
        ("off", None),
        (False, None),
        ("on", ()),
        (True, ()),
        ([], ()),
        ("/opt/jobs", ("/opt/jobs",)),
        (" /opt/jobs/ , /srv/more jobs,", FOLDERS),
        (["/opt/jobs", "/opt/jobs/"], ("/opt/jobs",)),
    ],
)
def test_the_setting_says_whether_commands_are_run_and_which_folders_are_open(written: Any, folders: Any) -> None:
    given = {} if not isinstance(written, str) else {"DULY_COMMANDS": written}
    assert read_settings(given, commands=None if given else written) == Settings(commands=folders)


@pytest.mark.parametrize(
    "written", ["jobs", "/opt/../bin", "/opt/./jobs", "/", "/bin", "/usr/bin/", "/opt/jobs,/usr/local/bin", "true"]
)
def test_a_folder_that_opens_too_much_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not an absolute path|holds shells and interpreters"):
        read_folders(written)
    with pytest.raises(BadSetting, match=r"DULY_COMMANDS=.* cannot be used: expected on, off, or folders"):
        read_settings({"DULY_COMMANDS": written})
