"""What the store has acknowledged is there after a power cut at any moment, whatever became of what was not synced.

The disk is simulated (tests/chaos/power.py); Duly is not. It works on that disk, and what the disk has after a cut is
written to real files, which another Duly opens. On the simulated disk, SQLite runs with one connection in its exclusive
mode, because apsw's file systems have no shared memory; what it writes to its files and when it syncs them is the same.
"""

import random
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import pytest

from duly import Duly, Event, InStatus, Retry, Status, Timer, Transaction, every
from duly.decide.lifecycle import DELIVERED
from duly.errors import Conflict
from duly.records.event import TERMINAL, Settlement, lane_of
from duly.stores.sqlite.driver import NOT_SYNCED, commit, in_transaction
from duly.stores.sqlite.store import SqliteStore
from duly.testing import ManualClock
from tests.chaos.power import Disk, Luck

FILE = "duly.db"
LANE = lane_of("task", None)

MACHINES = 5
LIVES = 4  # of a machine, each from what a power cut in the one before has left
STEPS = 14  # of a life: each is a call, or a pass over what is due
CUTS = 30  # in each life
CHECKPOINT_PAGES = 60  # instead of 1,000: so there are several checkpoints in a life, and cuts in the middle of them

State = Mapping[str, frozenset[Any]]
"""The rows of each table."""

T = TypeVar("T")


class Commit(NamedTuple):
    """A transaction that was acknowledged at this point of the disk's log."""

    position: int
    state: State
    durable: bool


def state_of(connection: apsw.Connection) -> State:
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'migrations'")
    return {str(name): frozenset(connection.execute(f"SELECT * FROM {name}")) for (name,) in tables.fetchall()}


class Life:
    """What one Duly wrote to a disk from its opening to its end, and what it acknowledged."""

    def __init__(self, disk: Disk, state: State) -> None:
        self.disk = disk
        self.commits = [Commit(0, state, durable=True)]

    def committed(self, connection: apsw.Connection, *, durable: bool = True) -> None:
        state = state_of(connection)
        changed = state != self.commits[-1].state  # else there was nothing to write, and nothing was synced
        self.commits.append(Commit(len(self.disk.log), state, durable and changed))

    def allowed(self, position: int) -> list[State]:
        """What may be there after a cut: all that was acknowledged, and the next transaction, whole or not at all."""
        before = [commit for commit in self.commits if commit.position <= position]
        last = max(number for number, commit in enumerate(before) if commit.durable)
        return [commit.state for commit in self.commits[last : len(before) + 1]]


class PoweredStore(SqliteStore):
    """On a simulated disk. Notes what is in the database whenever a transaction is acknowledged."""

    def __init__(self, life: Life, vfs: str, clock: Any) -> None:
        super().__init__(FILE, clock=clock, vfs=vfs)
        self._life = life

    async def _on_writer(self, call: Callable[..., T], *args: Any) -> T:
        if call in (in_transaction, commit):
            return await super()._on_writer(self._noted, call, *args)
        return await super()._on_writer(call, *args)

    def _noted(self, call: Callable[..., T], connection: apsw.Connection, *args: Any) -> T:
        answer = call(connection, *args)
        # What `start` starts is reserved on disk, so that it need not be there itself.
        self._life.committed(connection, durable=not (args and args[0].name in NOT_SYNCED))
        return answer


class Work:
    """Calls by chance, of all the kinds that are acknowledged."""

    def __init__(self, duly: Duly, clock: ManualClock, luck: random.Random) -> None:
        self._duly, self._clock, self._luck = duly, clock, luck
        duly.on("task")(self._task)
        duly.on("comparison", transactional=True)(self._ledger)

    async def _task(self, event: Event) -> None:
        if self._luck.random() < 0.3:
            raise RuntimeError("it does not work this time")

    async def _ledger(self, event: Event, tx: Transaction) -> None:
        await tx.execute("INSERT INTO effects VALUES (?)", event.id)

    async def prepare(self) -> None:
        async with self._duly.transaction() as tx:
            await tx.execute("CREATE TABLE IF NOT EXISTS effects (event TEXT)")

    async def step(self, *, ahead: bool) -> None:
        kinds = (self._at, self._put, self._add_many, self._cancel, self._schedule, self._tick, self._ahead)
        await self._luck.choices(kinds, (3, 3, 1, 2, 1, 3, 2 if ahead else 0))[0]()

    def _delay(self) -> timedelta:
        return timedelta(seconds=self._luck.randrange(1, 60))

    async def _at(self) -> None:
        kind = self._luck.choice(["task", "comparison"])
        await self._duly.at(self._clock.now() + self._delay(), kind, "x" * self._luck.randrange(6000))

    async def _put(self) -> None:
        with suppress(Conflict):
            await self._duly.put(
                self._delay(), "task", key=f"key {self._luck.randrange(10)}", retry=Retry(max_attempts=2)
            )

    async def _add_many(self) -> None:
        await self._duly.add_many(Timer(self._delay(), "task") for _ in range(self._luck.randrange(2, 40)))

    async def _cancel(self) -> None:
        if events := await self._duly.events.find(InStatus(Status.PENDING)):
            with suppress(Conflict):  # a head, which is skipped instead
                await self._duly.events.cancel(self._luck.choice(events).id)

    async def _schedule(self) -> None:
        name = f"schedule {self._luck.randrange(3)}"
        await self._duly.schedules.put(name, every(timedelta(seconds=self._luck.randrange(5, 40))), "task")

    async def _tick(self) -> None:
        self._clock.advance(seconds=self._luck.randrange(1, 40))
        await self._duly.tick()

    async def _ahead(self) -> None:
        """As with look-ahead: what is due in a moment is reserved on disk, then started without waiting for it."""
        store, second = self._duly.store, timedelta(seconds=1)
        await self._duly.after(timedelta(milliseconds=300), "task")
        reserved, _ = await store.reserve("worker", {LANE: 5}, second / 2, 2 * second)
        started, _ = await store.start([one for one in reserved if not one.head], 30 * second, 30 * second, "worker")
        self._clock.advance(seconds=0.4)
        if started and self._luck.random() < 0.5:
            await store.settle([Settlement(event, DELIVERED) for event in started], "worker")


