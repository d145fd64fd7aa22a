"""``duly events replay`` and ``discard`` of many: what is asked, what is told, and what is done."""

import asyncio
import os
import pty
import signal
import sys
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from duly import Duly
from duly.errors import StoreUnavailable
from duly.stores.statements.statements import StoreQueries
from duly.verbs.events import dead_letters
from tests.cli.conftest import Shell, Spawn, wait_until
from tests.dead_letters import dead

NOBODY = "01a1e15c-88fe-77cf-98f6-68e11067ac37"


def letters(url: str, count: int = 1, **fields: Any) -> list[str]:
    """So many dead letters; their ids, oldest first."""

    async def fail() -> list[str]:
        async with Duly(url) as duly:
            return [id for _ in range(0, count, 1000) for id in await dead(duly.store, min(count, 1000), **fields)]

    return asyncio.run(fail())


def statuses(shell: Shell, ids: list[str]) -> list[str]:
    return [shell.show(id)["status"] for id in ids]


def left(shell: Shell) -> int:
    return int(shell("events", "replay", "--all", "--dry-run", "--json").json["dead_letters"])


# -- finding


def test_dead_letters_are_listed_by_what_their_errors_say_and_when_they_failed(on: Shell, url: str) -> None:
    def listed(*words: object) -> list[str]:
        return [event["id"] for event in on("events", "list", *words, "--json").json["events"]]

    [full] = letters(url, error="HTTP 503 from hooks.example")
    [gone] = letters(url, error="HTTP 410 from hooks.example")
    on.at("+1h", "--type", "greet")
    assert listed("--dead") == [gone, full]
    assert listed("--error", "http 503") == [full]
    assert listed("--error", "5%3") == []
    assert listed("--dead", "--status", "pending", "--status", "failed") == [gone, full]
    assert on("events", "list", "--dead", "--status", "pending").code == 2
    assert listed("--failed-from", "-1h", "--failed-to", "+1h") == [gone, full]
    assert listed("--failed-to", "-1h") == []
    assert listed("--failed-from", on.show(gone)["claimed_at"]) == [gone]


# -- replaying


def test_dead_letters_are_replayed_by_their_ids(on: Shell, url: str) -> None:
    ids = letters(url, 3)
    result = on("events", "replay", ids[0], NOBODY, ids[2])
    assert (result.code, result.err) == (1, f"duly: there is no event {NOBODY}\n")
    assert statuses(on, ids) == ["PENDING", "FAILED", "PENDING"]
    assert on("events", "replay", ids[1], "--tenant", "acme").code == 1


def test_a_dead_letter_is_replayed_with_another_payload_as_a_new_event(on: Shell, url: str) -> None:
    old, second = letters(url, 2)
    told = on("events", "replay", old, "--payload", '{"n": 2}', "--json").json
    [new] = told["events"]
    assert (new["payload"], new["replay_of"], new["status"]) == ({"n": 2}, old, "PENDING")
    shown = on.show(old)
    assert (shown["status"], shown["replayed_as"]) == ("CANCELLED", new["id"])
    assert shown["history"][-1]["detail"] == f"replayed with another payload, as event {new['id']}"
    assert f"event {new['id']}, with another payload" in on("events", "show", old).out
    assert f"event {old}, with another payload" in on("events", "show", new["id"]).out
    result = on("events", "replay", second, "--payload", "null")
    assert result.out.startswith("replayed as ")
    assert on.show(second)["status"] == "CANCELLED"


def test_a_payload_that_cannot_be_replayed_is_refused(on: Shell, url: str) -> None:
    [old] = letters(url)
    result = on("events", "replay", old, "--payload", "{n: 2}")
    assert (result.code, "--payload '{\"cart\": 9}'" in result.err) == (2, True)
    result = on("events", "replay", "--all", "--yes", "--payload", "{}")
    assert (result.code, result.err) == (
        2,
        "duly: --payload can only be used with ids, not with --all: each event needs a payload of its own\n",
    )
    waits = on.at("+1h", "--type", "greet")
    result = on("events", "replay", waits, "--payload", "{}")
    assert (result.code, "cancel it and then replay it" in result.err) == (1, True)
    assert statuses(on, [old, waits]) == ["FAILED", "PENDING"]


