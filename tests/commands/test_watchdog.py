"""The process beside a worker that ends what a killed worker ran. (tests/cli/test_commands.py kills a worker.)"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from duly import Duly
from duly.channels.command import watchdog_process
from duly.channels.command.watchdog import Watchdog
from duly.decide.targets.commands import command
from tests.commands.running import alive, gone, open_pipes, ran
from tests.worker.running_worker import until


async def sleeping(line: str = "exec sleep 600") -> asyncio.subprocess.Process:
    """A process group that nobody ends."""
    return await asyncio.create_subprocess_exec("sh", "-c", line, start_new_session=True)


async def pid_of(dog: Watchdog) -> int:
    assert dog._process is not None
    return dog._process.pid


async def as_if_killed(dog: Watchdog) -> None:
    """What the end of the worker is for its watchdog: the end of its input."""
    dog._close_pipe()
    assert dog._process is not None
    await dog._process.wait()


async def test_what_it_knows_of_is_ended_when_the_worker_is_gone() -> None:
    known, ended, unknown = await sleeping(), await sleeping(), await sleeping()
    dog = Watchdog()
    await dog.begin()
    for process in (known, ended):
        dog.add(process.pid)
    dog.remove(ended.pid)
    await as_if_killed(dog)
    assert await known.wait() == -signal.SIGTERM
    assert alive(ended.pid)
    assert alive(unknown.pid)
    for process in (ended, unknown):
        process.kill()
        await process.wait()


async def test_what_ignores_sigterm_is_killed() -> None:
    deaf = await sleeping("trap '' TERM; while :; do sleep 0.1; done")
    await asyncio.sleep(0.2)  # until the trap is set
    program = (
        f"import runpy; program = runpy.run_path({watchdog_process.__file__!r}); "
        "program['main'].__globals__['TERM_GRACE_S'] = 0.3; program['main']()"
    )
    dog = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE)
    await dog.communicate(f"+{deaf.pid}\n".encode())
    assert await deaf.wait() == -signal.SIGKILL


async def test_one_that_was_killed_is_replaced_and_knows_what_runs() -> None:
    process, dog, pipes = await sleeping(), Watchdog(), open_pipes()
    await dog.begin()
    dog.add(process.pid)
    first = await pid_of(dog)
    os.kill(first, signal.SIGKILL)
    await gone(first)
    dog.add(first)  # which finds out; there is no such group any more
    await until(lambda: dog._process is None or dog._process.returncode is not None, "it is known to be gone")
    await dog.begin()
    assert await pid_of(dog) != first
    await as_if_killed(dog)
    assert await process.wait() == -signal.SIGTERM
    assert open_pipes() == pipes


async def test_signals_that_are_meant_for_the_worker_do_not_end_it() -> None:
    dog = Watchdog()
    await dog.begin()
    pid = await pid_of(dog)
    await until(lambda: _ignores(pid, signal.SIGTERM), "it has begun")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    await asyncio.sleep(0.1)
    assert alive(pid)
    await dog.close()
    assert not alive(pid)


def _ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    [mask] = [line for line in status if line.startswith("SigIgn")]
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


async def test_a_worker_without_one_runs_commands_all_the_same(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    async with Duly(url, commands=[]) as app:
        event, entry = await ran(app, command("echo done"))
        assert (event.status, entry.output) == ("COMPLETED", "done\n")


async def test_it_ends_with_a_worker_that_stops_in_good_order(url: str) -> None:
    async with Duly(url, commands=[]) as app:
        await ran(app, command("true"))
        channel = app.routes()["command"].channel
        pid = await pid_of(channel._watchdog)  # type: ignore[attr-defined]
        assert alive(pid)
    assert not alive(pid)
