"""The event: one promised firing, its outcome, and the terms for both. Frozen: a change is a new value."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import msgspec

from duly.decide.retry import DEFAULT, Retry, read_retry
from duly.records.finding.counts import COUNTED
from duly.records.marks import Fallback, FromOne, FromZero, Id, Internal, Mark, told
from duly.records.wire.forms import JsonForm, JsonPart, computed
from duly.records.wire.retry import RETRY
from duly.rules.policies import EXPIRES
from duly.rules.zones import to_wall
from duly.values.spans import SpanOption, span_options


class Status(StrEnum):
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"

    @classmethod
    def _missing_(cls, value: object) -> "Status | None":
        """The status in other letter cases: people write ``pending``."""
        return cls._value2member_map_.get(value.upper()) if isinstance(value, str) else None  # type: ignore[return-value]


class HoldKind(StrEnum):
    """Why an event is held. The sentence in ``held`` is for people."""

    PAUSED = "paused"  # its schedule is paused
    LIMIT = "limit"  # as many events of its schedule are under way as may be, or others were before it
    TARGET = "target"  # its target or URL is parked
    PASSED_OVER = "passed_over"  # it was inserted to be SKIPPED in the same transaction


class NextState(StrEnum):
    """What a head knows about its successor. A head without a state does not know it yet."""

    KNOWN = "known"  # the head carries its successor: the claim can plant it without evaluating the rule
    CAREFUL = "careful"  # the successor, or whether the head fires, has to be decided when the head is due
    PLANTED = "planted"  # the event was a head, and the claim that fired it has planted its successor


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})
"""The statuses of events that have ended."""

FIRED = TERMINAL - {Status.CANCELLED}
"""The statuses of events that have ended, and whose keys stay fired."""


HANDLER = "handler"
"""The channel that calls a Python function; every other channel is named by the target."""


SCHEDULE = "schedule:"
"""The prefix of the names of schedules' series."""

USER = "user:"
"""The prefix of the names of users' series."""


def lane_of(type: str, target: dict[str, Any] | None) -> str:
    """The lane, which decides which workers can run the event: a handler lane for each event type, one lane for each
    other channel."""
    return f"{HANDLER}:{type}" if target is None else next(iter(target))


def series_of(user_id: str, type: str) -> str:
    """The series of a user's events of one type."""
    return f"{USER}{user_id}:{type}"


def user_of(series: str | None) -> str | None:
    """The id of the user whose series it is; None if the series is not a user's."""
    return series[len(USER) :].partition(":")[0] if series is not None and series.startswith(USER) else None


def schedule_of(series: str | None) -> str | None:
    """The id of the schedule whose series it is; None if the series is not a schedule's."""
    return series[len(SCHEDULE) :] if series is not None and series.startswith(SCHEDULE) else None


class EventUser(msgspec.Struct, frozen=True):
    """The user whose calendar event it is."""

    id: Id
    key: str | None  # the user's id in the caller's own system


QUIET = SpanOption(
    timedelta(milliseconds=1),
    timedelta(days=366),
    "Debounce: instead of a due time, so long after the last call with this key",
)
MAX_WAIT = SpanOption(
    timedelta(milliseconds=1), timedelta(days=366), "With quiet: at most so long after the first call with this key"
)


class Timer(msgspec.Struct, frozen=True):
    """A caller's request for one firing: at an instant, after a delay, or, with *quiet*, so long after the last of many
    calls."""

    due: datetime | timedelta | float | str | None
    type: str
    payload: Any = None
    key: str | None = None
    tenant: str = "default"
    target: dict[str, Any] | None = None
    retry: Retry = DEFAULT
    correlation_id: str | None = None
    expires: Annotated[timedelta | float | str | None, EXPIRES] = None
    once: bool | None = None  # a key that has fired stays fired; False, or with *quiet* None: it may fire again
    quiet: Annotated[timedelta | float | str | None, QUIET] = None
    max_wait: Annotated[timedelta | float | str | None, MAX_WAIT] = None


class TimerOptions(TypedDict, total=False):
    """The options of a timer besides its time, type and payload; the defaults are those of Timer."""

    key: str | None
    tenant: str
    target: dict[str, Any] | None
    retry: Retry
    correlation_id: str | None
    expires: timedelta | float | str | None
    once: bool | None
    quiet: timedelta | float | str | None
    max_wait: timedelta | float | str | None


