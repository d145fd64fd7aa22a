"""``duly demo``: it shows what it should, and nothing is lost by killing it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest

from duly import Event, Status
from duly.cli.demo.receiver import Arrival, Receiver
from duly.inbox import Inbox
from tests.cli.conftest import Shell, Spawn, looking, wait_until

URL = "sqlite:///duly-demo.db"


def test_the_demo_ends_by_itself_and_shows_timers_a_schedule_birthdays_and_retries(
    spawn: Spawn, tmp_path: Path
) -> None:
    demo = spawn("demo", "--for", "14s")
    assert demo.wait() == 0
    assert "Starting with a new database" in demo.output
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
    sent = [line[1] for line in lines if line[2] == "order.shipped"]
    assert Counter(sent) == {"got": 4, "failed": 1, "fired": 3}
    assert demo.output.count("signature good") == 4
    assert demo.output.count("answered 503") == 1
    assert Counter(line[1] for line in lines if line[2] == "DueTimeReached") == {"got": 2, "fired": 2}
    assert demo.output.count(", over NATS") == 2
    assert (tmp_path / "duly-demo.db").exists()


def test_the_demo_invites_to_add_a_timer_from_another_terminal(spawn: Spawn, tmp_path: Path) -> None:
    demo = spawn("demo", "--for", "30s")
    wait_until(lambda: " at +3s " in demo.output, told=lambda: demo.output)
    [invitation] = [line for line in demo.output.splitlines() if " at +3s " in line]
    subprocess.run(invitation, shell=True, check=True, cwd=tmp_path)
    wait_until(lambda: re.search(r"fired +tea\.ready +chamomile", demo.output), told=lambda: demo.output)


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

    second = spawn("demo", "--for", "120s")
    with looking(URL) as events:
        wait_until(lambda: added.keys() <= completed(events()).keys(), patience=100, told=lambda: second.output)
        after = completed(events())
    assert second.stop(signal.SIGINT) == 0
    assert f"{waiting} waiting" in second.output.splitlines()[0]
    assert "interrupted by a crash" in second.output.splitlines()[0]
    assert "interrupted by a crash: delivered again, on its own" in second.output
    assert {after[id].interruptions for id, status in added.items() if status is Status.PROCESSING} == {1}


def completed(events: list[Event]) -> dict[str, Event]:
    return {event.id: event for event in events if event.status is Status.COMPLETED}


def test_the_demo_runs_on_the_database_it_is_given_and_tells_programs_in_json(
    spawn: Spawn, clean_postgres: str, tmp_path: Path
) -> None:
    demo = spawn("demo", "--db", clean_postgres, "--json", "--for", "4s")
    assert demo.wait() == 0
    lines = [json.loads(line) for line in demo.output.splitlines()]
    assert {"said", "fired", "failed"} <= {line["act"] for line in lines}
    assert any("receiver on http://127.0.0.1:" in line["text"] for line in lines)
    assert not list(tmp_path.glob("*.db"))


def test_without_aiohttp_the_demo_runs_without_webhooks(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.cli.demo.commands.find_spec", lambda _: None)
    done = shell("demo", "--for", "2s")
    assert (done.code, done.err) == (0, "")
    assert "tea.ready" in done.out
    assert "webhooks" not in done.out


def test_a_key_that_cannot_be_used_is_not_blamed_on_the_database(shell: Shell) -> None:
    shell.set(DULY_SECRET_KEY="short")
    done = shell("demo")
    assert done.code == 2
    assert "DULY_SECRET_KEY" in done.err
    assert "--db" not in done.err


async def test_the_receiver_of_the_demo_takes_only_signed_webhooks_and_each_once() -> None:
    heard: list[Arrival] = []
    body = b'{"type": "order.shipped", "timestamp": "2026-12-01T09:00:00Z", "data": "order 5"}'
    async with Receiver(heard.append) as receiver, aiohttp.ClientSession() as session:
        for secret, status in (("whsec_" + "A" * 32, 401), (receiver.secret, 204), (receiver.secret, 204)):
            async with session.post(receiver.url, data=body, headers=Inbox(secret).sign("7", body)) as answer:
                assert answer.status == status
    assert [(arrival.id, arrival.text) for arrival in heard] == [
        ("7", "order 5, signature good"),
        ("7", "order 5, signature good, again: dropped, as its id is known"),
    ]


def test_the_demo_can_be_asked_over_http(spawn: Spawn) -> None:
    demo = spawn("demo", "--for", "30s")
    wait_until(lambda: demo.output.count("fired") >= 1, told=lambda: demo.output)
    [address] = re.findall(r"The dashboard is on (http://127\.0\.0\.1:\d+),", demo.output)
    with urlopen(f"{address}/v1/events?status=COMPLETED", timeout=30) as answer:
        assert json.load(answer)["events"][0]["tenant"] == "demo"
    assert demo.stop() == 0


def test_ctrl_c_ends_the_demo_in_good_order(spawn: Spawn) -> None:
    demo = spawn("demo", "--for", "60s")
    wait_until(lambda: "fired" in demo.output, told=lambda: demo.output)
    assert demo.stop(signal.SIGINT) == 0
    assert "It ends by itself after 1m; --for changes that." in demo.output
    assert "wait for the next start" in demo.output
    assert "Traceback" not in demo.output


def test_on_a_terminal_the_demo_is_drawn_live_and_runs_until_stopped(tmp_path: Path) -> None:
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
