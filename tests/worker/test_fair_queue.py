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


def start_all(turns: FairQueue) -> list[Start]:
    return list(iter(turns.next, None))


def whose(started: list[Start]) -> str:
    return "".join(event.tenant for event, _ in started)


def test_tenants_take_turns() -> None:
    turns = FairQueue(Unlimited(100), 100)
    turns.extend(events("aaaaabc"))
    turns.extend(events("bb"))
    assert whose(start_all(turns)) == "abcababaa"


class Clock:
    """Time that passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("duly.engine.fairness.fair_queue.monotonic", lambda: self.now)


def run_to_the_end(turns: FairQueue) -> None:
    for started in start_all(turns):
        turns.ended(started, None)


def test_a_worker_counts_on_a_second_tenant_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, turns = Clock(monkeypatch), FairQueue(Unlimited(100), 100)
    for _ in range(2):
        turns.extend(events("aaa", "x") + events("aa", "y"))
        run_to_the_end(turns)
        assert not turns.shared, "one tenant is alone, wherever its events go"
    turns.extend(events("b"))
    run_to_the_end(turns)
    assert turns.shared
    clock.now += SHARED_FOR_S
    turns.extend(events("b"))
    assert not turns.shared
    clock.now += 1
    turns.extend(events("a"))
    run_to_the_end(turns)
    clock.now += SHARED_FOR_S - 1
    assert turns.shared


def test_a_second_tenant_counts_each_time_that_it_comes_beside_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, turns = Clock(monkeypatch), FairQueue(Unlimited(1), 1)
    turns.extend(events("a" * 20))
    for _ in range(3):
        clock.now += SHARED_FOR_S
        assert not turns.shared
        turns.extend(events("b"))
        assert turns.shared
        for _ in range(2):  # one of each
            started = turns.next()
            assert started is not None
            turns.ended(started, None)


def test_what_one_tenant_has_for_one_destination_starts_in_order() -> None:
    turns = FairQueue(Unlimited(100), 100)
    given = events("a" * 20)
    turns.extend(given)
    assert [event for event, _ in start_all(turns)] == given


def test_destinations_of_a_tenant_take_turns() -> None:
    turns = FairQueue(Unlimited(100), 100)
    turns.extend(events("aaa", "x"))
    turns.extend(events("aa", "y"))
    turns.extend(events("b", "x"))
    started = start_all(turns)
    assert [(event.tenant, event.destination) for event, _ in started] == [
        ("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("a", "y"), ("a", "x"),
    ]  # fmt: skip


def test_a_place_goes_on_to_the_next_without_anybody_else_in_between() -> None:
    turns = FairQueue(Unlimited(2), 2)
    turns.extend(events("aaaa"))
    first, second = start_all(turns)
    assert turns.next() is None
    third = turns.then(first, None)
    assert third is not None
    assert turns.running == 2
    assert turns.startable == 1
    assert turns.then(second, None) is not None
    assert turns.then(third, None) is None
    assert turns.running == 1


def test_a_destination_never_has_more_under_way_than_it_may() -> None:
    turns = FairQueue(Limited({("a", "x"): 2}), 100)
    turns.extend(events("aaaaa", "x"))
    turns.extend(events("aaa", "y"))
    started = start_all(turns)
    assert Counter(event.destination for event, _ in started) == {"x": 2, "y": 3}
    assert len(turns) == 3
    assert turns.startable == 0, "they wait for something else than a place"
    slow = next(start for start in started if start[0].destination == "x")
    again = turns.then(slow, None)
    assert again is not None
    assert again[0].destination == "x"
    assert turns.next() is None


def test_a_tenant_never_has_more_under_way_than_it_may() -> None:
    turns = FairQueue(Limited(of={"a": 3}), 100)
    for destination in "xyz":
        turns.extend(events("aaa", destination))
    turns.extend(events("bbbb"))
    started = start_all(turns)
    assert Counter(whose(started)) == {"a": 3, "b": 4}
    turns.ended(next(start for start in started if start[0].tenant == "a"), None)
    assert whose(start_all(turns)) == "a"


def test_who_has_used_up_a_rate_goes_on_when_time_has_passed() -> None:
    limits = Limited()
    limits.left = {("a", "x"): 2}
    turns = FairQueue(limits, 100)
    turns.extend(events("aaaa", "x"))
    turns.extend(events("b"))
    started = start_all(turns)
    assert whose(started) == "aba"
    for start in started:
        assert turns.then(start, None) is None
    limits.left["a", "x"] = 1
    assert turns.next() is None, "nobody has said that time has passed"
    turns.poke()
    assert whose(start_all(turns)) == "a"
    assert limits.told == [event.id for event, _ in started]


def test_places_are_kept_for_whoever_has_nothing_under_way() -> None:
    turns = FairQueue(Unlimited(20), 20)
    turns.extend(events("a" * 50))
    assert len(start_all(turns)) == 20
    assert turns.kept == 2
    turns.extend(events("bbc"))
    assert turns.may_start
    assert whose(start_all(turns)) == "bc"
    turns.extend(events("d"))
    assert turns.next() is None, "there are no more than a tenth"
    assert turns.kept == 0


def test_the_last_half_of_what_is_kept_is_for_tenants_with_nothing_under_way() -> None:
    turns = FairQueue(Unlimited(20), 20)
    turns.extend(events("a" * 20))
    start_all(turns)
    for destination in "xyz":
        turns.extend(events("a", destination))
    turns.extend(events("b"))
    assert [(event.tenant, event.destination) for event, _ in start_all(turns)] == [("a", "x"), ("b", None)]


def test_what_was_kept_is_given_back_before_others_get_a_place() -> None:
    turns = FairQueue(Unlimited(10), 10)
    turns.extend(events("a" * 20))
    started = start_all(turns)
    turns.extend(events("b"))
    [quiet] = start_all(turns)
    assert turns.then(started[0], None) is None, "eleven were under way, and now ten"
    assert turns.then(quiet, None) is not None


def test_with_few_places_none_is_kept() -> None:
    for concurrency in (1, 9):
        turns = FairQueue(Unlimited(concurrency), concurrency)
        turns.extend(events("a" * 20))
        assert len(start_all(turns)) == concurrency
        turns.extend(events("b"))
        assert turns.next() is None
        assert turns.kept == 0
        assert not turns.may_start


def test_what_was_lost_is_not_started() -> None:
    turns = FairQueue(Limited({("b", None): 0}), 100)
    given = events("aab")
    turns.extend(given)
    turns.remove(given[0])
    assert [event for event, _ in start_all(turns)] == [given[1]]
    turns.remove(given[2])
    assert len(turns) == turns.startable == 0


def test_all_that_waits_can_be_taken_away() -> None:
    turns = FairQueue(Limited({("b", None): 0}), 100)
    turns.extend(events("aabbcc"))
    [*_] = [turns.next(), turns.next()]
    turns.clear()
    assert not list(turns)
    assert turns.startable == 0
    assert turns.next() is None
    turns.extend(events("d"))
    assert whose(start_all(turns)) == "d"


# -- whatever happens

KEYS = st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]))


class AnyOrder(RuleBasedStateMachine):
    """Compared with what the limits say, after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.concurrency = 10
        self.limits = Limited({("a", "x"): 2, ("b", "y"): 1}, {"a": 4})
        self.turns = FairQueue(self.limits, self.concurrency)
        self.waiting: dict[Key, deque[Event]] = {}
        self.running: list[Start] = []

    @rule(key=KEYS, many=st.integers(1, 6))
    def come(self, key: Key, many: int) -> None:
        come = events(key[0] * many, key[1])
        self.turns.extend(come)
        self.waiting.setdefault(key, deque()).extend(come)

    @rule()
    def start(self) -> None:
        self._started(self.turns.next())

    @precondition(lambda self: self.running)
    @rule(luck=st.integers(0, 100), on=st.booleans())
    def end(self, luck: int, on: bool) -> None:
        ended = self.running.pop(luck % len(self.running))
        if on:
            self._started(self.turns.then(ended, None))
        else:
            self.turns.ended(ended, None)

    @rule(key=KEYS, left=st.integers(0, 3))
    def limit_rate(self, key: Key, left: int) -> None:
        self.limits.left[key] = left
        self.turns.poke()

    @precondition(lambda self: any(self.waiting.values()))
    @rule(luck=st.integers(0, 100))
    def lose(self, luck: int) -> None:
        queues = [queue for queue in self.waiting.values() if queue]
        lost = queues[luck % len(queues)].pop()
        self.turns.remove(lost)

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
        assert len(self.turns) == sum(map(len, self.waiting.values()))
        assert {event.id for event in self.turns} == {event.id for queue in self.waiting.values() for event in queue}
        assert self.turns.running == len(self.running)
        assert 0 <= self.turns.startable <= len(self.turns)
        if self._startable():
            assert self.turns.may_start


