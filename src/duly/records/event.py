"""The event: one promised firing, what becomes of it, and the words for both. Frozen: a change is a new value."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import msgspec

from duly.decide.retry import DEFAULT, Retry, read_retry
from duly.records.marks import FromOne, FromZero, Id, Internal, LookedUp, told
from duly.records.wire.forms import JsonForm, Part, computed
from duly.records.wire.retry import RETRY
from duly.rules.policies import EXPIRES
from duly.rules.zones import to_wall
from duly.spans import span_options


class Status(StrEnum):
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})


HANDLER = "handler"
"""The channel that calls a Python function; every other channel is named by the target."""


SCHEDULE, USER = "schedule:", "user:"
"""How the names of series begin: of schedules, and of users."""


def lane_of(type: str, target: dict[str, Any] | None) -> str:
    """Who can run it: a handler lane for each event type, one lane for each other channel."""
    return f"{HANDLER}:{type}" if target is None else next(iter(target))


def series_of(user_id: str, type: str) -> str:
    """The series of a user's events of one type."""
    return f"{USER}{user_id}:{type}"


def user_of(series: str | None) -> str | None:
    """Whose series it is, if it is a user's."""
    return series[len(USER) :].partition(":")[0] if series is not None and series.startswith(USER) else None


def schedule_of(series: str | None) -> str | None:
    """The id of the schedule whose series it is, if it is a schedule's."""
    return series[len(SCHEDULE) :] if series is not None and series.startswith(SCHEDULE) else None


class Timer(msgspec.Struct, frozen=True):
    """What a caller asks for: one firing, at an instant or after a delay."""

    due: datetime | timedelta
    type: str
    payload: Any = None
    key: str | None = None
    tenant: str = "default"
    target: dict[str, Any] | None = None
    retry: Retry = DEFAULT
    correlation_id: str | None = None
    expires: Annotated[timedelta | float | str | None, EXPIRES] = None


class TimerOptions(TypedDict, total=False):
    """What may be said of a timer beside its time, type and payload; the defaults are a Timer's."""

    key: str | None
    tenant: str
    target: dict[str, Any] | None
    retry: Retry
    correlation_id: str | None
    expires: timedelta | float | str | None


TIMER_SPANS = span_options(Timer)
"""The fields of a timer that are spans of time. Its event has them too."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked event on its way to the store, its JSON already written."""

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
    gated: bool = False
    rule_json: str | None = None
    destination: str | None = None
    asked: int | None = None  # larger is later: an older wish for the same key does not undo a newer one
    via: str | None = None  # how it came: see decide/targets/origin.py
    expires: timedelta | None = None

    @property
    def stored_target(self) -> str | None:
        """The name of the stored target that it goes to; None where it says itself where it goes, or goes to a handler
        or broker."""
        return None if self.destination is None or "://" in self.destination else self.destination