def test_all_dead_letters_that_the_filters_find_are_replayed(on: Shell, url: str) -> None:
    [full] = letters(url, error="HTTP 503")
    [gone] = letters(url, error="HTTP 410")
    [theirs] = letters(url, error="HTTP 503", tenant="acme")
    waiting = on.at("+1h", "--type", "greet")
    result = on("events", "replay", "--all", "--error", "503", "--tenant", "default", "--type", "greet", "--yes")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("1 dead letter replayed in ")
    assert statuses(on, [full, gone, theirs]) == ["PENDING", "FAILED", "FAILED"]
    assert on("events", "replay", "--all", "--yes").out.startswith("2 dead letters replayed in ")
    assert statuses(on, [full, gone, theirs]) == ["PENDING"] * 3
    assert [entry["act"] for entry in on.show(gone)["history"]] == ["rejected", "replayed"]
    assert on.show(waiting)["history"] == []


def test_dead_letters_replayed_at_a_rate_come_back_one_after_the_other(on: Shell, url: str) -> None:
    ids = letters(url, 5)
    result = on("events", "replay", "--all", "--yes", "--rate", "30/m", "--limit", 4)
    assert result.code == 0
    assert result.out.startswith("4 dead letters replayed in ")
    assert "; the last is ready at " in result.out
    ready = [datetime.fromisoformat(on.show(id)["ready_at"]) for id in ids[:4]]
    assert [instant - ready[0] for instant in ready] == [timedelta(seconds=2 * n) for n in range(4)]
    assert statuses(on, ids[4:]) == ["FAILED"]
    assert "ready in " in on("events", "list", "--status", "pending").out


def test_all_dead_letters_are_discarded_with_the_reason(on: Shell, url: str) -> None:
    ids = letters(url, 3)
    result = on("events", "discard", "--all", "--yes", "--limit", 2, "--reason", "too late")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("2 dead letters discarded in ")
    assert statuses(on, ids) == ["CANCELLED", "CANCELLED", "FAILED"]
    assert on.show(ids[0])["history"][-1]["detail"] == "too late"


def test_finding_no_dead_letters_says_so(on: Shell) -> None:
    for verb in ("replay", "discard"):
        result = on("events", verb, "--all")
        assert (result.code, result.out, result.err) == (0, "", "no dead letters found\n")
    told = on("events", "replay", "--all", "--json").json
    assert told == {"replayed": 0, "last_ready_at": None, "left_alone": 0, "complete": True, "dry_run": False}


def test_a_replay_is_told_to_programs_in_json(on: Shell, url: str) -> None:
    ids = letters(url, 3)
    told = on("events", "replay", "--all", "--yes", "--limit", 2, "--rate", "1/h", "--json").json
    assert told.pop("last_ready_at") == on.show(ids[1])["ready_at"]
    assert told == {"replayed": 2, "left_alone": 0, "complete": True, "dry_run": False}
    told = on("events", "discard", "--all", "--yes", "--json").json
    assert told == {"discarded": 1, "left_alone": 0, "complete": True, "dry_run": False}


# -- looking before


