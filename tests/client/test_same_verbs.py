"""Duly and Client offer the same verbs, with the same arguments and results, and whoever has the one can have the
other. What differs is said here."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import Duly
from duly.client import Client
from duly.verbs.marks import is_for_doors

SOURCE = Path(duly.__file__).parents[1]
GROUPS = ("", "events", "schedules", "templates", "users", "targets", "workers")

NOT_OVER_HTTP = {
    "on", "schedule", "check", "observe", "run", "prune", "tick", "stop", "transaction",
    "schedules.replan", "users.erase", "users.refresh",
    "targets.history", "targets.reseal", "targets.destinations", "targets.waiting", "targets.signing_secret",
}  # fmt: skip
"""These raise Misuse, which says what to do instead."""

ONLY_OF_CLIENTS = {"events.all", "schedules.all", "users.all", "targets.all", "templates.all"}
"""Iterate over everything, page by page."""

MORE_ARGUMENTS = {"schedules.trigger": {"wait"}}

WITHIN = {
    "absent", "calendars", "channels", "database_path", "destination_cache", "event_types", "events", "foreign", "keys",
    "lend", "loop", "now", "one_writer", "orphans", "routes", "schedules", "settings", "signals", "store", "sync",
    "targets", "templates", "transaction_of", "users", "worker", "workers",
    "requests", "by_hand", "metrics", "rebound", "serve_commands",
}  # fmt: skip
"""No verbs: groups of them, and what other parts of Duly look at."""


def verbs(of: Any, group: str) -> dict[str, Callable[..., Any]]:
    holder = getattr(of, group) if group else of
    names = {f"{group}.{name}".strip("."): name for name in dir(type(holder)) if not name.startswith("_")}
    found = {whole: getattr(holder, name) for whole, name in names.items() if whole not in WITHIN}
    return {whole: verb for whole, verb in found.items() if not is_for_doors(verb)}


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Callable[..., Any]], dict[str, Callable[..., Any]]]:
    here, there = Duly("sqlite://"), Client("https://duly.example")
    mine = {name: verb for group in GROUPS for name, verb in verbs(here, group).items()}
    theirs = {name: verb for group in GROUPS for name, verb in verbs(there, group).items()}
    return mine, theirs


def test_the_client_and_duly_have_the_same_verbs(both: Any) -> None:
    mine, theirs = both
    assert set(theirs) - set(mine) == ONLY_OF_CLIENTS
    assert set(mine) - set(theirs) == set()
    assert len(mine) > 50


def test_verbs_of_the_client_and_of_duly_take_and_return_the_same(both: Any) -> None:
    mine, theirs = both
    for name in mine.keys() - NOT_OVER_HTTP:
        taken, offered = inspect.signature(mine[name]), inspect.signature(theirs[name])
        more = MORE_ARGUMENTS.get(name, set())
        assert [one for one in offered.parameters if one not in more] == list(taken.parameters), name
        assert offered.return_annotation == taken.return_annotation, name
        for parameter in taken.parameters.values():
            other = offered.parameters[parameter.name]
            assert other.kind == parameter.kind, (name, parameter)
            if parameter.name == "tenant":  # that of the key, unless the client was made for another
                assert (other.default, other.annotation) == (None, str | None), name
            else:
                assert other == parameter, (name, parameter)
        assert inspect.iscoroutinefunction(theirs[name]), name


def test_verbs_that_http_does_not_have_say_so(both: Any) -> None:
    _, theirs = both
    for name in sorted(NOT_OVER_HTTP):
        needed = [
            "x"
            for one in inspect.signature(theirs[name]).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty
        ]
        with pytest.raises(duly.Misuse, match=r"is not available over HTTP: \w+"):
            theirs[name](*needed)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_client_needs_neither_a_database_nor_a_server() -> None:
    blocked = ["apsw", "asyncpg", "fastapi", "starlette", "uvicorn", "cryptography", "rich"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "from duly.client import Client\n"
        "client = Client('https://duly.example'); client.sync\n"
        "print([name for name in sys.modules if name.startswith(('duly.stores', 'duly.wiring', 'duly.channels', "
        "'duly.api', 'duly.cli.', 'aiohttp'))])"
    )
    assert run(code) == "[]\n"


def test_a_client_without_aiohttp_says_what_to_install() -> None:
    code = (
        "import asyncio, sys; sys.modules['aiohttp'] = None\n"
        "from duly.client import Client\n"
        "try: asyncio.run(Client('https://duly.example').__aenter__())\n"
        "except Exception as error: print(error)"
    )
    assert "pip install '.[client]' in a checkout of Duly" in run(code)
