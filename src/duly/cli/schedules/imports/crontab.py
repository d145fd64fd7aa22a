"""Parses a crontab by crontab(5): environment, times, commands and their standard input.

Pure: takes text, returns jobs and bad lines.
"""

import re
from typing import NamedTuple

from duly.decide.checks import name_problems
from duly.errors import Invalid
from duly.rules.notation import parse_rule, zone_problems

SETTING = re.compile(r"""(?P<quote>["']?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*=\s*(?P<value>.*)""")
PERCENT = re.compile(r"(?<!\\)%")
ZONE = "CRON_TZ"
"""The setting for the time zone of the lines below it. TZ is only for the commands."""


NAME = re.compile(r"#+\s*name:\s*(?P<name>.*)", re.IGNORECASE)
"""The comment that names the schedule of the line below it."""

REBOOT = "@reboot"
NOT_AT_REBOOT = (
    "@reboot is not a time, so there is no schedule for it: leave this line in the crontab, or start the command with "
    "the system, as a service"
)


class Job(NamedTuple):
    """A line that runs a command."""

    line: int
    cron: str
    command: str
    stdin: str | None
    user: str | None
    environment: dict[str, str]
    timezone: str | None  # None: the file does not say
    name: str | None = None  # None: no comment names it

    @property
    def payload(self) -> dict[str, object]:
        return {"command": self.command, "stdin": self.stdin, "user": self.user, "environment": self.environment}


class BadLine(NamedTuple):
    line: int
    text: str
    reason: str

    @property
    def is_reboot(self) -> bool:
        return self.text.lower().startswith(REBOOT)


class Crontab(NamedTuple):
    jobs: list[Job]
    bad: list[BadLine]

    @property
    def is_unread(self) -> bool:
        """Whether there are lines of which nobody can say what they run, and when. (@reboot can be said.)"""
        return any(not line.is_reboot for line in self.bad)


def read_crontab(text: str, *, system: bool = False) -> Crontab:
    """The jobs of a crontab, and its bad lines with their reasons. A *system* crontab names a user before each
    command."""
    reader = _Reader(system)
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        try:
            reader.read(number, line)
        except ValueError as error:
            reader.bad.append(BadLine(number, line, str(error)))
    if reader.named is not None:
        reader.bad.append(BadLine(*reader.named, "names no line: below it is none with a command"))
    return Crontab(reader.jobs, sorted(reader.bad))


class _Reader:
    """What was read so far."""

    def __init__(self, system: bool) -> None:
        self.jobs: list[Job] = []
        self.bad: list[BadLine] = []
        self.named: tuple[int, str] | None = None  # a comment that names the next line: its number and text
        self._system = system
        self._settings: dict[str, str] = {}
        self._broken: dict[str, int] = {}  # settings of zones that do not exist, with their line numbers
        self._names: dict[str, int] = {}  # with their line numbers

    def read(self, number: int, line: str) -> None:
        """Reads a line; raises ValueError with the reason if it is none."""
        if comment := NAME.fullmatch(line):
            self._read_name(number, line, comment["name"])
        elif not line or line.startswith("#"):
            return
        elif setting := SETTING.fullmatch(line):
            self._set(number, setting["name"], _unquoted(setting["value"]))
        else:
            named, self.named = self.named, None
            job = _job(number, line, self._settings, self._broken, self._system)
            self.jobs.append(job if named is None else job._replace(name=NAME.fullmatch(named[1])["name"]))  # type: ignore[index]

    def _read_name(self, number: int, line: str, name: str) -> None:
        for _, problem in name_problems("name", name):
            raise ValueError(f"the name {problem}")
        if name in self._names:
            raise ValueError(f"the name {name!r} is taken: see line {self._names[name]}")
        if self.named is not None:
            self.bad.append(BadLine(*self.named, "names no line: below it is another name"))
        self._names[name] = number
        self.named = number, line

    def _set(self, number: int, name: str, value: str) -> None:
        self._broken.pop(name, None)
        self._settings[name] = value
        if name == ZONE and (problem := _zone_problem(value)):
            self._broken[name] = number
            raise ValueError(problem)


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _zone_problem(value: str) -> str | None:
    zone = _zone(value)
    return next((problem.message for problem in zone_problems(zone)), None)


def _zone(value: str) -> str | None:
    """The zone of a setting, which may be written ``:Europe/Brussels``; an empty one undoes an earlier setting."""
    return value.strip().removeprefix(":") or None


def _job(number: int, line: str, settings: dict[str, str], broken: dict[str, int], system: bool) -> Job:
    """The job of a line; raises ValueError with the reason if it is none."""
    many = 1 if line.startswith("@") else 5
    words = line.split(maxsplit=many + int(system))
    cron = " ".join(words[:many])
    if many == 5 and len(words) < 5:
        raise ValueError("is neither a setting NAME=value nor five fields and a command")
    _check(cron)
    if len(words) <= many + int(system):
        missing = "user and command" if system else "command"
        raise ValueError(f"has a time, but no {missing} after it")
    if ZONE in broken:
        raise ValueError(f"its time zone is not valid: see line {broken[ZONE]}")
    command, stdin = _command(words[-1])
    if not command:
        raise ValueError("has no command before its first %: the text after a % is only the input of a command")
    return Job(
        line=number,
        cron=cron,
        command=command,
        stdin=stdin,
        user=words[many] if system else None,
        environment={name: value for name, value in settings.items() if name != ZONE},
        timezone=_zone(settings.get(ZONE, "")),
    )


def _check(cron: str) -> None:
    if cron.lower() == REBOOT:
        raise ValueError(NOT_AT_REBOOT)
    try:
        parse_rule({"cron": cron})
    except Invalid as error:
        raise ValueError("; ".join(problem.message for problem in error.problems)) from None


def _command(written: str) -> tuple[str, str | None]:
    """The command and its standard input: the text after the first percent sign, in which further ones are line
    ends."""
    command, *lines = (part.replace("\\%", "%") for part in PERCENT.split(written))
    if not lines:
        return command.rstrip(), None
    stdin = "\n".join(lines)
    return command.rstrip(), stdin if not stdin or stdin.endswith("\n") else f"{stdin}\n"
