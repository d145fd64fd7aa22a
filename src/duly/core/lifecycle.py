"""Which status may follow which, and by what act. Every other step is refused by name."""

from collections.abc import Mapping

from duly.core.model import Delivered, Event, Failed, Outcome, Rejected, Status, Verdict
from duly.errors import IllegalTransition

PENDING, PROCESSING = Status.PENDING, Status.PROCESSING
COMPLETED, FAILED, CANCELLED, SKIPPED = (
    Status.COMPLETED,
    Status.FAILED,
    Status.CANCELLED,
    Status.SKIPPED,
)

TRANSITIONS: Mapping[str, tuple[frozenset[Status], Status]] = {
    "claim": (frozenset({PENDING, PROCESSING}), PROCESSING),  # PROCESSING: its lease has expired
    "complete": (frozenset({PROCESSING}), COMPLETED),
    "retry": (frozenset({PROCESSING}), PENDING),
    "give back": (frozenset({PROCESSING}), PENDING),
    "fail": (frozenset({PROCESSING}), FAILED),
    "cancel": (frozenset({PENDING}), CANCELLED),
    "skip": (frozenset({PENDING}), SKIPPED),
    "reschedule": (frozenset({PENDING}), PENDING),
    "replay": (frozenset({FAILED}), PENDING),
    "discard": (frozenset({FAILED}), CANCELLED),
}
"""Each act: the statuses it may start from, and the one it ends in."""

MAX_INTERRUPTIONS = 5
"""An event that was under way in this many crashes is taken for their cause."""


def step(status: Status, act: str, subject: str = "the event") -> Status:
    """The status after *act*; IllegalTransition when the lifecycle has no such step."""
    allowed, after = TRANSITIONS[act]
    if status not in allowed:
        raise IllegalTransition(subject, status, act, " or ".join(sorted(allowed)))
    return after


def judge(outcome: Outcome, event: Event, jitter: float) -> Verdict:
    """What the outcome of the attempt under way means for the event."""
    if isinstance(outcome, Delivered):
        return DELIVERED
    if isinstance(outcome, Rejected):
        return Verdict(FAILED, "rejected", error=outcome.error)
    if isinstance(outcome, Failed):
        retry = event.retry
        if retry.spent(event.attempt):
            return Verdict(FAILED, "failed", error=outcome.error)
        wait = retry.wait(event.attempt, jitter)
        if outcome.retry_after is not None:
            wait = max(wait, outcome.retry_after)
        return Verdict(PENDING, "failed", error=outcome.error, wait=wait)
    return Verdict(PENDING, "given back", error=outcome.reason, wait=outcome.retry_after, counts=False)


DELIVERED = Verdict(COMPLETED, "delivered")
