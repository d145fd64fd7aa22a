"""Creating and editing schedules: one form for both."""

from contextlib import suppress
from typing import Any

import msgspec

from duly.api.access.preview_places import a_turn
from duly.dashboard.acts.act import Act, Foretold, HttpCall, Piped, Values
from duly.dashboard.acts.consequences import told_of
from duly.dashboard.acts.on_schedule import COMMAND_LOCKED, page_of_schedule, schedule_of
from duly.dashboard.forms.schedule_command import put_from_file, put_words
from duly.dashboard.forms.schedule_form import BEGINNING, FIELDS, KINDS, body_of, field_of, read_form, values_of
from duly.dashboard.forms.target_form import TARGET_KINDS
from duly.dashboard.upcoming import Budget
from duly.dashboard.visit import Receipt, Visit, part
from duly.decide.checks import target_problems
from duly.decide.targets.commands import is_command
from duly.decide.targets.targets import HTTP
from duly.errors import Conflict, Forbidden, Invalid, NotFound, Problem, Stale
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.templates import TEMPLATES
from duly.rules.zones import names

AHEAD = 10
"""Occurrences that the form shows while somebody types."""

PREVIEW_S = 0.5
"""Seconds for finding them; then fewer are shown."""

TIMETABLE = ("start", "end", "exclude", "dst")
"""Policies that decide when a schedule fires."""

PREVIEWED = "preview"
"""The name and the type of a schedule that has none yet, for its preview."""


TAKEN = "there is a schedule with this name already: choose another one, or open and edit that schedule"


async def create(visit: Visit) -> Act:
    return await _act(visit, None)


async def edit(visit: Visit) -> Act:
    return await _act(visit, await schedule_of(visit))


async def _act(visit: Visit, there: Schedule | None) -> Act:
    async def run(visit: Visit, values: Values) -> Receipt:
        return await _put(visit, values, there)

    async def foretell(visit: Visit, values: Values) -> Foretold | None:
        return await _ahead(visit, values, there)

    def name_of(values: Values) -> str:
        return _named(values.get("name", "").strip() if there is None else there.name)

    channel = (await _with_channel(visit, visit.form)).get("stored_channel", "")

    def body_for(values: Values) -> dict[str, Any]:
        return body_of({"stored_channel": channel, **values}, there)

    def command(values: Values) -> list[str] | Piped:
        if hidden:
            raise ValueError("a command without the payload would remove it")
        name, body = name_of(values), body_for(values)
        words = put_words(name, body)
        return words if words is not None else Piped(put_from_file(name, body), ["schedules", "put", "--file", "-"])

    def call(values: Values) -> HttpCall:
        tag = values.get("expected")
        headers = {"If-Match": f'"{tag}"'} if there is not None and tag else {}
        return HttpCall("PUT", f"/v1/schedules/{part(name_of(values))}", body_for(values), headers)

    hidden = there is not None and not visit.may_write and visit.query.get("payload") != "1"

    def beginning() -> Values:
        if there is None:
            return {**BEGINNING, "timezone": visit.visitor.zone}
        return {**values_of(there), "payload": ""} if hidden else values_of(there)

    locked = there is not None and is_command(there.target)
    return Act(
        title="New schedule" if there is None else f"Edit {there.name}",
        verb="Create" if there is None else "Save",
        command=command,
        call=call,
        run=run,
        foretell=foretell,
        back=visit.url("/schedules") if there is None else page_of_schedule(visit, there),
        values=beginning(),
        form="parts/schedule_form.html",
        shows=await _choices(visit, there),
        field_of=field_of,
        allowed=not locked,
        not_allowed=COMMAND_LOCKED if locked else "",
        wide=True,
    )


async def _choices(visit: Visit, there: Schedule | None) -> dict[str, Any]:
    """What the form offers, besides its values."""
    targets = await visit.own.targets.list(tenant=visit.tenant, limit=100)
    return {
        "there": there,
        "field_names": FIELDS,
        "kinds": KINDS,
        "target_kinds": TARGET_KINDS,
        "zones": sorted(names()),
        "examples": [(one.cron, name) for name, one in TEMPLATES.items()],
        "stored_targets": [one.name for one in targets],
        "is_hidden": not visit.may_write and visit.query.get("payload") != "1",
    }


