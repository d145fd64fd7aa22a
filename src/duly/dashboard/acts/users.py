"""The acts on users: add, edit, delete, erase."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from duly.dashboard.acts.act import Act, Field, Foretold, HttpCall, Upcoming, Values, add_act
from duly.dashboard.acts.options import option
from duly.dashboard.pages import Pages
from duly.dashboard.rendering import as_json, many
from duly.dashboard.visit import Receipt, Visit
from duly.decide.calendars.users import FIELDS, OPTIONAL
from duly.decide.checks import is_id
from duly.errors import Invalid, NotFound, Problem
from duly.records.api_key import Scope
from duly.records.filters import EventFilter
from duly.records.user import User
from duly.rules.yearly import LEAPS

JSON_FIELDS = ("target", "attributes")
"""Fields that are written as JSON."""

LONGEST_UNDO = 900
"""Characters of the address that undoes an edit, at most: it travels in a cookie."""

LEAP_WORDS = {"feb28": "on 28 February", "mar1": "on 1 March", "skip": "not at all"}

INPUTS: Sequence[Field] = (
    Field("first_name", "First name", needed=True),
    Field("last_name", "Last name", needed=True),
    Field("date_of_birth", "Date of birth", "date", needed=True),
    Field("timezone", "Time zone", help="By its IANA name", example="Europe/Brussels", needed=True),
    Field("key", "Key", help="Your own id of the user, unique in the tenant"),
    Field("anniversary", "Anniversary", "date"),
    Field("delivery_time", "Delivery time", "time", help="Local time of the user's events; empty: the usual one"),
    Field(
        "leap",
        "29 February, in other years",
        "select",
        options=(("", "as the event type says"), *((leap, LEAP_WORDS.get(leap, leap)) for leap in LEAPS)),
    ),
    Field(
        "target",
        "Target, as JSON",
        "text-area",
        help="Empty: that of the event type, or a Python handler",
        rows=3,
    ),
    Field("attributes", "Attributes, as JSON", "text-area", help="What event types need, such as a language", rows=4),
)


def add_acts(pages: Pages) -> None:
    """Adds the pages of all acts on users."""
    add_act(pages, "/users/new", add)
    for verb, prepare in (("edit", edit), ("delete", delete)):
        add_act(pages, f"/users/{{id}}/{verb}", prepare)
    add_act(pages, "/users/{id}/erase", erase, writes=False)


async def _user(visit: Visit) -> User:
    id = visit.named("id")
    if not is_id(id.lower()):
        raise NotFound(f"there is no user {id!r:.60}")
    return await visit.own.users.get(id, tenant=visit.tenant)


def _page(visit: Visit, id: str) -> str:
    return visit.url(f"/users/{id}")


def name_of(user: User) -> str:
    return f"{user.first_name} {user.last_name}"


# -- what is filled in


def shown(user: User) -> dict[str, str]:
    """The fields of a user as a form shows them."""
    at = user.delivery_time
    return {
        "first_name": user.first_name,
        "last_name": user.last_name,
        "date_of_birth": user.date_of_birth.isoformat(),
        "timezone": user.timezone,
        "key": user.key or "",
        "anniversary": "" if user.anniversary is None else user.anniversary.isoformat(),
        "delivery_time": "" if at is None else at.isoformat("auto" if at.second else "minutes"),
        "leap": user.leap or "",
        "target": "" if user.target_json is None else as_json(user.target_json),
        "attributes": "" if user.attributes_json is None else as_json(user.attributes_json),
    }


def _given(values: Values) -> dict[str, Any]:
    """The fields that are filled in; raises Invalid if JSON cannot be read."""
    fields, problems = dict[str, Any](), list[Problem]()
    for name in FIELDS:
        written = values.get(name, "")
        if not written.strip():
            continue
        try:
            fields[name] = msgspec.json.decode(written) if name in JSON_FIELDS else written
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            problems.append(Problem(name, f"is not valid JSON: {error}"))
    if problems:
        raise Invalid(problems)
    return fields


def _changes(user: User, values: Values) -> dict[str, Any]:
    """What an edit changes: only that is sent, and None removes a field. Of attributes, only those that differ."""
    before, given = shown(user), _given(values)
    changes = dict[str, Any]()
    for name in FIELDS:
        if name not in values or values[name] == before[name]:
            continue
        if name not in given:
            if name in OPTIONAL and before[name]:
                changes[name] = None
            elif name not in OPTIONAL:
                changes[name] = values[name]  # its check says what is wrong
        elif name == "target" and given[name] == user.target:
            continue
        elif name == "attributes" and isinstance(given[name], dict):
            if differing := _differing(user.attributes, given[name]):
                changes[name] = differing
        else:
            changes[name] = given[name]
    if changes.get("attributes", ()) is None:
        changes["attributes"] = dict.fromkeys(user.attributes)
    return changes


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    gone = {name: None for name in before if name not in after}
    return gone | {
        name: value for name, value in after.items() if name not in before or _json(before[name]) != _json(value)
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _options(fields: Mapping[str, Any]) -> Sequence[str]:
    words = list[str]()
    for name, value in fields.items():
        words += ["--clear", name] if value is None else option(name, _json(value) if name in JSON_FIELDS else value)
    return words


# -- the acts


async def add(visit: Visit) -> Act:
    async def run(visit: Visit, values: Values) -> Receipt:
        fields: Any = _given(values)  # the verb checks them
        user = await visit.own.users.add(tenant=visit.tenant, by=visit.by, **fields)
        planned = len(await visit.own.users.ahead(user.id, tenant=visit.tenant))
        message = f"{name_of(user)} is added; {many(planned, 'event')} planned."
        page = _page(visit, user.id)
        return Receipt(_with_warnings(message, user), f"{page}#history", f"{page}/delete", to=page)

    return Act(
        title="Add a user",
        verb="Add",
        what="The events of the user are planned at once.",
        fields=INPUTS,
        command=lambda values: ["users", "add", *_options(_given(values))],
        call=lambda values: HttpCall("POST", "/v1/users", _given(values)),
        run=run,
        back=visit.url("/users"),
    )


def _with_warnings(message: str, user: User) -> str:
    return " ".join([message, *(f"{warning[0].upper()}{warning[1:]}." for warning in user.warnings)])


async def edit(visit: Visit) -> Act:
    user = await _user(visit)
    page = _page(visit, user.id)

    async def run(visit: Visit, values: Values) -> Receipt:
        changes: Any = _changes(user, values)
        if not changes:
            return Receipt(f"{name_of(user)} is as before: nothing was changed.")
        expected = values.get("expected") or None
        after = await visit.own.users.update(user.id, tenant=visit.tenant, by=visit.by, expected=expected, **changes)
        told = ", ".join(name.replace("_", " ") for name in changes)
        undo = f"{page}/edit?{urlencode({name: shown(user)[name] for name in changes})}"
        return Receipt(
            _with_warnings(f"{name_of(after)} is changed: {told}.", after),
            f"{page}#history",
            undo if len(undo) <= LONGEST_UNDO else None,
        )

    async def foretell(visit: Visit, values: Values) -> Foretold:
        changes = _changes(user, values)
        if not changes:
            return Foretold(["Nothing differs yet."])
        names = ", ".join(name.replace("_", " ") for name in changes)
        planned = await visit.own.users.ahead(user.id, tenant=visit.tenant)
        lines = [f"This changes: {names}."]
        if planned:
            lines.append("Events that have not started follow: their time, message and zone. They are planned now:")
        upcoming = [Upcoming(head.due, f"{head.local or head.due:%a %Y-%m-%d %H:%M}", head.type) for head in planned]
        return Foretold(lines, upcoming, user.timezone)

    # What the page of the user hides from read keys, its form does not tell them either.
    inputs = [field for field in INPUTS if visit.may_write or field.name not in JSON_FIELDS]
    return Act(
        title=f"Edit {name_of(user)}",
        verb="Save",
        fields=(*inputs, Field("expected", "", kind="hidden")),
        values={field.name: shown(user)[field.name] for field in inputs} | {"expected": user.tag},
        foretell=foretell,
        command=lambda values: ["users", "update", user.id, *_options(_changes(user, values))],
        call=lambda values: HttpCall("PUT", f"/v1/users/{user.id}", _changes(user, values)),
        run=run,
        back=page,
    )


async def delete(visit: Visit) -> Act:
    user = await _user(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        expected = values.get("expected") or None
        await visit.own.users.delete(user.id, tenant=visit.tenant, by=visit.by, expected=expected)
        events = visit.url("/events", user_id=user.id)
        return Receipt(f"{name_of(user)} is deleted.", events, to=visit.url("/users"))

    planned = len(await visit.own.users.ahead(user.id, tenant=visit.tenant))
    return Act(
        title=f"Delete {name_of(user)}",
        verb="Delete",
        what=f"{many(planned, 'planned event')} {'is' if planned == 1 else 'are'} cancelled; what runs now continues "
        "to its end. Past events and their histories stay. A user who is added again later is another one.",
        fields=(Field("expected", "", kind="hidden"),),
        values={"expected": user.tag},
        command=lambda _: ["users", "delete", user.id],
        call=lambda _: HttpCall("DELETE", f"/v1/users/{user.id}"),
        run=run,
        back=_page(visit, user.id),
        danger=True,
    )


async def erase(visit: Visit) -> Act:
    """Also of a user who was deleted before: then the id stands for the name."""
    id = visit.named("id").lower()
    try:
        user: User | None = await _user(visit)
    except NotFound:
        left = is_id(id) and await visit.own.events.find(EventFilter(user_id=id), tenant=visit.tenant, limit=1)
        if not left:
            raise
        user = None
    name = id if user is None else name_of(user)
    back = visit.url("/users") if user is None else _page(visit, id)

    async def run(visit: Visit, values: Values) -> Receipt:
        if values.get("name", "").strip() != name:
            asked = "the id" if user is None else "the name"
            raise Invalid([Problem("name", f"is not {asked} of the user: write {name}, to say that you mean it")])
        # A tenant's session may not change histories. The verb finds only what is this tenant's.
        done = await visit.own.duly.users.erase(id, tenant=visit.tenant, by=visit.by)
        told = f"The user is erased: {many(done.events, 'event')} and {many(done.history, 'entry', 'entries')} of"
        return Receipt(f"{told} histories were scrubbed.", visit.url("/events", user_id=id), to=visit.url("/users"))

    return Act(
        title=f"Erase {name} for ever",
        verb="Erase for ever",
        what="The user is deleted, and names and contents are scrubbed from all events, histories and stored answers. "
        "Waiting events and dead letters are cancelled. What is left tells when something happened, and not for whom.",
        fields=(
            Field(
                "name",
                f"Write {name} to say that you mean it",
                needed=True,
            ),
        ),
        command=lambda _: ["users", "erase", id, "--yes"],
        call=lambda _: None,
        run=run,
        back=back,
        danger=True,
        needs=Scope.ADMIN,
    )