TIMER_SPANS = span_options(Timer)
"""The fields of a timer that are spans of time. Its event has them too."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A validated event, ready to be stored, with its JSON already encoded."""

    id: str
    tenant: str
    type: str
    lane: str
    due: datetime | None = None  # None: the store's now plus the delay
    delay: timedelta | None = None
    payload_json: str = "null"
    key: str | None = None
    target_json: str | None = None
    retry_json: str | None = None
    correlation_id: str | None = None
    series: str | None = None
    occurrence: str | None = None
    head: bool = False
    scheduled: datetime | None = None
    timezone: str | None = None
    zone_data: str | None = None
    held: str | None = None
    hold_kind: HoldKind | None = None
    gated: bool = False
    rule_json: str | None = None
    destination: str | None = None
    asked: int | None = None  # the order of requests: an older request for the same key must not undo a newer one
    via: str | None = None  # how it was put: see decide/targets/origin.py
    expires: timedelta | None = None
    owner: str | None = None  # the name of its schedule, or the key of its user
    once: bool = True
    quiet: timedelta | None = None
    max_wait: timedelta | None = None
    # The successor of a head: see decide/series/successor.py. Only the claim reads these columns.
    next_state: NextState | None = None
    next_occurrence: str | None = None
    next_scheduled: datetime | None = None
    next_due: datetime | None = None
    next_data: str | None = None  # the editions of the zone data and holidays behind the successor
    ordinary_until: datetime | None = None  # before this instant, the head fires as it is, and its successor follows

    @property
    def stored_target(self) -> str | None:
        """The name of the stored target that the event goes to; None if the event has a URL of its own, or goes to a
        handler or broker."""
        return None if self.destination is None or "://" in self.destination else self.destination


class StopFlag:
    """Whether a handler in a thread was asked to stop, and whether it has seen that."""

    __slots__ = ("asked", "seen")

    def __init__(self) -> None:
        self.asked = self.seen = False

    def look(self) -> bool:
        self.seen = self.asked
        return self.asked


# A msgspec struct, not a dataclass: creating a frozen dataclass of this size takes 4 µs, creating this takes 0.1 µs,
# and a worker creates one for every event that it claims.
class Event(msgspec.Struct, frozen=True, gc=False):
    """One promised firing."""

    id: Id
    tenant: str
    type: str
    lane: Internal[str]
    status: Status
    due: datetime  # the promised instant; a retry never moves it
    ready: datetime | None  # the earliest next attempt, or the end of the lease; None if held or ended
    version: FromOne  # counts claims; writes of a worker that has lost its claim are refused by it
    attempts: FromZero  # the number of settled attempts
    interruptions: FromZero  # the number of claims that a crash ended
    stands_for: FromOne  # the number of occurrences that this firing stands for, itself included
    payload_json: str
    target_json: str | None
    retry_json: str | None
    key: Annotated[str | None, Fallback("freed_key")]  # also after a later event took it
    correlation_id: str | None
    series: str | None
    occurrence: str | None
    head: Annotated[bool, told("Whether it is the next event of its series")]
    held: Annotated[str | None, told("Why it is held, for people")]  # only while ready is None
    hold_kind: Annotated[HoldKind | None, told("Why it is held, for programs")]
    held_for: Annotated[str | None, told("The parked target or URL that it waits for")]
    last_error: str | None
    created: datetime
    claimed: datetime | None
    executed: datetime | None
    worker: str | None
    scheduled: datetime | None = None  # the instant of the occurrence by the rule, before jitter and moves
    timezone: str | None = None  # the time zone of the rule
    zone_data: str | None = None  # the edition of the zone data behind the instant, if it matters
    gated: Internal[bool] = False  # its schedule limits concurrency: its end lets the next event start
    rule_json: Internal[str | None] = None  # the rule of a user's series; a schedule stores its own
    destination: str | None = None  # the target's name or its URL's origin; limits apply to it
    via: Internal[str | None] = None  # how it was put: see decide/targets/origin.py
    expires: timedelta | None = None  # an attempt may begin until this long after the due time
    stop_requested: Annotated[datetime | None, told("When it was asked to stop while it ran")] = None
    owner: str | None = None  # the name of its schedule, or the key of its user; its series says which, and has the id
    quiet: timedelta | None = None  # debounced: each call moves it to so long after now,
    max_wait: timedelta | None = None  # at most so long after the first call,
    first_asked: Annotated[datetime | None, told("First call of a debounced timer")] = None
    replay_of: Annotated[Id | None, told("The event that it replays with another payload")] = None
    replayed_as: Annotated[Id | None, told("The latest event that replays it with another payload")] = None
    is_test: Annotated[bool, Mark.NOT_STORED, Mark.INTERNAL] = False  # sent by ``duly.targets.test``, never stored
    stop_flag: Annotated[Any, Mark.NOT_STORED, Mark.INTERNAL] = None  # of a handler in a thread: see ``stopping``

    @property
    def stored_target(self) -> str | None:
        """The name of the stored target that the event goes to; None if the event has a URL of its own, or goes to a
        handler or broker."""
        return None if self.destination is None or "://" in self.destination else self.destination

    @property
    def stopping(self) -> bool:
        """Whether a plain ``def`` handler is asked to stop: somebody has cancelled the event, or the worker stops. An
        ``async def`` handler is cancelled instead."""
        return self.stop_flag is not None and self.stop_flag.look()

    @property
    def payload(self) -> Any:
        """The payload, decoded again at each access, so that changes to one copy do not affect others."""
        return msgspec.json.decode(self.payload_json)

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def retry(self) -> Retry:
        return read_retry(self.retry_json)

    @property
    def attempt(self) -> int:
        """The number of the attempt under way, or of the next one."""
        return self.attempts + 1

    @property
    def local(self) -> datetime | None:
        """The due time on the clocks of the event's time zone; None without a time zone."""
        return None if self.timezone is None else to_wall(self.due, self.timezone)

    @property
    def user_id(self) -> str | None:
        """The id of the user whose calendar event it is; None for other events."""
        return user_of(self.series)

    @property
    def user(self) -> EventUser | None:
        """The user whose calendar event it is, also after the user was deleted; None for other events."""
        return None if (id := self.user_id) is None else EventUser(id, self.owner)

    @property
    def schedule(self) -> str | None:
        """The name of the event's schedule, also after the schedule was deleted; None for other events."""
        return None if self.schedule_id is None else self.owner

    @property
    def schedule_id(self) -> str | None:
        """The id of the event's schedule; None for other events."""
        return schedule_of(self.series)

    @property
    def expires_at(self) -> datetime | None:
        """The last instant at which an attempt may begin; None: no limit."""
        return None if self.expires is None else self.due + self.expires

    @property
    def lateness(self) -> timedelta | None:
        """The time from the due time to the start of the successful attempt; None before success."""
        return None if self.executed is None else self.executed - self.due


