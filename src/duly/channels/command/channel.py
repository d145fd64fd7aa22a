"""Runs an event's command on this machine, and says what its end means."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from duly.channels.command.process import KILLED_WITHIN_S, Ended, ProcessGroup, Program, run, start
from duly.channels.command.watchdog import Watchdog
from duly.decide.exhaustion import WAIT, exhausted
from duly.decide.targets.command_allow import OVER_HTTP, SETTING, is_within, program_problem
from duly.decide.targets.commands import COMMAND, spelled_out, timeout_of
from duly.records.event import Delivered, Event, Failed, Outcome, Rejected, Unreachable
from duly.values.durations import format_duration
from duly.values.instants import write_instant

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""Variables of the worker that every command gets, beside those that begin with LC_. The others may be secrets, such as
DULY_DATABASE_URL."""

SHELL = "/bin/sh"
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"

LONGEST_LAST_LINE = 300
"""Characters of the last line of an output that are repeated in the error, at most."""

SIGNALLED = 128
"""Added by a shell to the number of the signal that has killed a program of its own."""


class CommandChannel:
    def __init__(self, folders: Sequence[str]) -> None:
        """*folders*: those whose programs requests over HTTP may name."""
        self._folders = folders
        self._running: set[ProcessGroup] = set()
        self._watchdog = Watchdog()

    async def deliver(self, event: Event) -> Outcome:
        assert event.target is not None
        said = spelled_out(event.target[COMMAND])
        program = self._program(event, said)
        if isinstance(program, Rejected):
            return program
        try:
            await self._watchdog.begin()
            group = await start(program)
        except OSError as error:
            return _not_started(error, program)
        self._running.add(group)
        self._watchdog.add(group.id)
        try:
            return outcome_of(await run(group, timeout_of(said).total_seconds()), said)
        finally:
            self._running.discard(group)
            self._watchdog.remove(group.id)

    def _program(self, event: Event, said: Mapping[str, Any]) -> Program | Rejected:
        """What to run, or why it is not run."""
        executable: str | Rejected | None = None if event.via is None else self._opened(said)
        if isinstance(executable, Rejected):
            return executable
        program = program_of(event, said, os.environ, executable)
        if not Path(program.folder).is_dir():
            return Rejected(f"there is no folder {program.folder!r} on this worker's machine")
        return program

    def _opened(self, said: Mapping[str, Any]) -> str | Rejected:
        """The file to run for a command that came over HTTP, or why it is not run. Links are followed, once: what they
        lead to must be in one of the folders as well, and is what is run."""
        if fields := [field for field in said if field not in OVER_HTTP]:
            return _closed(f"{fields[0]} may not be given over HTTP")
        program: str = said["argv"][0]
        if (problem := program_problem(program, tuple(self._folders))) is not None:
            return _closed(problem)
        file, folders = os.path.realpath(program), tuple(os.path.realpath(folder) for folder in self._folders)
        if not is_within(file, folders):
            return _closed(f"{program!r:.80} is a link to a program outside of the folders that are open over HTTP")
        return file

    async def close(self) -> None:
        """Ends at once what is still running: its attempts have been given back."""
        running = list(self._running)
        for group in running:
            group.signal(signal.SIGKILL)
        for group in running:
            await group.ended(KILLED_WITHIN_S)
        await self._watchdog.close()


# -- before


def _closed(why: str) -> Rejected:
    return Rejected(f"not run: {why} (it was created over HTTP; the worker's own {SETTING} decides whether it is run)")


def program_of(event: Event, said: Mapping[str, Any], around: Mapping[str, str], executable: str | None) -> Program:
    """The program of a command. *around*: the worker's own environment. *executable*: the file to run, if that is not
    what the first argument says."""
    environment = _environment(event, said, around)
    folder = said.get("folder") or environment["HOME"]
    if "shell" in said:
        shell = said.get("environment", {}).get("SHELL", SHELL)  # as cron does
        return Program([shell, "-c", said["shell"]], environment, folder, _stdin(event, said))
    return Program(said["argv"], environment, folder, _stdin(event, said), executable)


def _environment(event: Event, said: Mapping[str, Any], around: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in around.items() if name in INHERITED or name.startswith("LC_")}
    facts = {
        "EVENT_ID": event.id,
        "EVENT_TYPE": event.type,
        "TENANT": event.tenant,
        "SCHEDULED_AT": write_instant(event.scheduled or event.due),
        "DUE_AT": write_instant(event.due),
        "ATTEMPT": str(event.attempt),
        "SCHEDULE": event.schedule,
        "KEY": event.key,
        "TEST": "true" if event.is_test else None,
    }
    told = {f"DULY_{name}": fact for name, fact in facts.items() if fact is not None}
    return {"PATH": USUAL_PATH, "HOME": "/", "SHELL": SHELL, **inherited, **said.get("environment", {}), **told}


def _stdin(event: Event, said: Mapping[str, Any]) -> bytes:
    """The text of the target; or else the payload as a line of JSON, if there is any."""
    if "stdin" in said:
        return str(said["stdin"]).encode()
    return b"" if event.payload_json == "null" else f"{event.payload_json}\n".encode()


def _not_started(error: OSError, program: Program) -> Outcome:
    if (lack := exhausted(error)) is not None:
        return Unreachable(f"the command could not be started: {lack}", WAIT)
    name = program.argv[0]
    match error.errno:
        case errno.ENOENT:
            return Rejected(
                f"there is no program {name!r:.200} on this worker's machine, or its interpreter is missing"
            )
        case errno.EACCES:
            return Rejected(
                f"{name!r:.200} may not be run: it is not executable (chmod +x), or this worker's user may not run it"
            )
        case errno.ENOEXEC:
            return Rejected(f"{name!r:.200} is no program: a script begins with a line such as #!/bin/sh")
        case errno.EAGAIN:
            lack = "this worker's user may start no more processes: raise the limit (ulimit -u, TasksMax=)"
            return Unreachable(f"the command could not be started: {lack}", WAIT)
        case errno.E2BIG:
            return Rejected(f"the arguments and variables of {name!r:.200} are more than this system takes")
    return Rejected(f"{name!r:.200} could not be started: {error.strerror or 'for an unknown reason'}")


# -- after


def outcome_of(ended: Ended, said: Mapping[str, Any]) -> Outcome:
    if ended.stopped:
        return Unreachable("it was ended before it had finished", timedelta(), output=ended.output)
    if ended.overran:
        deadline = format_duration(timeout_of(said))
        still = "" if ended.status is not None else ", but its process could not be ended"
        return Failed(f"ran past its deadline of {deadline}, and was ended{still}", output=ended.output)
    if ended.status == 0:
        return Delivered(output=ended.output)
    return Failed(_told(ended.status or 0, "shell" in said) + _last_line(ended.output), output=ended.output)


def _told(status: int, by_shell: bool) -> str:
    if status < 0:
        return f"was killed by {_signal(-status)}"
    if by_shell and status > SIGNALLED and _is_signal(status - SIGNALLED):
        return f"exited with {status}: what the shell ran was killed by {_signal(status - SIGNALLED)}"
    return f"exited with {status}"


def _is_signal(number: int) -> bool:
    return number in {one.value for one in signal.Signals}


def _signal(number: int) -> str:
    return signal.Signals(number).name if _is_signal(number) else f"signal {number}"


def _last_line(output: str | None) -> str:
    """The last line of an output, which mostly says why it failed, for lists of events."""
    lines = (output or "").strip().splitlines()
    return f": {lines[-1].strip()[:LONGEST_LAST_LINE]}" if lines else ""
