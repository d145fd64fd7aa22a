from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from duly.decide.fair_share import Candidate, FreePlaces, Key, choose, fair_share, well_served
from tests.make import START

EVERYTHING = FreePlaces(lambda *_: 1000, lambda _: 1000)


def waiting(**tenants: list[int]) -> dict[Key, list[Candidate]]:
    """What tenants have for one destination, by the seconds at which it became ready."""
    return {
        (tenant, None): [
            Candidate(f"{tenant}-{second}", "lane", tenant, None, START + timedelta(seconds=second))
            for second in sorted(seconds)
        ]
        for tenant, seconds in tenants.items()
    }


def ids(chosen: list[Candidate]) -> list[str]:
    return [one.id for one in chosen]


def test_events_are_chosen_round_robin_by_tenant_the_oldest_first() -> None:
    known = waiting(a=[1, 2, 3, 4], b=[9], c=[5, 6])
    assert ids(choose(known, 6, {}, EVERYTHING)) == ["a-1", "c-5", "b-9", "a-2", "c-6", "a-3"]


def test_a_tenant_with_more_events_under_way_is_chosen_later() -> None:
    known = waiting(a=[1, 2, 3], b=[7, 8, 9])
    assert ids(choose(known, 4, {"a": 2}, EVERYTHING)) == ["b-7", "b-8", "a-1", "b-9"]


def test_events_of_a_tenant_are_chosen_round_robin_by_destination() -> None:
    known: dict[Key, list[Candidate]] = {
        ("a", destination): [Candidate(f"{destination}-{n}", "lane", "a", destination, START) for n in range(3)]
        for destination in ("x", "y")
    }
    assert sorted(ids(choose(known, 4, {}, EVERYTHING))) == ["x-0", "x-1", "y-0", "y-1"]


def test_no_more_events_are_chosen_than_tenant_and_destination_have_free_places() -> None:
    known = waiting(a=[1, 2, 3], b=[4, 5, 6], c=[7])
    room = FreePlaces(
        lambda tenant, _: {"a": 1, "b": 9, "c": 0}[tenant], lambda tenant: {"a": 9, "b": 2, "c": 9}[tenant]
    )
    assert ids(choose(known, 9, {}, room)) == ["a-1", "b-4", "b-5"]


NAMES = st.sampled_from("abcd")
KEYS = st.tuples(NAMES, st.sampled_from(["x", "y", None]))
COUNTS = st.dictionaries(KEYS, st.integers(0, 8))


@given(COUNTS, st.integers(0, 40), st.dictionaries(NAMES, st.integers(0, 6)), st.randoms(use_true_random=False))
def test_tenants_get_equal_shares_as_far_as_they_have_events(
    counts: dict[Key, int], free: int, in_hand: dict[str, int], luck: object
) -> None:
    known = {
        key: [Candidate(f"{key}{n}", "lane", *key, START + timedelta(seconds=n)) for n in range(many)]
        for key, many in counts.items()
    }
    rooms = {key: 1 + hash(key) % 4 for key in counts}
    chosen = choose(known, free, in_hand, FreePlaces(lambda *key: rooms[key], lambda _: 5))
    got = Counter((one.tenant, one.destination) for one in chosen)
    tenants = Counter(one.tenant for one in chosen)
    wanted: Counter[str] = Counter()
    for key, many in counts.items():
        wanted[key[0]] += min(many, rooms[key])
    assert len(set(ids(chosen))) == len(chosen) == min(free, sum(min(5, many) for many in wanted.values()))
    assert all(many <= min(counts[key], rooms[key]) for key, many in got.items())
    assert all(many <= 5 for many in tenants.values())
    for key, many in got.items():
        assert [one.id for one in chosen if (one.tenant, one.destination) == key] == ids(known[key][:many])
    total = {tenant: in_hand.get(tenant, 0) + tenants[tenant] for tenant in wanted}
    for unsated in (tenant for tenant in wanted if tenants[tenant] < min(5, wanted[tenant])):
        for other in tenants:  # nobody was given one while another who wanted one had less
            assert total[other] <= max(total[unsated] + 1, in_hand.get(other, 0))


def test_a_fair_share_is_an_equal_part_for_each_tenant() -> None:
    assert fair_share({"a": 100}, {"b"}, 50) == 75
    assert fair_share({}, {"a", "b", "c"}, 10) == 4
    assert fair_share({}, set(), 10) == 10


def test_a_tenant_with_less_than_half_of_a_fair_share_is_not_well_served() -> None:
    assert well_served({("a", None): 10}) == {("a", None)}
    assert well_served({("a", None): 95, ("b", None): 5}) == {("a", None)}
    assert well_served({("a", None): 60, ("b", None): 40}) == {("a", None), ("b", None)}
    assert well_served({("a", "x"): 80, ("a", "y"): 1, ("b", None): 40}) == {("a", "x"), ("b", None)}
