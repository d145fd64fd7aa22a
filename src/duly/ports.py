"""The seams: small Protocols between what acts and what it acts upon."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple, Protocol, runtime_checkable

from duly.core.fairness import Candidate, Key
from duly.core.keys import ApiKey
from duly.core.model import Claim, Entry, Event, NewEvent, Outcome, Schedule, Settlement
from duly.core.recurrence import Occurrence
from duly.core.specs import Spec
from duly.core.stored_targets import Known, Target
from duly.core.succession import Reshaped
from duly.core.users import User


class Clock(Protocol):
    """Stands in for the store's own clock; tests move it."""

    def now(self) -> datetime: ...


class Channel(Protocol):
    """A means of delivery. It returns what became of the attempt; it raises only on a bug."""

    async def deliver(self, event: Event) -> Outcome: ...


@runtime_checkable
class SlowToStart(Channel, Protocol):
    """A channel that should be ready before its first event is due."""

    async def prepare(self) -> None: ...


@runtime_checkable
class Reachable(Protocol):
    """What has a server that may be down. Nothing is claimed for such a channel meanwhile."""

    @property
    def down(self) -> str | None:
        """Why it cannot be used now; None while nobody knows of a reason."""

    @property
    def on_trial(self) -> bool:
        """Whether it is down for having taken nothing, and one event at a time may show that it does again."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this whenever it goes down, is on trial or is up again."""

    def unwatch(self, changed: Callable[[], None]) -> None: ...


class TransactionalChannel(Channel, Protocol):
    """A channel whose effect and whose settlement can be one transaction."""

    async def deliver_in(self, event: Event, tx: "Transaction") -> Outcome: ...


class Route(NamedTuple):
    """How the events of one lane are delivered."""

    channel: Channel
    deadline: timedelta
    transactional: bool = False  # the channel has ``deliver_in``, and shares the settlement's transaction
    interruptible: bool = True  # False: what is cancelled goes on all the same, in a thread


class Command(Protocol):
    """What somebody asks for over a broker, as it came."""

    data: bytes

    @property
    def place(self) -> str:
        """By which the broker knows it."""

    @property
    def order(self) -> int:
        """Larger than that of all that were asked for before, and the same when it comes again."""

    @property
    def deliveries(self) -> int:
        """How often it has come, this time included."""

    async def ack(self) -> None:
        """It is done with. Without this it comes again."""


class Commands(Protocol):
    """Where commands come from. Raises when the broker cannot be reached."""

    async def prepare(self) -> None:
        """Make what it takes to send commands and to hear of them."""

    async def take(self, most: int, within: float) -> Sequence[Command]:
        """What there is, at most so many; none if nothing comes in so many seconds."""

    async def reject(self, command: Command, *rejections: bytes) -> str | None:
        """Keep the first of these that the broker takes where people look for what was refused; or why it takes none
        of them."""

    async def release(self) -> None:
        """Take no more, and give back at once what came and nobody has taken."""

    async def close(self) -> None: ...


class Directory(Protocol):
    """What is known of destinations, a moment old at most."""

    async def known(self, tenant: str, destination: str) -> Known: ...


class Added(NamedTuple):
    """What became of a new event: created, moved (an earlier one with its key), or unchanged."""

    event: Event
    change: str


class Page(NamedTuple):
    """Some events, and the id after which the next page begins; None at the end. Where few events satisfy a spec, a
    page may hold less than it has room for, or nothing, and still not be the last."""

    events: list[Event]
    next: str | None


class Horizon(NamedTuple):
    """How far away the next work is, by the store's clock; None where there is none."""

    fresh: timedelta | None
    heads: timedelta | None  # of schedules, whose successors are planned as they are claimed
    alone: timedelta | None  # work that a crash interrupted, to be delivered alone


class Seen(NamedTuple):
    """What the last whole look has shown, so that the next one need not start from the beginning: where the fresh work
    of each lane begins, and where the leases do. Empty where that is not known; later than now where all that is ready
    is known."""

    fresh: Mapping[str, datetime] = {}
    leased: datetime | None = None


class Looking(NamedTuple):
    """Where to look for others: among the newest of some lanes, and among so many of the oldest of each."""

    depth: Mapping[str, int]
    newest: int
    most: int  # to be told of in each lane
    since: Mapping[str, datetime] = {}  # where the oldest begin, as far as that is known


class Looked(NamedTuple):
    """Who is there, and how many of the oldest of each lane were looked at."""

    others: list[Candidate]
    examined: Mapping[str, int]


