from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duly.decide.fair_share import Key
from duly.engine.fairness.fair_queue import SHARED_FOR_S, FairQueue, Start
from duly.engine.fairness.limits import Unlimited
from duly.records.event import Event, Outcome
from tests.make import make_event


class Limited:
    """As a test says; else there is no limit."""

    def __init__(self, places: dict[Key, int] | None = None, of: dict[str, int] | None = None) -> None:
        self._places, self._of = places or {}, of or {}
        self.left: dict[Key, int] = {}
        self.told: list[str] = []

    def binds(self, tenant: str, destination: str | None) -> bool:
        return (tenant, destination) in {**self._places, **self.left} or tenant in self._of

    def places(self, tenant: str, destination: str | None) -> int:
        return self._places.get((tenant, destination), 1000)

    def places_of(self, tenant: str) -> int:
        return self._of.get(tenant, 1000)

    def turns(self, tenant: str, destination: str | None) -> int:
        return self.left.get((tenant, destination), 1000)

    def started(self, event: Event) -> None:
        key = event.tenant, event.destination
        if key in self.left:
            self.left[key] -= 1

    def ended(self, event: Event, outcome: Outcome | None) -> None:
        self.told.append(event.id)


def events(tenants: str, destination: str | None = None) -> list[Event]:
    """One for each letter, which is its tenant."""
    return [make_event(tenant=tenant, destination=destination) for tenant in tenants]


def start_all(queue: FairQueue) -> list[Start]:
    return list(iter(queue.next, None))


def whose(started: list[Start]) -> str:
    return "".join(event.tenant for event, _ in started)


def test_the_fair_queue_starts_tenants_round_robin() -> None:
    queue = FairQueue(Unlimited(100), 100)
    queue.extend(events("aaaaabc"))
    queue.extend(events("bb"))
    assert whose(start_all(queue)) == "abcababaa"


