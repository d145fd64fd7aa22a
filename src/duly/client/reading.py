"""Reads what a server says: the same structs that the verbs of Duly give."""

from datetime import date, datetime, time
from functools import lru_cache
from typing import Any

import msgspec

from duly.decide.preview import Preview
from duly.decide.retry import parse_retry, retry_text
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid
from duly.records.event import Event, Status, lane_of
from duly.records.history import Entry
from duly.records.schedule import PassedOver, Schedule
from duly.records.target import Known, Target
from duly.records.user import User
from duly.rules.notation import parse_rule, usual_dst
from duly.rules.policies import DEFAULT as NO_POLICIES

NULL = b"null"
USUAL = {"format": "standard", "method": "POST"}
"""What a target need not say."""

_PLAIN = NO_POLICIES.to_json()


class Wrong(msgspec.Struct):
    path: str
    message: str


class SeenEvent(msgspec.Struct):
    id: str
    tenant: str
    key: str | None
    type: str
    status: Status
    due_at: datetime
    timezone: str | None
    zone_data: str | None
    scheduled_at: datetime | None
    ready_at: datetime | None
    held: str | None
    series: str | None
    occurrence: str | None
    head: bool
    stands_for: int
    payload: msgspec.Raw
    target: msgspec.Raw
    destination: str | None
    attempts: int
    retry: msgspec.Raw
    interruptions: int
    version: int
    correlation_id: str | None
    last_error: str | None
    worker: str | None
    created_at: datetime
    claimed_at: datetime | None
    executed_at: datetime | None

    def event(self) -> Event:
        """All of it but what only the engine needs: ``gated``, ``rule_json`` and ``via`` are not told over HTTP."""
        target = _text(self.target)
        return Event(
            self.id,
            self.tenant,
            self.type,
            lane_of(self.type, None if target is None else msgspec.json.decode(target)),
            self.status,
            self.due_at,
            self.ready_at,
            self.version,
            self.attempts,
            self.interruptions,
            self.stands_for,
            bytes(self.payload).decode(),
            target,
            _retry_text(bytes(self.retry)),
            self.key,
            self.correlation_id,
            self.series,
            self.occurrence,
            self.head,
            self.held,
            self.last_error,
            self.created_at,
            self.claimed_at,
            self.executed_at,
            self.worker,
            scheduled=self.scheduled_at,
            timezone=self.timezone,
            zone_data=self.zone_data,
            destination=self.destination,
        )


class SeenEntry(msgspec.Struct):
    at: datetime
    act: str
    worker: str | None
    version: int | None
    attempt: int | None
    claimed_at: datetime | None
    detail: str | None

    def entry(self) -> Entry:
        return Entry(self.at, self.act, self.worker, self.version, self.attempt, self.claimed_at, self.detail)


class SeenHistory(msgspec.Struct):
    history: list[SeenEntry]
    next_cursor: str | None

    def entries(self) -> list[Entry]:
        return [one.entry() for one in self.history]


class SeenSchedule(msgspec.Struct):
    id: str
    name: str
    tenant: str
    type: str
    rule: msgspec.Raw
    timezone: str
    payload: msgspec.Raw
    target: msgspec.Raw
    misfire: Any
    overlap: Any
    max_concurrent: Any
    depends_on: Any
    start: Any
    end: Any
    dst: Any
    jitter: Any
    exclude: Any
    mode: Any
    retry: msgspec.Raw
    enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    held: str | None
    halted: str | None
    origin: str | None
    created_at: datetime | None
    updated_at: datetime | None
    passed_over: PassedOver | None = None

    def schedule(self) -> Schedule:
        return Schedule(
            id=self.id,
            tenant=self.tenant,
            name=self.name,
            type=self.type,
            rule_json=bytes(self.rule).decode(),
            timezone=self.timezone,
            policies_json=self._policies(),
            payload_json=bytes(self.payload).decode(),
            target_json=_text(self.target),
            retry_json=_retry_text(bytes(self.retry)),
            enabled=self.enabled,
            halted=self.halted,
            origin=self.origin,
            created=self.created_at,
            updated=self.updated_at,
            next_at=self.next_at,
            last_at=self.last_at,
            held=self.held,
            passed_over=self.passed_over,
        )

    def _policies(self) -> str | None:
        """As a store keeps them: only what is not as usual. It is not checked: this machine may lack the calendars
        that the server has."""
        told = {name: getattr(self, name) for name in _PLAIN} | {"dst": self._dst()}
        unusual = {name: value for name, value in told.items() if value != _PLAIN[name]}
        return msgspec.json.encode(unusual).decode() if unusual else None

    def _dst(self) -> Any:
        """Without what the rule does anyway, which the server tells as well: whether somebody has said it is lost."""
        try:
            usual = usual_dst(parse_rule(msgspec.json.decode(self.rule), self.timezone))
        except (Invalid, ValueError):
            return self.dst
        return {field: value for field, value in self.dst.items() if value != usual.get(field)}


