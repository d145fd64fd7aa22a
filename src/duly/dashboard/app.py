"""The routes of the dashboard: its pages, its static files, and the way in and out."""

import asyncio
import mimetypes
import secrets
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from duly.api.access.auth import Authenticator
from duly.api.protocol.handler import RequestHandler
from duly.dashboard import rendering
from duly.dashboard.access import cookies
from duly.dashboard.access.forgery import refuse_other_sites
from duly.dashboard.handler import NONCE_BYTES, DashboardHandler, read_form
from duly.dashboard.live import LivePages
from duly.dashboard.pages import Page
from duly.dashboard.views import PAGES
from duly.dashboard.visit import NavigationItem
from duly.duly import Duly
from duly.errors import DulyError
from duly.verbs.keys import SESSION_LIFETIME

NAVIGATION: Sequence[NavigationItem] = (
    NavigationItem("now", "/", "Now"),
    NavigationItem("schedules", "/schedules", "Schedules"),
    NavigationItem("events", "/events", "Events"),
    NavigationItem("users", "/users", "Users"),
    NavigationItem("dead", "/dead-letters", "Dead letters"),
    NavigationItem("targets", "/targets", "Targets"),
    NavigationItem("system", "/system", "System"),
)

FOREVER = "public, max-age=31536000, immutable"
"""Browsers keep static files for a year: another version of a file has another address."""


class PageRoute(Route):
    """The route of a page, for its one method."""

    def __init__(self, page: Page, answering: DashboardHandler) -> None:
        async def respond(request: Request) -> Response:
            return await answering.respond(page, request)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await respond(Request(scope, receive, send))
            await response(scope, receive, send)

        super().__init__(page.path, respond, name=f"{page.method} {page.path}", methods=[page.method])
        self.methods, self.app = {page.method}, app


class Dashboard:
    """The dashboard of a Duly, as routes of its API."""

    def __init__(self, duly: Duly, answering: RequestHandler, admission: Authenticator) -> None:
        self._handler = DashboardHandler(duly, answering, admission, NAVIGATION)
        self._sign_in = SignIn(duly, self._handler)
        self.live = LivePages(self._handler, PAGES)

    def routes(self) -> Iterator[Route]:
        for page in PAGES:
            yield PageRoute(page, self._handler)
        yield Route("/live", self.live.respond, methods=["GET"])
        yield Route("/sign-in", self._sign_in.respond, methods=["GET", "POST"])
        yield Route("/static/{path:path}", static_file, methods=["GET"])


async def static_file(request: Request) -> Response:
    """A file of the dashboard. It is no secret: everybody may read it."""
    name = request.path_params["path"]
    path = (rendering.STATIC / name).resolve()
    found = path.is_relative_to(rendering.STATIC.resolve()) and await asyncio.to_thread(path.is_file)
    if not found:
        return Response("there is no such file", 404, media_type="text/plain")
    current = request.query_params.get("v") == rendering.static_version(name)
    kind = mimetypes.guess_type(path.name)[0]
    return FileResponse(path, media_type=kind, headers={"Cache-Control": FOREVER if current else "no-cache"})


class SignIn:
    """The page on which visitors sign in with an API key, and out."""

    def __init__(self, duly: Duly, handler: DashboardHandler) -> None:
        self._duly, self._handler = duly, handler

    async def respond(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        try:
            response = await (self._sign(request, nonce) if request.method == "POST" else self._page(request, nonce))
        except DulyError as error:
            response = self._shown(request, nonce, str(error), 401)
        return self._handler.finished(response, request, nonce)

    async def _page(self, request: Request, nonce: str) -> Response:
        return self._shown(request, nonce, None, 200)

    async def _sign(self, request: Request, nonce: str) -> Response:
        refuse_other_sites(request)
        form = await read_form(request)
        root = str(request.scope.get("root_path", "")).rstrip("/")
        session = cookies.token(request, cookies.SESSION)
        if "out" in form:
            if session is not None:
                await self._handler.admission.sign_out(session)
            response: Response = RedirectResponse(f"{root}/sign-in", 303)
            for name in (cookies.SESSION, cookies.TENANT):
                cookies.delete_cookie(response, request, name)
            return response
        begun = await self._handler.admission.sign_in(request, form.get("key", "").strip())
        response = RedirectResponse(_within(form.get("next", ""), root), 303)
        cookies.set_cookie(response, request, cookies.SESSION, begun.token, lifetime=SESSION_LIFETIME)
        return response

    def _shown(self, request: Request, nonce: str, problem: str | None, status: int) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        values = {
            "problem": problem,
            "root": root,
            "next": request.query_params.get("next", ""),
            "style": f"{root}/static/duly.css?v={rendering.static_version('duly.css')}",
            "nonce": nonce,
            "instance": self._duly.settings.instance,
        }
        return HTMLResponse(rendering.render("sign_in.html", values), status)


def _within(wanted: str, root: str) -> str:
    """The page to open after signing in: one of ours, never an address of another site."""
    ours = wanted.startswith(f"{root}/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if ours and wanted.isprintable() else f"{root}/"
