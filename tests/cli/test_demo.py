"""``duly demo``: it shows what it should, and nothing is lost by killing it."""

import json
import os
import pty
import re
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly import Status
from tests.cli.conftest import Spawn, looking, wait_until

URL = "sqlite:///duly-demo.db"


def test_the_demo_ends_by_itself_and_shows_timers_a_schedule_birthdays_and_retries(
    spawn: Spawn, tmp_path: Path
) -> None:
    demo = spawn("demo", "--for", "14s")
    assert demo.wait() == 0
    assert "Starting anew" in demo.output
    assert f"kill -9 {demo.pid}" in demo.output
    lines = [line.split() for line in demo.output.splitlines() if line[:2].isdigit()]
    fired = [line[2] for line in lines if line[1] == "fired"]
    assert fired.count("tea.ready") == 5
    assert fired.count("heartbeat") >= 4
    assert [line[1] for line in lines if line[2] == "payment.charge"] == ["failed", "failed", "fired"]
    assert "report.build" in fired
    assert fired.count("birthday") == 3
    greeting = (
        r"Hey, Katsuko Saruhashi it's your birthday, .* late: \w+ (\S+) in Asia/Tokyo; "
        r"the next is planned for \d{4}-\S+ \1"
    )
    assert re.search(greeting, demo.output)
    assert demo.output.count("Katsuko") == 1
    assert (tmp_path / "duly-demo.db").exists()


@pytest.mark.timeout(180)
def test_nothing_is_lost_when_the_demo_is_killed_in_the_middle(
    spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = spawn("demo", "--for", "60s")
    with looking(URL) as events:
        wait_until(lambda: first.output.count("fired") >= 3, told=lambda: first.output)
        # In the middle of the handler that takes long, with others done and others still waiting.
        wait_until(lambda: any(e.type == "report.build" and e.status is Status.PROCESSING for e in events()))
        first.stop(signal.SIGKILL)
        found = events()
    waiting = sum(event.status is Status.PENDING for event in found)
    next_year = datetime.now(UTC) + timedelta(days=1)  # or later: those need not happen today
    added = {event.id: event.status for event in found if event.due < next_year}
    assert {Status.COMPLETED, Status.PROCESSING, Status.PENDING} <= set(added.values())

    second = spawn("demo", "--for", "14s")
    assert second.wait() == 0
    assert f"{waiting} waiting" in second.output.splitlines()[0]
    assert "interrupted by a crash" in second.output.splitlines()[0]
    assert "a crash interrupted it: delivering it again" in second.output
    with looking(URL) as events:
        after = {event.id: event for event in events()}
    assert set(added) <= set(after)
    assert {after[id].status for id in added} == {Status.COMPLETED}
    assert {after[id].interruptions for id, status in added.items() if status is Status.PROCESSING} == {1}


def test_the_demo_runs_on_the_database_it_is_given_and_tells_programs_in_json(
    spawn: Spawn, clean_postgres: str, tmp_path: Path
) -> None:
    demo = spawn("demo", "--db", clean_postgres, "--json", "--for", "4s")
    assert demo.wait() == 0
    lines = [json.loads(line) for line in demo.output.splitlines()]
    assert {"said", "fired", "failed"} <= {line["act"] for line in lines}
    assert not list(tmp_path.glob("*.db"))


def test_ctrl_c_ends_the_demo_in_good_order(spawn: Spawn) -> None:
    demo = spawn("demo", "--for", "60s")
    wait_until(lambda: "fired" in demo.output, told=lambda: demo.output)
    assert demo.stop(signal.SIGINT) == 0
    assert "wait for the next start" in demo.output
    assert "Traceback" not in demo.output


def test_on_a_terminal_it_is_drawn_live_and_runs_until_stopped(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DULY_", "NO_COLOR"))}
        os.execve(sys.executable, [sys.executable, "-m", "duly", "demo"], kept | {"TERM": "xterm", "COLUMNS": "80"})
    drawn = b""
    try:
        while not re.search(rb"[2-9] completed", drawn):
            drawn += os.read(terminal, 4096)
        os.kill(pid, signal.SIGINT)
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            while more := os.read(terminal, 4096):
                drawn += more
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"wait for the next start" in drawn
    for part in (b"COMING UP", b"JUST NOW", b"tea.ready", b" ms late", b"nothing is lost", b"\x1b[32m"):
        assert part in drawn
