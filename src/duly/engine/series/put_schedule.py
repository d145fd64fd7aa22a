"""Creates or replaces a schedule. The whole draft is checked; the first event is stored in the same transaction."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from duly.decide.checks import name_problems, retry_problems, target_problems, write_json
from duly.decide.error_text import describe
from duly.decide.own_checks import checks_of
from duly.decide.retry import DEFAULT, Retry, retry_text
from duly.decide.series.due_head import kept, occurrence_of
from duly.decide.series.edits import is_owed, put_into_the_past, still_owed, superseded, together
from duly.decide.series.pauses import with_next
from duly.decide.tags import tags_problems, tags_text
from duly.decide.targets.origin import refuse_edit, via_of
from duly.engine.destinations.target_references import check_target
from duly.engine.pauses.resumption import end_pause
from duly.engine.series.heads import HALTED_BY_PAUSE, plant_next
from duly.engine.series.holds import SKIP, Overtaken, let_go, lock_head, move_head, pause, reshape, resume, skip_head
from duly.engine.series.passed_over import Why, name_again
from duly.engine.series.rule_threads import evaluated
from duly.errors import Conflict, Invalid, Problem, Stale
from duly.ids import new_id
from duly.ports import ScheduleStore, ScheduleTransaction
from duly.records.etags import check_tag
from duly.records.event import Event, Timer
from duly.records.history import Cause
from duly.records.schedule import Halt, HaltKind, PassedOver, Schedule
from duly.rules.notation import parse_rule, work_problems, zone_of, zone_problems
from duly.rules.policies import DEFAULT as NO_POLICIES
from duly.rules.policies import Policies, policies_text, read_policies
from duly.rules.recurrence import DEFAULT_ZONE, Dst, Occurrence, Rule
from duly.values.durations import format_duration
from duly.values.instants import write_instant

MOST_DEPENDENCIES = 100
"""Schedules in a chain of dependencies that are checked for a cycle."""

MOST_TRIES = 10
"""Tries to store a schedule that others change at the same time, before Conflict is raised."""

THE_END = datetime(9999, 1, 1, tzinfo=UTC)
"""The latest instant up to which a rule is searched for any occurrence at all."""


KEPT = (
    *("halted", "halt_kind", "paused_since", "paused_until", "pause_reason", "pause_passed"),
    *("imported_from", "imported_as", "earlier_json", "created", "updated"),
)
"""What an edit leaves as it is stored, unless it pauses or resumes the schedule."""


class ScheduleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a caller describes it, unchecked."""

    name: str
    rule: Rule | dict[str, Any]
    type: str
    payload: Any = None
    tenant: str = "default"
    target: dict[str, Any] | None = None
    retry: Retry = DEFAULT
    timezone: str | None = None
    policies: Mapping[str, Any] = {}
    tags: Collection[str] | None = None  # None: unchanged
    enabled: bool | None = None  # None: unchanged
    origin: str | None = None
    expected: str | None = None  # the ETag of the schedule to replace; None: create, or replace any version
    via: str | None = None  # how the target was put, if a template has it


class CheckedDraft(NamedTuple):
    """A draft after its checks."""

    schedule: Schedule
    rule: Rule
    draft: ScheduleDraft


async def put_schedule(
    store: ScheduleStore,
    draft: ScheduleDraft,
    channels: Collection[str],
    tx: ScheduleTransaction | None = None,
    by: str = "api",
) -> Schedule:
    """Creates or replaces a schedule. With an unchanged rule the next event stays; with a changed rule it moves, if it
    has not started."""
    asked = checked(draft, channels)
    for _ in range(MOST_TRIES):
        with suppress(Overtaken):
            if tx is not None:
                return _not_overtaken(await _put(tx, asked, by))
            async with store.begin() as own:
                return _not_overtaken(await _put(own, asked, by))
    raise Conflict(f"schedule {draft.name!r} is being changed by another request: try again")


def _not_overtaken(stored: Schedule | None) -> Schedule:
    if stored is None:
        raise Overtaken
    return stored


async def _put(tx: ScheduleTransaction, asked: CheckedDraft, by: str) -> Schedule | None:
    """Stores a checked draft; None when a concurrent change came first, and it should be tried again."""
    known = await tx.schedule_named(asked.schedule.tenant, asked.schedule.name)
    await check_target(tx, asked.schedule)
    await _check_dependency(tx, asked.schedule)
    return await (_create(tx, asked, by) if known is None else _replace(tx, asked, known, by))


