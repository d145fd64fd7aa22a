"""The measuring side: starts processes of a peer, sends them ``go``, and reads their progress."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Self

import psutil

from benchmarks.gate import Order
from benchmarks.peers import Peer

TIMEOUT = 60.0
"""Seconds in which a process must become ready."""


class Broken(Exception):
    """A peer's process ended, or did not answer in time."""


class Member:
    """One process of a peer, and the progress it last reported."""

    def __init__(self, command: list[str], changed: threading.Condition) -> None:
        self._changed = changed
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the member
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.ready = False
        self.done = 0
        self.handled = 0
        self.late: list[float] | None = None
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, word: str) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Broken(self.complaint()) from None

    def complaint(self) -> str:
        """The last line that the process wrote to stderr; all of its stderr is copied to ours."""
        self._errors.seek(0)
        written = self._errors.read().decode(errors="replace").strip()
        sys.stderr.write(f"{written}\n")
        return f"ended with {self.process.poll()}: {written.rpartition(chr(10))[2]}"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("> "):  # other output of the peer is ignored
                with self._changed:
                    self._hear(*line[2:].strip().split(" ", 1))
                    self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def _hear(self, word: str, rest: str = "") -> None:
        if word == "ready":
            self.ready = True
        elif word == "done":
            self.done += 1
        elif word == "handled":
            self.handled = int(rest)
        elif word == "late":
            self.late = json.loads(rest)


class Crew:
    """The processes of one peer in one role, ``work`` or ``add``."""

    def __init__(self, peer: Peer, role: str, url: str, *, size: int = 1, on_time: bool = False) -> None:
        self._changed = threading.Condition()
        command = peer.command(role, url, "on-time" if on_time else "drain")
        self.members = [Member(command, self._changed) for _ in range(size)]

    def __enter__(self) -> Self:
        try:
            self._wait(lambda: all(member.ready for member in self.members), TIMEOUT, "be ready")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(member.process.pid) for member in self.members]

    @property
    def handled(self) -> int:
        return sum(member.handled for member in self.members)

    def go(self) -> None:
        for member in self.members:
            member.tell("go")

    def wait_until_handled(self, events: int, patience: float) -> None:
        self._wait(lambda: self.handled >= events, patience, f"handle {events:,}")

    def order(self, order: Order, patience: float) -> None:
        """Makes the first process add events; returns when they are added."""
        [adder] = self.members
        before = adder.done
        adder.tell(f"{order.events} {order.first} {order.step}")
        self._wait(lambda: adder.done > before, patience, f"add {order.events:,}")

    def stop(self) -> list[float]:
        """Stops the processes, and returns the lateness of each event in seconds."""
        for member in self.members:
            member.tell("stop")
        self._wait(lambda: all(member.late is not None for member in self.members), TIMEOUT, "stop")
        return [seconds for member in self.members for seconds in member.late or ()]

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _wait(self, come_true: Callable[[], bool], patience: float, what: str) -> None:
        deadline = time.monotonic() + patience
        with self._changed:
            while not come_true():
                for member in self.members:
                    if member.ended:
                        member.process.wait()
                        raise Broken(member.complaint())
                if not self._changed.wait(timeout=max(0.0, deadline - time.monotonic())):
                    raise Broken(f"did not {what} within {patience:.0f} s; handled {self.handled:,}")
