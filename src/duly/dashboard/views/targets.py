"""The pages of targets: where events go, whether it takes them, and its limits."""

from starlette.responses import Response

from duly.dashboard.acts.targets import add_acts
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit
from duly.decide.targets.rates import show_rate
from duly.decide.targets.targets import shown
from duly.records.filters import EventFilter
from duly.records.target import DESTINATION_OF_ALL, Known

pages = Pages()
add_acts(pages)

PAGE_SIZE = 50
"""Targets of a page."""

MOST_DESTINATIONS = 200
"""Destinations without a name of their own that the list shows: those that are parked or limited."""

RECENT = 20
"""Events and acts that the page of a target shows."""


@pages.get("/targets")
async def targets(visit: Visit) -> Response:
    """The list of targets, and of other destinations that are parked or limited."""
    own = visit.own.targets
    page = await own.page(tenant=visit.tenant, limit=PAGE_SIZE, after=visit.query.get("after"))
    names = {target.name for target in page.items}
    destinations = await own.destinations(tenant=visit.tenant, limit=MOST_DESTINATIONS)
    others = [one for one in destinations if one.destination not in names and one.target is None]
    known = [target.known for target in page.items if target.known is not None]
    waiting = await own.waiting_for([*known, *others])
    following = page.items[-1].name if page.more and page.items else None
    return visit.live_page(
        "targets.html",
        "targets_live.html",
        here_is="targets",
        targets=page.items,
        others=others,
        waiting={destination: many for (_, destination), many in waiting.items()},
        state=state,
        limits=limits,
        address=shown,
        all=DESTINATION_OF_ALL,
        first=visit.here(after=None) if visit.query.get("after") else None,
        next=visit.here(after=following) if following else None,
    )


@pages.get("/targets/{name}")
async def target(visit: Visit) -> Response:
    """One stored target."""
    name = visit.named("name")
    found = await visit.own.targets.get(name, tenant=visit.tenant)
    known = found.known or Known(found.tenant, found.name)
    waiting = await visit.own.targets.waiting_for([known])
    recent = await visit.own.events.find(EventFilter(destination=name), tenant=visit.tenant, limit=RECENT)
    history = await visit.own.targets.history(name, tenant=visit.tenant)
    return visit.live_page(
        "target.html",
        "target_live.html",
        here_is="targets",
        target=found,
        known=known,
        address=shown(found.url),
        state=state(known),
        limits=limits(known),
        waiting=waiting.get((known.tenant, known.destination), 0),
        recent=recent,
        history=history[-RECENT:][::-1],
    )


def state(known: Known | None) -> str:
    """Whether a destination takes events: open, parked until a probe is taken, or disabled by a person or by 410."""
    if known is None or known.parked is None:
        return "open"
    return "disabled" if known.probe_at is None else "parked"


def limits(known: Known | None) -> str:
    """The limits in words."""
    if known is None:
        return ""
    at_once = f"{known.concurrency:,} at once from each worker" if known.concurrency else ""
    often = "" if known.rate is None else f"{show_rate(known.rate)} from all workers"
    return ", ".join(filter(None, (at_once, often)))