async def _create(tx: ScheduleTransaction, asked: CheckedDraft, by: str) -> Schedule | None:
    if asked.draft.expected is not None:
        name = asked.schedule.name
        raise Stale(
            f"the schedule {name!r} has been deleted since you read it: "
            "to create it again, put it without expected= (If-Match)"
        )
    now = await tx.now()
    rule = await evaluated(asked.rule.anchored, now)
    enabled = asked.draft.enabled is not False
    schedule = msgspec.structs.replace(
        asked.schedule, rule_json=write(rule), enabled=enabled, paused_since=None if enabled else now
    )
    first = await evaluated(first_of_all, schedule, now)
    if not await tx.put_schedule(schedule):
        return None  # created by a concurrent call: the next try replaces it
    await tx.note([(schedule.id, "created", None)], by)
    return await _plant_first(tx, schedule, first)


async def _replace(tx: ScheduleTransaction, asked: CheckedDraft, known: Schedule, by: str) -> Schedule | None:
    head = await lock_head(tx, known.series)  # events are locked first, then schedules
    locked = await tx.schedules([known.id])
    if not locked or await tx.head_id(known.series) != (head and head.id):
        return None  # the schedule was deleted, or its head claimed, meanwhile
    [stored] = locked
    check_tag(f"schedule {stored.name!r}", stored.tag, asked.draft.expected)
    refuse_edit(stored.via, stored.target, asked.schedule.via, f"schedule {stored.name!r:.60}")
    if await end_pause(tx, stored, head) is not None:  # as of its end; what the edit says comes after that
        [stored], head = await tx.schedules([known.id]), await tx.head(known.series)
    now = await tx.now()
    old_rule = _readable(stored)
    same = old_rule is not None and asked.rule.same_as(old_rule)
    rule = old_rule if same and old_rule is not None else await evaluated(asked.rule.anchored, now)
    schedule = msgspec.structs.replace(
        asked.schedule,
        id=stored.id,
        rule_json=write(rule),
        enabled=stored.enabled if asked.draft.enabled is None else asked.draft.enabled,
        tags_json=stored.tags_json if asked.draft.tags is None else asked.schedule.tags_json,
        origin=asked.schedule.origin or stored.origin,
        **{field: getattr(stored, field) for field in KEPT},
    )
    if schedule == stored and stored.halt_kind is not HaltKind.ERROR:
        await _let_go(tx, stored, stored)
        return await _shown(tx, stored)
    same = same and _bounds(stored) == _bounds(schedule)
    if not same:
        schedule = msgspec.structs.replace(schedule, earlier_json=superseded(stored, head, now))
    if schedule.enabled is not stored.enabled:
        schedule = msgspec.structs.replace(
            schedule,
            paused_since=None if schedule.enabled else now,
            **dict.fromkeys(("paused_until", "pause_reason", "pause_passed")),
        )
    first = await evaluated(_first, schedule, now)
    await tx.put_schedule(schedule)
    await tx.note([(schedule.id, "changed", _changes(stored, schedule))], by)
    over: PassedOver | None = None
    if not same:
        readable = schedule if old_rule is None else stored
        await name_again(tx, [readable.as_series], now, "its schedule was edited", by)
    if schedule.enabled is not stored.enabled:
        before = head
        schedule, over = await _switch(tx, schedule, head, stored, by)
        head = await tx.head(schedule.series)
        same = same or (head and head.id) != (before and before.id)  # a new head was planned by the new rule
    if head is None:
        shown = await _plant_first(tx, schedule, first)
        await _let_go(tx, stored, schedule)
        return _telling(shown, over)
    halted, series = None, schedule.as_series
    if same:
        await reshape(tx, head, kept(head, series), series)
    elif is_owed(head, series, now):
        await reshape(tx, head, still_owed(head, series, now), series)
    elif (why := _passes_over(head, stored, schedule, now, begins=rule != asked.rule)) is not None:
        halted, passed = await skip_head(tx, schedule, head, Why(Cause.EDITED, why), by)
        over = together(over, passed)
    else:
        halted = await move_head(tx, series, head, first)
    await tx.halt({schedule.id: _halted(schedule, halted)})
    await _let_go(tx, stored, schedule)
    return _telling(await _shown(tx, schedule), over)


async def _let_go(tx: ScheduleTransaction, stored: Schedule, schedule: Schedule) -> None:
    """Releases held events of a schedule, because its limit may be larger now, its head may no longer fire, or the head
    was locked here when another transaction would have released it."""
    if _prefetch(stored) != _prefetch(schedule):
        await tx.gate(schedule.series, _prefetch(schedule) is not None)
    if _prefetch(stored) is not None or _prefetch(schedule) is not None:
        await let_go(tx, [schedule])


