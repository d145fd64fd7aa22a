"""Type checkers accept right calls of Duly, Client and the ``sync`` of both, and refuse wrong ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
Errors = dict[int, str]
"""The codes of errors by line."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Errors]:
    """What mypy says, by file."""
    cache = str(tmp_path_factory.mktemp("mypy"))
    files = [str(HERE / "right_calls.py"), str(HERE / "wrong_calls.py")]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", cache, *files]
    done = subprocess.run(
        command, cwd=cache, env={"MYPYPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    errors: dict[str, Errors] = {"right_calls.py": {}, "wrong_calls.py": {}}
    for file, line, code in re.findall(r"([a-z_]+\.py):(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE):
        errors[file][int(line)] = code
    assert re.search(r"checked 2 source files", done.stdout), done.stdout
    return errors


def test_mypy_accepts_right_calls(found: dict[str, Errors]) -> None:
    assert found["right_calls.py"] == {}


def test_mypy_refuses_wrong_calls(found: dict[str, Errors]) -> None:
    lines = (HERE / "wrong_calls.py").read_text(encoding="utf-8").splitlines()
    expected = {number: line.partition("# error: ")[2] for number, line in enumerate(lines, 1) if "# error: " in line}
    assert found["wrong_calls.py"] == expected
