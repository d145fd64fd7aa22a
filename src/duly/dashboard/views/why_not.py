"""Why a schedule did not run at an instant."""

from starlette.responses import Response

from duly.api.access.preview_places import a_turn
from duly.dashboard.pages import Pages
from duly.dashboard.rule_words import rule_in_words
from duly.dashboard.visit import Visit
from duly.errors import Invalid

pages = Pages()


@pages.get("/schedules/{name}/why-not")
async def explain(visit: Visit) -> Response:
    """The one cause, in a sentence, with what it leads to."""
    at = visit.query.get("at", "").strip()
    schedule = await visit.own.schedules.get(visit.named("name"), tenant=visit.tenant)
    told, problem = None, None
    if at:
        try:
            async with a_turn(visit):
                told = await visit.own.schedules.why_not_told(
                    schedule.name, at, tenant=visit.tenant, discreet=not visit.sees_system
                )
        except Invalid as error:
            problem = "; ".join(one.message for one in error.problems)
    return visit.page(
        "why_not.html",
        status=422 if problem else 200,
        here_is="schedules",
        schedule=schedule,
        words=rule_in_words(schedule),
        asked=at,
        told=told,
        problem=problem,
    )