def _telling(shown: Schedule, over: PassedOver | None) -> Schedule:
    return shown if over is None else msgspec.structs.replace(shown, passed_over=over)


def _passes_over(head: Event, old: Schedule, new: Schedule, now: datetime, *, begins: bool) -> str | None:
    """Why an edit skips a head that is not owed; None if the head moves to where the new rule has it. The head is
    skipped if its own time has come and somebody had postponed it, or if the new rule has it at a time in the past. A
    rule that *begins* now has no past times."""
    if occurrence_of(head).at <= now:
        return f"it had been postponed to {write_instant(head.due)}, and its schedule was edited before that"
    there = None if begins or _readable(old) is None else put_into_the_past(head, old.as_series, new.as_series, now)
    return (
        there and f"its schedule was edited: by the new rule it was due {write_instant(there.at)}, which is in the past"
    )


async def _switch(
    tx: ScheduleTransaction, schedule: Schedule, head: Event | None, stored: Schedule, by: str
) -> tuple[Schedule, PassedOver | None]:
    over = None
    if schedule.enabled:
        over = (await resume(tx, schedule, head, stored.paused_since, stored.pause_passed or SKIP, by)).over
        await tx.note([(schedule.id, "resumed", None)], by)
    else:
        await pause(tx, schedule, by)
        await tx.note([(schedule.id, "paused", None)], by)
    [written] = await tx.schedules([schedule.id])
    return written, over


async def _plant_first(tx: ScheduleTransaction, schedule: Schedule, first: Occurrence | None) -> Schedule:
    halted = await plant_next(tx, schedule.as_series, first)
    await tx.halt({schedule.id: _halted(schedule, halted)})
    return await _shown(tx, schedule)


def _halted(schedule: Schedule, headless: Halt | None) -> Halt | None:
    """Why a schedule is halted: it has no head, or it is paused."""
    return HALTED_BY_PAUSE if headless is None and not schedule.enabled else headless


async def _shown(tx: ScheduleTransaction, schedule: Schedule) -> Schedule:
    return await evaluated(with_next, await tx.shown_schedule(schedule.tenant, schedule.name) or schedule)


def _first(schedule: Schedule, after: datetime) -> Occurrence | None:
    """The first occurrence of a schedule. Raises Invalid for rules that cannot be evaluated, before they are stored. To
    be called in a thread: a sparse rule takes 25 ms for each occurrence."""
    try:
        table = schedule.timetable
        if problems := work_problems(table.rule):
            raise Invalid(problems)
        first = table.after(after)
        second = None if first is None else table.after(first.at)
    except Invalid:
        raise
    except Exception as error:
        message = str(error) if isinstance(error, ValueError) else describe(error)
        raise Invalid([Problem("rule", message)]) from error
    if first is None and _never(schedule):
        raise Invalid([Problem("rule", "it never fires: no date and time is what it asks for")])
    jitter = schedule.policies.jitter
    if first is not None and second is not None and second.at - first.at <= jitter:
        spacing = format_duration(second.at - first.at)
        message = f"{format_duration(jitter)} is not shorter than the {spacing} between two occurrences"
        raise Invalid([Problem("jitter", message)])
    return first


def first_of_all(schedule: Schedule, now: datetime) -> Occurrence | None:
    """The first occurrence of a new schedule. A schedule without future occurrences is refused, unless code declares
    it: that program must still start next year."""
    first = _first(schedule, now)
    if first is None and schedule.origin is None:
        last = schedule.timetable.last(now)
        over = (
            "its start, end and exclusions leave no occurrence"
            if last is None
            else f"its last was {write_instant(last.at)}"
        )
        raise Invalid([Problem("rule", f"it is over before it begins: {over}, and nothing would fire")])
    return first


def _never(schedule: Schedule) -> bool:
    """Whether a rule has no occurrence at all, not even in the past."""
    try:
        return schedule.timetable.rule.last(THE_END) is None
    except ValueError:
        return True


async def _check_dependency(tx: ScheduleTransaction, schedule: Schedule) -> None:
    """Raises Invalid unless the schedule that this one depends on exists and does not depend on this one in turn."""
    one = schedule
    for _ in range(MOST_DEPENDENCIES):
        depends_on = one.policies.depends_on
        if depends_on is None:
            return
        if depends_on.schedule == schedule.name:
            raise Invalid([Problem("depends_on.schedule", f"{schedule.name!r} would wait for itself, and never fire")])
        found = await tx.schedule_named(schedule.tenant, depends_on.schedule)
        if found is None:
            if one is schedule:
                message = f"there is no schedule {depends_on.schedule!r:.60}: create that schedule first"
                raise Invalid([Problem("depends_on.schedule", message)])
            return
        one = found


