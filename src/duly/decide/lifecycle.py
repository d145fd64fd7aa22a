"""The lifecycle of an event: which act leads from which status to which. All other transitions are refused."""

from collections.abc import Mapping
from datetime import timedelta

from duly.decide.error_text import storable, storable_output
from duly.decide.targets.targets import waits_for
from duly.errors import IllegalTransition
from duly.records.event import Delivered, Event, Expired, Failed, Held, Outcome, Rejected, Status, Verdict
from duly.values.instants import write_instant

PENDING = Status.PENDING
PROCESSING = Status.PROCESSING
COMPLETED = Status.COMPLETED
FAILED = Status.FAILED
CANCELLED = Status.CANCELLED
SKIPPED = Status.SKIPPED

TRANSITIONS: Mapping[str, tuple[frozenset[Status], Status]] = {
    "claim": (frozenset({PENDING, PROCESSING}), PROCESSING),  # PROCESSING: its lease has expired
    "complete": (frozenset({PROCESSING}), COMPLETED),
    "retry": (frozenset({PROCESSING}), PENDING),
    "give back": (frozenset({PROCESSING}), PENDING),
    "fail": (frozenset({PROCESSING}), FAILED),
    "cancel": (frozenset({PENDING}), CANCELLED),
    "stop": (frozenset({PROCESSING}), CANCELLED),  # it was cancelled while it ran, and has ended
    "skip": (frozenset({PENDING}), SKIPPED),
    "expire": (frozenset({PROCESSING}), SKIPPED),
    "reschedule": (frozenset({PENDING}), PENDING),
    "replay": (frozenset({FAILED}), PENDING),
    "discard": (frozenset({FAILED}), CANCELLED),
}
"""For each act, the statuses that it may start from, and the status that it ends in."""

LONGEST_WAIT = timedelta(days=365)
"""The longest wait that a handler or receiver may ask for."""

MAX_INTERRUPTIONS = 5
"""An event that was running in this many crashes counts as their cause, and becomes a dead letter."""


def step(status: Status, act: str, subject: str = "the event") -> Status:
    """The status after *act*; raises IllegalTransition if the lifecycle does not allow the act."""
    allowed, after = TRANSITIONS[act]
    if status not in allowed:
        raise IllegalTransition(subject, status, act, " or ".join(sorted(allowed)))
    return after


def judge(outcome: Outcome, event: Event, jitter: float) -> Verdict:
    """The verdict on an event after the outcome of its current attempt."""
    if isinstance(outcome, Delivered):
        return DELIVERED if outcome.output is None else Verdict(COMPLETED, "delivered", output=_kept(outcome.output))
    if isinstance(outcome, Rejected):
        return Verdict(FAILED, "rejected", error=storable(outcome.error), output=_kept(outcome.output))
    if isinstance(outcome, Failed):
        retry, error = event.retry, storable(outcome.error)
        if retry.spent(event.attempt):
            return Verdict(FAILED, "failed", error=error, output=_kept(outcome.output))
        wait = max(retry.wait(event.attempt, jitter), _bounded(outcome.retry_after))
        return Verdict(PENDING, "failed", error=error, wait=wait, output=_kept(outcome.output))
    if isinstance(outcome, Held):
        reason = f"{waits_for(outcome.destination)}{storable(outcome.reason)}"
        return Verdict(PENDING, "held", error=reason, counts=False, held=outcome.destination)
    if isinstance(outcome, Expired):
        told = f"expired: no attempt may begin after {write_instant(event.expires_at)}"
        error = told if event.last_error is None else f"{told}. Its last error: {event.last_error}"
        return Verdict(SKIPPED, "skipped", error=storable(error), counts=False)
    wait = _bounded(outcome.retry_after)
    error = storable(outcome.reason)
    return Verdict(
        PENDING, "given back", error=error, wait=wait, counts=False, told=outcome.told, output=_kept(outcome.output)
    )


def _kept(output: str | None) -> str | None:
    """The output that is stored with the attempt."""
    return None if output is None else storable_output(output)


def _bounded(span: object) -> timedelta:
    """The wait that a handler or receiver asks for, between 0 and LONGEST_WAIT."""
    return max(timedelta(), min(span, LONGEST_WAIT)) if isinstance(span, timedelta) else timedelta()


DELIVERED = Verdict(COMPLETED, "delivered")

REJECTED = "rejected"
"""The act of the verdict on an event that is not to be tried again, as `judge` writes it."""
