"""The commands that a request over HTTP may name: programs in the folders of ``DULY_COMMANDS``, for admin keys of all
tenants."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duly.decide.targets.commands import COMMAND
from duly.errors import Problem

SETTING = "DULY_COMMANDS"

OVER_HTTP = ("argv", "stdin", "timeout")
"""The fields that a request may set. A variable such as PATH, LD_PRELOAD, PYTHONPATH or GIT_SSH_COMMAND makes a
harmless program run any other; so does the folder that a program reads its settings from."""

CODE_MAY = "in Python and on the command line, every command may be used"

REFUSED_KEY = (
    "commands may be named over HTTP only with an admin key for all tenants (`duly keys create NAME --scope admin "
    f"--all-tenants`); {CODE_MAY}"
)
REFUSED_FIELD = f"is refused over HTTP, where a command has only {', '.join(OVER_HTTP)}; {CODE_MAY}"


class CommandAllow(NamedTuple):
    """What one caller over HTTP may do with commands."""

    folders: tuple[str, ...] = ()  # whose programs the caller may name
    names: bool = False  # whether the caller may name commands at all: an admin key of all tenants
    starts: bool = False  # whether the caller may start commands that exist: an admin key

    def problems(self, said: Mapping[str, Any]) -> Iterator[Problem]:
        """What the caller may not say of a valid command."""
        path = f"target.{COMMAND}"
        if not self.names:
            yield Problem(path, REFUSED_KEY)
            return
        for field in said:
            if field not in OVER_HTTP:
                yield Problem(f"{path}.{field}", REFUSED_FIELD)
        if "argv" in said and (problem := program_problem(said["argv"][0], self.folders)) is not None:
            yield Problem(f"{path}.argv[0]", problem)


NO_COMMANDS = CommandAllow()


ON, OFF = "on", "off"
"""In place of folders: run commands, but let requests name none; or run none at all."""

TOO_WIDE = frozenset({"/", "/bin", "/sbin", "/usr", "/usr/bin", "/usr/sbin", "/usr/local", "/usr/local/bin"})
"""Folders that no caller may be given: a shell, an interpreter or ``env`` among their programs runs anything."""


def read_folders(written: Any) -> tuple[str, ...] | None:
    """The folders that a setting names, as text with commas or as a list; None if no commands are run. Raises
    ValueError for the first that cannot be used."""
    if written is False or written == OFF:
        return None
    if written is True or written == ON:
        return ()
    given = written.split(",") if isinstance(written, str) else written
    if not isinstance(given, list | tuple):
        raise ValueError(f"{written!r:.60} is neither")
    folders = [_folder(one) for one in given]
    return tuple(dict.fromkeys(folder for folder in folders if folder))


def _folder(written: Any) -> str:
    folder = str(written).strip()
    if not folder:
        return ""
    plain = posixpath.normpath(folder)
    if not folder.startswith("/") or plain != (folder.rstrip("/") or "/"):
        raise ValueError(f"{folder!r:.80} is not an absolute path, or has . or .. in it")
    if plain in TOO_WIDE:
        raise ValueError(
            f"{folder!r} holds shells and interpreters, with which a caller could run anything: put the programs that "
            "callers may run into a folder of their own"
        )
    return plain


def program_problem(program: str, folders: tuple[str, ...]) -> str | None:
    """Why a request may not name this program; None if it may. (The worker asks again, of the file that links lead
    to.)"""
    if not program.startswith("/") or posixpath.normpath(program) != program:
        return f"{program!r:.80} is not an absolute path without links to itself or to what is above (. and ..)"
    if not is_within(program, folders):
        opened = f"the operator of the server has opened {', '.join(folders)}" if folders else "the server opens none"
        return (
            f"{program!r:.80} is in no folder that is open over HTTP: {opened}; {SETTING} names the folders, where the "
            f"API and the workers run; {CODE_MAY}"
        )
    return None


def is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a normal path leads into one of these folders."""
    return any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
