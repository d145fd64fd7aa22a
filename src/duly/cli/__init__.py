"""The command line, with a folder for each noun. ``main`` finds the command and turns errors into exit codes.

0: success. 1: failure. 2: wrong usage.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter

from duly import __version__
from duly.cli import migrate, search
from duly.cli.demo import commands as demo_commands
from duly.cli.doctor import commands as doctor_commands
from duly.cli.event_types import commands as event_type_commands
from duly.cli.events import at
from duly.cli.events import commands as event_commands
from duly.cli.exit_codes import DONE, FAILED, INTERRUPTED, WRONG_USE
from duly.cli.figures import commands as figure_commands
from duly.cli.invocation import Invocation
from duly.cli.keys import commands as key_commands
from duly.cli.output import forgive_encoding, tell_error
from duly.cli.processes import serve, timer_service, worker
from duly.cli.retention import commands as retention_commands
from duly.cli.schedules import commands as schedule_commands
from duly.cli.targets import commands as target_commands
from duly.cli.templates import commands as template_commands
from duly.cli.users import commands as user_commands
from duly.cli.workers import commands as worker_commands
from duly.errors import BadSetting, DulyError, Invalid, Misuse, StoreError

EVERYWHERE = {"--db": "sqlite:///duly.db", "--app": "shop:duly", "--json": ""}
"""The options that every command has, each with an example."""


commands = App(
    name="duly",
    help="A durable scheduler: events fire on time and once, even after a crash.",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=(), show_default=False),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
commands.meta.group_parameters = Group("Everywhere", sort_key=100)

# Not under the names of their folders: duly.cli.demo would then be the command instead of the package.
SUBJECTS = (
    serve,
    worker,
    timer_service,
    demo_commands,
    at,
    event_commands,
    schedule_commands,
    template_commands,
    user_commands,
    event_type_commands,
    target_commands,
    key_commands,
    worker_commands,
    figure_commands,
    search,
    migrate,
    retention_commands,
    doctor_commands,
)
for subject in SUBJECTS:
    subject.register(commands)


class Dash(str):
    """A lone hyphen, which means a file and is no option. Allowing leading hyphens for that file argument would let it
    take ``--json`` and every other option before it."""

    __slots__ = ()

    def startswith(self, *_: Any) -> bool:
        return False


def _files_apart(words: Sequence[str]) -> list[str]:
    return [Dash(word) if word == "-" else word for word in words]


@commands.meta.default
def everywhere(
    *,
    db: Annotated[
        str | None,
        Parameter(help="Database, sqlite:///file.db or postgresql://… (default: DULY_DATABASE_URL)", metavar="URL"),
    ] = None,
    app: Annotated[
        str | None,
        Parameter(help="Module with your handlers, such as shop:duly (default: DULY_APP)", metavar="MODULE:DULY"),
    ] = None,
    json: Annotated[bool, Parameter(help="Print JSON, also for errors")] = False,
) -> Invocation:
    """The options that every command has: its help has them from here."""
    return Invocation(db=db, app=app, json=json)


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    words = sys.argv[1:] if words is None else list(words)
    json = "--json" in words
    forgive_encoding()
    try:
        return _run(words)
    except CycloptsError as error:
        tell_error(_usage(error), json=json)
        return WRONG_USE
    except DulyError as error:
        tell_error(error, json=json)
        return WRONG_USE if isinstance(error, Invalid | BadSetting | Misuse) else FAILED
    except BrokenPipeError:  # the reader of our output has stopped; Python must not try to flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # such as a full disk below the redirected output
        tell_error(StoreError(f"cannot write the output: {error.strerror or error}"), json=json)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: Sequence[str]) -> int:
    # The library's own support for global options is not used: it parses the command's arguments twice.
    given, words = _apart(words)
    command, bound, hidden = commands.parse_args(_files_apart(words), print_error=False, exit_on_error=False)
    arguments: dict[str, Any] = {"invocation": everywhere(**given)} if hidden else {}
    return int(command(*bound.args, **bound.kwargs, **arguments) or DONE)


def _apart(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Separates the global options, wherever they stand, from the other words."""
    given: dict[str, Any] = {}
    others: list[str] = []
    left = iter(words)
    for word in left:
        name, is_set, value = word.partition("=")
        if word == "--":
            others += [word, *left]
        elif name not in EVERYWHERE:
            others.append(word)
        elif name[2:] in given:
            raise Misuse(f"{name} is given twice: give it only once")
        elif name == "--json":
            if is_set:
                raise Misuse("--json takes no value: write only --json")
            given["json"] = True
        elif value := value if is_set else next(left, ""):
            given[name[2:]] = value
        else:
            raise Misuse(f"{name} needs a value, such as {EVERYWHERE[name]}")
    return given, others


def _usage(error: CycloptsError) -> Misuse:
    command = " ".join(["duly", *(error.command_chain or ())])
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.argument.token_count()[0] == 1:
        lacks = f"{error.argument.name} is missing" if error.keyword is None else f"{error.keyword} needs a value"
        return Misuse(f"{lacks}. See `{command} --help`")
    said = str(error).strip().replace("...", "…").rstrip(".")
    return Misuse(f"{said}. See `{command} --help`")
