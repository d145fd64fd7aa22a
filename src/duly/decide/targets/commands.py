"""Targets that run a command on the worker's machine: ``{"command": "backup.sh --all"}``, or an object with more
fields. How they are written, read and checked; pure: whether a program exists is found out where it runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from duly.errors import Problem
from duly.values.durations import EXAMPLES, format_duration, parse_duration

COMMAND = "command"

FIELDS = ("shell", "argv", "stdin", "environment", "folder", "timeout")
"""The fields of a command."""

TIMEOUTS = timedelta(milliseconds=100), timedelta(days=7)
"""The shortest and the longest deadline of a command."""

DEFAULT_TIMEOUT = timedelta(days=1)
"""The deadline of a command that sets none. Cron has none at all, and a nightly backup may take hours; but a command
that hangs for ever would keep its place in the worker for ever."""

LONGEST = 100_000
"""Bytes of a shell line, an argument or the value of a variable, at most: Linux takes 131,071 of each."""

MOST_BYTES = 1_000_000
"""Bytes of all arguments and variables together, at most: Linux takes 2 MB with its usual limits."""

MOST_ARGUMENTS = 1000
MOST_VARIABLES = 500

LONGEST_FOLDER = 4000
"""Bytes of a path, at most."""

FACTS = ("EVENT_ID", "EVENT_TYPE", "TENANT", "SCHEDULED_AT", "DUE_AT", "ATTEMPT", "SCHEDULE", "KEY")
SET_BY_DULY = frozenset(f"DULY_{fact}" for fact in FACTS)
"""Variables that every command gets, and that a target must not set."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# -- writing


def command(
    shell: str | None = None,
    *,
    argv: Sequence[str] | None = None,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    timeout: timedelta | str | None = None,
) -> dict[str, Any]:
    """Run a command where a worker runs with ``--commands``: a line of shell, or *argv*, a program and its arguments
    without a shell. *stdin* is the text on its standard input; without it, the payload as JSON.

    >>> command("backup.sh --all")
    {'command': 'backup.sh --all'}
    """
    said = {
        "shell": shell,
        "argv": list(argv) if isinstance(argv, tuple) else argv,
        "stdin": stdin,
        "environment": environment,
        "folder": folder,
        "timeout": format_duration(timeout) if isinstance(timeout, timedelta) else timeout,
    }
    given = {name: value for name, value in said.items() if value is not None}
    return {COMMAND: shell if set(given) == {"shell"} else given}


# -- reading


def is_command(target: Any) -> bool:
    """Whether a target runs a command."""
    return isinstance(target, dict) and COMMAND in target


def spelled_out(spec: Any) -> Mapping[str, Any]:
    """The command as an object, also where it was written as a line of shell."""
    return {"shell": spec} if isinstance(spec, str) else spec


def calendar_problems(path: str, target: Any) -> Iterator[Problem]:
    """The problem of a command as the target of users' events. Their payloads have names in them that callers over HTTP
    choose, and no script has been written with that in mind."""
    if is_command(target):
        yield Problem(
            path, "a user's event cannot run a command, which would be given what users call themselves: use a handler"
        )


def timeout_of(said: Mapping[str, Any]) -> timedelta:
    return parse_duration(said["timeout"]) if "timeout" in said else DEFAULT_TIMEOUT


# -- checking


def command_problems(spec: Any) -> Iterator[Problem]:
    """All problems of a command."""
    path = f"target.{COMMAND}"
    if not isinstance(spec, str | dict):
        yield Problem(path, f"expected a line of shell, or an object with shell or argv, not {type(spec).__name__}")
        return
    said = spelled_out(spec)
    if unknown := sorted(str(name) for name in set(said) - set(FIELDS)):
        yield Problem(f"{path}.{unknown[0]:.50}", f"is not known; known: {', '.join(FIELDS)}")
    if ("shell" in said) == ("argv" in said):
        yield Problem(path, "needs either shell (a line for /bin/sh) or argv (a program and its arguments)")
    for field in (field for field in FIELDS if field in said):
        yield from _CHECKS[field](path if isinstance(spec, str) else f"{path}.{field}", said[field])
    if _size(said) > MOST_BYTES:
        yield Problem(path, f"has more than {MOST_BYTES:,} bytes of arguments and variables: write them to a file")


