"""A worker that has no file descriptor left: what it cannot send meanwhile spends no attempt, and goes out later."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, Process, Shell, Spawn, wait_until
from tests.cli.receiving import Receiver
from tests.descriptors import none_free

APP = """
from pathlib import Path

from duly import Duly, Event

duly = Duly()


@duly.on("async")
async def read(event: Event) -> None:
    Path(__file__).read_text()


@duly.on("plain")
def read_too(event: Event) -> None:
    Path(__file__).read_text()
"""


def working(shell: Shell, spawn: Spawn, url: str) -> Process:
    shell.write("files.py", APP)
    worker = spawn(
        *("worker", "--app", "files"),
        DULY_DATABASE_URL=url,
        DULY_WEBHOOK_ALLOW="127.0.0.0/8,::1/128",
        DULY_SECRET_KEY=KEY,
    )
    wait_until(lambda: "worker.started" in worker.output, told=lambda: worker.output)
    return worker


def webhook(shell: Shell, receiver: Receiver, path: str, host: str = "127.0.0.1") -> str:
    where = receiver.url.replace("127.0.0.1", host)
    return shell.at("now", "--type", "due", "--webhook", f"{where}/{path}")


def given_back(shell: Shell, ids: list[str]) -> bool:
    return all(any(entry["act"] == "given back" for entry in shell.show(id)["history"]) for id in ids)


def check_unspent(shown: Any) -> None:
    assert shown["status"] == "COMPLETED"
    assert shown["attempts"] == 1
    assert {entry["act"] for entry in shown["history"]} == {"given back", "delivered"}
    for entry in shown["history"][:-1]:
        assert "this worker has no free file descriptor: raise its limit (ulimit -n" in entry["detail"]


def test_events_of_a_worker_without_free_descriptors_spend_no_attempt_and_are_done_later(
    on: Shell, url: str, spawn: Spawn, receiver: Receiver
) -> None:
    worker = working(on, spawn, url)
    first = webhook(on, receiver, "first")
    wait_until(lambda: on.show(first)["status"] == "COMPLETED", told=lambda: worker.output)
    with none_free(worker.pid):
        ids = [webhook(on, receiver, f"{n}") for n in range(12)]  # more than it takes to park a target
        ids += [webhook(on, receiver, "name", "localhost")]
        ids += [on.at("now", "--type", type) for type in ("async", "plain")]
        wait_until(lambda: given_back(on, ids), told=lambda: worker.output)
        assert [one.path for one in receiver.received] == ["/first"]
    wait_until(lambda: all(on.show(id)["status"] == "COMPLETED" for id in ids), told=lambda: worker.output)
    for id in ids:
        check_unspent(on.show(id))
    assert len(receiver.received) == 14
    assert "target.parked" not in worker.output
    assert worker.stop() == 0


LOW = """
import resource, runpy, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
open("lowered", "w").close()
sys.argv[0] = "duly"
runpy.run_module("duly", run_name="__main__")
"""


@pytest.mark.parametrize("words", [["worker"], ["serve", "--port", "0"], ["timer-service"]], ids=lambda words: words[0])
def test_long_running_commands_may_open_as_many_files_as_the_system_allows(
    lite: Shell, tmp_path: Path, words: list[str]
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", LOW, *words], cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            wait_until((tmp_path / "lowered").exists)
            wait_until(
                lambda: resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard),
                told=lambda: (tmp_path / "log").read_text(),
            )
        finally:
            process.kill()
            process.wait()