def _lane_read(seen: Any) -> dict[str, str]:
    """The lane is not in the JSON, because it follows from the type and target."""
    return {"lane": lane_of(seen.type, msgspec.json.decode(seen.target))}


def _whose_read(seen: Any) -> dict[str, str | None]:
    return {"owner": seen.schedule if seen.user is None else seen.user.key}


WHOSE = JsonPart(
    {
        "schedule": Annotated[str | None, told("Name of its schedule")],
        "user": Annotated[EventUser | None, told("The user whose event it is")],
    },
    lambda event: {"schedule": event.schedule, "user": event.user},
    _whose_read,
)


def _lateness_seconds(event: Event) -> float | None:
    return None if (lateness := event.lateness) is None else lateness.total_seconds()


EVENT_JSON = JsonForm(
    Event,
    parts={"lane": JsonPart({}, lambda _: {}, _lane_read), "retry_json": RETRY, "owner": WHOSE},
    computed=(
        computed(
            Annotated[datetime | None, told("Due time as local time in its zone")], "local_at", lambda one: one.local
        ),
        computed(Id | None, "user_id", lambda one: one.user_id),
        computed(FromOne, "max_attempts", lambda one: one.retry.max_attempts),
        computed(float | None, "lateness_seconds", _lateness_seconds),
    ),
)
EVENT_PAGE = EVENT_JSON.page(
    "Events",
    "events",
    next_after=Annotated[str | None, told("Value of `after` for the next page; null on the last page")],
    count=COUNTED,
)


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The proof that a worker must show to settle: the event and the version that its claim returned."""

    id: str
    version: int


class Delivered(msgspec.Struct, frozen=True):
    """The destination has accepted the event."""

    output: str | None = None  # the end of what a command has written


class Failed(msgspec.Struct, frozen=True):
    """The attempt failed and may be retried, not before *retry_after* if that is given."""

    error: str
    retry_after: timedelta | None = None
    outage: bool = False  # whether the destination seems to be down: it is parked after several of these
    output: str | None = None  # the end of what a command has written


class Rejected(msgspec.Struct, frozen=True):
    """The attempt failed for good and is not retried."""

    error: str
    gone: bool = False  # the destination asks to be sent nothing more, ever
    output: str | None = None  # the end of what a command has written


class Unreachable(msgspec.Struct, frozen=True):
    """The means of delivery is down, which is not the event's fault: it does not count as an attempt."""

    reason: str
    retry_after: timedelta = timedelta(seconds=5)
    told: bool = False  # whether the outage was already reported, once for all waiting events
    output: str | None = None  # the end of what a command has written


class Held(msgspec.Struct, frozen=True):
    """The destination is parked: it does not count as an attempt, and the event waits until the destination is open
    again."""

    destination: str
    reason: str


class Expired(msgspec.Struct, frozen=True):
    """The event was too late to begin: no attempt was made, and none will be."""


Outcome = Delivered | Failed | Rejected | Unreachable | Held | Expired


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The consequence of an outcome for the event: its next status, and when it is ready again."""

    status: Status
    act: str  # the act in the history: delivered, failed, rejected, given back
    error: str | None = None
    wait: timedelta | None = None  # PENDING again, ready this long after the store's now
    counts: bool = True  # whether it counts as an attempt
    held: str | None = None  # PENDING again, held until this destination is open; *error* is the reason
    told: bool = False  # whether observers are not notified, because the cause was already reported
    output: str | None = None  # the end of what a command has written, for the history


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A verdict on one claim, ready for the store."""

    event: Event
    verdict: Verdict
    took_s: float | None = None  # seconds that the attempt took; None if there was none