def test_a_dry_run_tells_the_kinds_of_dead_letters_and_changes_nothing(on: Shell, url: str) -> None:
    hook = {"webhook": "https://hooks.example/in?token=1"}
    ids = [*letters(url, 3), *letters(url, 2, type="other", tenant="acme"), *letters(url, target=hook)]
    result = on("events", "replay", "--all", "--dry-run", "--rate", "2/s")
    assert (result.code, result.err) == (0, "")
    assert [line.split() for line in result.out.splitlines()] == [
        ["EVENTS", "TENANT", "TYPE", "DESTINATION"],
        ["3", "greet", "handler"],
        ["2", "acme", "other", "handler"],
        ["1", "greet", "webhook", "https://hooks.example"],
        "would replay 6 dead letters, one every 500 ms, the last in 2.5 s (a dry run: nothing was changed)".split(),
    ]
    assert on("events", "discard", "--all", "--dry-run", "--limit", 2).out.splitlines()[-1] == (
        "would discard the 2 oldest of 6 dead letters (a dry run: nothing was changed)"
    )
    assert statuses(on, ids) == ["FAILED"] * 6
    told = on("events", "discard", "--all", "--dry-run", "--json", "--tenant", "acme").json
    kind = {"tenant": "acme", "type": "other", "lane": "handler:other", "destination": None, "events": 2}
    assert told == {"dry_run": True, "would_discard": 2, "dead_letters": 2, "kinds": [kind]}
    told = on("events", "replay", "--all", "--dry-run", "--json", "--limit", 4).json
    assert (told["would_replay"], told["dead_letters"]) == (4, 6)
    assert on("events", "replay", "--all", "--dry-run", "--type", "none").out.startswith(
        "would replay 0 dead letters ("
    )


def test_of_many_kinds_of_dead_letters_the_most_frequent_are_told(on: Shell, url: str) -> None:
    letters(url, 2, target={"webhook": "https://often.example"})
    for number in range(11):
        letters(url, target={"webhook": f"https://{number}.example"})
    lines = on("events", "replay", "--all", "--dry-run").out.splitlines()
    assert len(lines) == 1 + 10 + 2
    assert "https://often.example" in lines[1]
    assert lines[-2].strip() == "and 2 of other kinds"


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_without_a_terminal_a_replay_of_all_needs_yes(on: Shell, url: str, verb: str, words: list[str]) -> None:
    ids = letters(url, 2)
    result = on("events", verb, "--all", *words)
    assert (result.code, result.out) == (2, "")
    assert f"this would {verb} 2 dead letters: add --yes to do it, or --dry-run to see which" in result.err
    assert statuses(on, ids) == ["FAILED"] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give ids of dead letters, or --all; `duly events list --dead` shows them"),
        ([NOBODY, "--all"], "not both"),
        ([NOBODY, "--error", "503"], "can only be used with --all"),
        ([NOBODY, "--dry-run"], "can only be used with --all"),
        ([NOBODY, "--limit", "3"], "can only be used with --all"),
        (["--error", "503", "--yes"], "give ids of dead letters, or --all"),
        (["--all", "--limit", "0"], "--limit"),
        (["--all", "--due-from", "soon"], "due-from"),
        (["--all", "--failed-to", "soon"], "failed-to"),
    ],
)
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_wrong_use_of_replay_and_discard_does_nothing_and_says_what_to_do(
    lite: Shell, verb: str, words: list[str], said: str
) -> None:
    ids = letters("sqlite:///duly.db")
    result = lite("events", verb, *words)
    assert (result.code, result.out) == (2, "")
    [line] = result.err.splitlines()
    assert said in line
    assert statuses(lite, ids) == ["FAILED"]


@pytest.mark.parametrize("words", [["--all", "--rate", "fast", "--yes"], [NOBODY, "--rate", "5/s"]])
def test_a_rate_of_replay_must_be_valid_and_needs_all(lite: Shell, words: list[str]) -> None:
    assert lite("events", "replay", *words).code == 2
    assert "--rate" in lite("events", "discard", "--all", "--rate", "5/s").err, "there is nothing to spread"


# -- at a terminal