class Machine:
    """One that loses power again and again."""

    def __init__(self, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.luck = random.Random(seed)
        self._name = f"power {seed}"
        self._folder, self._monkeypatch = folder, monkeypatch
        self._clock = ManualClock()
        self._image: Mapping[str, bytes] = {}
        self._state: State = {}

    async def live(self, synchronous: str | None = None) -> Life:
        """Open what the disk has, work on it for a while, and close it. *synchronous*: not as Duly sets it. Then there
        is no look-ahead, which would set it right."""
        disk = Disk(self._image)
        life = Life(disk, self._state)
        vfs = disk.register(self._name)
        try:
            with self._monkeypatch.context() as patch:
                patch.setattr("duly.duly.open_store", lambda _, clock: PoweredStore(life, self._name, clock))
                duly = Duly("sqlite://", clock=self._clock)
            work = Work(duly, self._clock, self.luck)
            async with duly:
                writer = writer_of(duly)
                life.committed(writer)
                if synchronous is not None:
                    writer.execute(f"PRAGMA synchronous = {synchronous}")
                writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
                await work.prepare()
                for _ in range(STEPS):
                    await work.step(ahead=synchronous is None)
        finally:
            vfs.unregister()
        return life

    def moments(self, life: Life, many: int) -> list[tuple[int, Luck]]:
        """When to cut the power: at any time, and a third of them just when something was acknowledged."""
        acknowledged = [commit.position for commit in life.commits]
        just_then = [(self.luck.choice(acknowledged), Luck.NOTHING_STAYS) for _ in range(many // 3)]
        any_time = [
            (self.luck.randrange(len(life.disk.log) + 1), self.luck.choice(list(Luck))) for _ in range(many - many // 3)
        ]
        return just_then + any_time

    async def restart(self, life: Life, position: int, kind: Luck) -> State:
        """Cut the power at a point of a life, and open what is left; what there is."""
        self._image = life.disk.after_a_cut(position, self.luck, kind)
        async with self._started() as duly:
            assert list(writer_of(duly).execute("PRAGMA integrity_check")) == [("ok",)]
            assert (await duly.store.invariants()).violations == []
            self._state = state_of(writer_of(duly))
        return self._state

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[Duly]:
        """A Duly on real files that have what the simulated disk has."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for name, content in self._image.items():
            (self._folder / name).write_bytes(content)
        async with Duly(f"sqlite:///{self._folder}/{FILE}", clock=self._clock) as duly:
            yield duly

    async def finish(self) -> None:
        """After the last cut, everything comes to its end, and what was done in a transaction was done once."""
        async with self._started() as duly:
            Work(duly, self._clock, self.luck)
            for schedule in await duly.schedules.list():
                await duly.schedules.delete(schedule.name)
            for _ in range(100):
                self._clock.advance(days=1)
                await duly.tick()
                events = [event async for event in every_event(duly)]
                if all(event.status in TERMINAL for event in events):
                    break
            else:
                pytest.fail(f"never ended: {[event for event in events if event.status not in TERMINAL]}")
            [effects] = [list(writer_of(duly).execute("SELECT event FROM effects"))]
            done = [event.id for event in events if event.type == "comparison" and event.status is Status.COMPLETED]
            assert sorted(id for (id,) in effects) == sorted(done)


def writer_of(duly: Duly) -> apsw.Connection:
    assert isinstance(duly.store, SqliteStore)
    return duly.store.writer


async def every_event(duly: Duly) -> AsyncIterator[Event]:
    after = None
    while page := await duly.events.find(limit=1000, after=after):
        for event in page:
            yield event
        after = page[-1].id


def assert_kept(state: State, allowed: list[State], told: str) -> None:
    if state in allowed:
        return
    for table, rows in allowed[0].items():
        lost = rows - state.get(table, frozenset())
        assert not lost, f"{told}: of {table}, what was acknowledged is not there: {list(lost)[:3]}"
    pytest.fail(f"{told}: half a transaction is there, or what nobody has written")


@pytest.mark.parametrize("seed", range(MACHINES))
async def test_an_acknowledged_commit_survives_a_power_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(seed, tmp_path / "disk", monkeypatch)
    for number in range(LIVES):
        life = await machine.live()
        for position, kind in machine.moments(life, CUTS):
            state = await machine.restart(life, position, kind)
            told = f"machine {seed}, life {number}, cut at {position} of {len(life.disk.log)} ({kind.value})"
            assert_kept(state, life.allowed(position), told)
    await machine.finish()


async def test_a_power_cut_loses_commits_that_were_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NORMAL, SQLite syncs its log now and then. If nothing were lost by that, these tests would prove nothing."""
    machine = Machine(MACHINES, tmp_path / "disk", monkeypatch)
    life = await machine.live(synchronous="NORMAL")
    states = [commit.state for commit in life.commits]
    lost = 0
    for position, *_ in life.commits:
        state = await machine.restart(life, position, Luck.NOTHING_STAYS)
        assert state in states, "it is as it was at some time"
        lost += state not in life.allowed(position)
    assert lost > 5
