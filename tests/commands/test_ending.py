"""Commands that are ended: at their deadline, on request, when the worker stops, and when their lease is lost. Always
the whole group: the shell, what it runs, and what that runs."""

import asyncio
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from duly import Duly, Status, StoreUnavailable
from duly.channels.command import process
from duly.decide.targets.commands import command
from duly.engine import drain
from duly.signals import GivenBack, Lost, WorkerStopped
from tests.commands.running import ONCE, QUIET, alive, event_when, gone, pid_in
from tests.worker.running_worker import Told, until, working


class Family:
    """A line of shell that runs a program which runs another; each writes its process id."""

    def __init__(self, folder: Path, *, deaf: bool = False) -> None:
        """*deaf*: all three ignore SIGTERM."""
        self.files = [folder / name for name in ("first", "second", "third")]
        first, second, third = self.files
        ignore = "trap '' TERM; " if deaf else ""
        inner = f"{ignore}echo $$ > {third}; while :; do sleep 0.05; done"
        middle = f'{ignore}echo $$ > {second}; sh -c "$INNER" & wait'
        self.target = command(
            f'{ignore}echo begun; echo $$ > {first}; sh -c "$MIDDLE"; echo never',
            environment={"INNER": inner, "MIDDLE": middle},
        )

    async def pids(self) -> list[int]:
        return [await pid_in(file) for file in self.files]


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.3)
    return Family(tmp_path, deaf=True)


async def test_at_its_deadline_all_of_it_is_ended(url: str, family: Family) -> None:
    app = Duly(url, commands=[], **QUIET)
    family.target["command"]["timeout"] = "1s"
    async with app, working(app):
        event = await app.after(0, "job", target=family.target, retry=ONCE)
        pids = await family.pids()
        event = await event_when(app.events, event.id, "FAILED")
        assert event.last_error == "ran past its deadline of 1s, and was ended"
        assert (await app.events.history(event.id))[-1].output == "begun\n"
        assert not any(map(alive, pids)), "it has failed only when all of it is gone"


async def test_what_ignores_a_request_to_end_is_killed(url: str, deaf: Family) -> None:
    app = Duly(url, commands=[], **QUIET)
    deaf.target["command"]["timeout"] = "500ms"
    async with app, working(app):
        event = await app.after(0, "job", target=deaf.target, retry=ONCE)
        pids = await deaf.pids()
        await event_when(app.events, event.id, "FAILED")
        assert not any(map(alive, pids))


async def test_a_stopped_process_is_ended_too(url: str, family: Family) -> None:
    app = Duly(url, commands=[], **QUIET)
    family.target["command"]["timeout"] = "1s"
    async with app, working(app):
        event = await app.after(0, "job", target=family.target, retry=ONCE)
        pids = await family.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await event_when(app.events, event.id, "FAILED")
        assert not any(map(alive, pids))


async def test_a_retry_after_a_deadline_begins_when_the_first_try_is_gone(url: str, tmp_path: Path) -> None:
    app = Duly(url, commands=[], **QUIET)
    line = f"mkdir {tmp_path}/lock || echo overlaps; trap 'rmdir {tmp_path}/lock; exit 1' TERM; sleep 600 & wait"
    async with app, working(app):
        event = await app.after(0, "job", target=command(line, timeout="500ms"))
        await event_when(app.events, event.id, "PENDING")
        assert not (tmp_path / "lock").exists()


async def test_a_cancelled_command_is_ended_and_its_event_is_cancelled(url: str, family: Family) -> None:
    app = Duly(url, commands=[], **QUIET)
    async with app, working(app):
        event = await app.after(0, "job", target=family.target)
        pids = await family.pids()
        assert await app.cancel(event.id, by="ada", reason="the wrong one") == "running"
        event = await event_when(app.events, event.id, "CANCELLED")
        assert not any(map(alive, pids))
        assert event.attempts == 0
        history = await app.events.history(event.id)
        assert [(entry.act, entry.output) for entry in history] == [("stop requested", None), ("cancelled", "begun\n")]


async def test_a_stopping_worker_lets_commands_end_within_its_grace(url: str, tmp_path: Path) -> None:
    app = Duly(url, commands=[], shutdown_grace="20s", **QUIET)
    async with app:
        async with working(app):
            event = await app.after(0, "job", target=command(f"echo $$ > {tmp_path}/pid; sleep 0.5; echo done"))
            await pid_in(tmp_path / "pid")
        event = await app.events.get(event.id)
        assert (event.status, (await app.events.history(event.id))[-1].output) == (Status.COMPLETED, "done\n")


