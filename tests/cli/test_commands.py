"""Commands on the command line: who runs them, who is told that nobody does, and a worker that ends them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell, Spawn, alive, wait_until

NOBODY = "warning: no worker has run a command yet: it waits until one runs with --commands\n"


def only(shell: Shell) -> Any:
    """The one event that there is."""
    [event] = shell("events", "list", "--json").json["events"]
    return event


def finding(shell: Shell, subject: str) -> Any:
    [found] = [one for one in shell("doctor", "--json").json["checks"] if one["subject"] == subject]
    return found


def test_a_command_waits_for_a_worker_that_runs_commands_and_everything_says_so(on: Shell) -> None:
    done = on("at", "now", "--type", "job", "--command", "echo done", "--json")
    assert done.err.endswith(NOBODY)
    assert only(on)["target"] == {"command": "echo done"}
    assert on("tick", "--json").json["completed"] == 0
    why = on("events", "why", done.json["id"], "--json").json
    assert why["kind"] == "unserved"
    assert why["message"].endswith("start a worker that runs commands, with `duly worker --commands`")
    assert finding(on, "commands") == {
        "level": "warn",
        "subject": "commands",
        "found": "1 event to run, but no worker that runs commands is at work",
        "advice": "start one with `duly worker --commands`",
        "sql": [],
        "fix": None,
    }
    assert on("tick", "--commands", "--json").json["completed"] == 1
    [entry] = on.show(done.json["id"])["history"]
    assert (entry["act"], entry["output"]) == ("delivered", "done\n")
    again = on("at", "in 1h", "--type", "job", "--command", "echo again", "--json")
    assert NOBODY not in again.err
    found = finding(on, "commands")
    assert found["level"] == "ok"  # a tick has run commands within the hour
    assert found["found"].startswith("1 event to run; the last `duly tick` that runs commands was ")


def test_overdue_commands_are_a_lane_that_nobody_serves(lite: Shell) -> None:
    lite.set(DULY_LATE_AFTER="0s")
    lite.at("now", "--type", "job", "--command", "true")
    found = finding(lite, "unserved")
    assert found["advice"] == "start a worker that runs commands: `duly worker --commands`; or cancel the events"


def test_a_schedule_of_a_command_is_put_and_run(on: Shell) -> None:
    done = on("schedules", "put", "hourly", "--type", "job", "--cron", "@hourly", "--command", "echo $DULY_SCHEDULE")
    assert (done.code, done.err) == (0, NOBODY)
    on("schedules", "trigger", "hourly")
    assert on("tick", "--commands", "--json").json["completed"] == 1
    [ran] = [one for one in on("events", "list", "--json").json["events"] if one["status"] == "COMPLETED"]
    assert on.show(ran["id"])["history"][-1]["output"] == "hourly\n"


def test_a_command_with_options_is_put_from_a_file(lite: Shell, tmp_path: Path) -> None:
    target = {"command": {"argv": ["sh", "-c", "pwd; cat"], "folder": str(tmp_path), "stdin": "in", "timeout": "1m"}}
    schedule = {"name": "s", "type": "job", "rule": {"every": "1h"}, "target": target}
    lite.write("schedules.json", json.dumps(schedule))
    assert lite("schedules", "put", "--file", "schedules.json").code == 0
    lite("schedules", "trigger", "s")
    assert lite("tick", "--commands", "--json").json["completed"] == 1
    [ran] = [one for one in lite("events", "list", "--json").json["events"] if one["status"] == "COMPLETED"]
    assert lite.show(ran["id"])["history"][-1]["output"] == f"{tmp_path}\nin"


def test_a_long_output_is_shown_by_its_last_lines_and_json_has_all(lite: Shell) -> None:
    id = lite.at("now", "--type", "job", "--command", "seq 1 100")
    lite("tick", "--commands")
    shown = lite("events", "show", id).out
    assert "(60 lines before these; --json shows them)" in shown
    assert [line.strip() for line in shown.splitlines() if line.strip().isdigit()] == [str(n) for n in range(61, 101)]
    assert len(lite.show(id)["history"][0]["output"].splitlines()) == 100


def test_an_output_cannot_write_escape_sequences_to_the_screen(lite: Shell) -> None:
    id = lite.at("now", "--type", "job", "--command", r"printf '\033[31mred\033]0;title\007'")
    lite("tick", "--commands")
    assert "\x1b" not in lite("events", "show", id).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("worker", "--commands", "/bin"), "'/bin' holds shells and interpreters"),
        (("tick", "--commands", "jobs"), "'jobs' is not an absolute path"),
        (("serve", "--commands", "/opt/../etc"), "is not an absolute path, or has . or .. in it"),
        (("at", "now", "--type", "x", "--command", ""), "target.command: is empty"),
        (("at", "now", "--type", "x", "--command", "x", "--webhook", "https://x.example"), "are two destinations"),
    ],
)
def test_wrong_use_is_refused_with_a_sentence(lite: Shell, words: tuple[str, ...], told: str) -> None:
    result = lite(*words)
    assert result.code in (1, 2)
    assert told in result.err


def test_doctor_looks_at_the_folders_that_are_open_over_http(lite: Shell, tmp_path: Path) -> None:
    (closed := tmp_path / "closed").mkdir(mode=0o755)
    (everybodys := tmp_path / "open").mkdir()
    everybodys.chmod(0o777)
    lite.set(DULY_COMMANDS=f"{closed},{everybodys},{tmp_path}/none")
    found = [one for one in lite("doctor", "--json").json["checks"] if one["subject"] == "commands"]
    assert [(one["level"], one["advice"]) for one in found] == [
        ("fail", f"chmod o-w {everybodys}"),
        ("warn", "create it where workers run, or remove it from the setting"),
    ]
    assert lite("doctor").code == 1


@pytest.mark.parametrize("options", [("--commands",), ("--commands", "--processes", "2")])
def test_a_worker_runs_commands_until_it_is_stopped(
    lite: Shell, spawn: Spawn, tmp_path: Path, options: tuple[str, ...]
) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    worker = spawn("worker", *options, DULY_DATABASE_URL=url, DULY_SHUTDOWN_GRACE="0s")
    assert lite("at", "now", "--type", "job", "--command", f"echo $$ > {tmp_path}/pid; sleep 600").code == 0
    file = tmp_path / "pid"
    wait_until(lambda: file.exists() and file.read_text().strip(), told=lambda: worker.output)
    pid = int(file.read_text())
    assert worker.stop() == 0
    assert not alive(pid)
    assert (only(lite)["status"], only(lite)["attempts"]) == ("PENDING", 0)


def test_a_server_runs_commands_too(lite: Shell, spawn: Spawn, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/duly.db"
    server = spawn("serve", "--port", "0", "--commands", str(tmp_path), DULY_DATABASE_URL=url)
    assert lite("at", "now", "--type", "job", "--command", "echo served").code == 0
    wait_until(lambda: only(lite)["status"] == "COMPLETED", told=lambda: server.output)
    assert f"Over HTTP: commands in {tmp_path} are open to admin keys of all tenants" in server.output
    assert server.stop() == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_what_a_killed_worker_ran_ends_with_it(lite: Shell, spawn: Spawn, tmp_path: Path) -> None:
    """Nobody renews its lease any more, and another worker will run it again."""
    url = f"sqlite:///{tmp_path}/duly.db"
    worker = spawn("worker", "--commands", DULY_DATABASE_URL=url)
    inner = f"sleep 0.5; echo $$ > {tmp_path}/second; while :; do sleep 0.05; done"  # by then, the watchdog knows of it
    line = f"echo $$ > {tmp_path}/first; sh -c '{inner}'; echo never"
    assert lite("at", "now", "--type", "job", "--command", line).code == 0
    files = [tmp_path / "first", tmp_path / "second"]
    wait_until(lambda: all(file.exists() and file.read_text().strip() for file in files), told=lambda: worker.output)
    pids = [int(file.read_text()) for file in files]
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, pids)))
