import subprocess
import sys

import psutil
import pytest

from tests.receivers.healthy import Healthy
from tests.receivers.own_process import ROOT, OwnProcess
from tests.receivers.wire import eventually

OWNER = """
import os, signal, sys
from tests.receivers.healthy import Healthy
healthy = Healthy()
print(healthy.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_over(pid: int) -> bool:
    """Also while nobody has asked yet how it ended."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_closed_receiver_is_gone() -> None:
    with Healthy() as healthy:
        assert psutil.pid_exists(healthy.pid)
    assert not psutil.pid_exists(healthy.pid)


def test_a_receiver_does_not_outlive_its_owner() -> None:
    told = subprocess.run([sys.executable, "-c", OWNER], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert eventually(lambda: is_over(int(told)))


def test_a_receiver_that_cannot_start_says_so() -> None:
    with pytest.raises(RuntimeError, match="ended with 1 before it listened"):
        OwnProcess("tests.receivers.no_such_receiver")


def test_a_question_that_nobody_knows_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with OwnProcess("tests.receivers.healthy", "0") as process:
        with pytest.raises(RuntimeError, match="'weather' was not answered"):
            process.ask("weather", str)
        assert process.ask("reset", type(None)) is None