class Clock:
    """Time that passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("duly.engine.fairness.fair_queue.monotonic", lambda: self.now)


def run_to_the_end(queue: FairQueue) -> None:
    for started in start_all(queue):
        queue.ended(started, None)


def is_shared(queue: FairQueue) -> bool:
    """As it is at this moment; of an attribute, a type checker takes it that it stays as it was asserted."""
    return queue.shared


def test_a_worker_counts_as_shared_for_a_while_after_a_second_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, queue = Clock(monkeypatch), FairQueue(Unlimited(100), 100)
    for _ in range(2):
        queue.extend(events("aaa", "x") + events("aa", "y"))
        run_to_the_end(queue)
        assert not is_shared(queue), "one tenant is alone, wherever its events go"
    queue.extend(events("b"))
    run_to_the_end(queue)
    assert is_shared(queue)
    clock.now += SHARED_FOR_S
    queue.extend(events("b"))
    assert not is_shared(queue)
    clock.now += 1
    queue.extend(events("a"))
    run_to_the_end(queue)
    clock.now += SHARED_FOR_S - 1
    assert is_shared(queue)


def test_a_worker_counts_as_shared_each_time_a_second_tenant_comes_beside_a_flood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, queue = Clock(monkeypatch), FairQueue(Unlimited(1), 1)
    queue.extend(events("a" * 20))
    for _ in range(3):
        clock.now += SHARED_FOR_S
        assert not is_shared(queue)
        queue.extend(events("b"))
        assert is_shared(queue)
        for _ in range(2):  # one of each
            started = queue.next()
            assert started is not None
            queue.ended(started, None)


def test_events_of_one_tenant_for_one_destination_start_in_order() -> None:
    queue = FairQueue(Unlimited(100), 100)
    given = events("a" * 20)
    queue.extend(given)
    assert [event for event, _ in start_all(queue)] == given


def test_the_fair_queue_starts_destinations_of_a_tenant_round_robin() -> None:
    queue = FairQueue(Unlimited(100), 100)
    queue.extend(events("aaa", "x"))
    queue.extend(events("aa", "y"))
    queue.extend(events("b", "x"))
    started = start_all(queue)
    assert [(event.tenant, event.destination) for event, _ in started] == [
        ("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("a", "y"), ("a", "x"),
    ]  # fmt: skip


def test_a_freed_place_goes_to_the_next_event_without_another_in_between() -> None:
    queue = FairQueue(Unlimited(2), 2)
    queue.extend(events("aaaa"))
    first, second = start_all(queue)
    assert queue.next() is None
    third = queue.then(first, None)
    assert third is not None
    assert queue.running == 2
    assert queue.startable == 1
    assert queue.then(second, None) is not None
    assert queue.then(third, None) is None
    assert queue.running == 1


def test_a_destination_never_has_more_under_way_than_it_may() -> None:
    queue = FairQueue(Limited({("a", "x"): 2}), 100)
    queue.extend(events("aaaaa", "x"))
    queue.extend(events("aaa", "y"))
    started = start_all(queue)
    assert Counter(event.destination for event, _ in started) == {"x": 2, "y": 3}
    assert len(queue) == 3
    assert queue.startable == 0, "they wait for something else than a place"
    slow = next(start for start in started if start[0].destination == "x")
    again = queue.then(slow, None)
    assert again is not None
    assert again[0].destination == "x"
    assert queue.next() is None


def test_a_tenant_never_has_more_under_way_than_it_may() -> None:
    queue = FairQueue(Limited(of={"a": 3}), 100)
    for destination in "xyz":
        queue.extend(events("aaa", destination))
    queue.extend(events("bbbb"))
    started = start_all(queue)
    assert Counter(whose(started)) == {"a": 3, "b": 4}
    queue.ended(next(start for start in started if start[0].tenant == "a"), None)
    assert whose(start_all(queue)) == "a"


def test_events_of_a_used_up_rate_start_when_time_has_passed() -> None:
    limits = Limited()
    limits.left = {("a", "x"): 2}
    queue = FairQueue(limits, 100)
    queue.extend(events("aaaa", "x"))
    queue.extend(events("b"))
    started = start_all(queue)
    assert whose(started) == "aba"
    for start in started:
        assert queue.then(start, None) is None
    limits.left["a", "x"] = 1
    assert queue.next() is None, "nobody has said that time has passed"
    queue.poke()
    assert whose(start_all(queue)) == "a"
    assert limits.told == [event.id for event, _ in started]


def test_places_are_kept_for_tenants_with_nothing_under_way() -> None:
    queue = FairQueue(Unlimited(20), 20)
    queue.extend(events("a" * 50))
    assert len(start_all(queue)) == 20
    assert queue.kept == 2
    queue.extend(events("bbc"))
    assert queue.may_start
    assert whose(start_all(queue)) == "bc"
    queue.extend(events("d"))
    assert queue.next() is None, "there are no more than a tenth"
    assert queue.kept == 0


def test_the_last_half_of_the_kept_places_is_for_tenants_with_nothing_under_way() -> None:
    queue = FairQueue(Unlimited(20), 20)
    queue.extend(events("a" * 20))
    start_all(queue)
    for destination in "xyz":
        queue.extend(events("a", destination))
    queue.extend(events("b"))
    assert [(event.tenant, event.destination) for event, _ in start_all(queue)] == [("a", "x"), ("b", None)]


def test_kept_places_are_free_again_before_other_events_start() -> None:
    queue = FairQueue(Unlimited(10), 10)
    queue.extend(events("a" * 20))
    started = start_all(queue)
    queue.extend(events("b"))
    [quiet] = start_all(queue)
    assert queue.then(started[0], None) is None, "eleven were under way, and now ten"
    assert queue.then(quiet, None) is not None


def test_with_few_places_no_place_is_kept() -> None:
    for concurrency in (1, 9):
        queue = FairQueue(Unlimited(concurrency), concurrency)
        queue.extend(events("a" * 20))
        assert len(start_all(queue)) == concurrency
        queue.extend(events("b"))
        assert queue.next() is None
        assert queue.kept == 0
        assert not queue.may_start


def test_an_event_removed_from_the_fair_queue_is_not_started() -> None:
    queue = FairQueue(Limited({("b", None): 0}), 100)
    given = events("aab")
    queue.extend(given)
    queue.remove(given[0])
    assert [event for event, _ in start_all(queue)] == [given[1]]
    queue.remove(given[2])
    assert len(queue) == queue.startable == 0


def test_the_fair_queue_can_be_cleared() -> None:
    queue = FairQueue(Limited({("b", None): 0}), 100)
    queue.extend(events("aabbcc"))
    [*_] = [queue.next(), queue.next()]
    queue.clear()
    assert not list(queue)
    assert queue.startable == 0
    assert queue.next() is None
    queue.extend(events("d"))
    assert whose(start_all(queue)) == "d"


# -- whatever happens

KEYS = st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]))


class AnyOrder(RuleBasedStateMachine):
    """Compared with what the limits say, after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.concurrency = 10
        self.limits = Limited({("a", "x"): 2, ("b", "y"): 1}, {"a": 4})
        self.queue = FairQueue(self.limits, self.concurrency)
        self.waiting: dict[Key, deque[Event]] = {}
        self.running: list[Start] = []

    @rule(key=KEYS, many=st.integers(1, 6))
    def come(self, key: Key, many: int) -> None:
        come = events(key[0] * many, key[1])
        self.queue.extend(come)
        self.waiting.setdefault(key, deque()).extend(come)

    @rule()
    def start(self) -> None:
        self._started(self.queue.next())

    @precondition(lambda self: self.running)
    @rule(luck=st.integers(0, 100), on=st.booleans())
    def end(self, luck: int, on: bool) -> None:
        ended = self.running.pop(luck % len(self.running))
        if on:
            self._started(self.queue.then(ended, None))
        else:
            self.queue.ended(ended, None)

    @rule(key=KEYS, left=st.integers(0, 3))
    def limit_rate(self, key: Key, left: int) -> None:
        self.limits.left[key] = left
        self.queue.poke()

    @precondition(lambda self: any(self.waiting.values()))
    @rule(luck=st.integers(0, 100))
    def lose(self, luck: int) -> None:
        queues = [queue for queue in self.waiting.values() if queue]
        lost = queues[luck % len(queues)].pop()
        self.queue.remove(lost)

    def _started(self, start: Start | None) -> None:
        if start is None:
            assert not self._startable(), "somebody could have been started"
            return
        event, _ = start
        key = event.tenant, event.destination
        assert self.waiting[key].popleft() is event, "in order"
        self.running.append(start)
        under_way = Counter((event.tenant, event.destination) for event, _ in self.running)
        assert under_way[key] <= self.limits.places(*key)
        assert sum(many for (tenant, _), many in under_way.items() if tenant == key[0]) <= self.limits.places_of(key[0])
        assert self.limits.left.get(key, 0) >= 0
        if len(self.running) > self.concurrency:
            assert under_way[key] == 1, "that place was kept for whoever has nothing under way"
        assert len(self.running) <= self.concurrency + 1

    def _startable(self) -> list[Key]:
        under_way = Counter((event.tenant, event.destination) for event, _ in self.running)
        tenants = Counter(event.tenant for event, _ in self.running)
        full = len(self.running) >= self.concurrency
        return [
            key
            for key, queue in self.waiting.items()
            if queue
            and under_way[key] < self.limits.places(*key)
            and tenants[key[0]] < self.limits.places_of(key[0])
            and self.limits.turns(*key) > 0
            and (not full or (len(self.running) == self.concurrency and not tenants[key[0]]))
        ]

    @invariant()
    def counts_are_right(self) -> None:
        assert len(self.queue) == sum(map(len, self.waiting.values()))
        assert {event.id for event in self.queue} == {event.id for queue in self.waiting.values() for event in queue}
        assert self.queue.running == len(self.running)
        assert 0 <= self.queue.startable <= len(self.queue)
        if self._startable():
            assert self.queue.may_start


