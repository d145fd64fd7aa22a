"""Exit codes, errors in one line, help, and a light import."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import duly
from duly.verbs.workers import NEVER_RUN
from tests.cli.conftest import Shell, Spawn, warned_of

WRONG_USE = [
    (["evnts"], "events"),
    (["events", "lst"], "list"),
    (["events", "list", "--limt", "3"], "--limit"),
    (["events", "list", "--limit", "many"], "--limit"),
    (["events", "list", "--limit", "0"], "--limit"),
    (["events", "list", "--after", "seven"], "after: 'seven' is not an event's id"),
    (["events", "list", "--status", "asleep"], "pending"),
    (["events", "list", "--db"], "--db needs a value, such as sqlite:///duly.db"),
    (["--db", "sqlite:///a.db", "events", "list", "--db=sqlite:///b.db"], "--db is given twice"),
    (["--app=", "worker"], "--app needs a value, such as shop:duly"),
    (["nosuch"], "events, cancel, …. See `duly --help`"),
    (["events", "list", "--db", "mysql://host/db"], "postgresql://"),
    (["events", "list", "--late-by", "soon"], "30s"),
    (["events", "cancel"], "duly events list"),
    (["at", "+5s"], "--type"),
    (["at", "--type", "greet"], "+30s"),
    (["at", "soon", "--type", "greet"], "+30s"),
    (["at", "now", "--type", "greet", "--payload", "{cart: 9}"], "--payload '"),
    (["at", "now", "--type", "x", "--webhook", "ftp://x.example"], "is not an http or https URL"),
    (["at", "now", "--type", "x", "--webhook", "https://x.example", "--target", "crm"], "give one"),
    (["at", "now", "--type", "x", "--target", "crm", "--format", "cloudevents"], "--webhook"),
    (["events", "list", "--destination", "https://"], "has no host"),
    (["targets", "put", "crm", "hooks.example"], "is not an http or https URL"),
    (["targets", "put", "a name", "https://x.example"], "is not a valid target name"),
    (["targets", "put", "crm", "https://x.example"], "DULY_SECRET_KEY"),
    (["targets", "put", "crm", "https://x.example", "--method", "PUT"], "channel"),
    (["targets", "put", "crm", "https://x.example", "--channel", "fax"], "webhook or http"),
    (["targets", "put", "crm", "https://x.example", "--timeout", "soon"], "30s"),
    (["targets", "put", "crm", "https://x.example", "--header", "Bearer s3cret"], "number 1 is not 'Name: value'"),
    (["targets", "put", "crm", "https://x.example", "--header", "A: 1", "--header", "a: 2"], "given twice"),
    (["targets", "put", "crm", "https://x.example", "--header", "A: 1", "--no-headers"], "--no-headers"),
    (["targets", "put", "crm", "https://x.example", "--header", "Host: x"], "set by the connection"),
    (["targets", "rotate", "crm", "--keep", "long"], "keep: 'long'"),
    (["targets", "enable"], "duly targets list"),
    (["targets", "delete"], "duly targets list"),
    (["targets", "limit", "crm"], "--rate 50/s"),
    (["targets", "limit", "--rate", "often"], "50/s"),
    (["targets", "limit", "--concurrency", "0"], "1 to 10,000"),
    (["targets", "limit", "--concurrency", "5", "--none"], "--none"),
    (["targets", "limit", "https://x.example/in", "--rate", "5/s"], "a whole origin: give https://x.example"),
    (["targets", "secret", "https://x.example"], "DULY_SECRET_KEY"),
    (["worker", "--app", "shop", "--processes", "0"], "--processes"),
    (["worker", "--app", "shop", "--concurrency", "0"], "--concurrency 0"),
    (["worker", "--app", "shop", "--db", "sqlite://", "--processes", "2"], "memory"),
    (["migrate", "--sql", "--status"], "--status"),
    (["demo", "--for", "a while"], "30s"),
    (["demo", "--app", "shop"], "--app"),
]


@pytest.mark.parametrize(("words", "help"), WRONG_USE, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_wrong_use_of_any_command_exits_with_2_and_one_line_that_helps(
    shell: Shell, words: list[str], help: str
) -> None:
    shell("migrate")
    done = shell(*words)
    assert done.code == 2
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith("duly: ")
    assert help in line


def test_a_command_that_fails_exits_with_1_and_one_line_that_helps(on: Shell) -> None:
    done = on("events", "show", "01a1e15c-88fe-77cf-98f6-68e11067ac37")
    assert (done.code, done.out) == (1, "")
    assert done.err == "duly: there is no event 01a1e15c-88fe-77cf-98f6-68e11067ac37\n"


@pytest.mark.parametrize("words", [["events", "lst", "--json"], ["--json", "at", "soon", "--type", "x"]])
def test_an_error_is_an_object_when_json_is_asked_for(shell: Shell, words: list[str]) -> None:
    done = shell(*words)
    assert done.code == 2
    assert set(done.error) >= {"type", "message"}


@pytest.mark.parametrize("subject", ["users", "events", "schedules", "targets"])
def test_the_help_of_lists_tells_how_many_are_listed_at_most(shell: Shell, subject: str) -> None:
    assert "at most 1000" in shell(subject, "list", "--help").out


EVERYWHERE = ["--json", "--db", "sqlite:///here.db"]


@pytest.mark.parametrize("file", ["given", "-"])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("command", [["users", "import", "--format", "csv"], ["schedules", "import", "--system"]])
def test_options_of_every_command_work_before_and_after_a_file(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: list[str], place: int, file: str
) -> None:
    people = "first_name,last_name,date_of_birth,timezone\nAda,Lovelace,1990-12-10,UTC\n"
    shell.write("given", people if command[0] == "users" else "0 9 * * * root tidy\n")
    words = [*command, file]
    place = (0, 1, 2, len(words))[place]
    with (shell.folder / "given").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        done = shell(*words[:place], *EVERYWHERE, *words[place:])
        told = "" if command[0] == "users" else f"warning: {NEVER_RUN}\n"
        assert (done.code, done.err) == (0, told)
    assert done.json["dry_run"] is False
    assert (shell.folder / "here.db").exists()


def test_an_option_of_every_command_can_have_its_value_behind_an_equals_sign(shell: Shell) -> None:
    assert shell("--db=sqlite:///here.db", "migrate").code == 0
    assert (shell.folder / "here.db").exists()


def test_after_two_hyphens_nothing_is_an_option(shell: Shell) -> None:
    words = ("--db", "sqlite:///here.db", "schedules", "put", "--cron", "0 9 * * *", "--type", "x")
    shell(*words, "first")
    done = shell(*words, "--", "--app")
    assert (done.code, done.err) == (0, warned_of("x"))
    assert "created --app " in done.out


def test_the_option_json_takes_no_value(shell: Shell) -> None:
    done = shell("events", "list", "--json=yes")
    assert (done.code, done.err) == (2, "duly: --json takes no value: write only --json\n")


@pytest.mark.parametrize("subject", ["users", "schedules"])
def test_no_option_is_taken_for_a_file(shell: Shell, subject: str) -> None:
    assert "--nonesuch" in shell(subject, "import", "--nonesuch", "file").err
    assert "-x" in shell(subject, "import", "-x").err


def test_every_problem_of_a_timer_is_told_at_once_with_its_path(shell: Shell) -> None:
    done = shell("at", "now", "--type", " x", "--tenant", "", "--json")
    assert done.code == 2
    assert [problem["path"] for problem in done.error["problems"]] == ["type", "tenant"]


def test_a_bad_setting_names_the_variable_and_nothing_starts(shell: Shell) -> None:
    shell.set(DULY_LEASE="soon")
    done = shell("events", "list")
    assert done.code == 2
    assert "DULY_LEASE='soon'" in done.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ada:secret@127.0.0.1:1/x", "check that the database is running"),
        ("postgresql://127.0.0.1:port/x", "URL cannot be used"),
        ("sqlite:////etc/passwd", "not a Duly database"),
        ("sqlite:///nowhere.db", "`duly migrate`"),
    ],
)
def test_a_database_that_cannot_be_used_fails_with_one_line(shell: Shell, url: str, said: str) -> None:
    done = shell("events", "list", "--db", url)
    assert done.code == 1
    [line] = done.err.splitlines()
    assert said in line
    assert "secret" not in line


def test_commands_that_only_read_make_no_database(shell: Shell) -> None:
    for words in (["events", "list"], ["doctor"], ["migrate", "--status"], ["migrate", "--sql"]):
        shell(*words, "--db", "sqlite:///typo.db")
    assert not (shell.folder / "typo.db").exists()


@pytest.mark.parametrize("before", [True, False])
def test_the_options_that_work_everywhere_work_before_and_after_the_command(shell: Shell, before: bool) -> None:
    everywhere = ["--db", "sqlite:///here.db", "--json"]
    command = ["at", "now", "--type", "greet"]
    done = shell(*everywhere, *command) if before else shell(*command, *everywhere)
    assert done.json["type"] == "greet"
    assert (shell.folder / "here.db").exists()


@pytest.mark.parametrize("words", [["--help"], ["events", "--help"], ["events", "list", "--help"], ["at", "-h"], []])
def test_the_help_of_a_command_tells_the_options_of_every_command(shell: Shell, words: list[str]) -> None:
    done = shell(*words)
    assert done.code == 0
    assert done.out.startswith("Usage: duly")
    for option in ("--db", "--app", "--json"):
        assert option in done.out


def test_every_documented_command_is_there(shell: Shell) -> None:
    known = set(shell("--help").out.split())
    assert {"serve", "worker", "tick", "demo", "at", "events", "schedules", "users", "migrate", "doctor"} <= known
    assert {"list", "show", "cancel", "replay"} <= set(shell("events", "--help").out.split())
    assert "targets" in known
    assert {"list", "add", "show", "update", "delete", "import"} <= set(shell("users", "--help").out.split())


def test_python_dash_m_duly_is_duly(spawn: Spawn) -> None:
    process = spawn("--version")
    assert process.wait() == 0
    assert process.output.startswith("0.")
    wrong = spawn("evnts")
    assert wrong.wait() == 2


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+asyncpg", "postgresql+psycopg"])
def test_a_database_url_of_another_library_is_taken(shell: Shell, new_postgres: Callable[[], str], scheme: str) -> None:
    written = new_postgres().replace("postgresql://", f"{scheme}://")
    assert shell("migrate", "--db", written).code == 0
    id = shell.at("now", "--type", "greet", "--db", written)
    shell.set(DULY_DATABASE_URL=written)
    assert shell.show(id)["type"] == "greet"


def test_importing_duly_brings_neither_command_line_nor_postgres() -> None:
    heavy = "{'cyclopts', 'rich', 'asyncpg', 'duly.cli', 'duly.api'}"
    code = f"import duly, sys; duly.Duly('sqlite://'); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_told_without_asyncio_stores_or_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "duly", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{duly.__version__}\n"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "duly" in loaded
    heavy = ("asyncio", "apsw", "asyncpg", "msgspec", "cyclopts", "rich", "duly.stores", "duly.cli", "duly.duly")
    assert not {name for name in loaded for package in heavy if name == package or name.startswith(f"{package}.")}


def test_the_command_duly_is_the_same_as_the_module() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["scripts"] == {"duly": "duly.__main__:main"}


def test_commands_on_sqlite_do_not_need_the_postgres_driver() -> None:
    code = (
        "import sys; from duly.cli import main; main(['doctor', '--db', 'sqlite:///nowhere.db']); "
        "print('asyncpg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_closed_pipe_causes_no_traceback(shell: Shell) -> None:
    for number in range(3):
        shell.at("now", "--type", "greet", "--payload", f'"{number * 10_000}"', "--db", "sqlite:///x.db")
    command = f"{sys.executable} -m duly events list --json --db sqlite:///x.db | head -c 1"
    done = subprocess.run(["sh", "-c", command], cwd=shell.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_stored_text_cannot_send_control_sequences_to_the_terminal(on: Shell) -> None:
    on.write(
        "evil.py", "from duly import *\nduly = Duly()\n@duly.on('x')\ndef x(e): raise OSError('\\x1b[2J\\nall is well')"
    )
    id = on.at("now", "--type", "x")
    on("tick", "--app", "evil")
    for words in (["events", "list"], ["events", "show", id]):
        shown = on(*words)
        assert "\x1b" not in shown.out
        assert "\\x1b[2J" in shown.out
        assert not any(line.startswith("all is well") for line in shown.out.splitlines())


def test_there_is_no_colour_in_a_pipe(on: Shell) -> None:
    id = on.at("now", "--type", "greet")
    assert "\x1b" not in on("events", "list").out + on("events", "show", id).out + on("doctor").out


@pytest.mark.parametrize("no_colour", [True, False])
def test_a_terminal_gets_colour_unless_no_color_is_set(
    shell: Shell, no_colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shell.set(DULY_DATABASE_URL="sqlite:///x.db", **({"NO_COLOR": "1"} if no_colour else {}))
    shell.at("now", "--type", "greet")
    shown = shell("events", "list")
    assert ("\x1b[36m" in shown.out) is not no_colour


@pytest.mark.parametrize(
    "url", ["mysql://ada:s3cret@db/x", "postgresql:/ada:s3cret@db/x", "ada:s3cret@db/x", "mysql://db/x?password=s3cret"]
)
@pytest.mark.parametrize("words", [("events", "list"), ("serve",), ("demo",)])
def test_a_url_that_cannot_be_used_is_told_without_its_password(shell: Shell, words: tuple[str, ...], url: str) -> None:
    refused = shell(*words, "--db", url)
    assert refused.code == 2
    assert "--db" in refused.err
    assert "***" in refused.err
    assert "s3cret" not in refused.err + refused.out
    shell.set(DULY_DATABASE_URL=url)
    refused = shell(*words)
    assert "s3cret" not in refused.err + refused.out


def test_an_option_that_is_missing_is_told_from_one_without_a_value(lite: Shell) -> None:
    missing, bare = lite("schedules", "backfill", "x"), lite("schedules", "backfill", "x", "--from")
    assert (missing.code, missing.err) == (2, "duly: --from is missing. See `duly schedules backfill --help`\n")
    assert (bare.code, bare.err) == (2, "duly: --from needs a value. See `duly schedules backfill --help`\n")
