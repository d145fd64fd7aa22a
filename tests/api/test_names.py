"""The public names: loaded when they are first asked for, and known to type checkers all the same."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import duly
from duly import to

SOURCE = Path(duly.__file__).parents[1]


def run(code: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_receiver_needs_nothing_but_the_standard_library() -> None:
    """With -S, nothing that is installed can be found."""
    code = "import sys, duly.inbox; print([name for name in sys.modules if name.startswith('duly')])"
    assert [name for name in eval(run(code, "-S")) if not name.startswith("duly.inbox")] == ["duly", "duly.errors"]
    assert run("from duly import inbox; import sys; print('duly.duly' in sys.modules)", "-S") == "False\n"


def test_a_receiver_does_not_load_asyncio() -> None:
    assert run("import sys, duly.inbox; print('asyncio' in sys.modules)", "-S") == "False\n"


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in duly.PUBLIC_NAMES.items() for name in names.split()]
)
def test_every_public_name_can_be_imported_from_the_package(module: str, name: str) -> None:
    assert getattr(duly, name) is getattr(import_module(module), name)


def test_the_names_of_a_first_program_are_public() -> None:
    from duly import Duly, Event, cron, every, nats, rrule, webhook, yearly

    assert all(callable(name) for name in (Duly, Event, cron, every, rrule, yearly))
    assert nats("orders.due") == to.nats("orders.due") == {"nats": "orders.due"}
    assert webhook("https://shop.example") == to.webhook("https://shop.example")


def test_the_stub_tells_type_checkers_the_same_names_of_the_same_modules() -> None:
    stub = ast.parse((SOURCE / "duly/__init__.pyi").read_text(encoding="utf-8"))
    imports = [one for one in stub.body if isinstance(one, ast.ImportFrom)]
    told = {(one.module, name.name, name.asname) for one in imports for name in one.names}
    assert told == {(module, name, name) for module, names in duly.PUBLIC_NAMES.items() for name in names.split()}


def public_names() -> list[str]:
    """As they are listed when the program runs; the stub lists none."""
    names: list[str] = vars(duly)["__all__"]
    return names


def test_the_package_lists_its_names_before_any_was_asked_for() -> None:
    listed = eval(run("import duly; print([name for name in dir(duly) if not name.startswith('_')])"))
    assert listed == public_names()
    assert "__version__" in dir(duly)


def test_a_star_imports_the_public_names_and_no_more() -> None:
    stars = eval(run("from duly import *; print([name for name in dir() if not name.startswith('_')])"))
    assert stars == public_names()


def test_modules_of_the_package_are_attributes_after_importing_it() -> None:
    assert run("import duly; print(duly.errors.Misuse is duly.Misuse, duly.testing.ManualClock.__name__)") == (
        "True ManualClock\n"
    )


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="module 'duly' has no attribute 'Dulyy'"):
        duly.Dulyy  # type: ignore[attr-defined]  # noqa: B018 - asking is the test
    with pytest.raises(ImportError, match="cannot import name 'annotations'"):
        from duly import annotations  # type: ignore[attr-defined]  # noqa: F401
    assert not hasattr(duly, "__wrapped__")


def test_type_checkers_know_the_public_names_and_which_calls_are_awaited(tmp_path: Path) -> None:
    """Without awaiting, a connection says bool; with it, something to await. A misspelt name is an error. What is a
    Duly or a Client gives the same to each call."""
    (tmp_path / "user.py").write_text(
        "import sqlite3\n"
        "from collections.abc import Awaitable\n"
        "from typing import assert_type\n"
        "from duly import Duly, Dulyy, Misuse\n"
        "from duly.inbox import record\n"
        "class Asynchronous:\n"
        "    async def execute(self, sql: str, *args: object) -> None: ...\n"
        "assert_type(Duly('sqlite://'), Duly)\n"
        "assert_type(record(sqlite3.connect('x'), 'id'), bool)\n"
        "assert_type(record(Asynchronous(), 'id'), Awaitable[bool])\n"
        "from datetime import datetime\n"
        "from duly import Event, Schedule, Target, User, every\n"
        "from duly.client import Client\n"
        "from duly.decide.series.preview import Preview\n"
        "from duly.sync import Sync\n"
        "async def same(duly: Duly | Client, due: datetime) -> None:\n"
        "    assert_type(await duly.at(due, 'x'), Event)\n"
        "    assert_type(await duly.every('a', every('1h'), 'x'), Schedule)\n"
        "    assert_type(await duly.schedules.preview('a'), list[Preview])\n"
        "    assert_type(await duly.events.find(limit=5), list[Event])\n"
        "    assert_type(await duly.users.get('7'), User)\n"
        "    assert_type(await duly.targets.list(), list[Target])\n"
        "    assert_type(duly.sync, Sync)\n"
        "    await duly.events.find(limit='5')\n"
        "async def iterated(duly: Client) -> None:\n"
        "    async for event in duly.events.all():\n"
        "        assert_type(event, Event)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", "", "user.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        'user.py:4: error: Module "duly" has no attribute "Dulyy"; maybe "Duly"?  [attr-defined]',
        'user.py:24: error: Argument "limit" to "find" of "Events" has incompatible type "str"; expected "int"  '
        "[arg-type]",
        "Found 2 errors in 1 file (checked 1 source file)",
    ], done.stdout + done.stderr
