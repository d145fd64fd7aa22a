"""What is counted of which signal, without a database."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly.decide.lifecycle import DELIVERED, judge
from duly.observers.metrics.counts import MOST_PAIRS, Counts, Histogram
from duly.observers.metrics.metrics import written
from duly.observers.metrics.snapshots import Sample, added, lasting
from duly.records.event import Event, Failed, Settlement, Unreachable
from duly.signals import ClaimMade, Created, DeadLettered, FailReason, Settled, Signals, WorkerStarted
from tests.exposition import Exposition
from tests.make import MINUTE, SECOND, START, make_event


@pytest.fixture
def signals() -> Signals:
    return Signals()


@pytest.fixture
def counts(signals: Signals) -> Counts:
    return Counts(signals)


def exposed(counts: Counts) -> Exposition:
    return Exposition(written(list(counts.samples())).decode())


def claimed(late: timedelta = timedelta(), **told: Any) -> Event:
    return msgspec.structs.replace(make_event(**told), due=START, claimed=START + late)


def test_a_histogram_has_a_value_in_the_bucket_whose_bound_it_reaches() -> None:
    histogram = Histogram((1.0, 2.0, 3.0))
    histogram.observe_all([0.5, 1.0, 1.0001, 2.0, 3.1])
    histogram.observe_all([])
    histogram.observe_all([2.5, 3.0])
    assert histogram.buckets == [2, 2, 2, 1]
    assert histogram.sum == pytest.approx(13.1001)


def test_a_batch_of_many_types_is_counted_by_type_and_lane(signals: Signals, counts: Counts) -> None:
    greet, bill = claimed(SECOND), claimed(MINUTE, type="bill", lane="webhook")
    failed = judge(Failed("503"), bill, 0.5)
    back = judge(Unreachable("broker down"), greet, 0.5)
    batch = [Settlement(greet, DELIVERED, 0.02), Settlement(bill, failed, 2.0), Settlement(greet, DELIVERED, 0.03)]
    signals.emit(Settled([*batch, Settlement(greet, back, 9.0)]))
    signals.emit(ClaimMade([greet, bill, greet], 0.3, 0.15))
    signals.emit(ClaimMade([], 0.1, None))
    found = exposed(counts)
    assert found("duly_events_completed_total", type="greet", lane="handler:greet") == 2
    assert found("duly_events_completed_total", type="bill", lane="webhook") == 0
    assert found("duly_events_claimed_total", type="greet") == 2
    assert found("duly_lateness_seconds_sum", type="greet") == 2
    assert found("duly_lateness_seconds_sum", type="bill") == 60
    assert found("duly_delivery_seconds_sum", type="greet") == 0.05, "what was given back is no attempt"
    assert found("duly_delivery_seconds_sum", type="bill") == 2
    assert found("duly_claim_transaction_seconds_count") == 2
    assert found("duly_claim_query_seconds_count") == 1
    assert found("duly_claim_query_seconds_bucket", le="0.1") == 0
    assert found("duly_claim_query_seconds_bucket", le="0.2") == 1


def test_a_retry_is_in_no_lateness_and_an_early_claim_is_not_late(signals: Signals, counts: Counts) -> None:
    early, again = claimed(-SECOND / 100), claimed(MINUTE, attempts=1)
    signals.emit(Settled([Settlement(early, DELIVERED, 0.1), Settlement(again, DELIVERED, 0.1)]))
    found = exposed(counts)
    assert (found("duly_lateness_seconds_count"), found("duly_lateness_seconds_sum")) == (1, 0)
    assert found("duly_delivery_seconds_count") == 2


def test_handlers_begin_at_zero_so_that_their_first_failure_is_an_increase(signals: Signals, counts: Counts) -> None:
    signals.emit(WorkerStarted("w1", ["handler:greet", "webhook"]))
    found = exposed(counts)
    for reason in FailReason:
        assert found("duly_events_failed_total", type="greet", reason=reason.value) == 0
    assert not found.has("duly_events_failed_total", lane="webhook"), "its types are not known yet"
    signals.emit(DeadLettered(make_event(), "no", FailReason.REJECTED))
    assert exposed(counts)("duly_events_failed_total", type="greet", reason="rejected") == 1


def test_further_types_are_counted_together(signals: Signals, counts: Counts) -> None:
    for number in range(MOST_PAIRS + 30):
        for _ in range(2):
            signals.emit(Created(["an id"], f"type {number}", "acme", "webhook"))
    found = exposed(counts)
    assert found("duly_events_created_total", type="other", lane="other") == 60
    assert found("duly_events_created_total", type="type 0", lane="webhook") == 2
    assert found("duly_events_created_total") == 2 * (MOST_PAIRS + 30)


@pytest.mark.parametrize("type", ['a "quoted" one', "back\\slash", "two\nlines", "käse", "{}", 'x",y="z'])
def test_whatever_a_type_is_called_the_text_can_be_read(signals: Signals, counts: Counts, type: str) -> None:
    signals.emit(Created(["an id"], type, "acme", f"handler:{type}"))
    assert exposed(counts)("duly_events_created_total", type=type, lane=f"handler:{type}") == 1


def test_snapshots_of_processes_are_added_and_a_gauge_is_the_worst_of_them() -> None:
    one = [
        Sample("duly_pass_late", (), 3),
        Sample("duly_pass_duration_seconds", (), 1.5, (1, 0, 2)),
        Sample("duly_poll_age_seconds", (), 2),
    ]
    other = [
        Sample("duly_pass_late", (), 4),
        Sample("duly_pass_duration_seconds", (), 0.5, (0, 1, 0)),
        Sample("duly_poll_age_seconds", (), 7),
        Sample("duly_events_retried", ("greet", "handler:greet"), 1),
    ]
    together = [
        Sample("duly_pass_late", (), 7),
        Sample("duly_pass_duration_seconds", (), 2.0, (1, 1, 2)),
        Sample("duly_poll_age_seconds", (), 7),
        Sample("duly_events_retried", ("greet", "handler:greet"), 1),
    ]
    assert list(added([one, other])) == together
    assert [sample.name for sample in lasting(one)] == ["duly_pass_late", "duly_pass_duration_seconds"]
    again = msgspec.json.decode(msgspec.json.encode(one), type=list[Sample])
    assert again == one, "they survive the socket between processes"
