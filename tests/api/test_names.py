"""The public names: loaded when they are first asked for, and known to type checkers all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

import duly
from duly import public

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


def test_importing_the_package_loads_nothing_of_the_engine() -> None:
    code = "import sys, duly; print([name for name in sys.modules if name.startswith('duly')])"
    assert run(code, "-S") == "['duly']\n"


@pytest.mark.parametrize("name", public.__all__)
def test_every_public_name_can_be_imported_from_the_package(name: str) -> None:
    assert getattr(duly, name) is getattr(public, name)


def test_the_package_lists_its_names_before_any_was_asked_for() -> None:
    assert eval(run("import duly; print([name for name in dir(duly) if not name.startswith('_')])")) == sorted(
        public.__all__
    )
    assert "__version__" in dir(duly)
    assert duly.__all__ == public.__all__


def test_a_star_imports_the_public_names_and_no_more() -> None:
    stars = eval(run("from duly import *; print([name for name in dir() if not name.startswith('_')])"))
    assert stars == sorted(public.__all__)


def test_modules_of_the_package_are_at_hand_after_importing_it() -> None:
    assert run("import duly; print(duly.errors.Misuse is duly.Misuse, duly.testing.ManualClock.__name__)") == (
        "True ManualClock\n"
    )


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="module 'duly' has no attribute 'Dulyy'"):
        duly.Dulyy  # noqa: B018 - asking is the test
    with pytest.raises(ImportError, match="cannot import name 'annotations'"):
        from duly import annotations  # noqa: F401
    assert not hasattr(duly, "__wrapped__")


def test_type_checkers_know_the_names(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        "from typing import assert_type\nfrom duly import Duly, Dulyy, Misuse\nassert_type(Duly('sqlite://'), Duly)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", "", "user.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        'user.py:2: error: Module "duly" has no attribute "Dulyy"; maybe "Duly"?  [attr-defined]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], done.stdout + done.stderr
