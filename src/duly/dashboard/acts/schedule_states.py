"""The acts that switch a schedule: pause, resume, delete."""

from contextlib import suppress
from typing import Any

from duly.dashboard.acts.act import Act, Field, HttpCall, Values
from duly.dashboard.acts.consequences import foretold_by
from duly.dashboard.acts.on_schedule import (
    COMMAND_REFUSED,
    call_of,
    may_start,
    page_of_schedule,
    read_local,
    schedule_of,
    words_of,
)
from duly.dashboard.visit import Receipt, Visit, part
from duly.records.figures.consequence import Consequence
from duly.records.schedule import Schedule
from duly.values.durations import parse_duration
from duly.values.instants import write_instant

FIRE = "fire"
"""The choice to fire what has passed during a pause."""


async def pause(visit: Visit) -> Act:
    schedule = await schedule_of(visit)

    def asked(values: Values) -> dict[str, Any]:
        """What was filled in; the end as an instant, or as a span from now."""
        found = {name: values[name].strip() for name in ("reason", "until") if values.get(name, "").strip()}
        if "until" in found:
            found["until"] = _until(found["until"], schedule)
        return found | ({"passed": FIRE} if values.get("passed") == FIRE else {})

    async def run(visit: Visit, values: Values) -> Receipt:
        paused = await visit.own.schedules.pause(schedule.name, tenant=visit.tenant, by=visit.by, **asked(values))
        page, end = page_of_schedule(visit, schedule), paused.paused_until
        until = "" if end is None else f" until {visit.times.words(end)} in {visit.times.zone}"
        return Receipt(f"{schedule.name} is paused{until}.", f"{page}#history", f"{page}/resume")

    async def rehearse(visit: Visit, values: Values) -> Consequence | None:
        found = asked(values)
        told = await visit.own.schedules.pause(schedule.name, tenant=visit.tenant, by=visit.by, dry_run=True, **found)
        return told.consequence

    options = [("skip", "leave them out"), (FIRE, "catch up by the misfire policy")]
    passed = Field(
        "passed",
        "When the pause ends, occurrences that passed",
        "select",
        options=options if may_start(visit, schedule) else options[:1],
    )
    told = f"It resumes by itself: a span such as 2h, or a time on the clocks of {schedule.timezone}"
    return Act(
        title=f"Pause {schedule.name}",
        verb="Pause",
        what="None of its events starts until it is resumed. What runs now continues to its end.",
        fields=(
            Field("reason", "Note", help="Shown beside the schedule, and kept in its history", example="why"),
            Field("until", "Until", help=told, example="2h"),
            passed,
        ),
        values={} if schedule.pause_reason is None else {"reason": schedule.pause_reason},
        command=lambda values: words_of("pause", schedule, asked(values)),
        call=lambda values: call_of(schedule, "pause", asked(values) or None),
        run=run,
        foretell=foretold_by(rehearse),
        back=page_of_schedule(visit, schedule),
    )


def _until(text: str, schedule: Schedule) -> str:
    """A span as it is; a time as an instant."""
    with suppress(ValueError):
        parse_duration(text)
        return text
    return write_instant(read_local(text, schedule, "until"))


async def resume(visit: Visit) -> Act:
    schedule = await schedule_of(visit)
    usual = "skip" if schedule.pause_passed is None else schedule.pause_passed.value

    def asked(values: Values) -> dict[str, Any]:
        """What the pause itself has not said."""
        passed = values.get("passed") or usual
        return {} if passed == usual else {"passed": passed}

    async def run(visit: Visit, values: Values) -> Receipt:
        done = await visit.own.schedules.resume(schedule.name, tenant=visit.tenant, by=visit.by, **asked(values))
        page = page_of_schedule(visit, schedule)
        told = "fire now" if done.fires else "are skipped"
        passed = f" {done.passed:,} occurrences passed during the pause, and {told}." if done.passed else ""
        return Receipt(f"{schedule.name} is resumed.{passed}", f"{page}#history", f"{page}/pause")

    async def rehearse(visit: Visit, values: Values) -> Consequence | None:
        found = asked(values)
        told = await visit.own.schedules.resume(schedule.name, tenant=visit.tenant, by=visit.by, dry_run=True, **found)
        return told.schedule.consequence

    options = [("skip", "leave them out")]
    if may_start(visit, schedule):
        options.append((FIRE, "catch up by the misfire policy"))
    return Act(
        title=f"Resume {schedule.name}",
        verb="Resume",
        fields=(Field("passed", "Occurrences that passed during the pause", "select", options=options),),
        values={"passed": usual},
        command=lambda values: words_of("resume", schedule, asked(values)),
        call=lambda values: call_of(schedule, "resume", asked(values) or None),
        run=run,
        foretell=foretold_by(rehearse),
        back=page_of_schedule(visit, schedule),
    )


async def delete(visit: Visit) -> Act:
    schedule = await schedule_of(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        cancelled = await visit.own.schedules.delete(
            schedule.name, tenant=visit.tenant, by=visit.by, expected=values.get("expected") or None
        )
        events = "1 waiting event was" if cancelled == 1 else f"{cancelled:,} waiting events were"
        return Receipt(f"{schedule.name} is deleted. {events} cancelled.", visit.url("/schedules"))

    async def rehearse(visit: Visit, values: Values) -> Consequence | None:
        told = await visit.own.schedules.delete(schedule.name, tenant=visit.tenant, by=visit.by, dry_run=True)
        kept = "What it has fired stays in the list of events, and what runs continues to its end."
        return told.saying(f"{told.message} {kept}")

    return Act(
        title=f"Delete {schedule.name}",
        verb="Delete for ever",
        what="To stop it for a while, pause it instead.",
        fields=(Field("expected", "", "hidden"),),
        values={"expected": schedule.tag},
        command=lambda _: words_of("delete", schedule, {}),
        call=lambda _: HttpCall("DELETE", f"/v1/schedules/{part(schedule.name)}"),
        run=run,
        foretell=foretold_by(rehearse),
        back=visit.url("/schedules"),
        danger=True,
        allowed=may_start(visit, schedule),
        not_allowed=COMMAND_REFUSED,
    )
