"""``duly workers`` and ``duly top``: who is at work. Real processes, of which one is killed."""

import re
import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import APP, Process, Shell, Spawn, wait_until

BEAT_S = 1.0
QUICK = f"""
from datetime import timedelta
from duly.engine.presence import beat

beat.BEAT = timedelta(seconds={BEAT_S})
"""
"""Workers of the shop beat this often, so that no test waits for long."""

Start = Callable[[], Process]


@pytest.fixture
def start(on: Shell, url: str, spawn: Spawn) -> Start:
    """Starts a worker of the shop."""
    on.write("shop.py", APP + QUICK)

    def start() -> Process:
        worker = spawn("worker", "--app", "shop", DULY_DATABASE_URL=url)
        wait_until(lambda: by_pid(on).get(worker.pid), told=lambda: worker.output)
        return worker

    return start


def by_pid(on: Shell) -> dict[int, Any]:
    return {worker["pid"]: worker for worker in on("workers", "--json").json["workers"]}


def get(url: str, key: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return msgspec.json.decode(answer.read())


def test_a_worker_that_was_killed_is_dead_within_two_beats_also_over_http(
    on: Shell, url: str, start: Start, spawn: Spawn
) -> None:
    on.write("other.py", "from duly import Duly\n\nduly = Duly()\n" + QUICK)
    killed, kept = start(), start()
    server = spawn("serve", "--no-worker", "--port", "0", DULY_DATABASE_URL=url)
    key = on("keys", "create", "all", "--all-tenants", "--json").json["key"]
    place = wait_until(lambda: re.search(r"http://127[^;]+", server.output), told=lambda: server.output)[0]
    killed.inner.send_signal(signal.SIGKILL)
    killed.wait()
    at_kill = by_pid(on)[killed.pid]["seen_at"]
    wait_until(lambda: by_pid(on)[killed.pid]["state"] == "dead")
    mine = by_pid(on)
    assert mine[killed.pid]["seen_at"] == at_kill
    assert mine[kept.pid]["state"] == "running"
    assert mine[kept.pid]["seen_at"] > at_kill
    over_http = {worker["pid"]: worker["state"] for worker in get(f"{place}/v1/workers", key)["workers"]}
    assert over_http == {killed.pid: "dead", kept.pid: "running"}
    assert kept.stop() == 0
    assert by_pid(on).keys() == {killed.pid}  # who stopped in good order has left


def test_workers_are_listed_with_their_lanes_on_wide_and_on_narrow_screens(on: Shell, start: Start) -> None:
    assert "no workers: start one" in on("workers").err
    worker = start()
    on.at("+1h", "--type", "lost")
    wide = on("workers").out
    assert "handler:fail, handler:greet" in wide
    assert re.search(rf"\b{worker.pid}\b +running", wide)
    assert "nobody serves handler:lost: no worker ever did" in wide
    on.set(COLUMNS="80")
    narrow = on("workers").out
    assert f"process {worker.pid} on" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert on("workers", "--columns", "pid,state").out.split()[:4] == ["PID", "STATE", str(worker.pid), "running"]
    worker.stop()


def test_a_lane_whose_only_worker_has_left_says_since_when_nobody_serves_it(on: Shell, start: Start) -> None:
    start().stop()
    on.at("+1h", "--type", "greet")
    assert re.search(r"nobody serves handler:greet: a worker that does was last seen (now|.+ ago)", on("workers").out)


def test_processes_of_one_command_have_a_row_each(on: Shell, url: str, spawn: Spawn) -> None:
    parent = spawn("worker", "--app", "shop", "--processes", 2, DULY_DATABASE_URL=url)
    wait_until(lambda: len(by_pid(on)) == 2, told=lambda: parent.output)
    assert parent.stop() == 0
    assert by_pid(on) == {}


def test_serve_is_a_worker_unless_it_is_told_otherwise(on: Shell, url: str, spawn: Spawn) -> None:
    server = spawn("serve", "--app", "shop", "--port", "0", DULY_DATABASE_URL=url)
    wait_until(lambda: by_pid(on).keys() == {server.pid}, told=lambda: server.output)
    assert server.stop() == 0


def test_top_prints_workers_and_the_load_of_each_lane(on: Shell, start: Start) -> None:
    worker = start()
    for lane in ("lost", "lost", "greet"):
        on.at("+1h", "--type", lane)
    on.at("2020-01-01T00:00:00Z", "--type", "lost")
    on.at("now", "--type", "slow")
    running = wait_until(lambda: [one for one in loads(on) if one["running"]])
    assert [one["lane"] for one in running] == ["handler:slow"]
    told = on("top", "--once").out
    assert re.search(r"1 worker running", told)
    assert re.search(r"handler:lost +nobody +1 +2 +0 +\d+d.* late", told)
    assert re.search(r"handler:greet +yes +0 +1 +0 +in ", told)
    on.write("finish", "")
    worker.stop()
    assert "0 workers running" in on("top").out  # in a pipe, once is enough


def loads(on: Shell) -> list[Any]:
    return list(on("top", "--json").json["load"])