# A msgspec struct, not a dataclass: a frozen dataclass of this size takes 4 µs to make, this 0.1,
# and a worker makes one for every event that it claims.
class Event(msgspec.Struct, frozen=True, gc=False):
    """One promised firing."""

    id: Id
    tenant: str
    type: str
    lane: Internal[str]
    status: Status
    due: datetime  # promised; a retry never moves it
    ready: datetime | None  # earliest next attempt, or the end of the lease; None when held or ended
    version: FromOne  # counts claims; fences late writers
    attempts: FromZero  # settled attempts
    interruptions: FromZero  # claims that a crash ended
    stands_for: FromOne  # occurrences that this firing stands for, itself included
    payload_json: str
    target_json: str | None
    retry_json: str | None
    key: str | None
    correlation_id: str | None
    series: str | None
    occurrence: str | None
    head: Annotated[bool, told("Whether it is the next one of its series")]
    held: Annotated[str | None, told("Why it waits")]  # while ready is empty
    last_error: str | None
    created: datetime
    claimed: datetime | None
    executed: datetime | None
    worker: str | None
    scheduled: datetime | None = None  # the instant of its occurrence by the rule, before jitter and moves
    timezone: str | None = None  # whose clocks the rule goes by
    zone_data: str | None = None  # the edition of the zone data that gave the instant, where it depends on that
    gated: Internal[bool] = False  # its schedule limits how many are under way, so its end lets the next one start
    rule_json: Internal[str | None] = None  # by which a user's series continues; a schedule has its own
    destination: str | None = None  # whom its target names, where limits apply to that
    via: Internal[str | None] = None  # how it came: see decide/targets/origin.py
    expires: timedelta | None = None  # so long after its due time, no attempt begins any more
    schedule: Annotated[LookedUp[str | None], told("The name of its schedule")] = None  # a handler is not told

    @property
    def stored_target(self) -> str | None:
        """The name of the stored target that it goes to; None where it says itself where it goes, or goes to a handler
        or broker."""
        return None if self.destination is None or "://" in self.destination else self.destination

    @property
    def payload(self) -> Any:
        """Decoded anew at each access, so nobody's changes reach anybody else."""
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
        """What the clocks of its zone show when it is due; None for what has no zone."""
        return None if self.timezone is None else to_wall(self.due, self.timezone)

    @property
    def user_id(self) -> str | None:
        """Whose calendar event it is."""
        return user_of(self.series)

    @property
    def schedule_id(self) -> str | None:
        """Which schedule it is of."""
        return schedule_of(self.series)

    @property
    def expires_at(self) -> datetime | None:
        """The last instant at which an attempt may begin; None: at any time."""
        return None if self.expires is None else self.due + self.expires

    @property
    def lateness(self) -> timedelta | None:
        """How long after its due time the attempt that succeeded began; None before that."""
        return None if self.executed is None else self.executed - self.due


def _lane_read(seen: Any) -> dict[str, str]:
    """It is not told, for it follows from the target."""
    return {"lane": lane_of(seen.type, msgspec.json.decode(seen.target))}


def _lateness_seconds(event: Event) -> float | None:
    return None if (lateness := event.lateness) is None else lateness.total_seconds()


EVENT_JSON = JsonForm(
    Event,
    parts={"lane": Part({}, lambda _: {}, _lane_read), "retry_json": RETRY},
    computed=(
        computed(
            Annotated[datetime | None, told("What the clocks of its zone show then")], "local_at", lambda one: one.local
        ),
        computed(Id | None, "user_id", lambda one: one.user_id),
        computed(FromOne, "max_attempts", lambda one: one.retry.max_attempts),
        computed(float | None, "lateness_seconds", _lateness_seconds),
    ),
)
EVENT_PAGE = EVENT_JSON.page(
    "Events", "events", next_after=Annotated[Id | None, told("The id for `after`; null at the end")]
)


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What a worker must show to settle: the event and the version that its claim returned."""

    id: str
    version: int


class Delivered(msgspec.Struct, frozen=True):
    """The other side has it."""


class Failed(msgspec.Struct, frozen=True):
    """It did not work this time; worth another try, not before *retry_after* if that is given."""

    error: str
    retry_after: timedelta | None = None
    outage: bool = False  # as if the destination were down: enough of these, and it is parked


class Rejected(msgspec.Struct, frozen=True):
    """It will not work; do not try again."""

    error: str
    gone: bool = False  # for good, says the destination: nothing more is to be sent there


class Unreachable(msgspec.Struct, frozen=True):
    """The means of delivery is down, not the event's fault: no attempt is spent."""

    reason: str
    retry_after: timedelta = timedelta(seconds=5)
    told: bool = False  # that it is down was told already, once for all that wait


class Held(msgspec.Struct, frozen=True):
    """What is parked: no attempt is spent, and the event waits until that is over."""

    destination: str
    reason: str


class Expired(msgspec.Struct, frozen=True):
    """It was too late to begin: no attempt was made, and none will be."""


Outcome = Delivered | Failed | Rejected | Unreachable | Held | Expired


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What an outcome means for the event: its next status, and when it is ready again."""

    status: Status
    act: str  # the word in the history: delivered, failed, rejected, given back
    error: str | None = None
    wait: timedelta | None = None  # PENDING again, this long after the store's now
    counts: bool = True  # whether it was an attempt
    held: str | None = None  # PENDING again, and held until this destination is open; the error is the reason
    told: bool = False  # nobody needs to hear of this one


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A verdict on one claim, ready for the store."""

    event: Event
    verdict: Verdict