TestAnyOrder = AnyOrder.TestCase


@given(st.lists(st.tuples(KEYS, st.integers(1, 9)), min_size=1, max_size=12))
def test_every_tenant_and_destination_is_started_within_one_round(given: list[tuple[Key, int]]) -> None:
    queue = FairQueue(Unlimited(1000), 1000)
    tenants, keys = set(), set()
    for (tenant, destination), many in given:
        queue.extend(events(tenant * many, destination))
        tenants.add(tenant)
        keys.add((tenant, destination))
    started = start_all(queue)
    assert set(whose(started[: len(tenants)])) == tenants
    for tenant in tenants:
        own = [event.destination for event, _ in started if event.tenant == tenant]
        wanted = {destination for name, destination in keys if name == tenant}
        assert set(own[: len(wanted)]) == wanted


@pytest.mark.parametrize("many", [1, 5000])
def test_a_freed_place_is_passed_on_however_many_tenants_wait_for_a_limit(many: int) -> None:
    """Those who are set aside are not asked again and again."""
    limits = Limited({("a", None): 1000, **{(f"t{n}", None): 0 for n in range(many)}})
    queue = FairQueue(limits, 100)
    queue.extend(make_event(tenant=f"t{n}") for n in range(many))
    assert queue.next() is None
    asked = 0

    def places(tenant: str, destination: str | None) -> int:
        nonlocal asked
        asked += 1
        return 1000

    limits.places = places  # type: ignore[method-assign]
    queue.extend(events("a" * 10))
    start = queue.next()
    while start is not None:
        start = queue.then(start, None)
    assert asked == 10
