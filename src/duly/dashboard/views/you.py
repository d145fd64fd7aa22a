"""The page about the visitor: the key, the tenant, and signing out."""

from starlette.responses import Response

from duly.dashboard.access import cookies
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit
from duly.decide.checks import name_problems
from duly.errors import Forbidden, Invalid
from duly.records.api_key import Scope

pages = Pages()


@pages.get("/you")
async def you(visit: Visit) -> Response:
    """Who visits, and as which tenant."""
    return visit.page("you.html", here_is="")


@pages.post("/you/tenant", needs=Scope.READ, writes=False)
async def switch_tenant(visit: Visit) -> Response:
    """Switches a visitor with a key for all tenants to another tenant."""
    if not visit.caller.all_tenants:
        raise Forbidden("only a key for all tenants can switch: sign in with one")
    tenant = visit.form.get("tenant", "").strip()
    if problems := [*name_problems("tenant", tenant)]:
        raise Invalid(problems)
    response = visit.redirect(visit.url("/"))
    cookies.set_cookie(response, visit.request, cookies.TENANT, tenant)
    return response
