"""The acts on an event: cancel, reschedule, replay, discard."""

from datetime import datetime
from typing import Any

import msgspec

from duly.dashboard.acts.act import Act, Field, Foretold, HttpCall, Upcoming, Values, add_act
from duly.dashboard.acts.options import option
from duly.dashboard.events.when import EXAMPLES, read_when, written_when
from duly.dashboard.pages import Pages
from duly.dashboard.times import short
from duly.dashboard.visit import Receipt, Visit
from duly.errors import Conflict, Invalid, NotFound, Problem
from duly.records.event import TERMINAL, Event, Status
from duly.records.results import CancelResult
from duly.rules.zones import to_wall
from duly.values.instants import write_instant
from duly.verbs.events.edited_replays import UNCHANGED

NOTE = Field("reason", "Note", help="Kept in the history", example="why")


def add_acts(pages: Pages) -> None:
    """Adds the pages of all acts on an event."""
    for verb, prepare in (("cancel", cancel), ("reschedule", reschedule), ("replay", replay), ("discard", discard)):
        add_act(pages, f"/events/{{id}}/{verb}", prepare)


async def _event(visit: Visit) -> Event:
    return await visit.own.events.get(visit.named("id"), tenant=visit.tenant)


def _page(visit: Visit, event: Event) -> str:
    return visit.url(f"/events/{event.id}")


def _called(event: Event) -> str:
    """The event as the title of an act names it."""
    return f"{event.type} {event.key or event.id}"


def _call(event: Event, verb: str, body: object = None) -> HttpCall:
    return HttpCall("POST", f"/v1/events/{event.id}/{verb}", body)


def _with_note(values: Values) -> object:
    return {"reason": values["reason"]} if values.get("reason") else None


def _not_in(event: Event, *allowed: Status) -> str:
    """Why an act is not possible on an event in this status; empty if it is."""
    return "" if event.status in allowed else f"It is {event.status.value}."


def _series(event: Event) -> str:
    if not event.head:
        return ""
    whose = f"The schedule {event.schedule}" if event.schedule is not None else "Its series"
    return f" {whose} goes on with the occurrence after it."


async def cancel(visit: Visit) -> Act:
    event = await _event(visit)
    runs = event.status is Status.PROCESSING

    async def run(visit: Visit, values: Values) -> Receipt:
        reason = values.get("reason") or None
        result = await visit.own.events.cancel(event.id, tenant=visit.tenant, by=visit.by, reason=reason)
        if result is CancelResult.FIRED:
            raise Conflict(f"event {event.id} cannot be cancelled any more: it has ended")
        if result is CancelResult.NOTHING:
            raise NotFound(f"event {event.id} was cancelled before")
        told = "was asked to stop" if result is CancelResult.RUNNING else "is cancelled"
        return Receipt(f"{_called(event)} {told}.", f"{_page(visit, event)}#history")

    what = (
        "It runs, and is asked to stop. It ends as cancelled, unless it completes first."
        if runs
        else f"It will not fire.{_series(event)}"
    )
    wrong = "" if event.status not in TERMINAL else f"It is {event.status.value}."
    return Act(
        title=f"Cancel {_called(event)}",
        verb="Cancel the event",
        what=f"{what} A cancelled event cannot be brought back.",
        fields=(NOTE,),
        command=lambda values: ["events", "cancel", event.id, *option("reason", values.get("reason"))],
        call=lambda values: _call(event, "cancel", _with_note(values)),
        run=run,
        back=_page(visit, event),
        danger=True,
        allowed=not wrong,
        not_allowed=wrong,
    )


