"""The statements about schedules, their heads, and held events."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.decide.series.due_head import Hold, Reshaped
from duly.ports import CaughtUp, Dropped, Fired, Freed, Heads, Moved, PauseEnd, Reserved, WalkedSchedule
from duly.records.event import Event, HoldKind, NewEvent, Status, user_of
from duly.records.finding.acts import ActKind
from duly.records.finding.counts import MOST_COUNTED
from duly.records.finding.schedules import EVERY_SCHEDULE, ScheduleFilter
from duly.records.history import Cause
from duly.records.schedule import Halt, HaltKind, Schedule
from duly.records.template import Template
from duly.stores.columns.lists import CARRY, PLANT, PUT_SCHEDULE, PUT_TEMPLATE, REPLAN, RESHAPE
from duly.stores.filters.schedules import schedules_where
from duly.stores.queries import Query
from duly.stores.query_base import FIRST_ID, WITHIN, Columns, QueryBase, each

BATCH_ROWS = 5_000
"""Rows of one series that one statement changes: about 0.1 s on PostgreSQL, where statements have a time limit."""


class ScheduleQueries(QueryBase):
    dialect: str

    @abstractmethod
    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]: ...

    # -- schedules

    async def schedules(self, ids: Sequence[str]) -> list[Schedule]:
        return [self.readers.schedule.read(row) for row in await self.ask("schedules", ids=self.listed(ids))]

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        rows = await self.ask("schedule_named", tenant=tenant, schedule=name)
        return self.readers.schedule.read(rows[0]) if rows else None

    async def shown_schedule(self, tenant: str, name: str) -> Schedule | None:
        rows = await self.ask("shown_schedule", tenant=tenant, schedule=name)
        return self._shown(rows[0]) if rows else None

    async def shown_schedules(
        self,
        tenant: str | None,
        *,
        after: tuple[str, str],
        limit: int,
        within: int | None = None,
        which: ScheduleFilter = EVERY_SCHEDULE,
    ) -> list[Schedule]:
        bounds: dict[str, Any] = {"after_tenant": after[0], "after_name": after[1], "limit": limit, WITHIN: within}
        asked = self.statement("shown_schedules", tenant=tenant, **bounds)
        return each(self._shown, await self._matching(asked, which))

    # -- acts by filters

    async def schedule_kinds(self, tenant: str | None, which: ScheduleFilter, *, most: int) -> list[ActKind]:
        asked = self.statement("schedule_kinds", tenant=tenant, examined=MOST_COUNTED, most=most)
        return [ActKind(*row) for row in await self._matching(asked, which)]

    async def walk_schedules(
        self, tenant: str | None, which: ScheduleFilter, *, after: tuple[str, str], limit: int
    ) -> list[WalkedSchedule]:
        bounds: dict[str, Any] = {"after_tenant": after[0], "after_name": after[1], "limit": limit}
        asked = self.statement("walk_schedules", tenant=tenant, **bounds)
        return [WalkedSchedule(*row) for row in await self._matching(asked, which)]

    async def free_heads(self, series: Sequence[str]) -> list[Event]:
        rows = await self.ask("free_heads", series=self.listed(series))
        return [self.readers.event.read(row) for row in rows]

    async def free_schedules(self, ids: Sequence[str], which: ScheduleFilter) -> list[Schedule]:
        asked = self.statement("free_schedules", ids=self.listed(ids))
        return [self.readers.schedule.read(row) for row in await self._matching(asked, which)]

    async def _matching(self, asked: tuple[Query, dict[str, Any]], which: ScheduleFilter) -> list[Any]:
        (query, values), (where, more) = asked, schedules_where(which, self.dialect)
        return await self.run(Query(query.name, query.sql.replace("{where}", where), query.reads), values | more)

    # -- templates

    async def template(self, tenant: str, name: str) -> Template | None:
        rows = await self.ask("template", tenant=tenant, template=name)
        return self.readers.template.read(rows[0]) if rows else None

    async def lock_template(self, tenant: str, name: str) -> Template | None:
        rows = await self.ask("lock_template", tenant=tenant, template=name)
        return self.readers.template.read(rows[0]) if rows else None

    async def list_templates(self, tenant: str, *, after: str, limit: int, within: int | None = None) -> list[Template]:
        bounds: dict[str, Any] = {"after_name": after, "limit": limit, WITHIN: within}
        return each(self.readers.template.read, await self.ask("list_templates", tenant=tenant, **bounds))

    async def put_template(self, template: Template) -> None:
        await self.ask("put_template", self.batch(PUT_TEMPLATE, [template]))

    async def delete_template(self, tenant: str, name: str) -> None:
        await self.ask("delete_template", tenant=tenant, template=name)

    # -- schedules that an error has halted, that code declares, or that were imported

    async def halted(self, kind: HaltKind, *, limit: int) -> list[Schedule]:
        return [self.readers.schedule.read(row) for row in await self.ask("halted", kind=kind.value, limit=limit)]

    async def code_schedules(self) -> list[Schedule]:
        return [self.readers.schedule.read(row) for row in await self.ask("code_schedules")]

    async def imported(self, tenant: str, source: str) -> list[Schedule]:
        rows = await self.ask("imported", tenant=tenant, source=source)
        return [self.readers.schedule.read(row) for row in rows]

    async def mark_imported(self, source: str, names: Mapping[str, str]) -> None:
        values: Columns = {"id": list(names), "imported_as": list(names.values())}
        await self.ask("mark_imported", values, source=source)

    async def put_schedule(self, schedule: Schedule) -> bool:
        return bool(await self.ask("put_schedule", self.batch(PUT_SCHEDULE, [schedule])))

    async def delete_schedule(self, id: str) -> None:
        await self.ask("delete_schedule", id=id)

    async def dependents(self, tenant: str, name: str) -> list[str]:
        return [row[0] for row in await self.ask("dependents", tenant=tenant, schedule=name)]

    async def pause_ends(self, *, limit: int) -> list[PauseEnd]:
        rows = await self.ask("pause_ends", limit=limit)
        return [PauseEnd(id, self.read_instant(until) - self.read_instant(now)) for id, until, now in rows]

    async def tell_pause(self, lane: str) -> None:
        await self.ask("tell_pause", lane=lane)

    async def halt(self, halts: Mapping[str, Halt | None]) -> None:
        values: Columns = {
            "id": list(halts),
            "halted": [halt and halt.reason for halt in halts.values()],
            "halt_kind": [halt and halt.kind.value for halt in halts.values()],
        }
        await self.ask("halt", values)

    async def note_halted(self, reasons: Mapping[str, str], by: str) -> None:
        values: Columns = {
            "subject": [user_of(series) for series in reasons],
            "series": list(reasons),
            "detail": list(reasons.values()),
        }
        await self.ask("note_halted", values, by=by)

    async def note(self, notes: Sequence[tuple[str, str, str | None]], by: str) -> None:
        subjects, acts, details = (list(column) for column in zip(*notes, strict=True))
        await self.ask("note", {"subject": subjects, "act": acts, "detail": details}, by=by)

    # -- heads

    async def plant(self, events: Sequence[NewEvent]) -> set[str]:
        values = self.batch(PLANT, events)
        return {row[0] for row in await self.ask("plant", values, soon=self.span(self.soon))}

    async def reserved_heads(self, reserved: Sequence[Reserved], ending_within: timedelta) -> Heads:
        values = self.reservations(reserved)
        return await self.read_heads(await self.ask("reserved_heads", values, ending_within=self.span(ending_within)))

    @abstractmethod
    async def read_heads(self, rows: Sequence[Any]) -> Heads:
        """Heads, from the rows of the queries."""

    async def fire(self, heads: Sequence[Fired], worker: str, now: datetime, lease: timedelta) -> None:
        values: Columns = {
            "id": [one.id for one in heads],
            "due": self.instants([one.due for one in heads]),
            "scheduled": self.instants([one.occurrence.at for one in heads]),
            "occurrence": [one.occurrence.name for one in heads],
            "stands_for": [one.stands_for for one in heads],
            "gated": [one.gated for one in heads],
        }
        await self.ask("fire", values, worker=worker, claimed=self.instant(now), until=self.instant(now + lease))

    async def heads_without_successors(self, ids: Sequence[str]) -> list[tuple[Event, Schedule | None]]:
        rows = await self.ask("heads_without_successors", ids=self.listed(ids))
        event, schedule = self.readers.event, self.readers.schedule
        return [(event.read(row), schedule.joined(event.rest(row))) for row in rows]

    async def carry(self, heads: Sequence[NewEvent]) -> None:
        await self.ask("carry", self.batch(CARRY, heads))

    async def drop(self, heads: Mapping[str, Dropped], by: str) -> None:
        values: Columns = {
            "id": list(heads),
            "stands_for": [one.stands_for for one in heads.values()],
            "act": [one.act for one in heads.values()],
            "detail": [one.reason for one in heads.values()],
            "cause": [one.cause.value for one in heads.values()],
            "first": self.instants([one.first for one in heads.values()]),
            "last": self.instants([one.last for one in heads.values()]),
        }
        await self.ask("drop", values, by=by)

    async def note_caught_up(self, heads: Sequence[CaughtUp], by: str) -> None:
        values: Columns = {
            "id": [one.id for one in heads],
            "detail": [one.reason for one in heads],
            "first": self.instants([one.first for one in heads]),
            "last": self.instants([one.last for one in heads]),
        }
        await self.ask("note_caught_up", values, by=by, cause=Cause.MISFIRE.value)

    async def hold(self, heads: Mapping[str, Hold], by: str) -> None:
        values: Columns = {
            "id": list(heads),
            "held": [hold.reason for hold in heads.values()],
            "hold_kind": [hold.kind.value for hold in heads.values()],
        }
        await self.ask("hold", values, by=by)

    async def taken(self, identities: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        values: Columns = {"series": [i[0] for i in identities], "occurrence": [i[1] for i in identities]}
        return {(row[0], row[1]) for row in await self.ask("taken", values)}

    async def facts(self, between: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, datetime]]:
        series, low, high = (list(column) for column in zip(*between, strict=True))
        rows = await self.ask("facts", {"series": series, "low": low, "high": high})
        return [(series, occurrence, self.read_instant(at)) for series, occurrence, at in rows]

    async def passed_ahead(self, series: Sequence[tuple[str, datetime]]) -> list[Event]:
        values: Columns = {"series": [one[0] for one in series], "after": self.instants([one[1] for one in series])}
        return [self.readers.event.read(row) for row in await self.ask("passed_ahead", values)]

    async def free_names(self, freed: Sequence[Freed], by: str) -> None:
        values: Columns = {
            "id": [one.id for one in freed],
            "occurrence": [one.occurrence for one in freed],
            "scheduled": self.instants([one.scheduled for one in freed]),
            "stands_for": [one.stands_for for one in freed],
            "detail": [one.detail for one in freed],
            "first": self.instants([one.first for one in freed]),
        }
        await self.ask("free_names", values, by=by)

    async def head(self, series: str) -> Event | None:
        return self.one(await self.ask("head", series=series))

    async def head_id(self, series: str) -> str | None:
        rows = await self.ask("head_id", series=series)
        return rows[0][0] if rows else None

    async def reshape(self, heads: Sequence[Reshaped], by: str) -> None:
        values = self.batch(
            RESHAPE,
            [one.anew for one in heads],
            id=[one.id for one in heads],
            act=[one.act for one in heads],
            detail=[one.detail for one in heads],
        )
        await self.ask("reshape", values, by=by, soon=self.span(self.soon))

    # -- holding and releasing events

    async def under_way(self, series: Sequence[str]) -> dict[str, int]:
        return {row[0]: row[1] for row in await self.ask("under_way", series=self.listed(series))}

    async def successes(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime | None]:
        values: Columns = {"tenant": [tenant for tenant, _ in names], "name": [name for _, name in names]}
        rows = await self.ask("successes", values)
        return {(tenant, name): self.maybe_instant(at) for tenant, name, at in rows}

    async def let_go(self, room: Mapping[str, int], by: str) -> list[str]:
        values = self.series_room(room)
        rows = await self.ask("let_go", values, by=by, soon=self.span(self.soon))
        return [row[0] for row in rows]

    def series_room(self, room: Mapping[str, int]) -> Columns:
        """Parameters with a row for each series."""
        return {"series": list(room), "free": list(room.values())}

    async def waiting_series(self) -> list[str]:
        return [row[0] for row in await self.ask("waiting_series")]

    async def hold_series(self, series: str, hold: Hold, by: str) -> int:
        return await self._in_batches("hold_series", series=series, held=hold.reason, hold_kind=hold.kind.value, by=by)

    async def rehold(self, series: str, kind: HoldKind, anew: Hold) -> None:
        await self._in_batches("rehold", series=series, kind=kind.value, held=anew.reason, hold_kind=anew.kind.value)

    async def gate(self, series: str, gated: bool) -> None:
        await self._in_batches("gate", series=series, gated=gated)

    async def cancel_series(self, series: str, by: str, reason: str) -> int:
        return await self._in_batches("cancel_series", series=series, by=by, detail=reason)

    async def _in_batches(self, name: str, **parameters: Any) -> int:
        """Repeats the query until no row is left to change; returns the number of changed rows."""
        total, many = 0, BATCH_ROWS
        while many >= BATCH_ROWS:
            many = len(await self.ask(name, many=BATCH_ROWS, **parameters))
            total += many
        return total

    # -- newer zone data

    async def stale_heads(self, zone_data: str, *, after: tuple[str, str] = ("", FIRST_ID), limit: int) -> list[Event]:
        rows = await self.ask("stale_heads", zone_data=zone_data, after_data=after[0], after_id=after[1], limit=limit)
        return [self.readers.event.read(row) for row in rows]

    async def replan(self, moved: Sequence[Moved], zone_data: str, by: str) -> None:
        values = self.batch(REPLAN, [one.head for one in moved], detail=[one.detail for one in moved])
        await self.ask("replan", values, zone_data=zone_data, by=by, soon=self.span(self.soon))

    # -- reading

    def _shown(self, row: Any) -> Schedule:
        next_at, held, hold_kind, last_at, last_status = self.readers.schedule.rest(row)
        return msgspec.structs.replace(  # for people, who do not need the rules before its last edits
            self.readers.schedule.read(row),
            earlier_json=None,
            next_at=self.maybe_instant(next_at),
            held=held,
            hold_kind=None if hold_kind is None else HoldKind(hold_kind),
            last_at=self.maybe_instant(last_at),
            last_status=None if last_status is None else Status(last_status),
        )
