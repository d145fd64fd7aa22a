"""Names for the lines of a crontab, from what they run."""

import hashlib
import re
from collections.abc import Collection
from itertools import count
from pathlib import PurePosixPath

from duly.cli.schedules.imports.crontab import Job

INTERPRETERS = {"sh", "bash", "dash", "zsh", "ksh", "python", "perl", "ruby", "php", "node", "java", "uv", "run"}
WRAPPERS = {"sudo", "env", "nice", "ionice", "chronic", "exec", "time", "nohup", "setsid", "command", "cronic"}
PREPARATIONS = {"cd", "test", "[", "[[", "export", "source", ".", "sleep", "umask", "set", "mkdir", "if", "true"}
LONGEST_NAME = 60
"""Characters of a job's name before its suffix."""


GENERATED = re.compile(r".*-[0-9a-f]{6}(-\d+)?", re.DOTALL)
"""A name that was made here, and not given by a person."""


def name_of(job: Job, used: Collection[str] = (), prefix: str = "") -> str:
    """A name for a job that is not among the *used* ones: its program, and a suffix from its whole command. So a line
    has the same name whatever lines are around it and whenever it runs; a repeated command gets a number."""
    name = f"{prefix}{slug_of(job.command)}-{_digest(job.user, job.command, job.stdin)}"
    again = (f"{name}-{number}" for number in count(2))
    return name if name not in used else next(each for each in again if each not in used)


def name_jobs(jobs: list[Job], prefix: str = "") -> list[str]:
    """The names that the lines of a file have at their first import, if no comment names them."""
    names: list[str] = []
    for job in jobs:
        names.append(name_of(job, names, prefix))
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
