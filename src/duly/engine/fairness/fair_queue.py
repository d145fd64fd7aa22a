"""The fair queue of claimed events that wait to be started. Tenants take turns, and so do the destinations of each
tenant; events for one destination start in the order of their arrival."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from time import monotonic

from duly.decide.fair_share import Key
from duly.engine.fairness.limits import Limits
from duly.records.event import Event, Outcome

PLACES_PER_RESERVED = 10
"""For this many ordinary places, a worker reserves one extra place for tenants and destinations with nothing running: a
flooding tenant or a slow destination that fills every ordinary place must not delay a quiet one."""

UNBOUNDED = 1 << 30
"""Room without a limit; a number, so that it can be compared and split."""

AHEAD_S = 0.4
"""Where places are limited, this many seconds' worth of deliveries are claimed beyond those that may run, so that a
quick destination does not wait for claims."""

MEASURED_OVER_S = 0.05
"""Seconds over which the deliveries of a destination are counted, at least."""

FORGOTTEN_AFTER_S = 5.0
"""Seconds after the last count at which the rate of a destination is forgotten."""

SHARED_FOR_S = 10.0
"""Seconds for which a worker counts as shared after a second tenant has had events here."""

_key = attrgetter("tenant", "destination")


class Tenant:
    __slots__ = ("aside", "name", "queues", "round", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[Queue] = []
        self.round: deque[Queue] = deque()  # queues with events that may start, the next one first
        self.running = 0
        self.aside = False  # the tenant's limit of running events is reached


class Queue:
    """The waiting events of one tenant for one destination."""

    __slots__ = ("aside", "destination", "events", "running", "tenant")

    def __init__(self, tenant: Tenant, destination: str | None) -> None:
        self.tenant, self.destination = tenant, destination
        self.events: deque[Event] = deque()
        self.running = 0
        self.aside = False  # the destination's limit of running events is reached, or its rate is used up

    @property
    def startable(self) -> int:
        return 0 if self.aside or self.tenant.aside else len(self.events)


class CompletionRate:
    """How many events of a destination end per second, as a number of events to claim ahead."""

    __slots__ = ("_ended", "_since", "ahead")

    def __init__(self) -> None:
        self._ended, self._since = 0, monotonic()
        self.ahead = 0  # how many events end in AHEAD_S seconds, by the last measurement

    def one_ended(self) -> None:
        self._ended += 1
        if (took := monotonic() - self._since) >= MEASURED_OVER_S:
            self.ahead = round(self._ended * AHEAD_S / took)
            self._ended, self._since = 0, self._since + took

    @property
    def is_over(self) -> bool:
        """Whether no event has ended for FORGOTTEN_AFTER_S seconds."""
        return monotonic() - self._since > FORGOTTEN_AFTER_S


Start = tuple[Event, Queue]
"""An event that starts, and the queue that is notified when it has ended."""


class FairQueue:
    """Tenants and queues that may not start any event are set aside, and are checked again when one of their events has
    ended or when ``poke`` is called."""

    def __init__(self, limits: Limits, concurrency: int) -> None:
        self._limits, self._concurrency = limits, concurrency
        self.most = concurrency + concurrency // PLACES_PER_RESERVED
        self._queues: dict[Key, Queue] = {}
        self._tenants: dict[str, Tenant] = {}
        self._round: deque[Tenant] = deque()  # tenants with events that may start, the next one first
        self._paces: dict[Key, CompletionRate] = {}  # of tenants and destinations with limits
        self._alone: Queue | None = None  # the only queue with events that may start, if it has no limits
        self._nobody_quiet = False  # the last check found no tenant or destination without running events
        self._newest = ""  # the tenant whose events came last
        self._shared_at = -SHARED_FOR_S  # when events of a second tenant came last, by time.monotonic
        self.startable = 0  # events that wait only for a free place
        self.running = 0

    # -- what there is

    def __len__(self) -> int:
        return sum(len(queue.events) for queue in self._queues.values())

    def __iter__(self) -> Iterator[Event]:
        return (event for queue in self._queues.values() for event in queue.events)

    @property
    def may_start(self) -> bool:
        """Whether ``next`` may return an event."""
        if self.running < self._concurrency:
            return bool(self._round)
        return bool(self._round) and self.running < self.most and not self._nobody_quiet

    @property
    def kept(self) -> int:
        """How many reserved places are free, once all ordinary places are taken; 0 before."""
        return self.most - self.running if self.running >= self._concurrency else 0

    @property
    def shared(self) -> bool:
        """Whether more than one tenant has had events here in the last SHARED_FOR_S seconds."""
        return monotonic() - self._shared_at < SHARED_FOR_S

    @property
    def holds_back(self) -> bool:
        """Whether limits hold any event back."""
        return len(self) > self.startable

    def runs_out(self, key: Key) -> bool:
        """Whether so few events of a tenant and destination are waiting that it is time to claim more."""
        queue = self._queues.get(key)
        return queue is None or 2 * len(queue.events) <= self._ahead(key)

    def keys(self) -> set[Key]:
        """The tenants and destinations with events here."""
        return set(self._queues)

    def in_hand(self) -> Mapping[str, int]:
        """How many events of each tenant are running, or wait only for a free place."""
        count: Counter[str] = Counter()
        for queue in self._queues.values():
            count[queue.tenant.name] += queue.running + queue.startable
        return count

    def binds(self, tenant: str, destination: str | None) -> bool:
        return self._limits.binds(tenant, destination)

    def room(self, tenant: str, destination: str | None) -> int:
        """How many more events of a tenant and destination to claim: as many as may run, and enough to continue with,
        but no more than its rate allows now. 0 instead of a few, which are not worth a claim."""
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
        """How many more events of a tenant to claim, for all its destinations together."""
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
        """Starts and returns the next event that may start."""
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
        """Ends an event, and starts the next one in its place."""
        queue = ended[1]
        if queue is self._alone and len(queue.events) > 1 and self.running <= self._concurrency:
            self.startable -= 1  # the fast path: nearly all work of a worker is one tenant's, without limits
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
        """Checks the tenants and queues that were set aside again, because time has passed or limits have changed."""
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
        """Adds a queue for a tenant and destination."""
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
        """Puts a queue that has events to start into the round."""
        tenant = queue.tenant
        tenant.round.append(queue)
        self._alone = None
        if not tenant.aside:
            self.startable += len(queue.events)
            self._nobody_quiet = False
            if len(tenant.round) == 1:
                self._round.append(tenant)

    def _leave(self, queue: Queue) -> None:
        """Takes a queue that has become empty out of the round."""
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
        """Whether limits let the first tenant and queue of the round start an event; if not, sets it aside."""
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
        """Passes the turn to the next queue of the tenant, and to the next tenant."""
        if queue.events:
            tenant.round.rotate(-1)
        else:
            tenant.round.popleft()
        if tenant.round:
            self._round.rotate(-1)
        else:
            self._round.popleft()

    def _let_a_quiet_one_go_first(self) -> bool:
        """Moves a tenant and destination with nothing running to the front, for a reserved place, when all ordinary
        places are taken; returns whether there is one. The last half of the reserved places is only for tenants that
        have nothing running at all."""
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
        """Sets a queue aside; it is the first one in its tenant's round."""
        self.startable -= len(queue.events)
        queue.aside = True
        queue.tenant.round.popleft()
        if not queue.tenant.round:
            self._round.popleft()

    def _bring_back(self, queue: Queue) -> None:
        queue.aside = False
        self._enter(queue)

    def _set_tenant_aside(self, tenant: Tenant) -> None:
        """Sets a tenant aside; it is the first one in the round."""
        self.startable -= sum(len(queue.events) for queue in tenant.round)
        tenant.aside = True
        self._round.popleft()

    def _bring_tenant_back(self, tenant: Tenant) -> None:
        tenant.aside = False
        if tenant.round:
            self.startable += sum(len(queue.events) for queue in tenant.round)
            self._nobody_quiet = False
            self._round.append(tenant)
