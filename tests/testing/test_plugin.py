"""The fixtures of the pytest plugin, in runs of pytest of their own."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import duly.testing

SHOP = """
from datetime import timedelta
from duly import Duly, Event, webhook

duly = Duly("sqlite:///real.db")

@duly.on("invoice.overdue")
def chase(event: Event) -> None:
    duly.sync.after("1h", "letter", event.payload, target=webhook("https://post.example/"))

def send(number: int) -> None:
    duly.sync.after(timedelta(days=30), "invoice.overdue", {"invoice": number}, key=f"invoice-{number}")
"""

CONFTEST = """
import pytest, shop

@pytest.fixture
def duly_app():
    return shop.duly
"""

TESTS = """
import shop
from duly.testing import fired, travel

def test_an_unpaid_invoice_is_chased(duly, duly_sent):
    assert duly is shop.duly
    with travel(duly) as time:
        shop.send(7)
        time.by(days=31)
        fired(duly, "invoice.overdue", key="invoice-7")
        assert duly_sent["webhook"].payloads == [{"invoice": 7}]

def test_nothing_is_left_of_the_test_before(duly, duly_sent):
    with travel(duly) as time:
        time.by(days=31)
        fired(duly, times=0)
        assert duly_sent.events == []
"""


def run(folder: Path, *options: str, **files: str) -> "subprocess.CompletedProcess[str]":
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_programs_own_duly_is_tested_and_its_database_never_touched(tmp_path: Path) -> None:
    done = run(tmp_path, shop=SHOP, conftest=CONFTEST, test_shop=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert not (tmp_path / "real.db").exists()


def test_processes_of_xdist_each_have_a_database_on_postgresql(
    tmp_path: Path, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_TEST_DATABASE_URL", postgres_server.rpartition("/")[0] + "/plugin_test")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    done = run(tmp_path, "-n", "2", shop=SHOP, conftest=CONFTEST, test_shop=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_failed_assertion_says_what_fired_and_what_waits(tmp_path: Path) -> None:
    wrong = TESTS.replace("time.by(days=31)", "time.by(days=29)", 1)
    done = run(tmp_path, shop=SHOP, conftest=CONFTEST, test_shop=wrong)
    assert done.returncode == 1
    assert "should have completed at least once, and it did not." in done.stdout
    assert "invoice.overdue  key=invoice-7" in done.stdout


def test_the_plugin_costs_other_programs_nothing(tmp_path: Path) -> None:
    """Pytest loads it in every run where Duly is installed."""
    code = (
        "import sys, pytest; before = set(sys.modules); import duly.testing.plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert eval(loaded.stdout) == ["duly", "duly.testing", "duly.testing.plugin"]


def test_duly_does_not_need_pytest(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pytest'] = None; from duly.testing import travel, fired, rebound"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_no_module_has_the_name_of_what_it_offers() -> None:
    """Loading it, as another module does, would put the module in that name's place."""
    modules = {module.name for module in pkgutil.iter_modules(duly.testing.__path__)}
    assert not modules & set(duly.testing.__all__)
