"""The state machine is what the SQL does: each act of the table, on an event in each status, on both stores.

An act that the table allows ends in the status that it names. Every other one is refused, or finds nothing to do, and
leaves the row and its history as they were.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly import Conflict, Duly, Status
from duly.decide.lifecycle import TRANSITIONS, judge
from duly.ports import Dropped
from duly.records.event import Delivered, Event, Expired, Failed, Outcome, Rejected, Settlement, Unreachable
from duly.records.history import Cause
from duly.records.schedule import Schedule
from duly.testing import ManualClock
from tests.make import HOUR, LANE, LEASE, START, make_event
from tests.stores.rows import keep

Act = Callable[[Duly, ManualClock, Event], Awaitable[Any]]


async def claim(app: Duly, clock: ManualClock, event: Event) -> None:
    clock.advance(HOUR)  # past a lease
    await app.store.claim("w2", {LANE: 1}, LEASE)
    await app.store.claim_interrupted("w2", [LANE], LEASE)


def settled_with(outcome: Outcome) -> Act:
    async def settle(app: Duly, clock: ManualClock, event: Event) -> None:
        await app.store.settle([Settlement(event, judge(outcome, event, 0.0))], "w1")

    return settle


async def cancel(app: Duly, clock: ManualClock, event: Event) -> None:
    if event.status is not Status.PROCESSING:  # what runs is asked to stop: see ``stop``
        await app.events.cancel(event.id)


async def stop(app: Duly, clock: ManualClock, event: Event) -> None:
    await app.store.request_stop(event.id, "ada", None)
    await settled_with(Unreachable("it was cancelled while it ran"))(app, clock, event)


async def reschedule(app: Duly, clock: ManualClock, event: Event) -> None:
    await app.events.reschedule(event.id, START + HOUR)


async def replay(app: Duly, clock: ManualClock, event: Event) -> None:
    await app.events.replay(event.id)


async def discard(app: Duly, clock: ManualClock, event: Event) -> None:
    await app.events.discard(event.id)


async def skip(app: Duly, clock: ManualClock, event: Event) -> None:
    """As the verb does it, to the next event of a series."""
    async with app.store.begin() as tx:
        await tx.drop({event.id: Dropped(Cause.BY_HAND, "a holiday")}, "ada")


ACTS: dict[str, Act] = {
    "claim": claim,
    "complete": settled_with(Delivered()),
    "retry": settled_with(Failed("503", timedelta(seconds=1))),
    "give back": settled_with(Unreachable("the broker is down")),
    "fail": settled_with(Rejected("410")),
    "expire": settled_with(Expired()),
    "cancel": cancel,
    "stop": stop,
    "skip": skip,
    "reschedule": reschedule,
    "replay": replay,
    "discard": discard,
}


def an_event(act: str, status: Status) -> Event:
    fields: dict[str, Any] = {"status": status, "expires": timedelta(minutes=1)}
    if status is Status.FAILED:
        fields |= {"attempts": 3, "last_error": "503"}
    if act == "skip":
        waits = status is Status.PENDING
        fields |= {"series": f"schedule:{SERIES}", "occurrence": "2026-01-01T00:00:00Z", "head": waits}
    return make_event(**fields)


SERIES = "019a8f2e-6c00-7abc-8def-0123456789ab"


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("act", list(TRANSITIONS))
async def test_an_act_on_an_event_ends_in_the_status_of_the_table_or_changes_nothing(
    app: Duly, clock: ManualClock, act: str, status: Status
) -> None:
    rule = '{"every":"1h"}'
    await app.store.put_schedule(Schedule(id=SERIES, name="s", tenant="default", type="greet", rule_json=rule))
    [event] = await keep(app.store, an_event(act, status))
    before, entries = await app.store.get(event.id), await app.store.history(event.id)
    allowed, ends_in = TRANSITIONS[act]
    refusal = None
    try:
        await ACTS[act](app, clock, event)
    except Conflict as error:
        refusal = str(error)
    after = await app.store.get(event.id)
    assert after is not None
    if status in allowed:
        assert (refusal, after.status) == (None, ends_in)
        assert after != before or act == "claim"
    else:
        assert after == before
        assert await app.store.history(event.id) == entries
        assert refusal is None or status.value in refusal, "a refusal names the status"


def test_every_act_of_the_table_of_transitions_is_tried() -> None:
    assert set(ACTS) == set(TRANSITIONS)
