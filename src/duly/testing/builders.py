"""Builders of users and events for tests: a test says what matters to it, and the rest has sensible values.

    user = UserBuilder().with_first_name("Jane").with_timezone("Europe/London").build()
    event = EventBuilder(clock).that_is_overdue(hours=2).with_user_id(user.id).build()

Each word returns a new builder, so that several tests can start from the same one.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, Self

import msgspec

from duly.decide.retry import DEFAULT, Retry, retry_text
from duly.decide.targets.targets import destination_of
from duly.duly import Duly
from duly.errors import Misuse
from duly.ids import new_id
from duly.records.event import USER, Event, Status, Timer, lane_of
from duly.records.user import User

LEASE = timedelta(seconds=30)
"""The lease of an event that is being processed."""

A_WORKER = "a worker"
"""The worker of events that have been tried."""


class Clock(Protocol):
    """A clock, such as ``ManualClock``."""

    def now(self) -> datetime: ...


class Builder:
    """The values of what is built. *clock* is the present; without one, it is the present of this machine."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._now = datetime.now(UTC) if clock is None else clock.now()
        self._said: dict[str, Any] = {}

    def _with(self, **said: Any) -> Self:
        other = object.__new__(type(self))
        other._now, other._said = self._now, {**self._said, **said}
        return other


