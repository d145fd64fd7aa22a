"""The output of a command: the end of it is kept, whatever it is and however much."""

import os
import time
from pathlib import Path

import pytest

from duly import Duly, Status
from duly.channels.command.output import HEADING_BYTES, KEPT_BYTES, OutputTail
from duly.decide.targets.commands import command
from tests.commands.running import alive, event_when, open_pipes, pid_in, ran, settled
from tests.conftest import OpenDuly
from tests.worker.running_worker import until, working


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(commands=[])


async def test_both_outputs_are_kept_in_order(app: Duly) -> None:
    _, entry = await ran(app, command("echo one; echo two >&2; echo three; echo four >&2"))
    assert entry.output == "one\ntwo\nthree\nfour\n"


async def test_the_end_of_a_long_output_is_kept_and_says_so(app: Duly) -> None:
    _, entry = await ran(app, command("seq 1 100000"))
    assert entry.output is not None
    assert entry.output.endswith("99999\n100000\n")
    total = sum(len(f"{n}\n") for n in range(1, 100_001))
    heading, _, kept = entry.output.partition("\n")
    assert heading == f"[{total - KEPT_BYTES + HEADING_BYTES:,} bytes before this were not kept]"
    assert KEPT_BYTES - HEADING_BYTES < len(entry.output) <= KEPT_BYTES
    assert kept.splitlines()[1:] == [str(n) for n in range(100_001 - len(kept.splitlines()) + 1, 100_001)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r"printf 'a\000b'", "a\ufffdb"),
        (r"printf '\377\376 ok'", "\ufffd\ufffd ok"),
        (r"printf '\303'", "\ufffd"),
        (r"printf '\355\240\200'", "\ufffd\ufffd\ufffd"),
        (r"printf '\033[31mred\r\n'", "\x1b[31mred\r\n"),
        (r"printf '€'", "€"),
    ],
)
async def test_what_no_store_could_hold_is_replaced(app: Duly, line: str, expected: str) -> None:
    event, entry = await ran(app, command(line))
    assert (event.status, entry.output) == (Status.COMPLETED, expected)


async def test_a_cut_within_a_character_leaves_no_half_of_it(app: Duly) -> None:
    _, entry = await ran(app, command("yes € | head -c 400001"))
    assert entry.output is not None
    assert "\ufffd" not in entry.output.partition("\n")[2].rstrip("\ufffd")


async def test_gigabytes_of_output_neither_fill_the_memory_nor_stop_the_worker(app: Duly, tmp_path: Path) -> None:
    """A process that writes without end for a second; another event is run meanwhile."""
    ran_beside: list[float] = []

    @app.on("beside")
    async def beside(_event: object) -> None:
        ran_beside.append(time.monotonic())

    before = _resident()
    async with working(app):
        event = await app.after(0, "job", target=command("yes | head -c 10000000000", timeout="1s"))
        for _ in range(10):
            many = len(ran_beside)
            await app.after(0, "beside")
            await until(lambda many=many: len(ran_beside) > many, "an event ran beside it", 2.0)
        await event_when(app.events, event.id, "PENDING")  # failed at its deadline, to be retried
    [entry] = await app.events.history(event.id)
    assert entry.output is not None
    assert len(entry.output) <= KEPT_BYTES
    assert _resident() - before < 50_000_000


def _resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_process_in_the_background_does_not_keep_the_attempt(app: Duly, tmp_path: Path) -> None:
    """It has the pipe, and goes on: with cron, too, whatever a line leaves in the background lives on."""
    file = tmp_path / "pid"
    began = time.monotonic()
    event, entry = await ran(app, command(f"(echo $BASHPID; exec sleep 600) & echo $! > {file}; echo done"))
    try:
        assert (event.status, time.monotonic() - began < 10) == (Status.COMPLETED, True)
        assert "done" in (entry.output or "")
        assert alive(int(file.read_text()))
    finally:
        os.kill(int(file.read_text()), 9)


async def test_what_is_left_in_the_background_may_go_on_writing(app: Duly, tmp_path: Path) -> None:
    """Its pipe is read until it ends, so no write of it fails."""
    await ran(app, command("true"))  # which starts the watchdog
    before = open_pipes()
    line = f"(sleep 0.3; seq 1 50000; echo $? > {tmp_path}/result) & echo started"
    _, entry = await ran(app, command(line))
    assert entry.output == "started\n"
    await until(lambda: (tmp_path / "result").exists() and (tmp_path / "result").read_text(), "it has written all")
    assert (tmp_path / "result").read_text() == "0\n"
    await until(lambda: open_pipes() <= before, "the pipe is closed")


async def test_files_and_processes_do_not_add_up(app: Duly) -> None:
    await ran(app, command("echo once"))
    before = open_pipes()
    for _ in range(20):
        await ran(app, command("cat; echo again"), {"some": "payload"})
    assert open_pipes() <= before


async def test_a_tail_that_is_closed_reads_nothing_more() -> None:
    ours, theirs = os.pipe()
    tail = OutputTail(ours)
    os.write(theirs, b"one")
    await settled()
    tail.close()
    tail.close()
    with pytest.raises(BrokenPipeError):
        os.write(theirs, b"two")
    os.close(theirs)
    assert tail.finish() == "one"


async def test_a_command_that_sleeps_is_seen_while_it_runs(app: Duly, tmp_path: Path) -> None:
    async with working(app):
        await app.after(0, "job", target=command(f"echo $$ > {tmp_path}/pid; sleep 0.2"))
        assert alive(await pid_in(tmp_path / "pid"))