class Reserved(NamedTuple):
    """An event that is due in a moment. Nobody else takes it before *until*."""

    id: str
    version: int
    lane: str
    head: bool
    until: datetime


EXAMINED = 5_000
"""How many events one page looks at: some 5 ms of work."""

NOTHING_SEEN = Seen()
NOT_YET = datetime.max.replace(tzinfo=UTC)


class Heads(NamedTuple):
    """Heads that are locked, their schedules, which are locked as well, and the store's clock."""

    heads: list[Event]
    schedules: list[Schedule]
    now: datetime


class Fired(NamedTuple):
    """How a head fires."""

    id: str
    due: datetime
    occurrence: Occurrence
    stands_for: int
    gated: bool


class Moved(NamedTuple):
    """Where newer zone data puts a head; without a detail, where it was."""

    id: str
    due: datetime
    occurrence: Occurrence
    detail: str | None


class Letter(NamedTuple):
    """A dead letter as it was found. Whoever takes it up must show the version: since then, somebody else may have."""

    id: str
    version: int


class Kind(NamedTuple):
    """Dead letters of one tenant and type that go the same way, and how many they are."""

    tenant: str
    type: str
    lane: str
    destination: str | None  # the target's name, or the origin of its URL
    events: int


class DeadLetters(NamedTuple):
    """How many there are in all, and the most frequent kinds."""

    events: int
    kinds: tuple[Kind, ...]