async def reschedule(visit: Visit) -> Act:
    event, times = await _event(visit), visit.times

    def due_of(values: Values) -> datetime:
        written = values.get("due_at", "")
        due = read_when("due_at", written, times) if written.strip() else Problem("due_at", "is missing")
        if isinstance(due, Problem):
            raise Invalid([due])
        return due

    async def run(visit: Visit, values: Values) -> Receipt:
        due = due_of(values)
        moved = await visit.own.events.reschedule(event.id, due, tenant=visit.tenant, by=visit.by)
        page, before = _page(visit, event), write_instant(event.due)
        message = f"{_called(event)} is due {times.words(moved.due)} now; before, it was {times.words(event.due)}."
        return Receipt(message, f"{page}#history", visit.url(f"/events/{event.id}/reschedule", due_at=before))

    async def foretell(visit: Visit, values: Values) -> Foretold:
        return _moved(event, due_of(values), visit)

    wrong = _not_in(event, Status.PENDING)
    if not wrong and (event.attempts or event.interruptions):
        wrong = "It has started: cancel it instead."
    help = f"{EXAMPLES}. Without an offset, it is a time in {times.zone}"
    return Act(
        title=f"Reschedule {_called(event)}",
        verb="Reschedule",
        fields=(Field("due_at", "New due time", help=help, example="2026-12-01 09:00", needed=True),),
        values={"due_at": written_when(event.due, times)},
        foretell=foretell,
        command=lambda values: ["events", "reschedule", event.id, write_instant(due_of(values))],
        call=lambda values: _call(event, "reschedule", {"due_at": write_instant(due_of(values))}),
        run=run,
        back=_page(visit, event),
        allowed=not wrong,
        not_allowed=wrong,
    )


def _moved(event: Event, due: datetime, visit: Visit) -> Foretold:
    """What moving an event changes."""
    away, zone = due - event.due, event.timezone or "UTC"
    if not away:
        return Foretold(["This is when it is due already."])
    lines = [f"It fires {short(abs(away))} {'later' if due > event.due else 'earlier'} than now planned."]
    if due <= visit.times.now:
        lines.append("That time has passed: it fires at once.")
    if event.head and event.schedule is not None:
        lines.append(f"The schedule {event.schedule} goes on after it, by its rule.")
    return Foretold(lines, [Upcoming(due, f"{to_wall(due, zone):%a %Y-%m-%d %H:%M:%S}", None)], zone)


async def replay(visit: Visit) -> Act:
    event = await _event(visit)

    def edited(values: Values) -> Any:
        """The payload that was filled in; nothing if it is empty."""
        written = values.get("payload", "").strip()
        if not written:
            return UNCHANGED
        try:
            return msgspec.json.decode(written)
        except msgspec.DecodeError as error:
            raise Invalid([Problem("payload", f"is not JSON: {error}")]) from None

    async def run(visit: Visit, values: Values) -> Receipt:
        payload = edited(values)
        replayed = await visit.own.events.replay(event.id, payload=payload, tenant=visit.tenant, by=visit.by)
        if replayed.id == event.id:
            return Receipt(f"{_called(event)} is replayed.", f"{_page(visit, event)}#history")
        page = _page(visit, replayed)
        return Receipt(f"{_called(event)} is replayed with another payload, as event {replayed.id}.", page, to=page)

    def command(values: Values) -> list[str]:
        payload = edited(values)
        given = [] if payload is UNCHANGED else ["--payload", values["payload"].strip()]
        return ["events", "replay", event.id, *given]

    def call(values: Values) -> HttpCall:
        payload = edited(values)
        return _call(event, "replay", None if payload is UNCHANGED else {"payload": payload})

    wrong = "" if event.status in TERMINAL else _not_in(event, Status.FAILED)
    same = event.status is Status.FAILED
    told = "Empty: delivered again under the same id" if same else "It has ended, and is fired again as a new event"
    return Act(
        title=f"Replay {_called(event)}",
        verb="Replay",
        what="It is delivered again at once, under the same id, and gets all its attempts anew. With another payload, "
        "a new event is fired, and each names the other.",
        fields=(Field("payload", "Another payload, as JSON", "text-area", help=told, needed=not same),),
        command=command,
        call=call,
        run=run,
        back=_page(visit, event),
        allowed=not wrong,
        not_allowed=wrong,
    )


async def discard(visit: Visit) -> Act:
    event = await _event(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        reason = values.get("reason") or None
        await visit.own.events.discard(event.id, tenant=visit.tenant, by=visit.by, reason=reason)
        return Receipt(f"{_called(event)} is discarded.", f"{_page(visit, event)}#history")

    wrong = _not_in(event, Status.FAILED)
    return Act(
        title=f"Discard {_called(event)}",
        verb="Discard",
        what="It leaves the dead letters for good, and cannot be replayed any more.",
        fields=(NOTE,),
        command=lambda values: ["events", "discard", event.id, *option("reason", values.get("reason"))],
        call=lambda values: _call(event, "discard", _with_note(values)),
        run=run,
        back=_page(visit, event),
        danger=True,
        allowed=not wrong,
        not_allowed=wrong,
    )
