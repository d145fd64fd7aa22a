import re
import time
import uuid
from itertools import pairwise

from duly.ids import new_id, new_ids

SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_ids_are_uuids_of_version_7() -> None:
    for id in [*(new_id() for _ in range(1000)), *new_ids(10_000)]:
        assert SHAPE.fullmatch(id)
        parsed = uuid.UUID(id)
        assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, id)


def test_ids_carry_the_time_they_were_made() -> None:
    before = time.time_ns() // 1_000_000
    id = new_id()
    assert before <= int(id.replace("-", "")[:12], 16) <= time.time_ns() // 1_000_000


def test_ids_sort_by_the_time_they_were_made() -> None:
    def made(id: str) -> str:
        """The milliseconds and the fraction of one: what follows is luck."""
        return id[:18]

    ids = [new_id() for _ in range(10_000)]
    assert all(made(one) <= made(next) for one, next in pairwise(ids))
    assert ids[0] < ids[-1]


def test_a_hundred_thousand_ids_are_as_many_ids() -> None:
    assert len({new_id() for _ in range(100_000)}) == 100_000


def test_the_ids_of_a_batch_are_in_order_however_many_a_millisecond_has() -> None:
    before = time.time_ns() // 1_000_000
    ids = new_ids(10_000)
    assert ids == sorted(set(ids))
    assert before <= int(ids[0].replace("-", "")[:12], 16) <= time.time_ns() // 1_000_000


def test_the_ids_of_a_batch_share_no_luck() -> None:
    assert len({id[19:] for id in new_ids(10_000)}) == 10_000
