"""Users over HTTP: the people whom calendar events are for."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import MOST_BULK, PERSON, name, ref, text, zone
from duly.api.description.schemas import COUNTING, PAGING, PAGING_BY_ID
from duly.api.nouns.events import list_page
from duly.api.protocol.all_problems import together
from duly.api.protocol.bodies import BULK_BODY_BYTES
from duly.api.protocol.dry_run import QUERY, DryRun
from duly.api.protocol.etags import etag, expected
from duly.api.protocol.pages import asked_page, page_of_history, page_of_these
from duly.api.protocol.problems import errors_of
from duly.api.protocol.query_string import RequestedPage, id_place
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.decide.calendars.attribute_filters import LONGEST_VALUE, PREFIX, read_attribute
from duly.decide.calendars.users import FIELDS, changed_user, new_user
from duly.errors import Invalid, NotFound, Problem
from duly.records.etags import user_tag
from duly.records.event import EVENT_PAGE
from duly.records.finding.users import LONGEST_NAME, UserFilters
from duly.records.history import HISTORY_PAGE
from duly.records.results import RefusedRow, StoredRow
from duly.records.specs import OfUser
from duly.records.user import USER_JSON, USER_PAGE, User
from duly.records.wire.answers import UserResults
from duly.verbs.users.bulk_import import ImportObserver

operations = Operations("users")

USER = DescribedResponse("The user", USER_JSON.struct, examples.USER, tagged=True)
SHOWN = ("created_at", "updated_at", "warnings")
"""Read-only fields of a user: ignored when they are sent back."""


def _answer(user: User, status: int = 200, **headers: str) -> ApiResponse:
    return ApiResponse(USER_JSON.write(user), status, {**etag(user_tag(user)), **headers})


def id_of(ask: ApiRequest) -> str:
    """The id in the path; raises NotFound if it is no valid id."""
    try:
        return str(UUID(ask.named("id")))
    except ValueError:
        named = ask.named("id")
        raise NotFound(
            f"{named!r:.60} is not a user's id, which is a UUID; find a user by key with GET /v1/users?key=…"
        ) from None


@operations.add(
    "POST",
    "/v1/users",
    {
        201: DescribedResponse(
            "The user; its events are planned", USER_JSON.struct, examples.USER, tagged=True, located=True
        )
    },
    takes=RequestBody(ref("NewUser"), examples.NEW_USER),
    conflicts=True,
)
async def add_user(ask: ApiRequest) -> ApiResponse:
    """Add a user. Their events are planned when this returns."""
    fields = await _fields(ask, {}, lambda known, now: _check_new(ask, known, now))
    user = await ask.own.users.add(tenant=ask.tenant, by=ask.by, **fields)
    return _answer(user, 201, Location=f"{ask.address.rstrip('/')}/{user.id}")


def _check_new(ask: ApiRequest, fields: Mapping[str, Any], now: datetime) -> None:
    new_user(fields, "", ask.tenant, ask.own.channels, now, ask.own.duly.settings.delivery_time)


async def _fields(
    ask: ApiRequest, own: Mapping[str, Any], check: Callable[[Mapping[str, Any], datetime], object]
) -> dict[str, Any]:
    """The fields of a user in a body. Fields that a caller cannot change may be repeated with their current values."""
    body = ask.body
    if not isinstance(body, dict):
        raise Invalid([Problem("user", f"expected an object with {', '.join(FIELDS)}")])
    known = {field: value for field, value in body.items() if field in FIELDS}
    problems = []
    for field, value in body.items():
        if field in known or (field in SHOWN and own):
            continue
        if field not in own:
            problems.append(Problem(field[:50], f"is not a field of a user; known fields: {', '.join(FIELDS)}"))
        elif value != own[field]:
            problems.append(Problem(field, f"is {own[field]} and cannot be changed"))
    if problems:
        try:
            check(known, await ask.own.now())
        except Invalid as error:
            problems += error.problems
        raise Invalid(problems)
    return known


@operations.add(
    "GET",
    "/v1/users",
    {200: DescribedResponse("A page, newest first", USER_PAGE.struct, examples.page("users", examples.USER))},
    query={
        "name": text(
            1,
            LONGEST_NAME,
            pattern=PERSON,
            description="Only users whose first name, last name, or both in either order begin with this, in any "
            "letter case",
        ),
        "key": name("key", description="Only the user with this key"),
        "timezone": {**zone, "description": "Only users in this time zone"},
        f"{PREFIX}language": {
            "type": "string",
            "maxLength": LONGEST_VALUE,
            "pattern": "^[^\\u0000]*$",
            "description": "Only users with this attribute, or any other by its name or dotted path: "
            "`attributes.plan=pro`, `attributes.address.city=Graz`. A number, true or false matches that value and its "
            "text; text in double quotes matches text only",
        },
        **PAGING_BY_ID,
        **COUNTING,
    },
)
async def list_users(ask: ApiRequest) -> ApiResponse:
    """List users. All given filters must match."""
    page = RequestedPage(ask.query, id_place)
    which = UserFilters(name=ask.query.get("name"), key=ask.query.get("key"), timezone=ask.query.get("timezone"))
    which["attributes"] = {
        asked.removeprefix(PREFIX): read_attribute(value)
        for asked, value in ask.query.items()
        if asked.startswith(PREFIX)
    }
    with together(page.problems, {}):
        found = await ask.own.users.page(tenant=ask.tenant, limit=page.limit, after=page.after, **which)
    more = {"count": await ask.own.users.count(tenant=ask.tenant, **which)} if page.counts else {}
    return page_of_these(ask, page, "users", found, USER_JSON.write, lambda user: user.id, **more)


@operations.add("GET", "/v1/users/{id}", {200: USER})
async def get_user(ask: ApiRequest) -> ApiResponse:
    """Read a user."""
    return _answer(await ask.own.users.get(id_of(ask), tenant=ask.tenant))


@operations.add(
    "PUT",
    "/v1/users/{id}",
    {200: USER},
    takes=RequestBody(ref("UserChanges"), {"timezone": "America/Los_Angeles"}),
    query=QUERY,
    conflicts=True,
    guarded=True,
)
async def change_user(ask: ApiRequest) -> ApiResponse:
    """Change some fields of a user; the others stay.

    In `attributes`, the given ones change, and null removes one. Events that have not started are updated: their time,
    message and zone. Running events are delivered unchanged. With `dry_run=true`, nothing changes: the answer is the
    user as they would be, with the `consequence`, and the ETag of the user as they are.
    """
    there = await ask.own.users.get(id_of(ask), tenant=ask.tenant)
    own, dry = {"id": there.id, "tenant": there.tenant}, DryRun(ask)
    with together(dry.problems, {}):
        changes = await _fields(ask, own, lambda known, now: changed_user(there, known, ask.own.channels, now))
    tag = expected(ask, user_tag(there))
    user = await ask.own.users.update(
        there.id, tenant=ask.tenant, by=ask.by, expected=tag, dry_run=dry.asked, **changes
    )
    return _as_they_would_be(user, dry, there) if dry.asked else _answer(user)


def _as_they_would_be(user: User, dry: DryRun, there: User) -> ApiResponse:
    """The user of a dry run. With the ETag in If-Match, the act itself is done only while the user is as they are."""
    return ApiResponse(USER_JSON.write(dry.told(user)), headers=etag(user_tag(there)))


@operations.add(
    "DELETE",
    "/v1/users/{id}",
    {200: DescribedResponse("The deleted user", USER_JSON.struct, examples.USER)},
    query=QUERY,
    conflicts=True,
    guarded=True,
)
async def delete_user(ask: ApiRequest) -> ApiResponse:
    """Delete a user. Future events of the user are cancelled; running events finish.

    With `dry_run=true`, nothing is deleted: the answer has the `consequence`.
    """
    there = await ask.own.users.get(id_of(ask), tenant=ask.tenant)
    tag, dry = expected(ask, user_tag(there)), DryRun(ask)
    dry.require_valid()
    user = await ask.own.users.delete(there.id, tenant=ask.tenant, by=ask.by, expected=tag, dry_run=dry.asked)
    return _as_they_would_be(user, dry, there) if dry.asked else ApiResponse(USER_JSON.write(user))


@operations.add(
    "GET",
    "/v1/users/{id}/events",
    {
        200: DescribedResponse(
            "A page, newest first", EVENT_PAGE.struct, examples.page("events", examples.EVENT, next_after=None)
        )
    },
    query=PAGING_BY_ID,
)
async def list_users_events(ask: ApiRequest) -> ApiResponse:
    """List the events of a user."""
    page = asked_page(ask, id_place)
    user = await ask.own.users.get(id_of(ask), tenant=ask.tenant)
    return await list_page(ask, OfUser(user.id), page)


@operations.add(
    "GET",
    "/v1/users/{id}/history",
    {
        200: DescribedResponse(
            "A page of the history, oldest first", HISTORY_PAGE.struct, examples.page("history", examples.ENTRY)
        )
    },
    query=PAGING,
)
async def user_history(ask: ApiRequest) -> ApiResponse:
    """List what was done to a user. The history of each event is read separately."""
    return await page_of_history(
        ask,
        lambda skip, limit: ask.own.users.history_page(id_of(ask), tenant=ask.tenant, skip=skip, limit=limit),
    )


@operations.add(
    "POST",
    "/v1/users/import",
    {200: DescribedResponse("The result for each user, in the same order", UserResults, examples.USER_RESULTS)},
    takes=RequestBody(ref("NewUsers"), {"users": [examples.NEW_USER, {"first_name": "Ada"}]}, BULK_BODY_BYTES),
)
async def import_users(ask: ApiRequest) -> ApiResponse:
    """Add many users. A user with an existing key is changed. An invalid user does not affect the others."""
    written = ask.body.get("users") if isinstance(ask.body, dict) else None
    if not isinstance(written, list) or not 1 <= len(written) <= MOST_BULK or set(ask.body) != {"users"}:
        message = f'expected an object {{"users": [...]}} with 1 to {MOST_BULK:,} of them, and nothing else'
        raise Invalid([Problem("users", message)])
    refused: list[RefusedRow] = []
    stored: list[StoredRow] = []
    telling = ImportObserver(refused.append, stored=stored.append)
    done = await ask.own.users.import_(written, tenant=ask.tenant, by=ask.by, telling=telling)
    became: dict[int, tuple[str, str | None, Sequence[Problem]]] = {
        **{one.number: (one.act, one.id, ()) for one in stored},
        **{one.number: ("refused", None, one.problems) for one in refused},
    }
    results = [
        {
            "status": act,
            "id": id,
            "key": row.get("key") if isinstance(row, dict) else None,
            "errors": errors_of(problems),
        }
        for row, (_, (act, id, problems)) in zip(written, sorted(became.items()), strict=True)
    ]
    counts = {word: getattr(done, word) for word in ("added", "changed", "unchanged", "refused")}
    return ApiResponse(counts | {"results": results, "nowhere": done.nowhere, "warnings": done.warnings})