@pytest.mark.parametrize("which", ["family", "deaf"])
async def test_after_its_grace_a_stopping_worker_ends_them_before_it_gives_them_back(
    url: str, which: str, request: pytest.FixtureRequest
) -> None:
    chosen: Family = request.getfixturevalue(which)
    app = Duly(url, commands=[], shutdown_grace="200ms", **QUIET)
    alive_when_given_back: list[bool] = []
    told, pids = Told(app), list[int]()
    app.observe(lambda _: alive_when_given_back.append(any(map(alive, pids))), GivenBack)
    async with app:
        async with working(app):
            event = await app.after(0, "job", target=chosen.target)
            pids += await chosen.pids()
        event = await app.events.get(event.id)
        assert (event.status, event.attempts, event.interruptions) == (Status.PENDING, 0, 0)
    assert alive_when_given_back == [False]
    assert len(told.of(GivenBack)) == 1
    await gone(*pids)


async def test_a_command_that_outlasts_the_end_of_its_worker_is_killed_and_counted_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores SIGTERM, and the worker has no time to wait until SIGKILL is due."""
    monkeypatch.setattr(drain, "COMMANDS_END_S", 0.2)
    app, family = Duly(url, commands=[], shutdown_grace="200ms", **QUIET), Family(tmp_path, deaf=True)
    told = Told(app)
    async with app:
        async with working(app):
            event = await app.after(0, "job", target=family.target)
            pids = await family.pids()
        assert (await app.events.get(event.id)).status is Status.PENDING
    await gone(*pids)
    assert [signal.event.id for signal in told.of(GivenBack)] == [event.id]
    assert [stopped.given_back for stopped in told.of(WorkerStopped)] == [1]


async def test_a_command_ends_when_another_worker_has_its_event(url: str, family: Family) -> None:
    """The claim is taken away behind the worker's back, as if it had been frozen for longer than its lease."""
    app, other = Duly(url, commands=[], lease="1s", poll_interval="60s"), Duly(url, commands=[], lease="10m")
    told = Told(app)
    async with app, other, working(app):
        event = await app.after(0, "job", target=family.target)
        pids = await family.pids()
        async with app.store.lend() as tx:
            sql = "UPDATE events SET version = version + 1 WHERE id = ?"
            if url.startswith("postgresql"):
                sql = "UPDATE duly.events SET version = version + 1 WHERE id = $1::uuid"
            await tx.execute(sql, event.id)
        await gone(*pids)
        await until(lambda: told.of(Lost), "the worker knows that it has lost it")
        async with app.store.lend() as tx:
            await tx.execute(sql.replace("version + 1", "version - 1"), event.id)


async def test_a_command_ends_with_its_lease_when_the_store_cannot_be_reached(
    url: str, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells a worker that is cut off. Its own clock does."""
    app = Duly(url, commands=[], lease="1s", poll_interval="60s", shutdown_grace="0s")
    told = Told(app)
    async with app:
        async with working(app):
            event = await app.after(0, "job", target=family.target)
            pids = await family.pids()

            async def away(*_: object, **__: object) -> None:
                raise StoreUnavailable("cut off")

            monkeypatch.setattr(app.store, "renew", away)
            began = time.monotonic()
            await gone(*pids)
            assert time.monotonic() - began < 5
            await until(lambda: told.of(Lost), "the worker knows that it has lost it")
            monkeypatch.undo()
        event = await app.events.get(event.id)
        assert event.attempts == 0


async def test_a_command_whose_lease_is_renewed_goes_on(url: str, tmp_path: Path) -> None:
    app = Duly(url, commands=[], lease="1s", poll_interval="60s")
    async with app, working(app):
        event = await app.after(0, "job", target=command("sleep 2.5; echo done"))
        event = await event_when(app.events, event.id, "COMPLETED")
        assert (event.attempts, event.interruptions) == (1, 0)


async def test_a_worker_can_be_cancelled_while_a_command_starts(url: str, family: Family) -> None:
    app = Duly(url, commands=[], shutdown_grace="0s", **QUIET)
    async with app:
        event = await app.after(0, "job", target=family.target)
        running = asyncio.create_task(app.run(signals=False))
        await until(lambda: family.files[0].exists(), "it has begun")
        app.stop(now=True)
        await asyncio.wait([running], timeout=20)
        assert running.done()
        event = await app.events.get(event.id)
        assert event.status is Status.PENDING
    left = [int(file.read_text()) for file in family.files if file.exists() and file.read_text().strip()]
    await gone(*left)


async def test_a_line_that_ends_leaves_a_daemon_of_its_own_alone(url: str, tmp_path: Path) -> None:
    app = Duly(url, commands=[], **QUIET)
    async with app, working(app):
        line = f"nohup sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' >/dev/null 2>&1 & sleep 0.2"
        event = await app.after(timedelta(), "job", target=command(line))
        await event_when(app.events, event.id, "COMPLETED")
        pid = await pid_in(tmp_path / "pid")
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)
