"""Every example runs as it says."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from duly import Duly
from tests.cli.conftest import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "app.py",
        "receiver.py",  # in tests/inbox
        "timers.py",
        "together.py",
        "users.py",
    }


def test_the_timers_of_the_example_fire_in_their_order(tmp_path: Path) -> None:
    assert run("timers.py", tmp_path).splitlines() == [f"the {kind} egg is done" for kind in ("soft", "medium", "hard")]


def test_an_order_and_its_reminder_are_stored_together(tmp_path: Path) -> None:
    assert run("together.py", tmp_path).splitlines() == [
        "order 2 cannot be paid by magic: neither it nor its reminder was stored",
        "order 1 is still unpaid",
    ]


def test_an_event_type_of_ones_own_fires_every_year_where_the_user_is(tmp_path: Path) -> None:
    assert run("users.py", tmp_path).splitlines() == [
        "2026-03-01 09:00 in Europe/London: Ada, give Puff something nice today",
        "2026-12-10 09:00 in Europe/London: Hey, Ada Lovelace it's your birthday",
        "2027-03-01 09:00 in Asia/Kathmandu: Ada, give Puff something nice today",
        "2027-12-10 09:00 in Asia/Kathmandu: Hey, Ada King it's your birthday",
    ]


@pytest.fixture
def shop(on: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The example's app, run from the folder above it, as its first lines say."""
    monkeypatch.chdir(EXAMPLES.parent)
    monkeypatch.setenv("DULY_APP", "examples.app:duly")
    for name in ("examples", "examples.app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return on


def test_the_handlers_of_the_example_app_run(shop: Shell, url: str) -> None:
    shop.at("now", "--type", "invoice.overdue", "--payload", '{"invoice": 7}')
    shop.at("now", "--type", "cart.abandoned", "--payload", '{"email": "ada@example.com"}')
    shop.at("now", "--type", "ledger.close", "--payload", '{"month": "May"}')
    lost = shop.at("now", "--type", "cart.abandoned", "--payload", "{}")
    said = shop("tick").out.splitlines()
    assert sorted(said[:3]) == ["closed May", "did ada@example.com forget something?", "invoice 7 is overdue"]
    assert said[3].startswith("3 completed, 1 failed;")
    assert shop.show(lost)["last_error"] == "the cart has no email address"

    async def closings() -> list[str]:
        async with Duly(url) as duly, duly.transaction() as tx:
            return [row[0] for row in await tx.fetch("SELECT month FROM closings")]

    assert asyncio.run(closings()) == ["May"]


def test_the_schedule_of_the_example_app_is_written_when_it_runs(shop: Shell) -> None:
    shop("tick")
    [event] = shop("events", "list", "--type", "hourly_report", "--json").json["events"]
    assert event["status"] == "PENDING"
    assert event["series"].startswith("schedule:")
