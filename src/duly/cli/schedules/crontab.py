"""Parses a crontab by crontab(5): environment, times, commands and their standard input.

Pure: takes text, returns jobs and bad lines.
"""

import hashlib
import re
from itertools import count
from pathlib import PurePosixPath
from typing import NamedTuple

from duly.errors import Invalid
from duly.rules.notation import parse_rule, zone_problems

SETTING = re.compile(r"""(?P<quote>["']?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*=\s*(?P<value>.*)""")
PERCENT = re.compile(r"(?<!\\)%")
ZONE = "CRON_TZ"
"""The setting for the time zone of the lines below it. TZ is only for the commands."""


class Job(NamedTuple):
    """A line that runs a command."""

    line: int
    cron: str
    command: str
    stdin: str | None
    user: str | None
    environment: dict[str, str]
    timezone: str | None  # None: the file does not say

    @property
    def payload(self) -> dict[str, object]:
        return {"command": self.command, "stdin": self.stdin, "user": self.user, "environment": self.environment}


class BadLine(NamedTuple):
    line: int
    text: str
    reason: str


class Crontab(NamedTuple):
    jobs: list[Job]
    bad: list[BadLine]


def read_crontab(text: str, *, system: bool = False) -> Crontab:
    """The jobs of a crontab, and its bad lines with their reasons. A *system* crontab names a user before each
    command."""
    jobs: list[Job] = []
    bad: list[BadLine] = []
    settings: dict[str, str] = {}
    broken: dict[str, int] = {}  # settings of zones that do not exist, with their line numbers
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            if setting := SETTING.fullmatch(line):
                name, value = setting["name"], _unquoted(setting["value"])
                broken.pop(name, None)
                settings[name] = value
                if name == ZONE and (problem := _zone_problem(value)):
                    broken[name] = number
                    raise ValueError(problem)
            else:
                jobs.append(_job(number, line, settings, broken, system))
        except ValueError as error:
            bad.append(BadLine(number, line, str(error)))
    return Crontab(jobs, bad)


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


# -- names of jobs


INTERPRETERS = {"sh", "bash", "dash", "zsh", "ksh", "python", "perl", "ruby", "php", "node", "java", "uv", "run"}
WRAPPERS = {"sudo", "env", "nice", "ionice", "chronic", "exec", "time", "nohup", "setsid", "command", "cronic"}
PREPARATIONS = {"cd", "test", "[", "[[", "export", "source", ".", "sleep", "umask", "set", "mkdir", "if", "true"}
LONGEST_NAME = 60
"""Characters of a job's name before its suffix."""


def name_jobs(jobs: list[Job]) -> list[str]:
    """A name for each job: its program, and a suffix from its whole command. So a job keeps its name whatever lines are
    around it and whenever it runs, and no other job has that name; a repeated command gets a number."""
    names: list[str] = []
    for job in jobs:
        name = f"{slug_of(job.command)}-{_digest(job.user, job.command, job.stdin)}"
        again = (f"{name}-{number}" for number in count(2))
        names.append(name if name not in names else next(each for each in again if each not in names))
    return names


def _digest(*parts: str | None) -> str:
    return hashlib.blake2b("\0".join(part or "" for part in parts).encode(), digest_size=3).hexdigest()


def slug_of(command: str) -> str:
    """The program that a command runs, and its first word, as far as they can be recognized: ``certbot-renew``."""
    words = [word.strip("\"'(){};`") for word in _program(command)]
    words = [word for word in words if word and not word.startswith(("-", "<", ">", "&", "|", "$("))]
    program = PurePosixPath(words[0]).name if words else ""
    program = re.sub(r"\.(sh|py|pl|rb|php|js|bash)$", "", program)
    then = words[1] if len(words) > 1 and re.fullmatch(r"[A-Za-z][\w:.-]*", words[1]) else ""
    slug = "-".join(filter(None, (_plain(program), _plain(then))))
    return slug[:LONGEST_NAME].strip("-") or "command"


def _program(command: str) -> list[str]:
    """The words of the first part of a command that does the work, without wrappers such as sudo."""
    parts = [part.split() for part in re.split(r"&&|\|\||;|\n", command)]
    for part in parts:
        words = [word for word in part if word not in ("{", "(", "!", "then", "do")]
        while words and (_base(words[0]) in WRAPPERS | INTERPRETERS or _is_option(words[0]) or "=" in words[0]):
            del words[0]
        if words and _base(words[0]) not in PREPARATIONS:
            return words
    return parts[0] if parts else []


def _base(word: str) -> str:
    return re.sub(r"[\d.]+$", "", PurePosixPath(word.strip("\"'(){}")).name)


def _is_option(word: str) -> bool:
    return word.startswith("-") or word.isdigit()


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", word.lower()).strip("-")