class UserBuilder(Builder):
    """Builds a user: John Doe, born on 1 January 1990, in New York.

    >>> UserBuilder().with_first_name("Jane").build().first_name
    'Jane'
    """

    def with_id(self, id: str) -> Self:
        return self._with(id=id)

    def with_tenant(self, tenant: str) -> Self:
        return self._with(tenant=tenant)

    def with_key(self, key: str) -> Self:
        return self._with(key=key)

    def with_first_name(self, name: str) -> Self:
        return self._with(first_name=name)

    def with_last_name(self, name: str) -> Self:
        return self._with(last_name=name)

    def with_date_of_birth(self, day: date | str) -> Self:
        return self._with(date_of_birth=_date(day))

    def with_anniversary(self, day: date | str) -> Self:
        return self._with(anniversary=_date(day))

    def with_timezone(self, name: str) -> Self:
        return self._with(timezone=name)

    def with_target(self, target: dict[str, Any]) -> Self:
        return self._with(target=target)

    def with_attributes(self, **attributes: Any) -> Self:
        return self._with(attributes={**self._said.get("attributes", {}), **attributes})

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a new user, for ``duly.users.add`` and for the body of a request; without id and tenant, which
        the store and the caller give."""
        usual = {
            "first_name": "John",
            "last_name": "Doe",
            "date_of_birth": date(1990, 1, 1),
            "timezone": "America/New_York",
        }
        return {name: value for name, value in (usual | self._said).items() if name not in ("id", "tenant")}

    def build(self) -> User:
        """The user as a store would return it. It is in no database."""
        fields = self.fields
        target, attributes = fields.pop("target", None), fields.pop("attributes", None)
        return User(
            id=self._said.get("id") or new_id(),
            tenant=self._said.get("tenant", "default"),
            target_json=_json(target),
            attributes_json=_json(attributes),
            created=self._now,
            updated=self._now,
            **fields,
        )

    async def add_to(self, duly: Duly) -> User:
        """Adds the user to a database, which plans their events; returns the user. The store chooses the id."""
        if "id" in self._said:
            raise Misuse("the store chooses the id of a user: leave with_id() out, or use with_key()")
        return await duly.users.add(tenant=self._said.get("tenant", "default"), **self.fields)


class EventBuilder(Builder):
    """Builds an event: somebody's birthday, due tomorrow.

    >>> EventBuilder().that_is_ready().build().status
    <Status.PENDING: 'PENDING'>
    """

    def with_id(self, id: str) -> Self:
        return self._with(id=id)

    def with_tenant(self, tenant: str) -> Self:
        return self._with(tenant=tenant)

    def with_key(self, key: str) -> Self:
        return self._with(key=key)

    def with_user_id(self, user_id: str | None) -> Self:
        """The user whose event it is; None for a timer, which is nobody's."""
        return self._with(user_id=user_id)

    def with_type(self, type: str) -> Self:
        return self._with(type=type)

    def with_status(self, status: Status | str) -> Self:
        return self._with(status=Status(status))

    def with_target_timestamp(self, due: datetime) -> Self:
        """The instant at which the event is due."""
        return self._with(due=due.astimezone(UTC))

    def with_timezone(self, name: str) -> Self:
        return self._with(timezone=name)

    def with_payload(self, payload: Any) -> Self:
        return self._with(payload=payload)

    def with_target(self, target: dict[str, Any]) -> Self:
        return self._with(target=target)

    def with_retry(self, retry: Retry) -> Self:
        return self._with(retry=retry)

    def that_is_ready(self) -> Self:
        """PENDING, and due five minutes ago."""
        return self._with(due=self._now - timedelta(minutes=5), status=Status.PENDING)

    def that_is_overdue(self, hours: float) -> Self:
        """PENDING, and due so many hours ago."""
        return self._with(due=self._now - timedelta(hours=hours), status=Status.PENDING)

    def with_max_retries(self) -> Self:
        """FAILED, with all attempts spent."""
        return self._with(spent=True, status=Status.FAILED)

    @property
    def _due(self) -> datetime:
        return self._said.get("due", self._now + timedelta(days=1))  # type: ignore[no-any-return]

    @property
    def _payload(self) -> Any:
        return self._said.get("payload", {"message": "Test message"})

    def build(self) -> Event:
        """The event as a store would return it: its times follow from its due time and its status. It is in no
        database."""
        said, due = self._said, self._due
        type, target, retry = said.get("type", "birthday"), said.get("target"), said.get("retry", DEFAULT)
        status, user_id = said.get("status", Status.PENDING), said["user_id"] if "user_id" in said else new_id()
        pending, tried = status is Status.PENDING, status in (Status.PROCESSING, Status.COMPLETED, Status.FAILED)
        given: dict[str, Any] = {
            "id": said.get("id") or new_id(),
            "tenant": said.get("tenant", "default"),
            "type": type,
            "lane": lane_of(type, target),
            "status": status,
            "due": due,
            "ready": due if pending else due + LEASE if status is Status.PROCESSING else None,
            "version": 2 if tried else 1,
            "attempts": retry.max_attempts if said.get("spent") else int(status in (Status.COMPLETED, Status.FAILED)),
            "interruptions": 0,
            "stands_for": 1,
            "payload_json": _json(self._payload) or "null",
            "target_json": _json(target),
            "retry_json": retry_text(retry),
            "key": said.get("key"),
            "head": user_id is not None and pending,
            "last_error": "the test says so" if status is Status.FAILED else None,
            "created": min(self._now, due),
            "claimed": due if tried else None,
            "executed": due if status is Status.COMPLETED else None,
            "worker": A_WORKER if tried else None,
            "gated": False,
            "destination": destination_of(target),
        }
        if user_id is not None:
            zone = said.get("timezone", "America/New_York")
            series = {"series": f"{USER}{user_id}:{type}", "occurrence": f"{due:%Y-%m-%d}", "scheduled": due}
            given |= {**series, "timezone": zone}
        empty: dict[str, Any] = dict.fromkeys(Event.__struct_fields__)
        return Event(**(empty | given))

    def timer(self) -> Timer:
        """A timer with the same values, for ``duly.add_many``: events of users come with their users."""
        said = self._said
        if said.get("status", Status.PENDING) is not Status.PENDING:
            raise Misuse(f"a timer begins as PENDING, not as {said['status']}: let a worker bring it there")
        if said.get("user_id") is not None or "id" in said:
            raise Misuse("a timer has no user, and the store chooses its id: leave with_user_id() and with_id() out")
        return Timer(
            self._due,
            said.get("type", "birthday"),
            self._payload,
            said.get("key"),
            said.get("tenant", "default"),
            said.get("target"),
            said.get("retry", DEFAULT),
        )

    async def add_to(self, duly: Duly) -> Event:
        """Adds the event to a database as a timer; returns it."""
        [id] = await duly.add_many([self.timer()])
        return await duly.events.get(id)


def _date(day: date | str) -> date:
    return date.fromisoformat(day) if isinstance(day, str) else day


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
