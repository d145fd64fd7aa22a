"""Which workers are alive, and which lanes they serve: pure, by their rows and the time."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duly.decide.workers import lanes_told, last_served, pass_limit, served_lanes, state_of
from duly.records.workers.worker import LaneInfo, WorkerInfo, WorkerKind, WorkerState
from tests.make import HOUR, MICROSECOND, SECOND, START

BEAT = 10 * SECOND
LIMIT = 60 * SECOND
NOW = START + 24 * HOUR


def worker(**told: Any) -> WorkerInfo:
    usual: dict[str, Any] = {
        "name": "ada",
        "host": "web1",
        "pid": 1,
        "version": "0.1.0",
        "kind": WorkerKind.WORKER,
        "lanes_json": '["handler:x"]',
        "started": START,
        "seen": NOW,
        "last_pass": NOW,
        "beat": BEAT,
        "pass_limit": LIMIT,
    }
    return WorkerInfo(**(usual | told))


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({}, WorkerState.RUNNING),
        ({"seen": NOW - 2 * BEAT}, WorkerState.RUNNING),
        ({"seen": NOW - 2 * BEAT - MICROSECOND}, WorkerState.DEAD),
        ({"last_pass": NOW - LIMIT}, WorkerState.RUNNING),
        ({"last_pass": NOW - LIMIT - MICROSECOND}, WorkerState.STALLED),
        ({"last_pass": None}, WorkerState.STALLED),
        ({"last_pass": None, "started": NOW - LIMIT}, WorkerState.RUNNING),
        ({"last_pass": START, "started": NOW}, WorkerState.RUNNING),
        ({"draining": True, "last_pass": None}, WorkerState.DRAINING),
        ({"draining": True, "seen": NOW - HOUR}, WorkerState.DEAD),
        ({"kind": WorkerKind.TICK, "last_pass": None}, WorkerState.RUNNING),
        ({"kind": WorkerKind.TICK, "seen": NOW - HOUR, "stopped": NOW - HOUR}, WorkerState.STOPPED),
        ({"kind": WorkerKind.TICK, "seen": NOW - HOUR}, WorkerState.DEAD),
    ],
)
def test_the_state_of_a_worker_follows_from_its_row_and_the_time(told: Any, state: WorkerState) -> None:
    assert state_of(worker(**told), NOW) is state


@pytest.mark.parametrize(
    ("told", "serves"),
    [
        ({}, True),
        ({"draining": True}, False),
        ({"last_pass": None}, False),
        ({"seen": NOW - HOUR}, False),
        ({"closed_json": '{"handler:x":"down"}'}, True),
        ({"kind": WorkerKind.TICK}, True),
        ({"kind": WorkerKind.TICK, "seen": NOW - HOUR, "stopped": NOW - HOUR}, True),
        ({"kind": WorkerKind.TICK, "stopped": NOW - HOUR - MICROSECOND}, False),
        ({"kind": WorkerKind.TICK, "seen": NOW - HOUR}, False),
    ],
)
def test_a_lane_is_served_by_a_running_worker_or_a_tick_of_the_last_hour(told: Any, serves: bool) -> None:
    assert served_lanes([worker(**told)], NOW) == ({"handler:x"} if serves else set())


def test_when_a_lane_was_last_served_is_the_latest_of_what_rows_and_memory_tell() -> None:
    workers = [worker(), worker(seen=NOW - HOUR, lanes_json='["handler:x","webhook"]')]
    remembered: dict[str, datetime] = {"webhook": NOW - 2 * HOUR, "nats": START, "handler:x": START}
    assert last_served(workers, remembered) == {"handler:x": NOW, "webhook": NOW - HOUR, "nats": START}
    assert list(lanes_told({"webhook", "nats", "lost"}, workers, remembered, NOW)) == [
        LaneInfo(lane="lost", served=False, seen=None),
        LaneInfo(lane="nats", served=False, seen=START),
        LaneInfo(lane="webhook", served=False, seen=NOW - HOUR),
    ]


def test_a_sound_pass_may_take_a_sleep_a_lease_and_a_few_queries() -> None:
    assert pass_limit(5 * SECOND, 30 * SECOND, 10 * SECOND) == timedelta(seconds=65)
