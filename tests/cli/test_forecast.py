"""``duly forecast``: a picture for people, and the JSON of the API for programs."""

import asyncio
from datetime import UTC, datetime

import pytest

from duly import Duly, cron
from duly.testing import ManualClock
from tests.cli.conftest import Shell

NOW = datetime(2027, 3, 27, 20, 15, tzinfo=UTC)
RANGE = ("--from", "2027-03-28", "--to", "2027-03-28T06:00", "--timezone", "Europe/Brussels", "--step", "1h")


@pytest.fixture
def on(shell: Shell) -> Shell:
    """On a database whose schedules are those of a night with a change of clocks."""
    url = f"sqlite:///{shell.folder}/duly.db"

    async def scheduled() -> None:
        async with Duly(url, clock=ManualClock(NOW)) as duly:
            await duly.schedules.put("often", cron("*/5 * * * *", timezone="Europe/Brussels"), "sync")
            await duly.schedules.put("nightly", cron("30 2 * * *", timezone="Europe/Brussels"), "backup", tenant="acme")

    asyncio.run(scheduled())
    shell.set(DULY_DATABASE_URL=url)
    return shell


def test_each_step_has_a_bar(on: Shell) -> None:
    done = on("forecast", *RANGE)
    assert done.code == 0, done.err
    title, *lines = done.out.rstrip().split("\n")
    assert title.split() == ["FROM", "(Europe/Brussels)", "EVENTS", "TYPES"]
    bars = [line.split() for line in lines]
    whole = "█" * 60
    assert bars[0] == ["Sun", "2027-03-28", "00:00", "12", "█" * 55 + "▍", "sync"]
    assert bars[1][:2] == ["01:00", "12"]
    assert bars[2] == ["03:00", "13", whole, "sync", "12,", "backup", "1"]  # 02:30 does not exist
    assert [line[0] for line in bars[3:]] == ["04:00", "05:00"]
    assert done.err == "61 events in 5 steps: sync 60, backup 1\n"


def test_only_one_tenant_is_counted_if_one_is_given(on: Shell) -> None:
    assert on("forecast", *RANGE, "--tenant", "acme").err == "1 event in 5 steps: backup 1\n"
    done = on("forecast", *RANGE, "--tenant", "nobody")
    assert done.err == "0 events in 5 steps\n"
    assert "█" not in done.out


def test_json_is_that_of_the_api(on: Shell) -> None:
    told = on("forecast", *RANGE, "--tenant", "acme", "--json").json
    assert (told["from"], told["to"], told["step"]) == ("2027-03-27T23:00:00Z", "2027-03-28T04:00:00Z", "1h")
    assert [step["count"] for step in told["steps"]] == [0, 0, 1, 0, 0]
    assert told["complete"] is True


def test_bars_are_made_of_ascii_where_the_terminal_knows_nothing_else(
    on: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console.Console.encoding", "ascii")
    done = on("forecast", *RANGE)
    assert done.out.isascii()
    assert "#" * 60 in done.out


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_into_narrow_terminals(on: Shell, width: int) -> None:
    on.set(COLUMNS=str(width))
    done = on("forecast", *RANGE)
    assert "█" in done.out
    assert max(map(len, done.out.splitlines())) <= width


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--timezone", "Mars/Phobos"), "'Mars/Phobos' is not a time zone"),
        (("--from", "soon"), "from: 'soon'"),
        (("--from", "2027-03-28", "--to", "2027-03-27"), "to: must be after the start"),
        (("--to", "9d", "--step", "1s"), "2,000 are allowed: 15m would do"),
        (("--step", "hourly"), "step: 'hourly' is not a duration"),
    ],
)
def test_a_wrong_range_is_wrong_use(on: Shell, words: tuple[str, ...], told: str) -> None:
    done = on("forecast", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
