"""What was claimed and waits to be started here. Tenants take turns, and so do the destinations of each; what goes to
one destination starts in the order in which it came."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from time import monotonic

from duly.decide.fair_share import Key
from duly.engine.fairness.limits import Limits
from duly.records.event import Event, Outcome

RESERVE = 10
"""Beyond the places that a worker has for all, it keeps one for each so many of them for whoever has nothing under way:
a flooding tenant or a slow destination that fills every place must not keep a quiet one waiting."""

UNBOUNDED = 1 << 30

AHEAD, GLANCE, LONG = 0.4, 0.05, 5.0
"""Where places are limited, so many seconds of deliveries are claimed beyond those that may be under way, lest a quick
destination waits for claims; over how many they are counted, and after how many they no longer count."""

SHARED_FOR = 10.0
"""Seconds for which a worker counts on a second tenant after that one has had something here."""

_key = attrgetter("tenant", "destination")


class Tenant:
    __slots__ = ("aside", "name", "queues", "round", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[Queue] = []
        self.round: deque[Queue] = deque()  # those with something that may start, the next one first
        self.running = 0
        self.aside = False  # has all the places that it may have


class Queue:
    """What one tenant has for one destination."""

    __slots__ = ("aside", "destination", "events", "running", "tenant")

    def __init__(self, tenant: Tenant, destination: str | None) -> None:
        self.tenant, self.destination = tenant, destination
        self.events: deque[Event] = deque()
        self.running = 0
        self.aside = False  # has all the places that it may have, or has used up its rate

    @property
    def startable(self) -> int:
        return 0 if self.aside or self.tenant.aside else len(self.events)


class CompletionRate:
    """How quickly what goes to a destination ends."""

    __slots__ = ("_ended", "_since", "ahead")

    def __init__(self) -> None:
        self._ended, self._since = 0, monotonic()
        self.ahead = 0  # how many end in so many seconds, as of late

    def one_ended(self) -> None:
        self._ended += 1
        if (took := monotonic() - self._since) >= GLANCE:
            self.ahead = round(self._ended * AHEAD / took)
            self._ended, self._since = 0, self._since + took

    @property
    def is_over(self) -> bool:
        """Whether nothing has ended for long."""
        return monotonic() - self._since > LONG


Start = tuple[Event, Queue]
"""What starts, and where to tell that it has ended."""


class FairQueue:
    """Whoever may not start anything is set aside, and is asked again when something of theirs has ended, or when time
    has passed."""

    def __init__(self, limits: Limits, concurrency: int) -> None:
        self._limits, self._concurrency = limits, concurrency
        self.most = concurrency + concurrency // RESERVE
        self._queues: dict[Key, Queue] = {}
        self._tenants: dict[str, Tenant] = {}
        self._round: deque[Tenant] = deque()  # those with something that may start, the next one first
        self._paces: dict[Key, CompletionRate] = {}  # of those with limits
        self._alone: Queue | None = None  # there is no other one in the round, and no limits
        self._nobody_quiet = False  # in the round, as far as anybody has looked
        self._newest = ""  # the tenant that had something last
        self._shared_at = -SHARED_FOR  # when another one than the newest had something, by time.monotonic
        self.startable = 0  # those that wait for nothing but a free place
        self.running = 0

    # -- what there is

    def __len__(self) -> int:
        return sum(len(queue.events) for queue in self._queues.values())

    def __iter__(self) -> Iterator[Event]:
        return (event for queue in self._queues.values() for event in queue.events)

    @property
    def may_start(self) -> bool:
        """Whether it is worth asking for the next one."""
        if self.running < self._concurrency:
            return bool(self._round)
        return bool(self._round) and self.running < self.most and not self._nobody_quiet

    @property
    def kept(self) -> int:
        """How many places are left when all are taken: for those with nothing under way."""
        return self.most - self.running if self.running >= self._concurrency else 0

    @property
    def shared(self) -> bool:
        """Whether more than one tenant has had something here of late."""
        return monotonic() - self._shared_at < SHARED_FOR

    @property
    def holds_back(self) -> bool:
        """Whether something waits for more than a free place."""
        return len(self) > self.startable

    def runs_out(self, key: Key) -> bool:
        """Whether so little of theirs is left to go on with that it is time to claim more."""
        queue = self._queues.get(key)
        return queue is None or 2 * len(queue.events) <= self._ahead(key)

    def keys(self) -> set[Key]:
        """Whose events are here."""
        return set(self._queues)

    def in_hand(self) -> Mapping[str, int]:
        """How much each tenant has running, or waiting for nothing but a place."""
        count: Counter[str] = Counter()
        for queue in self._queues.values():
            count[queue.tenant.name] += queue.running + queue.startable
        return count

    def binds(self, tenant: str, destination: str | None) -> bool:
        return self._limits.binds(tenant, destination)

    def room(self, tenant: str, destination: str | None) -> int:
        """How many more to claim: as many as may be under way, and enough to go on with; not more than its rate allows
        at once. Few are not worth a claim while there are others."""
        if not self._limits.binds(tenant, destination):
            return UNBOUNDED
        queue = self._queues.get((tenant, destination))
        waiting, running = (len(queue.events), queue.running) if queue else (0, 0)
        room = UNBOUNDED
        if (places := self._limits.places(tenant, destination)) < self._concurrency:
            ahead = self._ahead((tenant, destination))
            room = places + max(places, ahead) - waiting - running
            room = room if 2 * room >= ahead else 0
        if (turns := self._limits.turns(tenant, destination)) < self._concurrency:
            room = min(room, turns - waiting)
        return room

    def room_of(self, tenant: str) -> int:
        """The same for all that a tenant has, wherever it goes."""
        if (places := self._limits.places_of(tenant)) >= self._concurrency:
            return UNBOUNDED
        known = self._tenants.get(tenant)
        return 2 * places - sum(len(queue.events) + queue.running for queue in (known.queues if known else ()))

    # -- coming and going

    def extend(self, events: Iterable[Event]) -> None:
        for key, group in groupby(events, _key):
            queue = self._queues.get(key) or self._queue(*key)
            before = len(queue.events)
            queue.events.extend(group)
            if not before:
                self._enter(queue)
            elif not queue.aside and not queue.tenant.aside:
                self.startable += len(queue.events) - before

    def next(self) -> Start | None:
        """The next one that may start. It has then."""
        if self.running >= self._concurrency and not self._let_a_quiet_one_go_first():
            return None
        while self._round:
            tenant = self._round[0]
            queue = tenant.round[0]
            bound = self._limits.binds(tenant.name, queue.destination)
            if bound and not self._may_start_first(tenant, queue):
                continue
            event = queue.events.popleft()
            self.running += 1
            self.startable -= 1
            queue.running += 1
            tenant.running += 1
            self._limits.started(event)
            self._go_on(tenant, queue)
            self._alone = None if bound or not queue.events or len(self._round) > 1 or len(tenant.round) > 1 else queue
            return event, queue
        return None

    def then(self, ended: Start, outcome: Outcome | None) -> Start | None:
        """One has ended, and its place goes to the next one that may start."""
        queue = ended[1]
        if queue is self._alone and len(queue.events) > 1 and self.running <= self._concurrency:
            self.startable -= 1  # the short way: nearly all that a worker ever does is one tenant's, without limits
            return queue.events.popleft(), queue
        self.ended(ended, outcome)
        return self.next()

    def ended(self, ended: Start, outcome: Outcome | None) -> None:
        event, queue = ended
        tenant = queue.tenant
        self.running -= 1
        queue.running -= 1
        tenant.running -= 1
        if self._limits.binds(event.tenant, event.destination):
            self._pace(event).one_ended()
        self._limits.ended(event, outcome)
        if tenant.aside:
            self._bring_tenant_back(tenant)
        if queue.aside:
            self._bring_back(queue)
        self._nobody_quiet = False
        if not queue.events and not queue.running:
            self._forget(queue)

    def poke(self) -> None:
        """Time has passed, or limits have changed: ask those who were set aside again."""
        self._nobody_quiet = False
        self._alone = None
        self._paces = {key: pace for key, pace in self._paces.items() if not pace.is_over}
        for tenant in self._tenants.values():
            if tenant.aside and self._tenant_may(tenant):
                self._bring_tenant_back(tenant)
            for queue in tenant.queues:
                if queue.aside and self._may(queue):
                    self._bring_back(queue)

    def remove(self, event: Event) -> None:
        queue = self._queues[event.tenant, event.destination]
        before = queue.startable
        queue.events.remove(event)
        self.startable -= before - queue.startable
        if not queue.events:
            self._leave(queue)

    def clear(self) -> None:
        for event in list(self):
            self.remove(event)

    # -- within

    def _pace(self, event: Event) -> CompletionRate:
        key = event.tenant, event.destination
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = CompletionRate()
        return pace

    def _ahead(self, key: Key) -> int:
        pace = self._paces.get(key)
        return pace.ahead if pace else 0

    def _queue(self, name: str, destination: str | None) -> Queue:
        """A new one."""
        if len(self._tenants) > (name in self._tenants) or name != (self._newest or name):
            self._shared_at = monotonic()
        self._newest = name
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = Tenant(name)
        queue = self._queues[name, destination] = Queue(tenant, destination)
        tenant.queues.append(queue)
        return queue

    def _forget(self, queue: Queue) -> None:
        tenant = queue.tenant
        del self._queues[tenant.name, queue.destination]
        tenant.queues.remove(queue)
        if not tenant.queues:
            del self._tenants[tenant.name]

    def _enter(self, queue: Queue) -> None:
        """It has something that may start."""
        tenant = queue.tenant
        tenant.round.append(queue)
        self._alone = None
        if not tenant.aside:
            self.startable += len(queue.events)
            self._nobody_quiet = False
            if len(tenant.round) == 1:
                self._round.append(tenant)

    def _leave(self, queue: Queue) -> None:
        """It has nothing any more that could start."""
        tenant = queue.tenant
        if queue.aside:
            queue.aside = False
        else:
            tenant.round.remove(queue)
            if not tenant.round and not tenant.aside:
                self._round.remove(tenant)
        if not queue.running:
            self._forget(queue)

    def _may_start_first(self, tenant: Tenant, queue: Queue) -> bool:
        """Whether the next one of the round may start something; else it is set aside."""
        if not self._tenant_may(tenant):
            self._set_tenant_aside(tenant)
        elif not self._may(queue):
            self._set_aside(queue)
        else:
            return True
        return False

    def _tenant_may(self, tenant: Tenant) -> bool:
        places = self._limits.places_of(tenant.name)
        return tenant.running < places or places >= self._concurrency

    def _may(self, queue: Queue) -> bool:
        tenant, destination = queue.tenant.name, queue.destination
        return queue.running < self._limits.places(tenant, destination) and self._limits.turns(tenant, destination) > 0

    def _go_on(self, tenant: Tenant, queue: Queue) -> None:
        """It is the next one's turn."""
        if queue.events:
            tenant.round.rotate(-1)
        else:
            tenant.round.popleft()
        if tenant.round:
            self._round.rotate(-1)
        else:
            self._round.popleft()

    def _let_a_quiet_one_go_first(self) -> bool:
        """Every place is taken. Whether there is somebody with nothing under way, for whom one is kept; the last half
        of those is for tenants with nothing under way."""
        if self._nobody_quiet or self.running >= self.most:
            return False
        for tenant in self._round:
            if tenant.running and 2 * self.running >= self._concurrency + self.most:
                continue
            for queue in tenant.round:
                if not queue.running and self._tenant_may(tenant) and self._may(queue):
                    tenant.round.remove(queue)
                    tenant.round.appendleft(queue)
                    self._round.remove(tenant)
                    self._round.appendleft(tenant)
                    return True
        self._nobody_quiet = True
        return False

    def _set_aside(self, queue: Queue) -> None:
        """The next one in its tenant's round."""
        self.startable -= len(queue.events)
        queue.aside = True
        queue.tenant.round.popleft()
        if not queue.tenant.round:
            self._round.popleft()

    def _bring_back(self, queue: Queue) -> None:
        queue.aside = False
        self._enter(queue)

    def _set_tenant_aside(self, tenant: Tenant) -> None:
        """The next one in the round."""
        self.startable -= sum(len(queue.events) for queue in tenant.round)
        tenant.aside = True
        self._round.popleft()

    def _bring_tenant_back(self, tenant: Tenant) -> None:
        tenant.aside = False
        if tenant.round:
            self.startable += sum(len(queue.events) for queue in tenant.round)
            self._nobody_quiet = False
            self._round.append(tenant)
