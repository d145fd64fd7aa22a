"""How long a worker sleeps that finds nothing to claim."""

from datetime import timedelta

import pytest

from duly.engine.sleep import LIMITS_RECHECK, LOCKED_RETRY_MOST_S, LocalWaker, Sleep
from duly.ports import Horizon
from tests.make import HOUR, MINUTE, SECOND

POLL = 5.0
READY = -SECOND
NOTHING = Horizon(None, None)


def sleep(
    horizon: Horizon,
    *,
    found: bool = False,
    limited: bool = False,
    whole: bool = True,
    lookahead: timedelta = 0 * SECOND,
) -> float:
    return Sleep(lookahead, timedelta(seconds=POLL), LocalWaker()).after_a_claim(
        horizon, found=found, limited=limited, whole=whole
    )


@pytest.mark.parametrize(
    ("horizon", "seconds"),
    [
        (NOTHING, POLL),
        (Horizon(HOUR, HOUR), POLL),
        (Horizon(2 * SECOND, None), 2.0),
        (Horizon(3 * SECOND, SECOND / 2), 0.5),
    ],
)
def test_a_worker_sleeps_until_the_next_event_is_ready_and_not_past_the_poll(horizon: Horizon, seconds: float) -> None:
    assert sleep(horizon) == seconds


def test_a_worker_wakes_early_enough_to_reserve_what_is_due_soon() -> None:
    assert sleep(Horizon(3 * SECOND, None), lookahead=SECOND) == 2.0
    assert sleep(Horizon(SECOND / 2, None), lookahead=SECOND) == 0.5, "there was none to reserve"
    assert sleep(Horizon(None, 3 * SECOND), lookahead=SECOND) == 3.0, "those are not reserved"


def test_a_worker_sleeps_half_of_the_lookahead_after_reserving() -> None:
    sleeper = Sleep(2 * SECOND, MINUTE, LocalWaker())
    assert sleeper.after_reserving(limited=False) == 1.0
    assert sleeper.after_reserving(limited=True) == LIMITS_RECHECK.total_seconds()


def test_a_worker_claims_again_at_once_after_a_claim_that_found_something() -> None:
    assert sleep(Horizon(READY, None), found=True) == 0.0


def test_a_worker_looks_at_all_lanes_before_it_sleeps() -> None:
    assert sleep(Horizon(READY, None), whole=False) == 0.0


def test_a_worker_backs_off_while_ready_events_are_locked() -> None:
    sleeper = Sleep(0 * SECOND, MINUTE, LocalWaker())
    horizon = Horizon(READY, None)
    slept = [sleeper.after_a_claim(horizon, found=False, limited=False, whole=True) for _ in range(12)]
    assert slept == sorted(slept)
    assert slept[0] < 0.01
    assert slept[-1] == LOCKED_RETRY_MOST_S
    sleeper.after_a_claim(NOTHING, found=True, limited=False, whole=True)
    assert sleeper.after_a_claim(horizon, found=False, limited=False, whole=True) == slept[0]


def test_a_worker_rechecks_limits_often_and_does_not_spin() -> None:
    assert sleep(NOTHING, limited=True) == LIMITS_RECHECK.total_seconds()
    assert sleep(Horizon(HOUR, READY), limited=True) == LIMITS_RECHECK.total_seconds(), "these may be what may not"
    assert sleep(Horizon(SECOND / 20, None), limited=True) == 0.05
