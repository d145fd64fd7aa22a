"""``duly worker``, ``serve`` and ``tick``; many processes under one parent."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from duly.cli.processes import supervisor
from duly.engine.stopping import SECOND_CTRL_C_AFTER_S
from duly.observers.logs import Line
from tests.cli.conftest import Process, Shell, Spawn, alive, wait_until
from tests.cli.receiving import Receiver

Start = Callable[..., Process]


@pytest.fixture
def start(on: Shell, url: str, spawn: Spawn) -> Start:
    """Starts a worker of the shop, and returns when it has as many started as it should."""

    def start(command: str = "worker", *words: object, workers: int = 1, **variables: str) -> Process:
        worker = spawn(command, "--app", "shop", *words, DULY_DATABASE_URL=url, **variables)
        wait_until(
            lambda: worker.output.count("worker.started") == workers or worker.inner.poll() is not None,
            told=lambda: worker.output,
        )
        assert worker.inner.poll() is None, worker.output
        return worker

    return start


def children(parent: Process) -> list[int]:
    return [child.pid for child in psutil.Process(parent.pid).children()]


def begun(shell: Shell) -> list[int]:
    """The processes in which a slow event has begun."""
    return [int(line.removeprefix("begin ")) for line in shell.told() if line.startswith("begin ")]


# -- one process


@pytest.mark.parametrize("command", [["worker"], ["serve", "--port", "0"]], ids=" ".join)
def test_a_worker_runs_events_that_are_due_and_those_that_become_due(
    on: Shell, start: Start, command: list[str]
) -> None:
    on.at("now", "--type", "greet", "--payload", '"Ada"')
    worker = start(*command)
    wait_until(lambda: on.told() == ["hello Ada"], told=lambda: worker.output)
    on.at("now", "--type", "greet", "--payload", '"Bo"')
    wait_until(lambda: on.told() == ["hello Ada", "hello Bo"], told=lambda: worker.output)
    assert worker.stop() == 0
    assert "worker.stopped" in worker.output
    assert ("Duly serves http://127.0.0.1:" in worker.output) is ("serve" in command)


COUNTING = """
import gc

from duly import Duly, Event

duly = Duly()


@duly.on("count")
async def count(event: Event) -> None:
    print("counted", len(gc.get_objects()), gc.get_freeze_count(), flush=True)
