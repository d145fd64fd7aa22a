"""The example receiver, as a process that is sent duplicates and killed: each greeting is there once."""

import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.docs.blocks import ROOT
from tests.inbox.signing import SECRET, make_body, sign

PATIENCE = 30.0


class Receiver:
    """Runs the example in a folder of its own, again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes]
        self._client = httpx.Client(timeout=PATIENCE)
        self.url = ""

    def start(self) -> None:
        log = self._folder / "log"
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, ROOT / "examples/receiver.py"],
                cwd=self._folder,
                env={"WEBHOOK_SECRET": SECRET, "PORT": "0", "PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=file,
                stderr=file,
            )
        until(lambda: "running on" in log.read_text() or self._process.poll() is not None)
        found = re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text())
        assert found, f"the receiver did not start: {log.read_text()}"
        self.url = found[1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def end(self) -> None:
        self.kill()
        self._client.close()

    def post(self, id: str, body: bytes | None = None) -> int | None:
        """The status it answers; None if it dies meanwhile."""
        body = body or make_body(f"Hey, {id}")
        try:
            return self._client.post(self.url, content=body, headers=sign(make_body(f"Hey, {id}"), id=id)).status_code
        except httpx.TransportError:
            return None

    def database(self, timeout: float = 5) -> "closing[sqlite3.Connection]":
        return closing(sqlite3.connect(self._folder / "receiver.db", timeout=timeout))

    def greetings(self) -> Counter[str]:
        with self.database() as connection:
            return Counter(event for (event,) in connection.execute("SELECT event FROM greetings"))

    def is_writing(self) -> bool:
        with self.database(timeout=0) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                return "locked" in str(error)
            return False


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver(tmp_path)
    try:
        receiver.start()
        yield receiver
    finally:
        receiver.end()


def test_duplicate_deliveries_have_one_effect_also_after_a_restart(receiver: Receiver) -> None:
    ids = [f"event {number}" for number in range(5)]
    with ThreadPoolExecutor(10) as senders:
        assert set(senders.map(receiver.post, ids * 4)) == {204}
    receiver.kill()
    receiver.start()
    assert [receiver.post(id) for id in ids] == [204] * 5
    assert receiver.post("event 0", make_body("Hey, Eve")) == 401
    assert receiver.greetings() == Counter(ids)


def test_a_receiver_killed_between_effect_and_commit_does_the_effect_when_duly_tries_again(receiver: Receiver) -> None:
    with receiver.database() as connection, connection:  # writing a greeting takes for ever now, in the middle of it
        connection.execute(
            "CREATE VIEW forever AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        )
        connection.execute("CREATE TRIGGER stuck AFTER INSERT ON greetings BEGIN SELECT count(*) FROM forever; END")
    with ThreadPoolExecutor(1) as sender:
        answer = sender.submit(receiver.post, "event")
        until(receiver.is_writing)
        receiver.kill()
        assert answer.result(PATIENCE) is None
    assert receiver.greetings() == Counter()
    with receiver.database() as connection, connection:
        connection.execute("DROP TRIGGER stuck")
    receiver.start()
    assert [receiver.post("event") for _ in range(2)] == [204, 204]
    assert receiver.greetings() == Counter(["event"])


def test_a_receiver_killed_at_any_moment_loses_and_repeats_no_effect(receiver: Receiver) -> None:
    ids, answered = [f"event {number}" for number in range(100)], set[str]()
    for _ in range(3):
        with ThreadPoolExecutor(4) as senders:
            answers: dict[Future[int | None], str] = {senders.submit(receiver.post, id): id for id in ids * 2}
            time.sleep(random.uniform(0.02, 0.5))  # no moment in particular
            receiver.kill()
        answered |= {id for answer, id in answers.items() if answer.result() == 204}
        assert answered <= set(receiver.greetings())
        receiver.start()
    assert {receiver.post(id) for id in ids} == {204}
    assert receiver.greetings() == Counter(ids)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
