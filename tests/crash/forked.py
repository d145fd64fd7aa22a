"""Processes that are forked from one which has imported what they need, and has done nothing else: they start within a
tenth of the time, and a kill strikes them as it strikes any."""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "tests.crash.killed_worker",
        "duly.stores.postgres.store",
        "duly.channels.http.sender",
        "duly.channels.brokers.nats_commands",
        "duly.timer_service.service",
        "duly.cli",
    ]
)


def say_into(file: str | Path) -> None:
    """From now on, what this process says goes to the end of this file."""
    with Path(file).open("ab") as said:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said.fileno(), stream.fileno())


def run_duly(words: Sequence[str], variables: Mapping[str, str], log: str) -> None:
    from duly.cli import main  # not for those who only want to fork

    say_into(log)
    os.environ.clear()
    os.environ.update(variables)
    sys.exit(main(words))


def start_duly(words: Sequence[str], variables: Mapping[str, str], log: Path) -> ForkServerProcess:
    """A `duly` command in a process of its own, with these variables alone."""
    process = FORKED.Process(target=run_duly, args=(list(words), dict(variables), str(log)))
    process.start()
    return process
