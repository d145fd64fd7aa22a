"""The statements about timers and their keys."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from duly.decide.keys import KeyHolder, decide_put
from duly.errors import StoreUnavailable
from duly.ports import Added
from duly.records.event import TERMINAL, Event, NewEvent
from duly.records.results import PutChange
from duly.stores.columns.lists import PUT, PUT_AGAIN
from duly.stores.query_base import Columns, QueryBase

MOST_ROUNDS = 25
"""How often a key is put if others take it, free it or cancel its event at the same moment. Each time, one of them has
succeeded."""

TimerKey = tuple[str, str]
"""The tenant and the key of a timer; without a key, the tenant and its own id."""


class TimerQueries(QueryBase):
    key_memory: timedelta = timedelta(days=365)  # how long a key that has fired is remembered

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        by_key: dict[TimerKey, dict[str, NewEvent]] = {}
        for event in events:  # of one key and type, the last event counts
            by_key.setdefault(_key(event), {})[event.type] = event
        first = {key: next(iter(types.values())) for key, types in by_key.items()}
        added = await self._put_all(first)
        others = {key: types for key, types in by_key.items() if len(types) > 1}
        second = {key: then for key, types in others.items() if (then := _second(added[key], [*types.values()]))}
        after = await self._put_all(second)
        refused = {key: Added((after.get(key) or added[key]).event, PutChange.REFUSED) for key in others}

        def result(event: NewEvent) -> Added:
            key = _key(event)
            if event.type == first[key].type:
                return added[key]
            return after[key] if key in second and event.type == second[key].type else refused[key]

        return [result(event) for event in events]

    async def _put_all(self, events: Mapping[TimerKey, NewEvent]) -> dict[TimerKey, Added]:
        """Puts one event for each key, again and again while others change the same keys."""
        added: dict[TimerKey, Added] = {}
        ordered = [events[key] for key in sorted(events)]  # so that two batches cannot deadlock on each other's keys
        for round in range(MOST_ROUNDS):
            if not ordered:
                break
            ordered = await self._put(ordered, added, retried=round > 0)
        if ordered:
            key = ordered[0].key
            raise StoreUnavailable(f"others changed timer {key!r:.60} {MOST_ROUNDS} times while it was put: try again")
        return added

    async def _put(self, events: Sequence[NewEvent], added: dict[TimerKey, Added], *, retried: bool) -> list[NewEvent]:
        """Puts events, and adds the results; returns the events that have to be put once more."""
        added |= self._read_put(await self.ask("put", self.batch(PUT, events), soon=self.span(self.soon), by="caller"))
        left = [event for event in events if event.key is not None and _key(event) not in added]
        if not left:
            return []
        holders = await self._holders(left)
        again: list[NewEvent] = []
        for event in left:
            holder = holders.get(_key(event))
            change = None if holder is None else decide_put(event, holder, retried=retried)
            if holder is None or change is None:
                again.append(event)
            else:
                added[_key(event)] = Added(holder.event, change)
        if taking := [event for event in again if _key(event) in holders]:
            parameters = {"soon": self.span(self.soon), "memory": self.span(self.key_memory)}
            added |= self._read_put(await self.ask("put_again", self.batch(PUT_AGAIN, taking), **parameters))
        if ordered := [event for event in again if event.asked is not None and _key(event) not in holders]:
            added |= await self._withdrawn(ordered)
        return [event for event in again if _key(event) not in added]

    async def _holders(self, events: Sequence[NewEvent]) -> dict[TimerKey, KeyHolder]:
        """The events that have the keys of these events, and those that were deleted and whose keys are remembered."""
        keys = {(event.tenant, event.key or "") for event in events}
        memory = self.span(self.key_memory)
        rows = await self.ask("by_keys", _columns(keys), memory=memory)
        found = [KeyHolder(self.readers.event.read(row), bool(self.readers.event.rest(row)[0])) for row in rows]
        holders = {(holder.event.tenant, holder.event.key or ""): holder for holder in found}
        return holders | await self._remembered(keys - holders.keys()) if len(holders) < len(keys) else holders

    async def _remembered(self, keys: Collection[TimerKey]) -> dict[TimerKey, KeyHolder]:
        rows = await self.ask("remembered", _columns(keys), memory=self.span(self.key_memory))
        fired, reader = {}, self.readers.fired_key
        for row in rows:
            key = reader.read(row)
            fired[key.tenant, key.key] = KeyHolder(key.event(), bool(reader.rest(row)[0]))
        return fired

    async def _withdrawn(self, events: Sequence[NewEvent]) -> dict[TimerKey, Added]:
        """The events that were cancelled after these requests."""
        wishes: Columns = {name: [getattr(event, name) for event in events] for name in ("tenant", "key", "asked")}
        cancelled = [self.readers.event.read(row) for row in await self.ask("withdrawn", wishes)]
        return {_key(event): Added(event, PutChange.UNCHANGED) for event in cancelled}

    def _read_put(self, rows: Sequence[Any]) -> Mapping[TimerKey, Added]:
        reader = self.readers.event
        changes = PutChange.MOVED, PutChange.CREATED
        added = [Added(reader.read(row), changes[bool(reader.rest(row)[0])]) for row in rows]
        return {_key(one.event): one for one in added}

    async def by_key(self, tenant: str, key: str) -> Event | None:
        if found := self.one(await self.ask("by_key", tenant=tenant, key=key)):
            return found
        remembered = (await self._remembered([(tenant, key)])).get((tenant, key))
        return None if remembered is None or remembered.forgotten else remembered.event

    async def take_keys(self, ids: Sequence[str]) -> dict[str, str]:
        return {row[0]: row[1] for row in await self.ask("take_keys", ids=self.listed(sorted(ids)))}

    async def delete_ended(self, ids: Sequence[str]) -> set[str]:
        memory = self.span(self.key_memory)
        return {row[0] for row in await self.ask("delete_ended", ids=self.listed(sorted(ids)), memory=memory)}

    async def forget_keys(self, limit: int) -> int:
        return len(await self.ask("forget_keys", limit=limit, memory=self.span(self.key_memory)))


def _second(added: Added, of_key: Sequence[NewEvent]) -> NewEvent | None:
    """The event of another type to put after the first one of its key: one of the type that the open event has, or, if
    the key has fired, the next one."""
    if added.change is PutChange.REFUSED:
        return next((event for event in of_key if event.type == added.event.type), None)
    return of_key[1] if added.event.status in TERMINAL else None


def _key(event: NewEvent | Event) -> TimerKey:
    return event.tenant, event.key or event.id


def _columns(keys: Collection[TimerKey]) -> Columns:
    ordered = sorted(keys)
    return {"tenant": [tenant for tenant, _ in ordered], "key": [key for _, key in ordered]}
