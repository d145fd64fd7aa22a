"""The checks of ``duly doctor`` for commands: whether a worker runs them, and the folders that are open over HTTP."""

import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from duly.cli.doctor.check_result import FAIL, OK, WARN, CheckResult
from duly.cli.output import brief, counted
from duly.decide.targets.command_allow import SETTING
from duly.decide.targets.commands import COMMAND
from duly.decide.workers import last_tick, served_lanes
from duly.duly import Duly

SUBJECT = "commands"


async def commands(duly: Duly, waiting: Sequence[tuple[str, str, int, datetime]]) -> AsyncIterator[CheckResult]:
    """Whether a worker at work runs the commands that wait, also those that are due much later. *waiting*: lanes with
    a status, the number of events, and when the oldest is due."""
    many = sum(count for lane, _, count, _ in waiting if lane == COMMAND)
    for finding in _folders(duly.settings.commands or ()):
        yield finding
    if not many:
        return
    workers, now = await duly.workers.list(), await duly.now()
    if COMMAND in served_lanes(workers, now):
        ended = last_tick(workers, COMMAND, now)
        who = "a worker that runs commands is at work"
        if ended is not None:
            who = f"the last `duly tick` that runs commands was {brief(now - ended)} ago, and no worker is at work"
        yield CheckResult(OK, SUBJECT, f"{counted(many, 'event')} to run; {who}")
        return
    found = f"{counted(many, 'event')} to run, but no worker that runs commands is at work"
    yield CheckResult(WARN, SUBJECT, found, "start one with `duly worker --commands`")


def _folders(folders: Sequence[str]) -> Iterator[CheckResult]:
    """The folders of DULY_COMMANDS on this machine. Whoever can write into one can run anything as the worker does."""
    for folder in folders:
        try:
            mode = Path(folder).stat().st_mode
        except OSError as error:
            found = f"{folder}, a folder of {SETTING}, cannot be read here: {error.strerror}"
            yield CheckResult(WARN, SUBJECT, found, "create it where workers run, or remove it from the setting")
            continue
        if mode & stat.S_IWOTH:
            found = f"every user of this machine can write into {folder}, whose programs are open over HTTP"
            yield CheckResult(FAIL, SUBJECT, found, f"chmod o-w {folder}")