def _size(said: Mapping[str, Any]) -> int:
    argv, environment = said.get("argv"), said.get("environment")
    words = [
        *(argv if isinstance(argv, list) else ()),
        *(environment.values() if isinstance(environment, dict) else ()),
    ]
    return sum(_bytes(word) for word in words if isinstance(word, str))


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def _text_problem(written: Any, most: int = LONGEST) -> str | None:
    if not isinstance(written, str):
        return f"expected text, not {type(written).__name__}"
    if "\0" in written:
        return "has the character NUL, which no program can be given"
    if (size := _bytes(written)) > most:
        return f"has {size:,} bytes; at most {most:,}"
    return None


def _shell_problems(path: str, written: Any) -> Iterator[Problem]:
    if (problem := _text_problem(written)) is not None:
        yield Problem(path, problem)
    elif not written.strip():
        yield Problem(path, "is empty: there is nothing to run")


def _argv_problems(path: str, written: Any) -> Iterator[Problem]:
    if not isinstance(written, list) or not written:
        yield Problem(path, f'expected a list such as ["/usr/bin/backup", "--all"], not {written!r:.50}')
        return
    if len(written) > MOST_ARGUMENTS:
        yield Problem(path, f"has {len(written):,} arguments; at most {MOST_ARGUMENTS:,}")
        return
    for index, one in enumerate(written):
        if (problem := _text_problem(one)) is not None:
            yield Problem(f"{path}[{index}]", problem)
        elif index == 0 and not one.strip():
            yield Problem(f"{path}[0]", "is empty: the first argument is the program")


def _stdin_problems(path: str, written: Any) -> Iterator[Problem]:
    if not isinstance(written, str):
        yield Problem(path, f"expected text, not {type(written).__name__}")


def _environment_problems(path: str, written: Any) -> Iterator[Problem]:
    if not isinstance(written, dict):
        yield Problem(path, f"expected an object with names and values, not {type(written).__name__}")
        return
    if len(written) > MOST_VARIABLES:
        yield Problem(path, f"has {len(written):,} variables; at most {MOST_VARIABLES}")
    for name, value in written.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            message = f"{name!r:.50} is not the name of a variable: expected letters, digits and _"
            yield Problem(path, message)
        elif name in SET_BY_DULY:
            yield Problem(f"{path}.{name}", "is set by Duly for every command and cannot be given")
        elif (problem := _text_problem(value)) is not None:
            yield Problem(f"{path}.{name:.50}", problem)


def _folder_problems(path: str, written: Any) -> Iterator[Problem]:
    if (problem := _text_problem(written, LONGEST_FOLDER)) is not None:
        yield Problem(path, problem)
    elif not written.startswith("/"):
        message = "is not an absolute path: workers may run in any folder, on any machine"
        yield Problem(path, f"{written!r:.60} {message}")


def timeout_problems(path: str, written: Any) -> Iterator[Problem]:
    """The problem of a deadline."""
    least, most = TIMEOUTS
    try:
        span = parse_duration(written)
    except (ValueError, AttributeError, TypeError):
        yield Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")
        return
    if not least <= span <= most:
        yield Problem(path, f"must be from {format_duration(least)} to {format_duration(most)}, not {written!r:.50}")


_CHECKS = {
    "shell": _shell_problems,
    "argv": _argv_problems,
    "stdin": _stdin_problems,
    "environment": _environment_problems,
    "folder": _folder_problems,
    "timeout": timeout_problems,
}