class ScheduleStatements(Protocol):
    """What can be asked of a store about schedules, their heads, and what is held."""

    async def schedules(self, ids: Sequence[str]) -> list[Schedule]:
        """Schedules by id, locked until the transaction ends."""

    async def schedule_names(self, ids: Collection[str]) -> dict[str, str]:
        """What schedules are called, by their ids; one that is missing has been deleted."""

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, not locked."""

    async def shown_schedule(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, with its next and last firing."""

    async def shown_schedules(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Schedule]:
        """Those of a tenant, or of all, in the order of tenant and name, after these two."""

    async def declared(self) -> list[Schedule]:
        """Those that a function declares, or once has."""

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Insert or replace; False when a schedule with another id took the name meanwhile."""

    async def delete_schedule(self, id: str) -> None: ...

    async def dependents(self, tenant: str, name: str) -> list[str]:
        """The names of those that depend on this one."""

    async def halt(self, reasons: Mapping[str, str | None]) -> None:
        """Record for each schedule id why no head follows; None clears it."""

    async def note(self, notes: Sequence[tuple[str, str, str | None]], by: str) -> None:
        """History rows: the subject's id, the act, and a detail."""

    async def plant(self, events: Sequence[NewEvent]) -> set[str]:
        """Insert events of series; the ids that went in. The others' identity (series, occurrence) was taken."""

    async def due_heads(self, room: Mapping[str, int]) -> Heads:
        """Ready heads, oldest first, at most so many of each lane, locked but not claimed."""

    async def these_heads(self, ids: Sequence[str], lanes: Sequence[str], free: int) -> Heads:
        """Those of these heads that are still ready and in these lanes, at most so many, the first ones first."""

    async def reserved_heads(self, reserved: Sequence[Reserved]) -> Heads:
        """Those that are still reserved, as they now are, locked but not claimed."""

    async def fire(self, heads: Sequence[Fired], worker: str, now: datetime, lease: timedelta) -> None:
        """Claim locked heads: they are heads no longer."""

    async def drop(self, heads: Mapping[str, tuple[int, str, str]], by: str) -> None:
        """Heads are SKIPPED: for each id, how many occurrences it stands for, the act, and the reason."""

    async def hold(self, heads: Mapping[str, str], by: str) -> None:
        """Heads wait for a reason."""

    async def taken(self, identities: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of these (series, occurrence) have an event already."""

    async def head(self, series: str) -> Event | None:
        """The head of a series, locked until the transaction ends."""

    async def head_id(self, series: str) -> str | None:
        """Which event is the head of a series, not locked."""

    async def reshape(self, heads: Sequence[Reshaped], by: str) -> None:
        """Give locked heads that have not started new content, occurrences and due times."""

    async def under_way(self, series: Sequence[str]) -> dict[str, int]:
        """How many events of each gated series have been let go and have not ended; none where it is missing."""

    async def successes(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime | None]:
        """When schedules, by tenant and name, last succeeded; one that is missing does not exist."""

    async def let_go(self, room: Mapping[str, int], by: str) -> list[str]:
        """Release what waits for others of its series to end, at most so many of each; their ids."""

    async def waiting_series(self) -> list[str]:
        """Series with something held whose reason may be over."""

    async def hold_series(self, series: str, reason: str, by: str) -> int:
        """Hold all of a series that has not begun, also what waits for others or for its destination; how many."""

    async def rehold(self, series: str, reason: str, anew: str) -> None:
        """What is held for one reason is held for another, but for the head."""

    async def gate(self, series: str, gated: bool) -> None:
        """Whether the end of those that are not ended yet lets others start."""

    async def cancel_series(self, series: str, by: str, reason: str) -> int:
        """Cancel all of a series that has not begun; how many."""

    async def stale_heads(self, zone_data: str, *, after: tuple[str, str] = ..., limit: int) -> list[Event]:
        """Heads whose instants an older edition of the zone data gave, locked; after this edition and id."""

    async def replan(self, moved: Sequence[Moved], zone_data: str, by: str) -> None:
        """Write where heads are by this edition of the zone data."""


class UserStatements(Protocol):
    """What can be asked of a store about users, and the heads of their series. Users are locked before their heads; a
    claim, which locks heads, never asks for a user."""

    async def user(self, id: str) -> User | None: ...

    async def user_by_key(self, tenant: str, key: str) -> User | None: ...

    async def users_by_keys(self, tenant: str, keys: Sequence[str]) -> list[User]: ...

    async def list_users(self, tenant: str | None, *, before: str | None, limit: int) -> list[User]:
        """Those of a tenant, or of all, the newest first, older than the id *before*."""

    async def walk_users(self, tenant: str | None, *, after: str | None, limit: int) -> list[str]:
        """Their ids, the oldest first, newer than the id *after*."""

    async def lock_users(self, ids: Sequence[str]) -> list[User]:
        """Users by id, locked until the transaction ends."""

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        """Insert users, each with the heads of its series; the ids that went in. The others' keys were taken."""

    async def change_users(self, users: Sequence[User]) -> None:
        """Write locked users as they now are."""

    async def set_usual_time(self, ids: Sequence[str], at: time) -> None:
        """By which locked users are planned who have no time of their own."""

    async def delete_users(self, ids: Sequence[str]) -> None: ...

    async def user_heads(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, locked until the transaction ends."""

    async def user_head_ids(self, ids: Sequence[str]) -> set[str]:
        """Which events are the heads of users' series, not locked."""

    async def heads_of_users(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, to be looked at."""

    async def give_up(self, heads: Sequence[str], by: str, reason: str) -> None:
        """Cancel locked heads, by their ids, and free the names of their occurrences."""

    async def cancel_users(self, ids: Sequence[str], by: str, reason: str) -> int:
        """Cancel all of users' events that have not begun; how many."""


class Allowed(NamedTuple):
    """How many turns a rate allows now, and how long after that the next one comes."""

    tenant: str
    destination: str
    turns: int
    next: timedelta


class TargetStatements(Protocol):
    """What can be asked of a store about stored targets and destinations. An event that is held for a destination has
    its row there to wait for: parked, or being released."""

    async def put_target(self, target: Target) -> bool:
        """Insert or replace; False when a target with another id took the name meanwhile."""

    async def target(self, tenant: str, name: str) -> Target | None:
        """A target, locked until the transaction ends."""

    async def list_targets(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Target]:
        """Those of a tenant, or of all, in the order of tenant and name, after these two."""

    async def delete_target(self, tenant: str, name: str) -> None: ...

    async def destinations(self, keys: Sequence[tuple[str, str]]) -> list[Known]:
        """What is known of destinations, by tenant and name or origin; each is answered, whatever is known."""

    async def list_destinations(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Known]:
        """Those with limits and those that are parked, in the order of tenant and destination, after these two."""

    async def held_for(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """How many events wait for these, by tenant and destination."""

    async def limit(self, tenant: str, destination: str, concurrency: int | None, rate: float | None) -> None: ...

    async def allow(self, wanted: Sequence[tuple[str, str, int]]) -> list[Allowed]:
        """Take turns of destinations that have a rate, at most so many of each."""

    async def park(self, tenant: str, destination: str, reason: str, wait: timedelta | None) -> bool:
        """Send nothing there until a probe so much later, or until a person says so; False if it is parked already."""

    async def unpark(self, tenant: str, destination: str) -> datetime | None:
        """It is open again, and what waits for it is being released; since when it was parked, if it was."""

    async def reopen(self, tenant: str, destination: str) -> datetime | None:
        """The same for one that answers; not where it takes a person."""

    async def probe_now(self, tenant: str, destination: str) -> bool: ...

    async def unparking(self) -> list[tuple[str, str, bool]]:
        """Destinations that are open again, and for which some may still wait; and, with True, those that are to be
        tried."""

    async def release_parked(self, tenant: str, parked: str, destination: str, limit: int, by: str) -> int:
        """Release what waits for *parked*, among the events of a destination; how many."""

    async def released(self, tenant: str, destination: str) -> None:
        """Nothing waits for it any more."""

    async def due_probes(self, first: timedelta, most: timedelta) -> list[tuple[str, str]]:
        """Parked destinations that are to be tried now, by whoever asks first."""

    async def claim_probe(
        self, tenant: str, destination: str, lanes: Sequence[str], worker: str, lease: timedelta
    ) -> list[Event]:
        """Claim the oldest event that is due and waits for a destination."""

    async def is_awaited(self, tenant: str, destination: str) -> bool:
        """Whether any event that is due waits for a destination."""


class DeadLetterStatements(Protocol):
    """What can be asked of a store about dead letters, many at a time."""

    async def find_dead(self, spec: Spec, *, since: datetime, after: str | None, limit: int) -> list[Letter]:
        """Those that satisfy the spec and with which nothing has happened after *since*, oldest id first, at most
        *limit*, newer than the id *after*."""

    async def count_dead(self, spec: Spec, *, most: int) -> DeadLetters:
        """How many satisfy the spec, and at most so many kinds of them."""

    async def replay_found(
        self, letters: Sequence[Letter], ready: Sequence[datetime | None], by: str
    ) -> dict[str, datetime]:
        """Let them be tried again, each from its own instant on, or at once; when those are ready that went back. The
        others somebody else has changed, or is changing."""

    async def discard_found(self, letters: Sequence[Letter], by: str, reason: str | None) -> set[str]:
        """Put them away; the ids of those that were."""


class KeyStatements(Protocol):
    """What can be asked of a store about keys of the API."""

    async def add_key(self, key: ApiKey, hash: str) -> None: ...

    async def key(self, id: str) -> ApiKey | None: ...

    async def key_by_hash(self, hash: str) -> tuple[ApiKey, datetime] | None:
        """A key, whatever its state, and the store's clock."""

    async def list_keys(self, tenant: str | None, *, before: str | None, limit: int) -> list[ApiKey]:
        """Those of a tenant, or of all, the newest first, older than the id *before*."""

    async def keys_named(self, tenant: str | None, name: str, *, limit: int) -> list[ApiKey]:
        """Those with this name that are neither revoked nor expired."""

    async def revoke_key(self, id: str) -> bool:
        """False if it was revoked before."""

    async def use_keys(self, ids: Sequence[str]) -> None:
        """They were used just now."""

    async def any_key(self) -> bool:
        """Whether one was ever made."""


class Remembered(NamedTuple):
    """What was answered to a request, and what the request was."""

    fingerprint: str
    status: int
    headers: str  # JSON
    body: bytes


class RequestStatements(Protocol):
    """What can be asked of a store about requests that carry a key of their own, so that they may come again."""

    async def recall(self, tenant: str, key: str, fingerprint: str) -> Remembered | None:
        """What was answered to it. None: it is new, and this transaction has it now. Whoever else has it is waited for:
        if they commit, their answer is what is remembered, and else it is new."""

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        """Keep the answer to a request that this transaction has, for a day."""

    async def forget_requests(self, limit: int) -> int:
        """Remove what is older than that, at most so many; how many."""


class Statements(
    ScheduleStatements,
    UserStatements,
    TargetStatements,
    DeadLetterStatements,
    KeyStatements,
    RequestStatements,
    Protocol,
):
    """What can be asked of a store. Each call is atomic; inside ``begin`` they commit together."""

    async def now(self) -> datetime:
        """The store's clock, which decides what is due and which lease has expired."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Insert events without keys; their ids, in order."""

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Insert or move events by (tenant, key): one that has started or ended is left alone."""

    async def claim(
        self, worker: str, room: Mapping[str, int], lease: timedelta, seen: Seen = NOTHING_SEEN
    ) -> list[Event]:
        """Take ready events that are no heads, oldest first, at most so many of each lane. What has become ready before
        what was *seen* may be overlooked."""

    async def claim_these(
        self, worker: str, ids: Sequence[str], lanes: Sequence[str], free: int, lease: timedelta
    ) -> list[Event]:
        """Take those of these events that are still ready and in these lanes, at most so many, the first ones first."""

    async def look(self, where: Looking, known: Collection[Key]) -> Looked:
        """What is ready, and no head, of others than those who are known."""

    async def look_at_heads(self, where: Looking, known: Collection[Key]) -> Looked:
        """Heads that are ready, of others than those who are known."""

    async def claim_alone(self, worker: str, lanes: Sequence[str], lease: timedelta) -> list[Event]:
        """Take one event that a crash interrupted, recording the interruption. One that was interrupted
        too often comes back FAILED instead of claimed."""

    async def horizon(self, lanes: Sequence[str], seen: Seen = NOTHING_SEEN) -> tuple[Horizon, Seen]:
        """When the next event of these lanes becomes ready, and what that look has shown."""

    async def reserve(
        self, worker: str, room: Mapping[str, int], ahead: timedelta, patience: timedelta
    ) -> tuple[list[Reserved], datetime]:
        """Take events and heads that become ready within *ahead*, without starting them. They stay PENDING: a person
        may cancel or move them, and then they are no longer reserved. If they are not started, others may have them
        *patience* after their instant. With the store's clock as it answered."""

    async def start(self, reserved: Sequence[Reserved], lease: timedelta, worker: str) -> tuple[list[Event], datetime]:
        """Claim those that are still reserved, as they now are. With the store's clock as it answered."""

    async def release(self, reserved: Sequence[Reserved], patience: timedelta) -> None:
        """Give up reservations, so that others may have the events at their instant."""

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> set[str]:
        """Push the leases on; the ids that are still held."""

    async def settle(self, settlements: Sequence[Settlement], worker: str) -> set[str]:
        """Record verdicts with their history; the ids that were settled. One that is missing had lost its claim,
        and its verdict was dropped."""

    async def get(self, id: str) -> Event | None: ...

    async def lock(self, id: str) -> Event | None:
        """An event, which nobody else can change until the transaction ends."""

    async def by_key(self, tenant: str, key: str) -> Event | None: ...

    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        """Events that satisfy the spec, newest id first, at most *limit*, older than the id *after*."""

    async def page(self, spec: Spec, *, limit: int, after: str | None = None, examine: int = EXAMINED) -> Page:
        """The same, but no more than so many events are looked at that may not satisfy the spec."""

    async def history(self, subject: str) -> list[Entry]: ...

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Write a locked event that a person changed, with its history row."""

    async def overview(self) -> list[tuple[str, str, int, datetime]]:
        """For each lane and status: how many events, and the oldest due time."""


class Transaction(Statements, Protocol):
    """One database transaction: Duly's own statements, and the user's beside them."""

    @property
    def connection(self) -> Any:
        """The driver's own connection."""

    def abandon(self) -> None:
        """Roll back now, whatever its user still wants to do with it."""

    async def execute(self, sql: str, *args: Any) -> Any: ...

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, sql: str, *args: Any) -> Any: ...

    async def fetchval(self, sql: str, *args: Any) -> Any: ...


class Store(Statements, Protocol):
    """A database that holds events."""

    async def open(self, *, migrate: bool) -> None: ...

    async def close(self) -> None: ...

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction of the engine's own, which is over in a moment."""

    def lend(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for users' code, however long that takes: it never keeps the engine waiting for a
        connection."""

    def confined(self, tenant: str, *, writes: bool) -> AbstractAsyncContextManager["Store"]:
        """A store for one request of one tenant: all that is asked of it is one transaction, which commits at the end
        and which ``begin`` divides by savepoints. Where the database can tell tenants apart, the others' rows do not
        exist in it. Only one thing can be asked of it at a time. Without *writes*, it may be no transaction at all."""

    async def prepare_confinement(self) -> None:
        """Make what ``confined`` takes, as far as it is missing; or say what an administrator has to do."""

    def listen(self, lanes: Sequence[str]) -> AbstractAsyncContextManager["Waker"]: ...


class Waker(Protocol):
    """Ends a wait early when work arrives from elsewhere."""

    async def wait(self, timeout: float) -> None:
        """Return after *timeout* seconds, or sooner when an event may have become ready sooner."""

    def wake(self) -> None: ...
