"""Commands as a user types them: most in this process, because that is quick; the real thing where it matters."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from duly import Duly, Event
from duly.cli import main
from tests.cli.receiving import Receiver

KEY = "a key of at least thirty-two characters"

APP = """
import asyncio, os, signal
from pathlib import Path

from duly import Duly, Event, Rejected

duly = Duly()


def tell(line: str) -> None:
    with Path("told").open("a") as told:
        told.write(line + "\\n")


@duly.on("greet")
async def greet(event: Event) -> None:
    tell(f"hello {event.payload}")


@duly.on("reject")
async def reject(event: Event) -> Rejected:
    return Rejected("nobody wants it")


@duly.on("fail")
def fail(event: Event) -> None:
    raise ConnectionError("the bank says 503")


@duly.on("slow")
async def slow(event: Event) -> None:
    tell(f"begin {os.getpid()}")
    while not Path("finish").exists():
        await asyncio.sleep(0.01)
    tell(f"end {os.getpid()}")
"""
"""A module with a Duly, and handlers that write to a file what they do."""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Shell:
    """Runs commands in a folder of their own, with no DULY_ variables but those of the test."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._monkeypatch = folder, capsys, monkeypatch

    def __call__(self, *words: object) -> Result:
        code = main([str(word) for word in words])
        return Result(code, *self._capsys.readouterr())

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def told(self) -> list[str]:
        """What the app's handlers wrote."""
        path = self.folder / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def at(self, *words: object) -> str:
        """Schedule an event; its id."""
        done = self("at", *words, "--json")
        assert done.code == 0, done.err
        return str(done.json["id"])

    def show(self, id: str) -> Any:
        return self("events", "show", id, "--json").json


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("DULY_DATABASE_URL", "put back after the test, whatever the command made of it")
    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    log = logging.getLogger("duly")
    before = log.handlers[:], log.level, log.propagate
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell.write("shop.py", APP)
    yield shell
    log.handlers[:], log.level, log.propagate = before
    for name in set(sys.modules) - known:  # the next test's shop is another one
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def warned_of(type: str) -> str:
    """What commands write on standard error about a type that no worker has served."""
    return (
        f"warning: no worker has served the type {type!r} yet: it waits until one runs whose app has a handler for it\n"
    )


@pytest.fixture
def on(shell: Shell, url: str) -> Shell:
    """A shell whose DULY_DATABASE_URL is a database without events; once on each store."""
    shell.set(DULY_DATABASE_URL=url)
    assert shell("migrate").code == 0
    return shell


@pytest.fixture
def lite(shell: Shell) -> Shell:
    """The same on SQLite alone, for what does not depend on the store."""
    shell.set(DULY_DATABASE_URL="sqlite:///duly.db")
    assert shell("migrate").code == 0
    return shell


@pytest.fixture
def receiver(shell: Shell) -> Iterator[Receiver]:
    """Where the shell's commands may send to; and they have a key to sign with."""
    shell.set(DULY_WEBHOOK_ALLOW="127.0.0.0/8", DULY_SECRET_KEY=KEY)
    receiver = Receiver()
    yield receiver
    receiver.close()


def schedules(shell: Shell, *words: object) -> str:
    """What a `duly schedules` command prints that ends well."""
    result = shell("schedules", *words)
    told = [line for line in result.err.splitlines() if not line.startswith("warning: no worker has served the type ")]
    assert (result.code, told) == (0, [])
    return result.out


def shown(shell: Shell, name: str, *words: object) -> Any:
    """A schedule, and all that is around it."""
    return json.loads(schedules(shell, "show", name, *words, "--json"))


def names(shell: Shell, *words: object) -> list[str]:
    """Those of all schedules."""
    return [one["name"] for one in json.loads(schedules(shell, "list", *words, "--json"))["schedules"]]


def _with_files(files: int | None) -> list[str]:
    return [] if files is None else ["/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]


class Process:
    """A `duly` command in a process of its own."""

    def __init__(self, *words: object, folder: Path, files: int | None = None, **variables: str) -> None:
        """*files* is how many it may have open."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        self._log = (folder / f"log-{time.monotonic_ns()}").open("w+b")
        self.inner = subprocess.Popen(
            [*_with_files(files), sys.executable, "-m", "duly", *(str(word) for word in words)],
            cwd=folder,
            env=kept | variables,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of it can be ended, whatever the test finds
        )

    @property
    def pid(self) -> int:
        return self.inner.pid

    @property
    def output(self) -> str:
        return Path(self._log.name).read_bytes().decode()  # past the process's own place in it

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.inner.send_signal(number)
        return self.inner.wait(timeout=30)

    def wait(self) -> int:
        return self.inner.wait(timeout=60)

    def close(self) -> None:
        if self.inner.poll() is None:
            self.inner.kill()
            self.inner.wait()
        self._log.close()


Spawn = Callable[..., Process]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    started: list[Process] = []

    def spawn(*words: object, files: int | None = None, **variables: str) -> Process:
        started.append(Process(*words, folder=tmp_path, files=files, **variables))
        return started[-1]

    yield spawn
    for process in started:
        process.close()


def wait_until(condition: Callable[[], Any], *, patience: float = 30, told: Callable[[], str] | None = None) -> Any:
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {patience} s in vain" + (f"; {told()}" if told else ""))
        time.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """Not gone, and not only waiting for its parent to notice that it is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def looking(url: str) -> Iterator[Callable[[], list[Event]]]:
    """Reads all events, past the command line."""

    async def read() -> list[Event]:
        async with Duly(url, migrate=False) as duly:
            return await duly.events.find(limit=1000)

    yield lambda: asyncio.run(read())