def _named(name: str) -> str:
    if not name:
        raise Invalid([Problem("name", "is missing")])
    return name


async def _draft(visit: Visit, values: Values, there: Schedule | None) -> dict[str, Any]:
    """The arguments of ``schedules.put``; raises Invalid with all problems of all fields."""
    name = values.get("name", "").strip() if there is None else there.name
    problems = [] if name else [Problem("name", "is missing")]
    body, unread = read_form(await _with_channel(visit, values), there)
    problems += unread
    if "payload" in body:
        body["payload"] = msgspec.json.decode(body["payload"])
    try:
        draft = read_schedule(body, name=name or PREVIEWED, tenant=visit.tenant, channels=visit.own.channels)
    except Invalid as error:
        known = {field_of(problem.path, values) for problem in problems}
        problems += [one for one in error.problems if field_of(one.path, values) not in known]
        raise Invalid(problems) from None
    if problems:
        found = target_problems(body.get("target"), visit.own.channels)
        raise Invalid([*problems, *(one for one in found if one.path not in {known.path for known in problems})])
    return draft


async def _with_channel(visit: Visit, values: Values) -> Values:
    """What was filled in; a stored target is named under its own channel, whatever the form said. One that does not
    exist is refused when the schedule is put."""
    stored = values.get("stored", "").strip()
    if values.get("target_kind") != "stored" or not stored:
        return values
    try:
        found = await visit.own.targets.get(stored, tenant=visit.tenant)
    except (NotFound, Invalid):
        return values
    return {**values, "stored_channel": HTTP if found.channel == HTTP else ""}


async def _put(visit: Visit, values: Values, there: Schedule | None) -> Receipt:
    if there is not None and is_command(there.target):
        raise Forbidden(COMMAND_LOCKED)
    draft = await _draft(visit, values, there)
    if there is None and await _exists(visit, draft["name"]):
        raise Invalid([Problem("name", TAKEN)])
    expected = (values.get("expected") or None) if there is not None else None
    try:
        stored = await visit.own.schedules.put(**draft, by=visit.by, expected=expected)
    except Stale:
        raise Conflict(
            "Somebody else has changed this schedule since you opened the form, so nothing was saved. Open the form "
            "again to see what it is now, and repeat your change there; copy from this page what you want to keep."
        ) from None
    if there is None and stored.created != stored.updated:  # nothing is stored: the transaction ends with this error
        raise Invalid([Problem("name", TAKEN)])
    page = page_of_schedule(visit, stored)
    over = stored.passed_over
    passed = "" if over is None else f" {over.count:,} occurrences are passed over; they can be fired by a backfill."
    done = "created" if there is None else "saved"
    return Receipt(f"{stored.name} is {done}.{passed}", f"{page}#history", f"{page}/delete" if there is None else None)


async def _exists(visit: Visit, name: str) -> bool:
    try:
        await visit.own.schedules.get(name, tenant=visit.tenant)
    except NotFound:
        return False
    return True


async def _ahead(visit: Visit, values: Values, there: Schedule | None) -> Foretold | None:
    """The consequence of the edit, once the whole form can be read; before, the next occurrences of its rule."""
    if there is not None and visit.may_write:
        with suppress(Invalid, Stale):
            draft = await _draft(visit, values, there)
            stored = await visit.own.schedules.put(**draft, by=visit.by, dry_run=True)
            if stored.consequence is not None:
                return told_of(stored.consequence)
    rule = {"type": values.get("type") or PREVIEWED, "target_kind": "handler", "payload": ""}
    if not values.get(values.get("kind", "cron"), "").strip():
        return None
    try:
        draft = read_schedule(body_of({**values, **rule}, there), name=PREVIEWED, tenant=visit.tenant)
        policies = {name: draft[name] for name in TIMETABLE if name in draft}
        async with a_turn(visit):
            found = await visit.own.schedules.preview(
                draft["rule"], count=AHEAD, timezone=draft.get("timezone"), enough=Budget(PREVIEW_S), **policies
            )
    except Invalid as error:
        return Foretold([problem.message for problem in error.problems], title="Not yet")
    if not found:
        return Foretold(["It never fires."], title="Next occurrences")
    return Foretold([], found, draft.get("timezone") or "UTC", "Next occurrences")