def _changes(old: Schedule, new: Schedule) -> str:
    names = (
        "type",
        "rule_json",
        "timezone",
        "policies_json",
        "payload_json",
        "target_json",
        "retry_json",
        "tags_json",
        "enabled",
    )
    changed = [name.removesuffix("_json") for name in names if getattr(old, name) != getattr(new, name)]
    if old.via != new.via:
        changed.append("put by code" if new.via is None else "put over HTTP")
    return ", ".join(changed) or "nothing but its error"


def _bounds(schedule: Schedule) -> tuple[Any, ...]:
    """All fields besides the rule that decide when a schedule fires."""
    policies = _policies(schedule)
    dst = None if policies is None else policies.dst
    bounds = () if policies is None else (policies.start, policies.end, policies.exclude, policies.jitter)
    return schedule.timezone, dst, *bounds


def _prefetch(schedule: Schedule) -> int | None:
    policies = _policies(schedule)
    return None if policies is None else policies.room


def _policies(schedule: Schedule) -> Policies | None:
    try:
        return schedule.policies
    except Exception:  # the column was edited by hand and is unreadable: putting the schedule again repairs it
        return None


def _readable(schedule: Schedule) -> Rule | None:
    try:
        return schedule.timetable.rule
    except Exception:  # as above
        return None


def checked(draft: ScheduleDraft, channels: Collection[str]) -> CheckedDraft:
    payload, target = write_json(draft.payload, "payload"), write_json(draft.target, "target")
    problems = [
        *name_problems("name", draft.name),
        *name_problems("type", draft.type),
        *name_problems("tenant", draft.tenant),
        *target_problems(draft.target, channels),
        *retry_problems(draft.retry),
        *(tags_problems(draft.tags) if draft.tags is not None else ()),
        *(written for written in (payload, target) if isinstance(written, Problem)),
    ]
    timezone = _timezone(draft, problems)
    policies, rule = NO_POLICIES, None
    try:
        policies = read_policies(draft.policies, timezone)
    except Invalid as error:
        problems += error.problems
    try:
        rule, policies = _placed(draft.rule, timezone, policies)
    except Invalid as error:
        problems += error.problems
    if (own := checks_of(channels)) is not None:
        problems += own.problems(_as_timer(draft), problems)
    if problems or rule is None:
        raise Invalid(problems)
    schedule = Schedule(
        id=new_id(),
        tenant=draft.tenant,
        name=draft.name,
        type=draft.type,
        rule_json="",
        timezone=timezone,
        policies_json=policies_text(policies),
        payload_json=str(payload),
        target_json=None if draft.target is None else str(target),
        retry_json=retry_text(draft.retry),
        tags_json=tags_text(draft.tags),
        origin=draft.origin,
        via=draft.via or via_of(channels),
    )
    return CheckedDraft(schedule, rule, draft)


def _as_timer(draft: ScheduleDraft) -> Timer:
    """What the checks of its type see: any of its events. The rule gives each its due time."""
    return Timer(
        None,
        draft.type,
        draft.payload,
        key=draft.name,
        tenant=draft.tenant,
        target=draft.target,
        retry=draft.retry,
        expires=draft.policies.get("expires"),
    )


def _timezone(draft: ScheduleDraft, problems: list[Problem]) -> str:
    """The time zone that the call or the rule names; UTC if neither does."""
    of_rule = zone_of(draft.rule)
    if found := zone_problems(draft.timezone):
        problems += found
        return DEFAULT_ZONE
    if draft.timezone and of_rule and draft.timezone != of_rule:
        problems.append(
            Problem("timezone", f"{draft.timezone} is not the zone of the rule, {of_rule}: give one of them")
        )
    return draft.timezone or of_rule or DEFAULT_ZONE


def _placed(rule: Any, timezone: str, policies: Policies) -> tuple[Rule, Policies]:
    """The rule in its time zone, and the policies, completed with the rule's own DST settings."""
    if isinstance(rule, dict):
        return parse_rule(rule, timezone, policies.dst), policies
    if not hasattr(rule, "placed"):
        example = "a rule such as cron('0 9 * * MON') or every('15m')"
        raise Invalid([Problem("rule", f"expected {example}, not {type(rule).__name__}")])
    own = getattr(rule, "dst", Dst())
    dst = Dst(policies.dst.gap or own.gap, policies.dst.overlap or own.overlap)
    return rule.placed(timezone, dst), msgspec.structs.replace(policies, dst=dst)


def write(rule: Rule) -> str:
    return msgspec.json.encode(rule.to_json()).decode()
