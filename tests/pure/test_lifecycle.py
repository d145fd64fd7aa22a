from datetime import timedelta

import pytest

from duly.decide.lifecycle import MAX_INTERRUPTIONS, TRANSITIONS, judge, step
from duly.decide.retry import Retry
from duly.errors import Conflict, IllegalTransition
from duly.records.event import Delivered, Failed, Rejected, Status, Unreachable, Verdict
from tests.make import HOUR, MINUTE, SECOND, make_event

PENDING, PROCESSING, COMPLETED = Status.PENDING, Status.PROCESSING, Status.COMPLETED
FAILED, CANCELLED, SKIPPED = Status.FAILED, Status.CANCELLED, Status.SKIPPED

LEGAL = {
    (PENDING, "claim"): PROCESSING,
    (PROCESSING, "claim"): PROCESSING,  # its lease has expired
    (PROCESSING, "complete"): COMPLETED,
    (PROCESSING, "retry"): PENDING,
    (PROCESSING, "give back"): PENDING,
    (PROCESSING, "fail"): FAILED,
    (PENDING, "cancel"): CANCELLED,
    (PROCESSING, "stop"): CANCELLED,
    (PENDING, "skip"): SKIPPED,
    (PROCESSING, "expire"): SKIPPED,
    (PENDING, "reschedule"): PENDING,
    (FAILED, "replay"): PENDING,
    (FAILED, "discard"): CANCELLED,
}
ACTS = sorted({act for _, act in LEGAL})


@pytest.mark.parametrize(("status", "act"), LEGAL)
def test_a_legal_step_leads_where_the_lifecycle_says(status: Status, act: str) -> None:
    assert step(status, act) is LEGAL[status, act]


@pytest.mark.parametrize(("status", "act"), [(s, a) for s in Status for a in ACTS if (s, a) not in LEGAL])
def test_every_other_step_is_rejected_by_name(status: Status, act: str) -> None:
    with pytest.raises(IllegalTransition) as refused:
        step(status, act, "event 7")
    assert (refused.value.status, refused.value.act) == (status, act)
    assert isinstance(refused.value, Conflict)
    message = str(refused.value)
    assert message.startswith(f"cannot {act} event 7: it is {status}")
    for allowed, known in LEGAL:
        assert (known != act) or allowed.value in message, "says from where the act is allowed"


def test_the_lifecycle_has_no_other_acts() -> None:
    assert sorted(TRANSITIONS) == ACTS


def test_no_act_leads_out_of_a_final_status_except_from_the_dead_letters() -> None:
    ends = {COMPLETED, CANCELLED, SKIPPED}
    assert not [act for status, act in LEGAL if status in ends]
    assert {act for status, act in LEGAL if status is FAILED} == {"replay", "discard"}


@pytest.mark.parametrize(
    ("act", "participle"),
    [("cancel", "cancelled"), ("replay", "replayed"), ("discard", "discarded"), ("reschedule", "rescheduled")],
)
def test_a_refused_act_is_told_as_a_sentence(act: str, participle: str) -> None:
    with pytest.raises(IllegalTransition, match=f"can be {participle}$"):
        step(COMPLETED, act)


# -- judging an outcome


def test_a_delivered_event_is_completed() -> None:
    assert judge(Delivered(), make_event(), 0.5) == Verdict(COMPLETED, "delivered")


def test_a_rejected_event_fails_at_once() -> None:
    event = make_event(retry=Retry(max_attempts=1000))
    assert judge(Rejected("410"), event, 0.5) == Verdict(FAILED, "rejected", error="410")


def test_a_failed_event_waits_as_its_retry_policy_says() -> None:
    event = make_event(retry=Retry(base=MINUTE, factor=2), attempts=1)
    assert judge(Failed("503"), event, 0.4) == Verdict(PENDING, "failed", error="503", wait=1.1 * 2 * MINUTE)


def test_a_failed_event_waits_no_shorter_than_the_receiver_asks() -> None:
    event = make_event(retry=Retry(base=MINUTE))
    assert judge(Failed("429", retry_after=HOUR), event, 0.5).wait == HOUR
    assert judge(Failed("429", retry_after=SECOND), event, 0.4).wait == 1.1 * MINUTE


@pytest.mark.parametrize(("attempts", "status"), [(0, PENDING), (1, PENDING), (2, FAILED), (3, FAILED)])
def test_a_failed_last_attempt_makes_a_dead_letter(attempts: int, status: Status) -> None:
    event = make_event(retry=Retry(max_attempts=3), attempts=attempts)
    verdict = judge(Failed("503"), event, 0.5)
    assert (verdict.status, verdict.act, verdict.error, verdict.counts) == (status, "failed", "503", True)
    assert (verdict.wait is None) is (status is FAILED)


def test_an_unreachable_channel_counts_no_attempt() -> None:
    event = make_event(retry=Retry(max_attempts=1))
    expected = Verdict(PENDING, "given back", error="broker down", wait=timedelta(seconds=5), counts=False)
    assert judge(Unreachable("broker down"), event, 0.5) == expected


def test_the_fifth_interruption_makes_a_dead_letter() -> None:
    assert MAX_INTERRUPTIONS == 5
