"""The palette: finds an event, a user, a schedule or a target by what a person has at hand."""

from typing import NamedTuple

from starlette.responses import Response

from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit, part
from duly.errors import Invalid
from duly.records.finding.search import SearchResult

pages = Pages()

MOST_FOUND = 12
"""Results of one search."""


class Found(NamedTuple):
    """A result, and the page that it leads to."""

    kind: str
    title: str
    detail: str
    href: str


@pages.get("/find")
async def find(visit: Visit) -> Response:
    """What was found, as a part of the palette or as a page."""
    asked = visit.query.get("q", "").strip()
    try:
        results = await visit.own.search(asked, MOST_FOUND) if asked else []
    except Invalid:  # nothing can have such a name
        results = []
    template = "parts/found.html" if visit.is_fragment else "find.html"
    return visit.page(template, here_is="", asked=asked, found=[_found(visit, one) for one in results])


def _found(visit: Visit, one: SearchResult) -> Found:
    path = {
        "event": f"/events/{one.id}",
        "user": f"/users/{one.id}",
        "schedule": f"/schedules/{part(one.name or '')}",
        "target": f"/targets/{part(one.name or '')}",
    }[one.kind]
    title = one.name or one.title
    detail = " · ".join(filter(None, (one.title if one.name else "", one.status or "")))
    return Found(one.kind, title, detail, visit.url(path))
