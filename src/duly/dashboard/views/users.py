"""The pages of users: the list, and one user."""

from functools import partial
from typing import Any
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from duly.dashboard.acts.act import command_line
from duly.dashboard.acts.users import add_acts, name_of
from duly.dashboard.events.words import timing
from duly.dashboard.pages import Pages
from duly.dashboard.rendering import as_json
from duly.dashboard.views.events import shown_count
from duly.dashboard.visit import Visit, part, problems_by_field
from duly.decide.error_text import first_line
from duly.errors import Invalid
from duly.records.finding.users import UserFilters
from duly.rules.zones import to_wall

pages = Pages()
add_acts(pages)

PAGE_SIZE = 50
"""Users of a page."""

RECENT = 20
"""Events and acts on the page of a user."""

FILTERS = (("name", "Name begins with", "Ada"), ("key", "Key", ""), ("timezone", "Time zone", "Europe/Brussels"))
"""The filters of the list: each with its label and an example."""


@pages.get("/users")
async def users(visit: Visit) -> Response:
    """The list of users, the newest first."""
    which = _asked(visit)
    after = visit.query.get("after") or None
    wanted = {name: which.get(name) for name, _, _ in FILTERS} | {"after": after}
    if any(not value for value in visit.query.values()):
        return RedirectResponse(visit.url("/users", **wanted), 303)
    shown: dict[str, Any] = {
        "filters": [(name, label, which.get(name) or "", example) for name, label, example in FILTERS],
        "any_filter": any(which.values()),
        "import_command": command_line(visit, ["users", "import", "people.csv", "--errors", "refused.jsonl"]),
        "here_is": "users",
    }
    try:
        page = await visit.own.users.page(tenant=visit.tenant, limit=PAGE_SIZE, after=after, **which)
    except Invalid as error:
        problems = problems_by_field(error.problems)
        return visit.page("users.html", status=422, users=None, problems=problems, counts=None, **shown)
    following = page.items[-1].id if page.more and page.items else None
    return visit.page(
        "users.html",
        users=page.items,
        heads=await visit.own.users.next_events([user.id for user in page.items]),
        problems={},
        counts=visit.url("/counts/users", **which),
        first=visit.url("/users", **wanted | {"after": None}) if after else None,
        next=visit.url("/users", **wanted | {"after": following}) if following else None,
        wall=to_wall,
        **shown,
    )


def _asked(visit: Visit) -> UserFilters:
    return UserFilters(
        name=visit.query.get("name", "").strip() or None,
        key=visit.query.get("key") or None,
        timezone=visit.query.get("timezone", "").strip() or None,
    )


@pages.get("/counts/users")
async def count_users(visit: Visit) -> Response:
    """How many users match, asked for by the list once it is shown."""
    which = _asked(visit)
    count = await visit.own.users.count(tenant=visit.tenant, **which)
    return shown_count(visit, count, "user", visit.url("/users", **which))


@pages.get("/users/{id}")
async def user(visit: Visit) -> Response:
    """One user, by id; a key leads to the page of its user."""
    own, named = visit.own.users, visit.named("id")
    try:
        id = str(UUID(named))
    except ValueError:
        found = await own.by_key(named, tenant=visit.tenant)
        return RedirectResponse(visit.url(f"/users/{found.id}"), 303)
    found = await own.get(id, tenant=visit.tenant)
    history = await own.history(id, tenant=visit.tenant)
    shows = visit.may_write or visit.query.get("payload") == "1"
    return visit.live_page(
        "user.html",
        "user_live.html",
        here_is="users",
        user=found,
        name=name_of(found),
        shows=shows,
        target=None if found.target_json is None else as_json(found.target_json),
        attributes=None if found.attributes_json is None else as_json(found.attributes_json),
        ahead=await own.ahead(id, tenant=visit.tenant),
        events=await own.events(id, tenant=visit.tenant, limit=RECENT),
        history=history[-RECENT:][::-1],
        usual_time=visit.settings.delivery_time,
        part_of=part,
        wall=to_wall,
        timing=partial(timing, now=visit.times.now, late_after=visit.settings.late_after),
        first_line=first_line,
    )
