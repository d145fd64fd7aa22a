"""The statements about stored targets and destinations."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.decide.targets.targets import whose_events
from duly.ports import RateAllowance, SettledIds
from duly.records.event import Event, Settlement
from duly.records.target import Known, Target
from duly.stores.columns.lists import PUT_TARGET
from duly.stores.query_base import WITHIN, Columns, QueryBase, each, read_settled


class TargetQueries(QueryBase):
    @abstractmethod
    def read_claims(self, rows: Sequence[Any], worker: str, lease: timedelta) -> list[Event]: ...

    # -- targets

    async def put_target(self, target: Target) -> bool:
        return bool(await self.ask("put_target", self.batch(PUT_TARGET, [target])))

    async def target(self, tenant: str, name: str) -> Target | None:
        rows = await self.ask("lock_target", tenant=tenant, target=name)
        return self._read_target(rows[0]) if rows else None

    async def list_targets(
        self, tenant: str | None, *, after: tuple[str, str], limit: int, within: int | None = None
    ) -> list[Target]:
        bounds: dict[str, Any] = {"after_tenant": after[0], "after_name": after[1], "limit": limit, WITHIN: within}
        return each(self._read_target, await self.ask("list_targets", tenant=tenant, **bounds))

    async def delete_target(self, tenant: str, name: str) -> None:
        await self.ask("delete_target", tenant=tenant, target=name)

    async def aimed_at(self, target: Target, examine: int) -> int:
        lane, tenant, name = target.channel, target.tenant, target.name
        [row] = await self.ask("aimed_at", lane=lane, tenant=tenant, destination=name, examine=examine)
        return int(row[0])

    # -- destinations

    async def destinations(self, keys: Sequence[tuple[str, str]]) -> list[Known]:
        rows = await self.ask(
            "destinations", {"tenant": [tenant for tenant, _ in keys], "destination": [name for _, name in keys]}
        )
        return [self._read_known(row) for row in rows]

    async def list_destinations(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Known]:
        rows = await self.ask(
            "list_destinations", tenant=tenant, after_tenant=after[0], after_name=after[1], limit=limit
        )
        return [self.readers.known.read(row) for row in rows]

    async def held_for(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        values: Columns = {
            "tenant": [tenant for tenant, _ in keys],
            "parked": [parked for _, parked in keys],
            "destination": [whose_events(parked) for _, parked in keys],
        }
        return {(row[0], row[1]): row[2] for row in await self.ask("held_for", values)}

    async def limit(self, tenant: str, destination: str, concurrency: int | None, rate: float | None) -> None:
        await self.ask("limit", tenant=tenant, destination=destination, concurrency=concurrency, rate=rate)

    async def allow(self, wanted: Sequence[tuple[str, str, int]]) -> list[RateAllowance]:
        tenants, destinations, wants = zip(*wanted, strict=True)
        rows = await self.ask(
            "allow", {"tenant": list(tenants), "destination": list(destinations), "want": list(wants)}
        )
        return [RateAllowance(row[0], row[1], row[2], timedelta(microseconds=row[3])) for row in rows]

    # -- parking

    async def park(self, tenant: str, destination: str, reason: str, wait: timedelta | None) -> bool:
        span = None if wait is None else self.span(wait)
        return bool(await self.ask("park", tenant=tenant, destination=destination, reason=reason, wait=span))

    async def unpark(self, tenant: str, destination: str) -> datetime | None:
        return self._since(await self.ask("unpark", tenant=tenant, destination=destination))

    async def reopen(self, tenant: str, destination: str) -> datetime | None:
        return self._since(await self.ask("reopen", tenant=tenant, destination=destination))

    def _since(self, rows: Sequence[Any]) -> datetime | None:
        return self.read_instant(rows[0][1]) if rows else None

    async def probe_now(self, tenant: str, destination: str) -> bool:
        return bool(await self.ask("probe_now", tenant=tenant, destination=destination))

    async def unparking(self) -> list[tuple[str, str, bool]]:
        return [(row[0], row[1], bool(row[2])) for row in await self.ask("unparking")]

    async def release_parked(self, tenant: str, parked: str, destination: str, limit: int, by: str) -> int:
        rows = await self.ask(
            "release_parked",
            tenant=tenant,
            destination=destination,
            held_for=parked,
            limit=limit,
            by=by,
            soon=self.span(self.soon),
        )
        return len(rows)

    async def released(self, tenant: str, destination: str) -> None:
        await self.ask("released", tenant=tenant, destination=destination)

    async def due_probes(self, first: timedelta, most: timedelta) -> list[tuple[str, str]]:
        rows = await self.ask("due_probes", first=self.span(first), most=self.span(most))
        return [(row[0], row[1]) for row in rows]

    async def claim_probe(
        self, tenant: str, destination: str, lanes: Sequence[str], worker: str, lease: timedelta
    ) -> list[Event]:
        rows = await self.ask(
            "claim_probe",
            tenant=tenant,
            destination=destination,
            lanes=self.listed(lanes),
            worker=worker,
            lease=self.span(lease),
        )
        return self.read_claims(rows, worker, lease)

    async def is_awaited(self, tenant: str, destination: str) -> bool:
        [row] = await self.ask("is_awaited", tenant=tenant, destination=destination)
        return bool(row[0])

    async def is_retried_later(self, tenant: str, destination: str, lane: str, examine: int) -> bool:
        [row] = await self.ask("is_retried_later", tenant=tenant, destination=destination, lane=lane, examine=examine)
        return bool(row[0])

    async def _hold(self, settlements: Sequence[Settlement], by: Mapping[str, Any]) -> SettledIds:
        values: Columns = {
            "id": [one.event.id for one in settlements],
            "version": [one.event.version for one in settlements],
            "tenant": [one.event.tenant for one in settlements],
            "destination": [one.verdict.held for one in settlements],
            "reason": [one.verdict.error for one in settlements],
        }
        return read_settled(await self.ask("hold_claimed", values, **by))

    # -- reading

    def _read_target(self, row: Any) -> Target:
        known = self.readers.known.read(self.readers.target.rest(row))
        return msgspec.structs.replace(self.readers.target.read(row), known=known)

    def _read_known(self, row: Any) -> Known:
        after = self.readers.known.rest(row)
        target, (within,) = self.readers.target.joined(after), self.readers.target.rest(after)
        return msgspec.structs.replace(self.readers.known.read(row), target=target, within=bool(within))