class SeenResumed(SeenSchedule, kw_only=True):
    passed: int
    fires: bool


class SeenUser(msgspec.Struct):
    id: str
    tenant: str
    key: str | None
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    anniversary: date | None
    delivery_time: time | None
    leap: str | None
    target: msgspec.Raw
    attributes: msgspec.Raw
    created_at: datetime | None
    updated_at: datetime | None

    def user(self) -> User:
        """``created_by`` and ``usual_time`` are not told over HTTP; the history says who has added the user."""
        attributes = bytes(self.attributes)
        return User(
            id=self.id,
            tenant=self.tenant,
            key=self.key,
            first_name=self.first_name,
            last_name=self.last_name,
            date_of_birth=self.date_of_birth,
            timezone=self.timezone,
            anniversary=self.anniversary,
            delivery_time=self.delivery_time,
            leap=self.leap,
            target_json=_text(self.target),
            attributes_json=None if attributes == b"{}" else attributes.decode(),
            created=self.created_at,
            updated=self.updated_at,
        )


class SeenTarget(msgspec.Struct):
    id: str
    name: str
    tenant: str
    channel: str
    url: str
    timeout: str | None
    headers: list[str]
    concurrency: int | None
    rate: str | None
    parked: str | None
    parked_since: datetime | None
    probe_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None
    format: str | None = None
    method: str | None = None
    secret: str | None = None

    def target(self) -> Target:
        """What is sealed stays with the server, and so does whether the usual format or method was written down."""
        told = {"url": self.url, "method": self.method, "format": self.format, "timeout": self.timeout}
        spec: dict[str, Any] = {name: value for name, value in told.items() if value not in (None, USUAL.get(name))}
        if self.headers:
            spec["headers"] = self.headers
        return Target(
            id=self.id,
            tenant=self.tenant,
            name=self.name,
            channel=self.channel,
            spec_json=msgspec.json.encode(spec).decode(),
            created=self.created_at,
            updated=self.updated_at,
            secret=self.secret,
            known=self.known(),
        )

    def known(self) -> Known:
        rate = None if self.rate is None else 1 / read_rate(self.rate).total_seconds()
        return Known(self.tenant, self.name, self.concurrency, rate, self.parked, self.parked_since, self.probe_at)


class SeenPreview(msgspec.Struct):
    due_at: datetime
    local_at: datetime
    note: str | None

    def preview(self) -> Preview:
        return Preview(self.due_at, self.local_at, self.note)


class SeenEvents(msgspec.Struct):
    events: list[SeenEvent]
    next_cursor: str | None


class SeenSchedules(msgspec.Struct):
    schedules: list[SeenSchedule]
    next_cursor: str | None


class SeenUsers(msgspec.Struct):
    users: list[SeenUser]
    next_cursor: str | None


class SeenTargets(msgspec.Struct):
    targets: list[SeenTarget]
    next_cursor: str | None


class SeenOccurrences(msgspec.Struct):
    occurrences: list[SeenPreview]
    complete: bool = True


EVENT = msgspec.json.Decoder(SeenEvent)
EVENTS = msgspec.json.Decoder(SeenEvents)
HISTORY = msgspec.json.Decoder(SeenHistory)
SCHEDULE = msgspec.json.Decoder(SeenSchedule)
USER = msgspec.json.Decoder(SeenUser)
TARGET = msgspec.json.Decoder(SeenTarget)
OCCURRENCES = msgspec.json.Decoder(SeenOccurrences)


def _text(written: msgspec.Raw) -> str | None:
    return None if bytes(written) == NULL else bytes(written).decode()


@lru_cache(maxsize=256)
def _retry_text(written: bytes) -> str | None:
    return retry_text(parse_retry(msgspec.json.decode(written)))