TestAnyOrder = AnyOrder.TestCase


@given(st.lists(st.tuples(KEYS, st.integers(1, 9)), min_size=1, max_size=12))
def test_everybody_is_started_within_one_round(given: list[tuple[Key, int]]) -> None:
    turns = FairQueue(Unlimited(1000), 1000)
    tenants, keys = set(), set()
    for (tenant, destination), many in given:
        turns.extend(events(tenant * many, destination))
        tenants.add(tenant)
        keys.add((tenant, destination))
    started = start_all(turns)
    assert set(whose(started[: len(tenants)])) == tenants
    for tenant in tenants:
        own = [event.destination for event, _ in started if event.tenant == tenant]
        wanted = {destination for name, destination in keys if name == tenant}
        assert set(own[: len(wanted)]) == wanted


@pytest.mark.parametrize("many", [1, 5000])
def test_a_place_is_passed_on_however_many_wait_for_something_else(many: int) -> None:
    """Those who are set aside are not asked again and again."""
    limits = Limited({("a", None): 1000, **{(f"t{n}", None): 0 for n in range(many)}})
    turns = FairQueue(limits, 100)
    turns.extend(make_event(tenant=f"t{n}") for n in range(many))
    assert turns.next() is None
    asked = 0

    def places(tenant: str, destination: str | None) -> int:
        nonlocal asked
        asked += 1
        return 1000

    limits.places = places  # type: ignore[method-assign]
    turns.extend(events("a" * 10))
    start = turns.next()
    while start is not None:
        start = turns.then(start, None)
    assert asked == 10
