"""The figures of a pass, and when it begins and ends."""

import types
from datetime import timedelta
from typing import Any

import pytest

from duly.engine.tally import DEAD, LONGEST_PASS_S, NOTHING, PassTally, Tally, tally_of
from duly.signals import PassEnded, Signals
from tests.make import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    START,
    completed,
    failed,
    given_back,
    make_event,
    rejected,
)

NOW = timedelta()
LATE_AFTER = 5 * MINUTE


def started(late: timedelta = NOW) -> Any:
    """An event whose attempt began so long after it was due."""
    return make_event(status="PROCESSING", claimed=START + late)


# -- counting


def test_each_verdict_is_counted_as_what_it_made_of_the_event() -> None:
    batch = [completed(started()), completed(started()), failed(started()), rejected(started())]
    assert tally_of(batch, LATE_AFTER) == Tally(processed=2, retried=1, failed=1, attempts=4)


def test_an_event_that_was_given_back_counts_as_no_attempt() -> None:
    assert tally_of([given_back(started(DAY))], LATE_AFTER) == NOTHING
    assert tally_of([], LATE_AFTER) == NOTHING


def test_lateness_is_that_of_all_attempts_whatever_became_of_them() -> None:
    batch = [completed(started()), failed(started(HOUR)), rejected(started(2 * HOUR)), given_back(started(DAY))]
    tally = tally_of(batch, LATE_AFTER)
    assert (tally.late, tally.lateness, tally.greatest) == (2, 3 * HOUR, 2 * HOUR)


def test_an_event_is_late_that_began_more_than_so_long_after_it_was_due() -> None:
    batch = [completed(started(LATE_AFTER)), completed(started(LATE_AFTER + MICROSECOND))]
    assert tally_of(batch, LATE_AFTER).late == 1
    assert tally_of(batch, NOW).late == 2


def test_an_event_claimed_ahead_of_its_instant_does_not_lower_the_lateness() -> None:
    """It would make others look less late than they were."""
    tally = tally_of([completed(started(-SECOND)), completed(started(SECOND))], LATE_AFTER)
    assert (tally.attempts, tally.lateness, tally.greatest) == (2, SECOND, SECOND)


def test_tallies_of_two_batches_add_up_to_that_of_both() -> None:
    one = [completed(started(HOUR)), failed(started(SECOND))]
    other = [completed(started(DAY)), rejected(started())]
    assert tally_of(one, LATE_AFTER) + tally_of(other, LATE_AFTER) == tally_of([*one, *other], LATE_AFTER)


# -- beginning and ending


class Watch:
    """The seconds of a worker's passes, and what is told of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("duly.engine.tally.time", types.SimpleNamespace(monotonic=lambda: self.now))
        signals = Signals(LATE_AFTER)
        self.told: list[PassEnded] = []
        signals.observe(self.told.append, PassEnded)
        self.passes = PassTally("w1", signals)

    def count(self, *settled: Any) -> None:
        self.passes.count(tally_of(settled, LATE_AFTER))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_a_pass_lasts_from_its_first_event_to_its_last_settlement(watch: Watch) -> None:
    watch.passes.begin()
    watch.now += 1
    watch.passes.begin()
    watch.count(completed(started(HOUR)))
    watch.now += 2
    watch.passes.look(idle=False)
    assert watch.told == []
    watch.count(completed(started()), rejected(started()))
    watch.now += 0.25
    watch.passes.look(idle=True)
    assert watch.told == [
        PassEnded(
            worker="w1",
            processed=2,
            retried=0,
            failed=1,
            late=1,
            average_lateness=HOUR / 3,
            greatest_lateness=HOUR,
            duration=3 * SECOND,
        )
    ]
    assert watch.told[0].recovery


def test_an_idle_worker_reports_no_pass(watch: Watch) -> None:
    watch.passes.look(idle=True)
    watch.passes.begin()
    watch.count(given_back(started()))
    watch.passes.look(idle=True)
    assert watch.told == []


def test_idle_time_belongs_to_no_pass(watch: Watch) -> None:
    for _ in range(2):
        watch.passes.begin()
        watch.now += 1
        watch.count(completed(started()))
        watch.passes.look(idle=True)
        watch.now += 1000
    assert [passed.duration for passed in watch.told] == [SECOND, SECOND]


def test_a_pass_in_which_nothing_was_settled_is_not_reported(watch: Watch) -> None:
    watch.passes.begin()
    watch.count(given_back(started()))
    watch.passes.look(idle=True)
    watch.now += 1000
    watch.passes.begin()
    watch.now += 1
    watch.count(completed(started()))
    watch.passes.look(idle=True)
    assert [(passed.processed, passed.duration) for passed in watch.told] == [(1, SECOND)]


def test_a_pass_that_does_not_end_is_reported_each_minute_and_no_second_is_lost(watch: Watch) -> None:
    watch.passes.begin()
    for _ in range(int(3 * LONGEST_PASS_S)):
        watch.now += 1
        watch.count(completed(started()))
        watch.passes.look(idle=False)
    watch.passes.look(idle=True)
    assert len(watch.told) == 3
    assert sum(passed.processed for passed in watch.told) == 3 * LONGEST_PASS_S
    assert sum((passed.duration for passed in watch.told), NOW).total_seconds() == 3 * LONGEST_PASS_S


def test_a_handler_that_takes_hours_is_not_reported_before_it_ends(watch: Watch) -> None:
    watch.passes.begin()
    for _ in range(2 * 60):
        watch.now += 60
        watch.passes.look(idle=False)
    assert watch.told == []
    watch.count(completed(started()))
    watch.passes.look(idle=True)
    assert [passed.duration for passed in watch.told] == [2 * HOUR]


def test_events_that_failed_without_an_attempt_do_not_lower_the_average(watch: Watch) -> None:
    watch.passes.count(DEAD)
    watch.count(completed(started(HOUR)))
    ended = watch.passes.end(watch.now)
    assert (ended.failed, ended.average_lateness) == (1, HOUR)
