"""A replay with another payload: a new event, which names the event that it replays."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import msgspec

from duly.decide.checks import write_json
from duly.decide.lifecycle import step
from duly.decide.own_checks import checks_of
from duly.decide.series.due_head import ITS_TURN
from duly.decide.targets.origin import closed, refuse_act, refuse_edit, via_of
from duly.engine.series.holds import let_go
from duly.errors import Conflict, Invalid, Problem
from duly.ids import new_id
from duly.ports import Dropped, EventTransaction
from duly.records.event import TERMINAL, Event, NewEvent, Status, Timer
from duly.records.history import Cause
from duly.records.schedule import Schedule
from duly.rules.policies import SHADOW

UNCHANGED: Any = object()
"""In place of a payload: the event is replayed as it is, under its own id."""

ERASED_RULE = "{}"
"""The rule of a user's events after the person was erased: see ``erase_user`` in the SQL of users."""


async def replay_edited(tx: EventTransaction, event: Event, payload: Any, channels: Collection[str], by: str) -> Event:
    """Creates the event that replays a locked one with another payload. A dead letter is discarded, because the new
    event replaces it; events that have ended otherwise stay as they are."""
    await _refuse(tx, event, channels)
    written = _checked(event, payload, channels)
    if written != event.payload_json:
        refuse_edit(event.via, event.target, via_of(channels), f"event {event.id}")
    schedule = None if event.schedule_id is None else next(iter(await tx.schedules([event.schedule_id])), None)
    new = _edited(event, written, schedule)
    await (tx.add([new]) if new.series is None else tx.plant([new]))
    tx.tell_created([new])
    await tx.note([(new.id, "created", f"replays event {event.id} with another payload")], by)
    if schedule is not None and schedule.policies.mode == SHADOW:
        await tx.drop({new.id: Dropped(Cause.SHADOW, "shadow: it would have fired", "shadowed")}, by)
    elif schedule is not None:
        await let_go(tx, [schedule])
    if event.status is Status.FAILED:
        discarded = msgspec.structs.replace(event, status=step(event.status, "discard", f"event {event.id}"))
        await tx.change(discarded, "discarded", by, f"replayed with another payload, as event {new.id}")
    else:
        await tx.note([(event.id, "replayed as", f"event {new.id}, with another payload")], by)
    await tx.link_replay(event.id, new.id)
    made = await tx.get(new.id)
    assert made is not None
    return made


async def _refuse(tx: EventTransaction, event: Event, channels: Collection[str]) -> None:
    """Refuses to replay what has not ended, what is not all there any more, and what this request may not send."""
    cannot = f"cannot replay event {event.id} with another payload"
    if event.status not in TERMINAL:
        raise Conflict(
            f"{cannot}: it is {event.status}, and its own payload may still be delivered; cancel it and then replay "
            "it, or reschedule it as it is"
        )
    if event.rule_json == ERASED_RULE:
        raise Conflict(f"{cannot}: the person whose event it was has been erased; create a new event")
    if await tx.get(event.id) is None:
        raise Conflict(f"{cannot}: it was deleted after its retention, and only its key is known; create a new event")
    refuse_act(event.target, channels, f"event {event.id}")
    if problems := closed(event.via, event.target, channels):
        raise Invalid(problems)


def _checked(event: Event, payload: Any, channels: Collection[str]) -> str:
    """The payload as JSON; raises Invalid with all its problems, also those that the checks of its type find."""
    written = write_json(payload, "payload")
    problems = [written] if isinstance(written, Problem) else []
    if (own := checks_of(channels)) is not None:
        timer = Timer(
            timedelta(),
            event.type,
            payload,
            tenant=event.tenant,
            target=event.target,
            retry=event.retry,
            correlation_id=event.correlation_id,
            expires=event.expires,
        )
        problems += own.problems(timer, problems)
    if problems or isinstance(written, Problem):
        raise Invalid(problems)
    return written


def _edited(event: Event, payload_json: str, schedule: Schedule | None) -> NewEvent:
    """The new event: due now, beside its series like a triggered one, and without the key of the old one."""
    id = new_id()
    gated = schedule is not None and schedule.policies.room is not None
    return NewEvent(
        id=id,
        tenant=event.tenant,
        type=event.type,
        lane=event.lane,
        delay=timedelta(),
        payload_json=payload_json,
        target_json=event.target_json,
        retry_json=event.retry_json,
        correlation_id=event.correlation_id,
        destination=event.destination,
        via=event.via,
        expires=event.expires,
        series=event.series,
        occurrence=None if event.series is None else f"replay:{id}",
        scheduled=event.scheduled,
        timezone=event.timezone,
        rule_json=event.rule_json,
        owner=event.owner,
        gated=gated,
        held=ITS_TURN.reason if gated else None,
        hold_kind=ITS_TURN.kind if gated else None,
    )
