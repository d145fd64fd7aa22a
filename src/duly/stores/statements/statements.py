"""The part that both stores share: each call of the ports as a named query with its parameters."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec

from duly.decide.fair_share import Key
from duly.decide.lifecycle import MAX_INTERRUPTIONS
from duly.decide.series.successor import editions
from duly.errors import RowLocked
from duly.ports import (
    NO_FRONTIER,
    ClaimedEvents,
    Clock,
    CreatedEvent,
    Horizon,
    KnownFrontier,
    PlantedHead,
    RenewedIds,
    Reserved,
    ScanRequest,
    ScanResult,
    SettledIds,
    TakenOver,
)
from duly.records.event import Claim, Event, NewEvent, Settlement, Status, Verdict
from duly.records.history import Entry
from duly.records.specs import Spec
from duly.stores.columns.lists import ADD
from duly.stores.columns.readers import EPOCH
from duly.stores.creations import Told, nobody
from duly.stores.figures.forecast import ForecastQueries
from duly.stores.figures.stats import StatsQueries
from duly.stores.filters.specs import Dialect, compile_spec
from duly.stores.finding.anything import AnythingQueries
from duly.stores.finding.counts import CountQueries
from duly.stores.finding.runs import RunQueries
from duly.stores.indexes import indexes
from duly.stores.queries import Query, load
from duly.stores.query_base import Columns, TimedRows, each, read_settled
from duly.stores.statements.dead_letters import DeadLetterQueries
from duly.stores.statements.figures import FigureQueries
from duly.stores.statements.invariants import InvariantQueries
from duly.stores.statements.keys import KeyQueries, RequestQueries
from duly.stores.statements.prune import PruneQueries
from duly.stores.statements.schedules import ScheduleQueries
from duly.stores.statements.slots import SlotQueries
from duly.stores.statements.targets import TargetQueries
from duly.stores.statements.timers import TimerQueries
from duly.stores.statements.users import UserQueries
from duly.stores.statements.workers import WorkerQueries
from duly.stores.undone import rolled_back

MOST_ENTRIES = 2**31 - 1
"""The limit for a whole history: larger than the number of entries of any subject."""

LOCK_WAIT = "100ms"
"""How long a settlement waits for a row that somebody else has locked, before the other rows are settled without it."""

STOPPED = "it was asked to stop, and its worker vanished"
"""Why an interrupted event is cancelled."""

FORGOTTEN = "the database lost this claim in a crash; the attempt ended as: {}"


class StoreQueries(
    TimerQueries,
    ScheduleQueries,
    SlotQueries,
    RunQueries,
    UserQueries,
    TargetQueries,
    DeadLetterQueries,
    KeyQueries,
    RequestQueries,
    InvariantQueries,
    WorkerQueries,
    PruneQueries,
    CountQueries,
    AnythingQueries,
    FigureQueries,
    ForecastQueries,
    StatsQueries,
    ABC,
):
    """Runs named queries; a subclass knows the driver, the transaction and the encoding of values."""

    dialect: str
    specs: Dialect
    clock: Clock | None = None

    @abstractmethod
    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        """The rows of one named query, which runs atomically."""

    @abstractmethod
    def columns(self, values: Columns) -> dict[str, Any]:
        """A batch in the form of this dialect: a parameter for each column, or one parameter for all rows."""

    @abstractmethod
    def pairs(self, ids: Sequence[str], versions: Sequence[int]) -> dict[str, Any]:
        """Ids and versions of claims, in the form that is cheapest to encode."""

    @abstractmethod
    def settled(self, ids: Sequence[str], rows: Sequence[Any]) -> set[str]:
        """The ids that were completed, from the rows of the query."""

    @abstractmethod
    def counting(self, events: Sequence[Event]) -> dict[str, Any]:
        """Parameters with which the query that completes these events counts them for the roll-ups."""

    def indexes(self) -> Mapping[str, str]:
        """The indexes that there should be, with the statements that create them."""
        return indexes(self.dialect)

    @abstractmethod
    def present(self) -> Any:
        """The parameter ``:now``: the time of the injected clock, or the value that means the store's own clock."""

    async def ask(self, name: str, values: Columns | None = None, **parameters: Any) -> list[Any]:
        return await self.run(*self.statement(name, values, **parameters))

    def statement(self, name: str, values: Columns | None = None, **parameters: Any) -> tuple[Query, dict[str, Any]]:
        if values is not None:
            parameters |= self.columns(values)
        parameters["now"] = self.present()
        return load(self.dialect)[name], parameters

    async def search(self, asked: tuple[Query, dict[str, Any]], spec: Spec, also: str = "") -> list[Any]:
        query, parameters = asked
        where, values = compile_spec(spec, self.specs)
        where += also
        return await self.run(Query(query.name, query.sql.replace("{where}", where), query.reads), parameters | values)

    # -- the path

    async def now(self) -> datetime:
        [row] = await self.ask("now")
        return EPOCH + timedelta(microseconds=row[0])

    def system_time(self) -> float | None:
        return None

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """The transaction that this is: what is done in it commits when its owner commits it."""
        return nullcontext(self)

    def undone(self) -> AbstractAsyncContextManager[Any]:
        """A transaction, or a part of one, that is rolled back at the end, whatever was done in it."""
        return rolled_back(self.begin())

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        """Announces nothing by default: on a caller's own connection, the commit is not visible here."""

    async def try_writing(self) -> None:
        await self.ask("try_writing")

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        await self.run(*self.add_statement(events))
        return [event.id for event in events]

    def add_statement(self, events: Sequence[NewEvent]) -> tuple[Query, dict[str, Any]]:
        return self.statement("add", self.batch(ADD, events), soon=self.span(self.soon))

    def room(self, room: Mapping[str, int], since: Mapping[str, datetime] | None = None) -> Columns:
        """Parameters with a row for each lane."""
        values: Columns = {"lane": list(room), "free": list(room.values())}
        return values if since is None else values | {"since": [since.get(lane) for lane in room]}

    async def claim(
        self,
        worker: str,
        room: Mapping[str, int],
        lease: timedelta,
        seen: KnownFrontier = NO_FRONTIER,
        as_of: datetime | None = None,
        *,
        with_horizon: bool = False,
    ) -> ClaimedEvents:
        lanes = self.room(room, seen.fresh)
        parameters = {
            "worker": worker,
            "lease": self.span(lease),
            "as_of": self.optional_instant(as_of),
            "editions": self.listed(editions()),
        }
        if with_horizon:
            of_horizon = {"lanes": self.listed(list(room)), "leased": self.optional_instant(seen.leased)}
            rows = await self.ask("claim_with_horizon", lanes, **parameters, **of_horizon)
        else:
            rows = await self.ask("claim", lanes, **parameters)
        return self.read_claims(rows, worker, lease, with_horizon=with_horizon)

    async def claim_these(
        self,
        worker: str,
        ids: Sequence[str],
        lanes: Sequence[str],
        free: int,
        lease: timedelta,
        as_of: datetime | None = None,
    ) -> ClaimedEvents:
        rows = await self.ask(
            "claim_these",
            ids=self.listed(ids),
            lanes=self.listed(lanes),
            free=free,
            worker=worker,
            lease=self.span(lease),
            as_of=self.optional_instant(as_of),
            editions=self.listed(editions()),
        )
        return self.read_claims(rows, worker, lease)

    async def scan_backlog(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        return self.read_looked(await self.ask("scan_backlog", self.looking(where), **self.looking_past(where, known)))

    def looking(self, where: ScanRequest) -> Columns:
        """Parameters with a row for each lane."""
        since = [where.since.get(lane) for lane in where.depth]
        return {"lane": list(where.depth), "depth": list(where.depth.values()), "since": since}

    def looking_past(self, where: ScanRequest, known: Collection[Key]) -> dict[str, Any]:
        keys: Columns = {"tenant": [key[0] for key in known], "destination": [key[1] or "" for key in known]}
        return {"near": where.newest, "many": where.most, **self.columns(keys)}

    @abstractmethod
    def read_looked(self, rows: Sequence[Any]) -> ScanResult: ...

    def read_claims(
        self, rows: Sequence[Any], worker: str, lease: timedelta, *, with_horizon: bool = False
    ) -> ClaimedEvents:
        took_s = rows.took_s if isinstance(rows, TimedRows) else None
        rows, planted = self.read_planted(rows)
        if not rows:
            return ClaimedEvents(took_s=took_s)
        read, (now, *of_horizon) = self.readers.claimed.read, self.of_all_claimed(rows[0])
        claimed = EPOCH + timedelta(microseconds=now)
        until = claimed + lease
        events = [read(row, until, claimed, worker) for row in rows]
        events.sort(key=by_due)
        horizon = None
        if with_horizon:
            horizon = Horizon(*(None if at is None else timedelta(microseconds=at - now) for at in of_horizon))
        careful = [event for event in events if event.head]
        if careful:
            events = [event for event in events if not event.head]
        return ClaimedEvents(events, careful, planted, horizon, took_s)

    @abstractmethod
    def read_planted(self, rows: Sequence[Any]) -> tuple[Sequence[Any], list[PlantedHead]]:
        """The rows of claimed events, and the successors that the claim has planted."""

    @abstractmethod
    def of_all_claimed(self, row: Any) -> Sequence[Any]:
        """The values that are the same for all events of a claim: its time, and then the horizon, if it was asked
        for."""

    async def claim_interrupted(
        self, worker: str, lanes: Sequence[str], lease: timedelta, as_of: datetime | None = None
    ) -> list[TakenOver]:
        error = f"interrupted {MAX_INTERRUPTIONS} times: each time, its worker stopped before the event had ended"
        rows = await self.ask(
            "claim_interrupted",
            lanes=self.listed(lanes),
            worker=worker,
            lease=self.span(lease),
            most=MAX_INTERRUPTIONS,
            error=error,
            stopped=STOPPED,
            as_of=self.optional_instant(as_of),
        )
        return [self._read_taken_over(row) for row in rows]

    async def has_interrupted(self, lanes: Sequence[str]) -> bool:
        return bool(await self.ask("has_interrupted", lanes=self.listed(lanes)))

    def _read_taken_over(self, row: Any) -> TakenOver:
        event, (interrupted, before, claimed) = self.readers.event.read(row), self.readers.event.rest(row)
        if not interrupted:
            return TakenOver(event, None)
        return TakenOver(event, msgspec.structs.replace(event, worker=before, claimed=self.maybe_instant(claimed)))

    async def reserve(
        self, worker: str, room: Mapping[str, int], ahead: timedelta, patience: timedelta
    ) -> tuple[list[Reserved], datetime]:
        rows = await self.ask(
            "reserve", self.room(room), worker=worker, ahead=self.span(ahead), patience=self.span(patience)
        )
        reserved = [
            Reserved(id, version, lane, bool(head), self.read_instant(until))
            for id, version, lane, head, until, _ in rows
        ]
        return reserved, _latest(rows)

    async def start(
        self, reserved: Sequence[Reserved], ending_within: timedelta, lease: timedelta, worker: str
    ) -> tuple[ClaimedEvents, datetime]:
        rows = await self.ask(
            "start",
            self.reservations(reserved),
            ending_within=self.span(ending_within),
            lease=self.span(lease),
            editions=self.listed(editions()),
        )
        return self.read_claims(rows, worker, lease), _latest(self.read_planted(rows)[0])

    async def release(self, reserved: Sequence[Reserved], patience: timedelta) -> None:
        values, lanes = self.reservations(reserved), self.listed(sorted({one.lane for one in reserved}))
        try:
            await self.ask("release", values, patience=self.span(patience), lanes=lanes, lock_timeout=LOCK_WAIT)
        except RowLocked:  # a row that stays locked is left: its reservation ends by itself
            half = len(reserved) // 2
            for some in (reserved[:half], reserved[half:]) if half else ():
                await self.release(some, patience)

    async def horizon(self, lanes: Sequence[str], seen: KnownFrontier = NO_FRONTIER) -> tuple[Horizon, KnownFrontier]:
        [row] = await self.ask("horizon", **self.horizon_parameters(lanes, seen))
        now, fresh, leased = (None if instant is None else self.read_instant(instant) for instant in row)
        assert now is not None
        horizon = Horizon(*(None if ready is None else ready - now for ready in (fresh, leased)))
        return horizon, KnownFrontier(dict.fromkeys(lanes, min(fresh or now, now)), leased or now)

    @abstractmethod
    def horizon_parameters(self, lanes: Sequence[str], seen: KnownFrontier) -> dict[str, Any]: ...

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> RenewedIds:
        claims = sorted(claims, key=lambda claim: claim.id)
        values: Columns = {"id": [c.id for c in claims], "version": [c.version for c in claims]}
        rows = await self.ask("renew", values, lease=self.span(lease))
        return RenewedIds((id for id, locked in rows if not locked), (id for id, locked in rows if locked))

    async def stop_requests(self, worker: str) -> list[str]:
        return [row[0] for row in await self.ask("stop_requests", worker=worker)]

    async def unlocked(self, ids: Sequence[str]) -> set[str]:
        return {row[0] for row in await self.ask("unlocked", ids=self.listed(ids), lock_timeout=LOCK_WAIT)}

    async def settle(self, settlements: Sequence[Settlement], worker: str, *, patient: bool = False) -> SettledIds:
        # In the same order as lease renewals, so that the two cannot deadlock.
        settlements = sorted(settlements, key=_by_id)
        settled = await self._settle_claimed(settlements, worker, None if patient else LOCK_WAIT)
        if len(settled) == len(settlements):
            return settled
        missed = [one for one in settlements if one.event.id not in settled]
        settled.include(await self.settle_forgotten(missed, worker))
        return settled

    async def settle_forgotten(self, settlements: Sequence[Settlement], worker: str) -> SettledIds:
        """Settles events that were not found claimed: the database may have lost a claim in a crash of its own, because
        ``start`` does not wait for the disk. If the event is untouched since, its claim is restored and settled;
        otherwise the lost claim is recorded in the history. Returns the settled ids."""
        again = {row[0] for row in await self.ask("start_again", self._claims(settlements), worker=worker)}
        if unknown := [one for one in settlements if one.event.id not in again]:
            details = [FORGOTTEN.format(one.verdict.act) for one in unknown]
            await self.ask("note_forgotten", self._claims(unknown) | {"detail": details}, worker=worker)
        if not again:
            return SettledIds()
        return await self._settle_claimed([one for one in settlements if one.event.id in again], worker, LOCK_WAIT)

    def _claims(self, settlements: Sequence[Settlement]) -> Columns:
        return {
            "id": [one.event.id for one in settlements],
            "version": [one.event.version for one in settlements],
            "claimed": self.instants([one.event.claimed for one in settlements]),
        }

    async def _settle_claimed(
        self, settlements: Sequence[Settlement], worker: str, lock_timeout: str | None
    ) -> SettledIds:
        by = {"worker": worker, "lock_timeout": lock_timeout}
        delivered = [
            one.event for one in settlements if one.verdict.status is Status.COMPLETED and one.verdict.output is None
        ]
        settled = SettledIds(await self._complete(delivered, by) if delivered else ())
        if len(delivered) == len(settlements):
            return settled
        done = [one for one in settlements if one.verdict.status is Status.COMPLETED and one.verdict.output is not None]
        if done:
            settled |= await self._complete_with_output(done, by)
        if held := [settlement for settlement in settlements if settlement.verdict.held is not None]:
            settled.include(await self._hold(held, by))
        others = [one for one in settlements if one.verdict.status is not Status.COMPLETED and one.verdict.held is None]
        if others:
            settled.include(await self._settle(others, by))
        return settled

    async def _complete(self, delivered: Sequence[Event], by: Mapping[str, Any]) -> set[str]:
        ids = [event.id for event in delivered]
        pairs = self.pairs(ids, [event.version for event in delivered])
        return self.settled(ids, await self.ask("complete", many=len(ids), **by, **pairs, **self.counting(delivered)))

    async def _complete_with_output(self, settlements: Sequence[Settlement], by: Mapping[str, Any]) -> set[str]:
        values: Columns = {
            "id": [s.event.id for s in settlements],
            "version": [s.event.version for s in settlements],
            "output": [s.verdict.output for s in settlements],
        }
        more = {"many": len(settlements), **self.counting([s.event for s in settlements])}
        return {row[0] for row in await self.ask("complete_with_output", values, **by, **more)}

    async def _settle(self, settlements: Sequence[Settlement], by: Mapping[str, Any]) -> SettledIds:
        values: Columns = {
            "id": [s.event.id for s in settlements],
            "version": [s.event.version for s in settlements],
            "status": [s.verdict.status.value for s in settlements],
            "act": [s.verdict.act for s in settlements],
            "error": [s.verdict.error for s in settlements],
            "wait": [None if s.verdict.wait is None else self.span(s.verdict.wait) for s in settlements],
            "counts": [int(s.verdict.counts) for s in settlements],
            "output": [s.verdict.output for s in settlements],
        }
        return read_settled(await self.ask("settle", values, **by))

    # -- looking and changing

    async def get(self, id: str) -> Event | None:
        return self.one(await self.ask("get", id=id))

    async def lock(self, id: str) -> Event | None:
        return self.one(await self.ask("lock", id=id))

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        most = MOST_ENTRIES if limit is None else limit
        rows = await self.ask("history", subject=subject, skipped=skip, limit=most, within=within)
        return each(self.readers.entry.read, rows)

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        await self.ask(
            "change",
            id=event.id,
            status=event.status.value,
            due=self.instant(event.due),
            attempts=event.attempts,
            interruptions=event.interruptions,
            head=event.head,
            act=act,
            by=by,
            detail=detail,
            soon=self.span(self.soon),
        )

    async def link_replay(self, old: str, new: str) -> None:
        await self.ask("link_replay", old=old, new=new)

    async def request_stop(self, id: str, by: str, detail: str | None) -> None:
        await self.ask("request_stop", id=id, by=by, detail=detail)

    async def overview(self) -> list[tuple[str, str, int, datetime]]:
        return [
            (lane, status, count, self.read_instant(oldest))
            for lane, status, count, oldest in await self.ask("overview")
        ]


def _are_alike(verdicts: Sequence[Verdict]) -> bool:
    """Whether one query settles them all. Mostly they are the same object: everything was delivered."""
    first = verdicts[0] if verdicts else None
    if all(one is first for one in verdicts):
        return True
    return len({(one.status is Status.COMPLETED, one.held is None, one.output is None) for one in verdicts}) < 2


class Autocommit(StoreQueries):
    """Statements that each commit on their own."""

    @abstractmethod
    def begin(self) -> AbstractAsyncContextManager[Any]: ...

    async def settle(self, settlements: Sequence[Settlement], worker: str, *, patient: bool = False) -> SettledIds:
        if _are_alike([one.verdict for one in settlements]):
            return await super().settle(settlements, worker, patient=patient)
        async with self.begin() as tx:  # several queries, one commit
            settled: SettledIds = await tx.settle(settlements, worker, patient=patient)
            return settled

    on_created: Told = staticmethod(nobody)
    """Called with created events, after the commit."""

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        if created := list(events):
            self.on_created(created)

    async def settle_forgotten(self, settlements: Sequence[Settlement], worker: str) -> SettledIds:
        async with self.begin() as tx:
            settled: SettledIds = await tx.settle_forgotten(settlements, worker)
            return settled


def _latest(rows: Sequence[Any]) -> datetime:
    """The store's clock, which is the last column of each row."""
    return EPOCH + timedelta(microseconds=max((row[-1] for row in rows), default=0))


by_due = attrgetter("due")


def _by_id(settlement: Settlement) -> str:
    return settlement.event.id
