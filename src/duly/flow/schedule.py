"""Accept what is asked for: check it whole, make the first event, store both in one transaction."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from duly.core.checks import name_problems, retry_problems, target_problems, write_json
from duly.core.model import NewEvent, Schedule, Status, Timer
from duly.core.planning import head_of, plan, rule_of
from duly.core.retry import DEFAULT, Retry, retry_text
from duly.core.rules import Occurrence, Rule
from duly.errors import Conflict, Invalid, Problem
from duly.flow.heads import ENDED, ERROR, PAUSED, Next, plant
from duly.flow.ids import new_id, new_ids
from duly.ports import Added, Statements, Store
from duly.signals import Created, Signals

CHUNK = 5000


async def put_timer(store: Statements, timer: Timer, channels: Collection[str]) -> Added:
    """Schedule one timer, or move the one that has its key."""
    [added] = await store.put(plan((timer,), channels, new_ids))
    return added


async def add_timers(
    store: Store, timers: Iterable[Timer], channels: Collection[str], tx: Statements | None, signals: Signals
) -> list[str]:
    """All of them or, when one is invalid, none; the ids in order."""
    events = plan(list(timers), channels, new_ids)
    if tx is not None:
        return (await _add(tx, events))[0]
    if len(events) <= CHUNK and not any(event.key for event in events):
        ids = created = await store.add(events) if events else []
    else:
        async with store.begin() as own:
            ids, created = await _add(own, events)
    signals.emit(Created(created))
    return ids


async def _add(tx: Statements, events: list[NewEvent]) -> tuple[list[str], list[str]]:
    """The ids in order, and those of them that are new."""
    ids = [event.id for event in events]
    keyless = [event for event in events if event.key is None]
    for start in range(0, len(keyless), CHUNK):
        await tx.add(keyless[start : start + CHUNK])
    created = [event.id for event in keyless]
    keyed = [(index, event) for index, event in enumerate(events) if event.key is not None]
    for start in range(0, len(keyed), CHUNK):
        chunk = keyed[start : start + CHUNK]
        for (index, _), added in zip(chunk, await tx.put([event for _, event in chunk]), strict=True):
            ids[index] = added.event.id
            if added.change == "created":
                created.append(added.event.id)
    return ids, created


class ScheduleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks of a schedule."""

    name: str
    rule: Rule
    type: str
    payload: Any = None
    tenant: str = "default"
    target: dict[str, Any] | None = None
    retry: Retry = DEFAULT


async def put_schedule(
    store: Store, draft: ScheduleDraft, channels: Collection[str], tx: Statements | None = None
) -> Schedule:
    """Create or replace. An unchanged rule keeps its next event; a changed one moves it, if it has not started."""
    asked = _checked(draft, channels)
    for _ in range(3):
        if tx is not None:
            stored = await _put(tx, asked, draft.rule)
        else:
            async with store.begin() as own:
                stored = await _put(own, asked, draft.rule)
        if stored is not None:
            return stored
    raise Conflict(f"schedule {draft.name!r} is being changed by others just now: try again")


async def _put(tx: Statements, asked: Schedule, rule: Rule) -> Schedule | None:
    """None when somebody else was quicker, and it should be tried again."""
    known = await tx.schedule_named(asked.tenant, asked.name)
    return await (_create(tx, asked, rule) if known is None else _replace(tx, asked, rule, known))


async def _create(tx: Statements, asked: Schedule, rule: Rule) -> Schedule | None:
    rule = rule.anchored(await tx.now())
    schedule = msgspec.structs.replace(asked, rule_json=write(rule))
    if not await tx.put_schedule(schedule):
        return None  # somebody else created it meanwhile: it is theirs to replace
    return await _plant_first(tx, schedule, rule)


async def _replace(tx: Statements, asked: Schedule, rule: Rule, known: Schedule) -> Schedule | None:
    head = await tx.head(known.series)  # events are locked first, then schedules
    locked = await tx.schedules([known.id])
    if not locked or (head is None) != (await tx.head(known.series) is None):
        return None  # deleted, or claimed, meanwhile
    [stored] = locked
    old_rule = _readable(stored)
    rule = old_rule if old_rule is not None and rule.same_as(old_rule) else rule.anchored(await tx.now())
    schedule = msgspec.structs.replace(asked, id=stored.id, rule_json=write(rule), enabled=stored.enabled)
    if schedule == msgspec.structs.replace(stored, halted=None) and not (stored.halted or "").startswith(ERROR):
        return stored
    await tx.put_schedule(schedule)
    if head is None or head.attempts or head.interruptions:
        return await _plant_first(tx, schedule, rule)
    if rule is old_rule:
        await tx.reshape(head, head_of(schedule, Occurrence(head.occurrence or "", head.due), new_id))
        return schedule
    following = rule.after(await tx.now())
    if following is not None and following.name != head.occurrence:
        while following is not None and await tx.taken([(schedule.series, following.name)]):
            following = rule.after(following.due)
    if following is None:
        await tx.change(
            msgspec.structs.replace(head, status=Status.SKIPPED, head=False),
            "skipped",
            "schedule",
            "its rule ended",
        )
        await tx.halt({schedule.id: ENDED})
        return msgspec.structs.replace(schedule, halted=ENDED)
    await tx.reshape(head, head_of(schedule, following, new_id))
    return schedule


def _readable(schedule: Schedule) -> Rule | None:
    try:
        return rule_of(schedule)
    except Exception:  # whatever somebody wrote there by hand: putting the schedule again mends it
        return None


async def _plant_first(tx: Statements, schedule: Schedule, rule: Rule) -> Schedule:
    following = rule.after(await tx.now())
    if not schedule.enabled:
        halted: str | None = PAUSED
    elif following is None:
        halted = ENDED
    else:
        halted = (await plant(tx, [Next(schedule, rule, following)])).get(schedule.id)
    await tx.halt({schedule.id: halted})
    return msgspec.structs.replace(schedule, halted=halted)


def _checked(draft: ScheduleDraft, channels: Collection[str]) -> Schedule:
    payload, target = write_json(draft.payload, "payload"), write_json(draft.target, "target")
    problems = [
        *name_problems("name", draft.name),
        *name_problems("type", draft.type),
        *name_problems("tenant", draft.tenant),
        *target_problems(draft.target, channels),
        *retry_problems(draft.retry),
        *(written for written in (payload, target) if isinstance(written, Problem)),
    ]
    if not hasattr(draft.rule, "after"):
        problems.append(Problem("rule", f"expected a rule such as every('15m'), not {type(draft.rule).__name__}"))
    if problems:
        raise Invalid(problems)
    return Schedule(
        id=new_id(),
        tenant=draft.tenant,
        name=draft.name,
        type=draft.type,
        rule_json="",
        payload_json=str(payload),
        target_json=None if draft.target is None else str(target),
        retry_json=retry_text(draft.retry),
    )


def write(rule: Rule) -> str:
    return msgspec.json.encode(rule.to_json()).decode()
