"""``duly users import``: what is stored, what is told, and how to go on after an interruption."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.errors import StoreUnavailable
from duly.verbs.users import bulk_import
from tests.cli.conftest import Result, Shell, Spawn, wait_until

HEADER = "key,first_name,last_name,date_of_birth,timezone"


@pytest.fixture
def on(on: Shell) -> Shell:
    """A shell whose users' birthdays have a target: otherwise each import warns that nobody gets them."""
    return with_target(on)


@pytest.fixture
def lite(lite: Shell) -> Shell:
    return with_target(lite)


def with_target(shell: Shell) -> Shell:
    assert shell("event-types", "update", "birthday", "--webhook", "https://hooks.example/birthdays").code == 0
    return shell


def row(number: int, **others: str) -> str:
    cells = {"key": f"u{number}", "first": "Ada", "last": "Lovelace", "born": "1990-12-10", "zone": "Europe/London"}
    return ",".join((cells | others).values())


def people(count: int) -> str:
    return "\n".join([HEADER, *(row(number) for number in range(count))]) + "\n"


def keys(shell: Shell, *words: object) -> set[str]:
    return {user["key"] for user in shell("users", "list", "--limit", 1000, *words, "--json").json["users"]}


def import_(shell: Shell, text: str | bytes, *words: object, name: str = "people.csv") -> Result:
    (shell.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return shell("users", "import", name, *words)


# -- importing


def test_a_file_becomes_users_whose_events_are_planned(on: Shell) -> None:
    result = import_(on, people(3))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("3 added, 0 changed, 0 unchanged, 0 refused in ")
    assert result.out.rstrip().endswith("users/s")
    assert keys(on) == {"u0", "u1", "u2"}
    assert len(on("events", "list", "--type", "birthday", "--json").json["events"]) == 3


def test_lines_of_json_become_users(on: Shell) -> None:
    ada = {"first_name": "Ada", "last_name": "L", "date_of_birth": "1990-12-10", "timezone": "UTC", "key": "ada"}
    lines = "\n".join([json.dumps(ada | {"attributes": {"cat": 1}}), json.dumps({"key": "ada", "leap": "skip"}), "7"])
    result = import_(on, lines, name="people.jsonl")
    assert result.code == 1
    assert result.out.startswith("1 added, 1 changed, 0 unchanged, 1 refused in ")
    assert result.err == "line 3: expected an object with a user's fields, not int\n"


def test_a_file_with_keys_can_be_imported_again(on: Shell) -> None:
    import_(on, people(3))
    again = import_(on, people(4).replace("u1,Ada", "u1,Augusta"))
    assert again.out.startswith("1 added, 1 changed, 2 unchanged, 0 refused in ")
    assert import_(on, "key,anniversary\nu1,2015-06-20\n").out.startswith("0 added, 1 changed, ")
    assert on("users", "show", "u1", "--json").json["first_name"] == "Augusta"


def test_standard_input_needs_its_format(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    on.write("people", people(2))
    with (on.folder / "people").open() as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert "--format csv" in on("users", "import", "-").err
        assert on("users", "import", "-", "--format", "csv", "--tenant", "acme").code == 0
    assert keys(on, "--tenant", "acme") == {"u0", "u1"}


def test_a_slow_pipe_is_read_to_its_end(on: Shell, url: str) -> None:
    command = f"(printf '{HEADER}\\n{row(1)}\\n'; sleep 0.3; printf '{row(2)}\\n')"
    piped = f"{command} | {sys.executable} -m duly users import - --format csv --db '{url}'"
    done = subprocess.run(["sh", "-c", piped], cwd=on.folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 added, ")
    assert done.stderr == ""


# -- refusing


def test_bad_lines_are_told_with_all_their_problems_and_the_good_ones_kept(on: Shell) -> None:
    bad = row(1, born="1990-02-30", zone="Mars")
    result = import_(on, "\n".join([HEADER, row(0), bad, "a,b", row(2)]))
    assert result.code == 1
    assert result.out.startswith("2 added, 0 changed, 0 unchanged, 2 refused in ")
    first, second = result.err.splitlines()
    assert first.startswith("line 3: date_of_birth: 1990-02-30 is not a valid date: 1990-02 has 28 days; timezone: ")
    assert second == "line 4: has 2 columns, but the header has 5"
    assert keys(on) == {"u0", "u2"}


def test_bad_lines_go_to_a_file_if_one_is_given(on: Shell) -> None:
    result = import_(on, "\n".join([HEADER, row(0, zone="Mars"), row(1)]), "--errors", "bad.jsonl")
    assert (result.code, result.err) == (1, "refused lines are in bad.jsonl\n")
    [line] = (on.folder / "bad.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["line"], [problem["path"] for problem in told["problems"]]) == (2, ["timezone"])


@pytest.mark.parametrize("errors", ["people.csv", "./people.csv", "folder/../people.csv", "symbolic", "hard"])
@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--from-line", 2]])
def test_bad_lines_do_not_go_to_the_file_that_is_read(lite: Shell, errors: str, words: list[object]) -> None:
    (lite.folder / "folder").mkdir()
    lite.write("people.csv", people(2))
    (lite.folder / "symbolic").symlink_to("people.csv")
    (lite.folder / "hard").hardlink_to(lite.folder / "people.csv")
    result = lite("users", "import", "people.csv", "--errors", errors, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"duly: --errors {Path(errors)} is the file to import: ")
    assert (lite.folder / "people.csv").read_text() == people(2)
    assert keys(lite) == set()


def test_bad_lines_do_not_go_to_the_file_behind_standard_input(lite: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    lite.write("people", people(2))
    with (lite.folder / "people").open() as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert lite("users", "import", "-", "--format", "csv", "--errors", "people").code == 2
    assert (lite.folder / "people").read_text() == people(2)


@pytest.mark.parametrize(("text", "words"), [("surname\nx\n", []), (people(1), ["--app", "missing"])])
def test_the_file_of_bad_lines_is_kept_when_nothing_can_be_imported(lite: Shell, text: str, words: list[str]) -> None:
    lite.write("bad.jsonl", "from an earlier import\n")
    assert import_(lite, text, "--errors", "bad.jsonl", *words).code == 2
    assert (lite.folder / "bad.jsonl").read_text() == "from an earlier import\n"


def test_bad_lines_are_added_to_the_others_when_an_import_goes_on(lite: Shell) -> None:
    def bad_lines(*words: object) -> list[int]:
        import_(lite, "\n".join([HEADER, "bad", row(1), "bad", row(2)]), "--errors", "bad.jsonl", *words)
        return [json.loads(line)["line"] for line in (lite.folder / "bad.jsonl").read_text().splitlines()]

    assert bad_lines() == [2, 4]
    assert bad_lines("--from-line", 3) == [2, 4, 4]
    assert bad_lines("--from-line", 1) == [2, 4]


def test_an_import_is_told_to_programs_in_json(on: Shell) -> None:
    result = import_(on, "\n".join([HEADER, row(0, zone="Mars"), row(1)]), "--json")
    assert result.code == 1
    assert json.loads(result.err)["line"] == 2
    told = result.json
    assert told.pop("seconds") > 0
    assert told.pop("users_per_second") > 0
    counts = {"added": 1, "changed": 0, "unchanged": 0, "refused": 1, "last_line": 3}
    assert told == counts | {"complete": True, "dry_run": False, "nowhere": {}, "warnings": []}


def test_an_unknown_column_is_refused_before_anything_is_stored(on: Shell) -> None:
    result = import_(on, people(2).replace("last_name", "surname", 1))
    assert (result.code, result.out) == (2, "")
    assert "'surname'" in result.err
    assert keys(on) == set()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere.csv"], 1, "cannot read nowhere.csv: No such file"),
        ([".", "--format", "csv"], 1, "Is a directory"),
        (["people.txt"], 2, "--format csv"),
        (["people.csv", "--format", "xml"], 2, "--format must be csv or jsonl"),
        (["people.csv", "--errors", "no/where"], 1, "cannot write no/where"),
        (["people.csv", "--tenant", ""], 2, "tenant"),
        (["people.csv", "--from-line", "0"], 2, "--from-line"),
        (["people.csv", "--app", "missing"], 2, "no module"),
        ([], 2, "import --help"),
    ],
)
def test_an_import_that_cannot_be_done_fails_with_one_line(lite: Shell, words: list[str], code: int, said: str) -> None:
    lite.write("people.csv", people(1))
    result = lite("users", "import", *words)
    assert (result.code, result.out) == (code, "")
    [line] = result.err.splitlines()
    assert said in line
    assert keys(lite) == set()


def test_the_name_of_a_user_cannot_send_control_sequences_to_the_terminal(lite: Shell) -> None:
    result = import_(lite, "\n".join([HEADER, row(0, zone="\x1b[2J")]))
    assert "\x1b" not in result.err
    assert "\\x1b[2J" in result.err


# -- rehearsing


def test_a_dry_run_checks_every_line_and_needs_no_database(shell: Shell) -> None:
    text = "\n".join([HEADER, row(0), row(1, born="2990-01-01"), ",Ada,,,", row(9), "u9,,,,Asia/Tokyo", "u9,,,,Mars"])
    result = import_(shell, text, "--dry-run", "--db", "sqlite:///none.db")
    assert result.code == 1
    assert result.out.startswith("3 good, 3 refused (a dry run: nothing was stored) in ")
    assert [line.split(": ")[0] for line in result.err.splitlines()] == ["line 3", "line 4", "line 7", "warning"]
    assert not (shell.folder / "none.db").exists()


def test_a_dry_run_does_not_tell_programs_that_anything_was_added(shell: Shell) -> None:
    told = import_(shell, "\n".join([HEADER, row(0), "bad"]), "--dry-run", "--json").json
    counts = {"good", "refused", "nowhere", "last_line", "seconds", "users_per_second"}
    assert told.keys() == counts | {"complete", "dry_run", "warnings"}
    assert (told["good"], told["refused"], told["dry_run"]) == (1, 1, True)


def test_a_dry_run_refuses_what_the_import_refuses(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "ROWS_PER_TRANSACTION", 3)
    monkeypatch.setattr(bulk_import, "MOST_RECENT", 2)
    reminding = '"{""reminder"": {""on"": ""%s""}}"'
    assert import_(on, f"{HEADER}\n{row(0)}\n{row(1)}\n").code == 0
    lines = [
        f"{HEADER},attributes",
        "u0,,,,Asia/Tokyo,",  # changes somebody
        "u7,,,,Asia/Tokyo,",  # there is no u7
        "u1,,,,Mars,",
        f"{row(2)},",
        f"u2,,,,,{reminding % 'soon'}",  # whom this file has added
        f"u2,,,,,{reminding % '2030-01-01'}",
        *(f"{row(number)}," for number in range(3, 9)),
        "u3,,,,Asia/Tokyo,",  # who was added long ago
        "u3,,,1850-02-30,,",
        f"u0,,,,,{reminding % 'later'}",
    ]
    text = "\n".join(lines)
    rehearsed, done = import_(on, text, "--dry-run"), import_(on, text)
    refused = [line for line in done.err.splitlines() if line.startswith("line ")]
    assert [line.split(":")[0] for line in refused] == ["line 3", "line 4", "line 6", "line 15", "line 16"]
    assert [line for line in rehearsed.err.splitlines() if line.startswith("line ")] == refused
    assert rehearsed.code == done.code == 1


def test_a_dry_run_asks_the_event_types(shell: Shell) -> None:
    text = f"{HEADER},attributes\n" + row(0) + ',"{""reminder"": {""on"": ""soon""}}"\n'
    result = import_(shell, text, "--dry-run")
    assert result.code == 1
    assert "attributes.reminder.on: expected a date" in result.err


# -- how far it is


def test_a_long_import_tells_its_progress_now_and_then(lite: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_import, "ROWS_PER_TRANSACTION", 2)
    monkeypatch.setattr("duly.cli.progress.LINE_EVERY_ITEMS", 4)
    lines = import_(lite, people(9)).err.splitlines()
    assert [line.split(", ")[0] for line in lines] == ["4 rows", "8 rows"]
    assert lines[0].endswith("line 5")


def test_on_a_terminal_an_import_shows_one_moving_line_of_progress(shell: Shell) -> None:
    shell.write("people.csv", people(3) + "bad\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        command = [sys.executable, "-m", "duly", "users", "import", "people.csv", "--db", "sqlite:///tty.db"]
        os.execve(sys.executable, command, os.environ | {"TERM": "xterm"})
    drawn = b""
    try:
        while more := os.read(terminal, 4096):
            drawn += more
    except OSError:
        pass  # how a terminal says that nobody writes to it any more
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert b"line 5: has 1 columns" in drawn
    assert b"3 added" in drawn
    assert b"\x1b[?25l" in drawn  # the cursor is hidden while it moves


# -- going on


def test_an_import_can_begin_at_a_given_line(on: Shell) -> None:
    assert import_(on, people(5), "--from-line", 5).out.startswith("2 added, ")
    assert keys(on) == {"u3", "u4"}


@pytest.mark.parametrize("name", ["people.csv", "people.jsonl"])
@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_beginning_past_the_last_line_is_told(lite: Shell, name: str, words: list[str]) -> None:
    result = import_(lite, people(3), "--from-line", 5, *words, name=name)
    assert (result.code, result.err) == (0, "there is nothing from line 5 on: the file has only 4 lines\n")
    assert import_(lite, people(3), "--from-line", 4, *words).err == ""


def fail_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store vanishes after so many transactions."""
    write: Callable[..., Any] = bulk_import._Import._write
    done: list[None] = []

    async def fails(self: Any, checked: Any) -> Any:
        if len(done) == writes:
            raise StoreUnavailable("the database is away")
        done.append(None)
        return await write(self, checked)

    monkeypatch.setattr(bulk_import, "ROWS_PER_TRANSACTION", 2)
    monkeypatch.setattr(bulk_import._Import, "_write", fails)


def test_an_import_whose_store_fails_keeps_what_is_stored_and_says_how_to_go_on(
    on: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_after(2, patch)
        result = import_(on, people(9))
    assert result.code == 1
    assert result.out.startswith("4 added, ")
    error, advice = result.err.splitlines()
    assert error.startswith("duly: the database is away: check that the database is running")
    assert advice.endswith("continue with --from-line 6")
    assert import_(on, people(9), "--from-line", 6).out.startswith("5 added, ")
    assert len(keys(on)) == 9


def test_an_import_whose_store_fails_at_once_has_stored_nothing(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after(0, monkeypatch)
    result = import_(on, people(9), "--json")
    assert result.code == 1
    assert (result.json["added"], result.json["last_line"], result.json["complete"]) == (0, 0, False)
    assert result.error["type"] == "StoreUnavailable"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_import_stores_what_was_read_and_says_how_to_go_on(
    on: Shell, spawn: Spawn, url: str, number: signal.Signals
) -> None:
    on.write("people.csv", people(100_000))
    process = spawn("users", "import", "people.csv", DULY_DATABASE_URL=url)
    wait_until(lambda: keys(on), told=lambda: process.output)
    assert process.stop(number) == 130
    summary, advice = process.output.splitlines()[-2:]
    added = int(summary.split()[0].replace(",", ""))
    assert 0 < added < 100_000
    assert advice.startswith(f"interrupted: everything up to line {added + 1} is stored or refused")
    assert advice.endswith(f"--from-line {added + 2}")
    assert "Traceback" not in process.output


def test_an_interrupted_import_does_not_wait_for_standard_input(on: Shell, url: str) -> None:
    command = [sys.executable, "-m", "duly", "users", "import", "-", "--format", "csv", "--db", url]
    with subprocess.Popen(
        command,
        cwd=on.folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(f"{HEADER}\n")
        process.stdin.flush()
        wait_until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1)  # the one that reads
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == "interrupted: nothing was stored\n"


def test_an_import_whose_file_cannot_be_read_to_the_end_keeps_what_came_before(
    on: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        yield bulk_import.ImportLine(2, {"first_name": "Ada", "last_name": "L", "date_of_birth": "1990-12-10",
                                    "timezone": "UTC", "key": "ada"})  # fmt: skip
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("duly.cli.users.import_file.read_users", breaks)
    result = import_(on, "")
    assert result.code == 1
    assert keys(on) == {"ada"}
    error, advice = result.err.splitlines()
    assert error == "duly: cannot read the file after line 2: Input/output error"
    assert advice.endswith("continue with --from-line 3")
