"""The acts on the events of a schedule: trigger, move the next one, skip it, and backfill."""

from datetime import timedelta
from functools import partial

import msgspec

from duly.dashboard.acts.act import Act, Field, Foretold, HttpCall, Values
from duly.dashboard.acts.on_schedule import (
    COMMAND_REFUSED,
    call_of,
    local_text,
    may_start,
    page_of_schedule,
    read_local,
    schedule_of,
    upcoming,
    words_of,
)
from duly.dashboard.forms.json_text import pretty, read_json_text
from duly.dashboard.visit import Receipt, Visit, part
from duly.decide.targets.commands import is_command
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.results import Backfilled
from duly.records.schedule import Schedule
from duly.values.instants import write_instant
from duly.verbs.schedules.runs import MOST_BACKFILLED, UNCHANGED

BACKFILLED_BACK = timedelta(days=1)
"""The range that the form of a backfill begins with."""

ENDS = {"start": "from", "end": "to"}
"""What the verb calls the two ends of a range, and the form."""

LISTED = 10
"""Occurrences that the form of a backfill lists."""


async def trigger(visit: Visit) -> Act:
    schedule = await schedule_of(visit)
    editable = not is_command(schedule.target)
    hidden = not visit.may_write and visit.query.get("payload") != "1"

    def payload_of(values: Values) -> str | None:
        """The payload, if it is another one than the schedule's."""
        text = values.get("payload", "") if editable else ""
        return None if not text.strip() or pretty(text) == pretty(schedule.payload_json) else text

    async def run(visit: Visit, values: Values) -> Receipt:
        text = payload_of(values)
        payload = UNCHANGED if text is None else read_json_text(text, "payload")
        event = await visit.own.schedules.trigger(schedule.name, payload=payload, tenant=visit.tenant, by=visit.by)
        said = {Status.SKIPPED: "was recorded, and not delivered, because the schedule is in shadow mode"}
        held = f"waits: {event.held}" if event.held else "fires now"
        told = said.get(event.status, held)
        return Receipt(f"{schedule.name} was triggered; its event {told}.", visit.url(f"/events/{event.id}"))

    def command(values: Values) -> list[str]:
        text = payload_of(values)
        return words_of("trigger", schedule, {} if text is None else {"payload": _compact(text)})

    def call(values: Values) -> HttpCall:
        text = payload_of(values)
        return call_of(schedule, "trigger", None if text is None else {"payload": msgspec.Raw(_compact(text).encode())})

    told = "This event only: the schedule keeps its own." + (" It is hidden for your key." if hidden else "")
    fields = (Field("payload", "Payload, as JSON", "text-area", help=told),) if editable else ()
    return Act(
        title=f"Run {schedule.name} now",
        verb="Run now",
        what="It fires once, at once, also while it is paused. Its next event stays where it is.",
        fields=fields,
        values={"payload": "" if hidden else pretty(schedule.payload_json)} if editable else {},
        command=command,
        call=call,
        run=run,
        back=page_of_schedule(visit, schedule),
        allowed=may_start(visit, schedule),
        not_allowed=COMMAND_REFUSED,
    )


def _compact(text: str) -> str:
    """A payload in one line, with its numbers as they are written."""
    read_json_text(text, "payload")
    return msgspec.json.format(text, indent=-1)


async def reschedule(visit: Visit) -> Act:
    schedule = await schedule_of(visit)
    page = page_of_schedule(visit, schedule)

    async def run(visit: Visit, values: Values) -> Receipt:
        due = read_local(values.get("due", ""), schedule, "due")
        before = schedule.next_at
        moved = await visit.own.schedules.reschedule(schedule.name, due, tenant=visit.tenant, by=visit.by)
        over = moved.passed_over
        passed = "" if over is None else f" {over.count:,} occurrences before it are passed over."
        undo = None if before is None else f"{page}/reschedule?due={part(write_instant(before))}"
        return Receipt(f"The next event of {schedule.name} was moved.{passed}", f"{page}#history", undo)

    async def foretell(visit: Visit, values: Values) -> Foretold | None:
        if not values.get("due"):
            return None
        due = read_local(values["due"], schedule, "due")
        before = "" if schedule.next_at is None else f" from {visit.times.words(schedule.next_at)}"
        lines = [f"The next event moves{before} to {visit.times.words(due)} in {visit.times.zone}."]
        if due <= visit.times.now:
            lines.append("That is in the past: it fires at once.")
        return Foretold(lines, [upcoming(due, schedule)], schedule.timezone)

    def due_of(values: Values) -> str:
        return write_instant(read_local(values.get("due", ""), schedule, "due"))

    example = f"on the clocks of {schedule.timezone}; an instant such as 2026-12-01T09:00:00Z is understood as well"
    return Act(
        title=f"Move the next event of {schedule.name}",
        verb="Move",
        what="Only this one event moves; the rule continues after it. Occurrences that it is moved past do not fire.",
        fields=(Field("due", "New time", help=example, example="2026-12-01T09:00:00", needed=True),),
        values={} if schedule.next_at is None else {"due": local_text(schedule.next_at, schedule)},
        command=lambda values: words_of("reschedule", schedule, {}, due_of(values)),
        call=lambda values: call_of(schedule, "reschedule", {"due_at": due_of(values)}),
        run=run,
        foretell=foretell,
        back=page,
        allowed=may_start(visit, schedule),
        not_allowed=COMMAND_REFUSED,
    )