"""


@pytest.mark.parametrize("command", [["worker"], ["serve", "--port", "0"]], ids=" ".join)
def test_a_garbage_collection_skips_the_modules_that_a_worker_has_loaded(
    lite: Shell, spawn: Spawn, command: list[str]
) -> None:
    lite.write("counting.py", COUNTING)
    lite.at("now", "--type", "count")
    process = spawn(*command, "--app", "counting", DULY_DATABASE_URL="sqlite:///duly.db")
    counted = wait_until(lambda: re.search(r"counted (\d+) (\d+)", process.output), told=lambda: process.output)
    looked_through, frozen = map(int, counted.groups())
    assert 4 * looked_through < frozen


@pytest.mark.parametrize(("command", "format"), [("worker", "text"), ("serve", "text"), ("worker", "json")])
def test_a_worker_without_an_app_serves_webhooks_and_says_so(
    on: Shell, url: str, spawn: Spawn, receiver: Receiver, command: str, format: str
) -> None:
    on.at("now", "--type", "x", "--webhook", receiver.url)
    settings = {"DULY_DATABASE_URL": url, "DULY_WEBHOOK_ALLOW": "127.0.0.0/8", "DULY_LOG_FORMAT": format}
    worker = spawn(command, DULY_PORT="0", **settings)
    wait_until(lambda: receiver.received, told=lambda: worker.output)
    assert worker.stop() == 0
    assert ("This serves webhooks and HTTP requests." in worker.output) is (format == "text")
    assert "worker.stopped" in worker.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_finishes_what_is_under_way(
    on: Shell, start: Start, number: signal.Signals
) -> None:
    id = on.at("now", "--type", "slow")
    worker = start()
    wait_until(lambda: begun(on))
    worker.inner.send_signal(number)
    on.write("finish", "")
    assert worker.wait() == 0
    assert on.show(id)["status"] == "COMPLETED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", [["worker"], ["worker", "--processes", 2], ["tick"]], ids=["one", "two", "tick"])
def test_a_draining_worker_says_what_it_waits_for_and_a_second_ctrl_c_gives_it_back_at_once(
    on: Shell, url: str, spawn: Spawn, number: signal.Signals, command: list[object]
) -> None:
    id = on.at("now", "--type", "slow")
    worker = spawn(*command, "--app", "shop", DULY_DATABASE_URL=url, DULY_SHUTDOWN_GRACE="10m")
    wait_until(lambda: begun(on), told=lambda: worker.output)
    worker.inner.send_signal(number)
    first = time.monotonic()
    wait_until(lambda: "worker.draining" in worker.output, told=lambda: worker.output)
    [told] = [line for line in worker.output.splitlines() if "worker.draining" in line][:1]
    assert 'running=1 types="slow 1" oldest=' in told
    assert "a second Ctrl-C gives them back at once" in told
    worker.inner.send_signal(signal.SIGTERM)  # says nothing new
    wait_until(lambda: time.monotonic() - first > 2 * SECOND_CTRL_C_AFTER_S)  # or it would count as the first
    worker.inner.send_signal(signal.SIGINT)
    assert worker.wait() == 0, worker.output
    event = on.show(id)
    assert (event["status"], event["attempts"], event["interruptions"]) == ("PENDING", 0, 0)


def test_a_verbose_worker_logs_each_completion(on: Shell, start: Start) -> None:
    loud, quiet = start("worker", "-v"), start("worker")
    quiet.stop()
    id = on.at("now", "--type", "greet")
    wait_until(lambda: f"event.completed event={id}" in loud.output, told=lambda: loud.output)
    assert loud.stop() == 0
    assert "event.completed" not in quiet.output


def test_a_worker_logs_json_where_the_setting_says_so(start: Start) -> None:
    worker = start(DULY_LOG_FORMAT="json")
    worker.stop()
    acts = [json.loads(line)["act"] for line in worker.output.splitlines()]
    assert acts == ["worker.started", "worker.stopped"]


def test_concurrency_bounds_how_many_events_run_at_once(on: Shell, start: Start) -> None:
    for _ in range(3):
        on.at("now", "--type", "slow")
    worker = start("worker", "--concurrency", 2)
    wait_until(lambda: len(begun(on)) == 2)
    on.at("now", "--type", "greet")
    time.sleep(0.3)  # there is no condition for what does not happen
    assert len(on.told()) == 2
    on.write("finish", "")
    wait_until(lambda: len(on.told()) == 7, told=lambda: worker.output)
    assert worker.stop() == 0


# -- a tick


def test_a_tick_runs_what_is_due_and_tells_what_became_of_it(on: Shell) -> None:
    for type in ("greet", "greet", "reject", "fail"):
        on.at("now", "--type", type)
    later = on.at("+1h", "--type", "greet")
    done = on("tick", "--app", "shop")
    assert done.code == 0
    assert re.fullmatch(
        r"2 completed, 1 to be retried, 1 failed; on average [\d.]+ m?s late, in [\d.]+ m?s\n", done.out
    )
    assert on.show(later)["status"] == "PENDING"
    assert on("tick", "--app", "shop").out == "nothing is due for 4 handlers, webhooks and HTTP requests\n"


def test_a_tick_tells_programs_in_numbers(on: Shell) -> None:
    on.at("now", "--type", "greet")
    told = on("tick", "--app", "shop", "--json").json
    assert 0 < told.pop("average_lateness_seconds") < 60
    assert 0 < told.pop("duration_seconds") < 60
    assert told == {
        "completed": 1,
        "to_be_retried": 0,
        "failed": 0,
        "given_back": 0,
        "held": 0,
        "found_interrupted": 0,
        "late": 0,
        "recovery": False,
    }


def test_a_tick_says_how_late_it_comes(on: Shell) -> None:
    for due in ("2020-01-01T00:00:00Z", "now"):
        on.at(due, "--type", "greet")
    assert re.fullmatch(r"2 completed, 1 late; on average \d+d( \d+h)? late, in .+\n", on("tick", "--app", "shop").out)
    on.at("2020-01-01T00:00:00Z", "--type", "greet")
    told = on("tick", "--app", "shop", "--json").json
    assert (told["completed"], told["late"], told["recovery"]) == (1, 1, True)
    assert told["average_lateness_seconds"] > 3600


def test_a_tick_ends_when_its_span_is_over(on: Shell) -> None:
    on.set(DULY_SHUTDOWN_GRACE="0.1s")
    id = on.at("now", "--type", "slow")
    done = on("tick", "--app", "shop", "--within", "0.2s")
    assert (done.code, done.out.partition(";")[0]) == (0, "1 given back")
    assert len(begun(on)) == 1
    shown = on.show(id)
    assert (shown["status"], shown["attempts"]) == ("PENDING", 0)


def test_a_tick_for_something_that_is_no_span_is_refused(lite: Shell) -> None:
    done = lite("tick", "--app", "shop", "--within", "soon")
    assert done.code != 0
    assert "within='soon' cannot be used: expected a duration such as 30s" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_tick_that_is_told_to_stop_finishes_what_is_under_way(
    on: Shell, url: str, spawn: Spawn, number: signal.Signals
) -> None:
    ids = [on.at("now", "--type", "slow") for _ in range(2)]
    tick = spawn("tick", "--app", "shop", "--concurrency", 1, "--json", DULY_DATABASE_URL=url)
    wait_until(lambda: begun(on), told=lambda: tick.output)
    tick.inner.send_signal(number)
    on.write("finish", "")
    assert tick.wait() == 0, tick.output
    assert '"completed":1' in tick.output.replace(" ", "")
    assert sorted(on.show(id)["status"] for id in ids) == ["COMPLETED", "PENDING"]


# -- many processes


def test_many_processes_share_the_work_and_stop_together(on: Shell, start: Start) -> None:
    parent = start("worker", "--processes", 2, "--concurrency", 1, workers=2)
    pids = children(parent)
    assert len(pids) == 2

    def both_have_begun() -> bool:
        on.at("now", "--type", "slow")
        return set(begun(on)) == set(pids)

    wait_until(both_have_begun, told=lambda: parent.output)
    parent.inner.send_signal(signal.SIGTERM)
    on.write("finish", "")
    assert parent.wait() == 0
    assert not any(alive(pid) for pid in pids)
    assert {int(line.removeprefix("end ")) for line in on.told() if line.startswith("end ")} == set(pids)
    assert parent.output.count("worker.stopped") == 2


def test_a_process_that_dies_is_started_again_and_its_event_delivered_again(on: Shell, start: Start) -> None:
    id = on.at("now", "--type", "slow")
    parent = start("worker", "--processes", 2, workers=2, DULY_LEASE="4s")
    [victim] = wait_until(lambda: begun(on))
    os.kill(victim, signal.SIGKILL)
    on.write("finish", "")
    wait_until(lambda: parent.output.count("worker.started") == 3, told=lambda: parent.output)
    assert re.search(rf"process.died process={victim} ended=SIGKILL restart_in=1.0", parent.output)
    assert len(children(parent)) == 2
    wait_until(lambda: on.show(id)["status"] == "COMPLETED", told=lambda: parent.output)
    assert [entry["act"] for entry in on.show(id)["history"]] == ["interrupted", "delivered"]
    assert parent.stop() == 0


def test_processes_drain_and_end_when_their_parent_is_killed(on: Shell, start: Start) -> None:
    id = on.at("now", "--type", "slow")
    parent = start("worker", "--processes", 2, workers=2)
    pids = children(parent)
    wait_until(lambda: begun(on))
    parent.stop(signal.SIGKILL)
    wait_until(lambda: parent.output.count("parent.gone") == 2, told=lambda: parent.output)
    on.write("finish", "")
    wait_until(lambda: not any(alive(pid) for pid in pids), told=lambda: parent.output)
    assert on.show(id)["status"] == "COMPLETED"
    assert parent.output.count("worker.stopped") == 2


def test_a_parent_that_is_stopped_while_its_processes_start_leaves_none_behind(
    on: Shell, url: str, spawn: Spawn
) -> None:
    parent = spawn("worker", "--app", "shop", "--processes", 3, DULY_DATABASE_URL=url)
    wait_until(lambda: "process.started" in parent.output, told=lambda: parent.output)
    pids = children(parent)
    assert parent.stop() == 0
    assert not any(alive(pid) for pid in pids)


def test_the_wait_before_a_restart_grows_while_processes_die_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RESTART_DELAY_S", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_RESTART_DELAY_S", 0.05)

    async def watch() -> None:
        processes = supervisor.Processes([sys.executable, "-S", "-c", "raise SystemExit(7)"], 1, patience=5)
        running = asyncio.create_task(processes.run())
        await asyncio.to_thread(wait_until, lambda: len(deaths()) >= 5)
        processes.stop()
        await running

    def deaths() -> list[dict[str, object]]:
        return [
            line.facts
            for record in caplog.records
            if isinstance(line := record.msg, Line) and line.act == "process.died"
        ]

    asyncio.run(watch())
    assert [death["restart_in"] for death in deaths()][:5] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert deaths()[0]["ended"] == "exit code 7"


def test_a_process_that_does_not_end_within_its_grace_is_killed(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    stubborn = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"pathlib.Path({str(tmp_path / 'deaf')!r}).touch(); time.sleep(100)"
    )

    async def watch() -> None:
        processes = supervisor.Processes([sys.executable, "-S", "-c", stubborn], 1, patience=0.2)
        running = asyncio.create_task(processes.run())
        await asyncio.to_thread(wait_until, (tmp_path / "deaf").exists)
        processes.stop()
        await asyncio.wait_for(running, 10)

    asyncio.run(watch())
    assert any(message.startswith("process.killed") for message in caplog.messages)