def typed(shell: Shell, url: str, answer: bytes, *words: str) -> tuple[int, str]:
    """The exit code and what a terminal shows on which somebody answers so."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        command = [sys.executable, "-m", "duly", "events", *words, "--db", url]
        os.execve(sys.executable, command, os.environ | {"TERM": "xterm", "COLUMNS": "100"})
    drawn = b""
    try:
        while more := os.read(terminal, 4096):
            drawn += more
            if b"[y/N]" in drawn and answer:
                os.write(terminal, answer)
                answer = b""
    except OSError:
        pass  # how a terminal says that nobody writes to it any more
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), drawn.decode()


@pytest.mark.parametrize("answer", [b"y\n", b"YES\n"])
def test_at_a_terminal_the_kinds_of_dead_letters_are_shown_and_confirmation_is_asked(
    lite: Shell, answer: bytes
) -> None:
    ids = letters("sqlite:///duly.db", 3)
    code, drawn = typed(lite, "sqlite:///duly.db", answer, "replay", "--all", "--rate", "1/s")
    assert code == 0
    assert "DESTINATION" in drawn
    assert "replay 3 dead letters, one every 1.0 s, the last in 2.0 s? [y/N]" in drawn
    assert "\x1b[?25l" in drawn  # the cursor is hidden while the line moves
    assert "3 dead letters replayed in " in drawn
    assert statuses(lite, ids) == ["PENDING"] * 3


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"yeah\n", b"\x04"])
def test_at_a_terminal_any_answer_but_yes_replays_nothing(lite: Shell, answer: bytes) -> None:
    ids = letters("sqlite:///duly.db", 3)
    code, drawn = typed(lite, "sqlite:///duly.db", answer, "discard", "--all")
    assert code == 1
    assert "nothing was discarded" in drawn
    assert statuses(lite, ids) == ["FAILED"] * 3


def test_at_a_terminal_the_option_yes_skips_the_confirmation(lite: Shell) -> None:
    letters("sqlite:///duly.db", 3)
    code, drawn = typed(lite, "sqlite:///duly.db", b"", "replay", "--all", "--yes")
    assert code == 0
    assert "[y/N]" not in drawn


# -- how far it is, and going on


def test_a_long_replay_tells_its_progress_now_and_then(lite: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 2)
    monkeypatch.setattr("duly.cli.progress.LINE_EVERY_ITEMS", 4)
    letters("sqlite:///duly.db", 9)
    lines = lite("events", "replay", "--all", "--yes").err.splitlines()
    assert [line.split(", ")[0] for line in lines] == ["4 of 9 replayed", "8 of 9 replayed"]


def test_a_replay_whose_store_fails_keeps_what_is_done_and_says_how_to_go_on(
    on: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = letters(url, 9)
    write, calls = StoreQueries.replay_found, []

    async def fails(self: Any, *args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise StoreUnavailable("the database is away")
        return await write(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "LETTERS_PER_TRANSACTION", 2)
        patch.setattr(StoreQueries, "replay_found", fails)
        result = on("events", "replay", "--all", "--yes")
    assert result.code == 1
    assert result.out.startswith("4 dead letters replayed in ")
    error, advice = result.err.splitlines()
    assert error.startswith("duly: the database is away: check that the database is running")
    assert advice == "4 of 9 are replayed; run the command again for the others"
    assert on("events", "replay", "--all", "--yes").out.startswith("5 dead letters replayed in ")
    assert [len(on.show(id)["history"]) for id in ids] == [2] * 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_a_replay_between_two_transactions(
    on: Shell, spawn: Spawn, url: str, number: signal.Signals
) -> None:
    letters(url, 20_000)
    process = spawn("events", "replay", "--all", "--yes", DULY_DATABASE_URL=url)
    wait_until(lambda: left(on) < 20_000, told=lambda: process.output)
    assert process.stop(number) == 130
    summary, advice = process.output.splitlines()[-2:]
    done = int(summary.split()[0].replace(",", ""))
    assert 0 < done < 20_000
    assert advice == f"interrupted: {done:,} of 20,000 are replayed; run the command again for the others"
    assert left(on) == 20_000 - done
    assert "Traceback" not in process.output


def test_dead_letters_that_somebody_else_has_locked_are_left_alone_and_told(on: Shell, url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("nobody else can write while somebody has it locked")
    ids = letters(url, 3)
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM duly.events WHERE id = %s FOR UPDATE", [ids[1]])
        result = on("events", "replay", "--all", "--yes")
        assert result.code == 1
        assert result.err == "1 other not changed: another request was changing them at that moment\n"
    assert statuses(on, ids) == ["PENDING", "FAILED", "PENDING"]
