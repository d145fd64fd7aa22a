"""Huey with its PostgreSQL storage."""

import logging
from collections.abc import Iterator
from typing import Any

from huey import PostgresHuey
from huey.consumer import Consumer

from benchmarks.gate import Gate, Order, instant
from benchmarks.peers import Peer


class Huey(Peer):
    title = "Huey"
    package = "huey"
    # One worker thread: all threads of a process share one connection and its lock. Results are off, which saves a
    # write for each task. The scheduler cannot poll more often than once a second.
    settings = "PostgresHuey, results=False, one worker thread, scheduler_interval=1"
    keeps = "deletes a task as it starts, so a crash loses it; no history"
    left_sql = "SELECT (SELECT count(*) FROM huey_task) + (SELECT count(*) FROM huey_schedule)"
    drains_at_most = inserts_at_most = 5000
    adds_per_second = 400
    arranges_per_second = 400  # a worker first moves every task from the queue into the schedule

    def add(self, url: str, orders: Iterator[Order]) -> None:
        task = _task(_huey(url), Gate(), on_time=False)
        for order in orders:
            for due in order.dues():
                task.schedule(args=(due,), eta=instant(due))

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        huey = _huey(url)
        _task(huey, gate, on_time)
        consumer = Consumer(huey, workers=1, periodic=False, check_worker_health=False)
        gate.ready(consumer.stop_flag.set)
        consumer.run()


def _huey(url: str) -> PostgresHuey:
    logging.getLogger("huey").setLevel(logging.WARNING)
    return PostgresHuey("bench", dsn=url, results=False)


def _task(huey: PostgresHuey, gate: Gate, on_time: bool) -> Any:
    @huey.task(name="bench")
    def handle(due: int) -> None:
        if on_time:
            gate.note(due)
        else:
            gate.count()

    return handle


PEERS = {"huey": Huey()}