async def skip(visit: Visit) -> Act:
    schedule = await schedule_of(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        reason = values.get("reason") or None
        await visit.own.schedules.skip(schedule.name, tenant=visit.tenant, by=visit.by, reason=reason)
        return Receipt(f"The next event of {schedule.name} is skipped.", f"{page_of_schedule(visit, schedule)}#history")

    async def foretell(visit: Visit, values: Values) -> Foretold | None:
        if schedule.next_at is None:
            return Foretold(["It has no next event at the moment: nothing can be skipped."])
        coming = await visit.own.schedules.preview(schedule.name, count=2, tenant=visit.tenant)
        lines = [f"The event of {visit.times.words(schedule.next_at)} in {visit.times.zone} will not fire."]
        return Foretold(lines, [upcoming(one.due, schedule, one.note) for one in coming[1:]], schedule.timezone)

    def command(values: Values) -> list[str]:
        return words_of("skip", schedule, {"reason": values.get("reason", "")})

    return Act(
        title=f"Skip the next event of {schedule.name}",
        verb="Skip",
        what="Only this one occurrence is left out.",
        fields=(Field("reason", "Note", help="Kept in the history"),),
        command=command,
        call=lambda values: call_of(schedule, "skip", {"reason": values["reason"]} if values.get("reason") else None),
        run=run,
        foretell=foretell,
        back=page_of_schedule(visit, schedule),
        danger=True,
    )


# -- backfill


async def backfill(visit: Visit) -> Act:
    schedule = await schedule_of(visit)
    now = visit.times.now
    fields = (
        Field("from", "From", help=f"on the clocks of {schedule.timezone}, included", needed=True),
        Field("to", "To", help="not included, and not in the future", needed=True),
        Field("limit", "At most", "number", help="A range with more of them is refused", needed=True),
        Field("label", "Label", help="Under one label, no occurrence is filled twice", example="default"),
    )
    begun = {"from": local_text(now - BACKFILLED_BACK, schedule), "to": local_text(now, schedule), "limit": "100"}
    return Act(
        title=f"Backfill {schedule.name}",
        verb="Fire them now",
        what="Fires the occurrences of a past time range as events of their own, such as after an outage.",
        fields=fields,
        values=begun,
        command=partial(_backfill_command, schedule),
        call=partial(_backfill_call, schedule),
        run=partial(_fill, schedule),
        foretell=partial(_would_fill, schedule),
        back=page_of_schedule(visit, schedule),
        danger=True,
        allowed=may_start(visit, schedule),
        not_allowed=COMMAND_REFUSED,
    )


async def _fill(schedule: Schedule, visit: Visit, values: Values) -> Receipt:
    done = await _backfill(visit, schedule, values, dry_run=False)
    existing = f" {done.existing:,} had been filled before." if done.existing else ""
    events = "1 event fires" if len(done.ids) == 1 else f"{len(done.ids):,} events fire"
    return Receipt(f"{events} now for {schedule.name}.{existing}", f"{page_of_schedule(visit, schedule)}#history")


async def _would_fill(schedule: Schedule, visit: Visit, values: Values) -> Foretold | None:
    if not values.get("from") or not values.get("to"):
        return None
    would = await _backfill(visit, schedule, values, dry_run=True)
    many = len(would.occurrences)
    lines = ["1 event would fire now." if many == 1 else f"{many:,} events would fire now, the oldest first."]
    if would.existing:
        lines.append(f"{would.existing:,} occurrences in this range were filled before with the same label.")
    if many > LISTED:
        lines.append(f"The first {LISTED} of them:")
    return Foretold(lines, [upcoming(at, schedule) for at in would.occurrences[:LISTED]], schedule.timezone)


def _range(schedule: Schedule, values: Values) -> tuple[str, str]:
    start, end = (read_local(values.get(field, ""), schedule, field) for field in ("from", "to"))
    return write_instant(start), write_instant(end)


def _backfill_command(schedule: Schedule, values: Values) -> list[str]:
    start, end = _range(schedule, values)
    options = {"from": start, "to": end, "limit": str(_limit(values)), "label": values.get("label", "")}
    return words_of("backfill", schedule, options)


def _backfill_call(schedule: Schedule, values: Values) -> HttpCall:
    start, end = _range(schedule, values)
    label = {"label": values["label"]} if values.get("label") else {}
    return call_of(schedule, "backfill", {"from": start, "to": end, "limit": _limit(values), **label})


def _limit(values: Values) -> int:
    text = values.get("limit", "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise Invalid([Problem("limit", f"must be a whole number from 1 to {MOST_BACKFILLED:,}, not {text[:50]!r}")])
    return int(text)


async def _backfill(visit: Visit, schedule: Schedule, values: Values, *, dry_run: bool) -> Backfilled:
    problems, read = list[Problem](), {}
    for field in ("from", "to"):
        try:
            read[field] = read_local(values.get(field, ""), schedule, field)
        except Invalid as error:
            problems += error.problems
    try:
        limit = _limit(values)
    except Invalid as error:
        problems += error.problems
    if problems:
        raise Invalid(problems)
    try:
        return await visit.own.schedules.backfill(
            schedule.name, read["from"], read["to"], limit=limit, label=values.get("label") or None, dry_run=dry_run,
            tenant=visit.tenant, by=visit.by,
        )  # fmt: skip
    except Invalid as error:
        names = {"start": "from", "end": "to"}
        raise Invalid(
            [problem._replace(path=names.get(problem.path, problem.path)) for problem in error.problems]
        ) from None
