"""The path of a visit: who it is, what they may do, the page, and what becomes of errors."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duly.api.access.auth import Authenticator
from duly.api.access.tenancy import tenancy
from duly.api.protocol.bodies import ORDINARY_BODY_BYTES, read_body
from duly.api.protocol.handler import RequestHandler, request_id
from duly.api.protocol.problems import BUG, problem, problem_of, without_message
from duly.api.protocol.request import ApiResponse, Caller
from duly.api.server.proxies import is_trusted
from duly.dashboard import rendering
from duly.dashboard.access import cookies
from duly.dashboard.access.forgery import refuse_other_sites, require_token, token_for
from duly.dashboard.page_cache import PageCache
from duly.dashboard.pages import Page
from duly.dashboard.times import Times
from duly.dashboard.visit import NavigationItem, Receipt, Visit, Visitor, part
from duly.decide.targets.addresses import Network
from duly.duly import Duly
from duly.errors import ApiNotReady, DulyError, Forbidden, Misuse, StoreError, Unauthenticated
from duly.observers.logs import Line
from duly.rules.zones import names

log = logging.getLogger("duly.http")

NONCE_BYTES = 16
"""Random bytes of a page's nonce, which says which scripts belong to it."""

PERSON = "x-forwarded-user"
"""The header in which a proxy names the person who has signed in there."""

LONGEST_PERSON = 100
"""Characters of such a name; a longer one is not believed."""

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load: its own scripts and styles, and nothing of any other host."""


class LiveFragment(NamedTuple):
    """The live part of a page, and what visitors who see the same have in common."""

    tenant: str
    scope: str
    sees_system: bool
    zone: str
    html: str


class DashboardHandler:
    """Answers visits."""

    def __init__(
        self, duly: Duly, answering: RequestHandler, admission: Authenticator, navigation: Sequence[NavigationItem]
    ) -> None:
        self.duly, self.admission = duly, admission
        self._answering, self._navigation, self._kept = answering, navigation, PageCache()

    async def respond(self, page: Page, request: Request) -> Response:
        """The answer to a visit, whatever happens."""
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        try:
            response = await self._visited(page, request, nonce)
        except Unauthenticated:
            response = self._to_sign_in(request)
        except Exception as error:
            response = self.refused(self._problem(error, request), request, nonce)
        return self.finished(response, request, nonce)

    def finished(self, response: Response, request: Request, nonce: str) -> Response:
        """Adds what each answer carries: its policy, the visitor's cookie, and the note that a key was used."""
        response.headers["Content-Security-Policy"] = POLICY.format(nonce=nonce)
        if getattr(request.state, "new_visitor", None) is not None:
            cookies.set_cookie(response, request, cookies.VISITOR, request.state.new_visitor)
        if getattr(request.state, "receipt_shown", False):
            cookies.delete_cookie(response, request, cookies.RECEIPT)
        return self._answering.noting_use(request, response)

    async def _visited(self, page: Page, request: Request, nonce: str) -> Response:
        self._answering.require_open()
        refuse_other_sites(request)
        session = cookies.token(request, cookies.SESSION)
        request.state.caller = caller = await self._admitted(request)
        await self._answering.require_ready()
        form = await read_form(request)
        if request.method == "POST":
            require_token(request, form, session or cookies.token(request, cookies.VISITOR))
        _require_scope(page, caller)
        visitor = self.visitor(request, nonce, signed_in=session is not None)
        async with tenancy(self.duly, caller, writes=page.writes) as own:
            times = Times(visitor.zone, await own.now())
            visit = Visit(request, caller, visitor, own, times, self._navigation, self._kept, form)
            response = await page.view(visit)
        for answer in visit.afterwards:
            response = await answer()
        return response

    async def rendered_live(self, page: Page, request: Request) -> LiveFragment:
        """The live part of a page, as a visitor sees it."""
        self._answering.require_open()
        caller = await self._admitted(request)
        await self._answering.require_ready()
        _require_scope(page, caller)
        visitor = self.visitor(request, "", signed_in=False)
        async with tenancy(self.duly, caller, writes=False) as own:
            times = Times(visitor.zone, await own.now())
            answer = await page.view(Visit(request, caller, visitor, own, times, self._navigation, self._kept))
        sees_system = caller.all_tenants or caller.key is None
        return LiveFragment(caller.tenant, caller.scope, sees_system, visitor.zone, bytes(answer.body).decode())

    async def may_still_look(self, request: Request) -> bool:
        """Whether the visitor's session is still valid."""
        try:
            await self._admitted(request)
        except DulyError:
            return False
        return True

    async def _admitted(self, request: Request) -> Caller:
        session = cookies.token(request, cookies.SESSION)
        caller = await self.admission.admit_visitor(request, session, request.cookies.get(cookies.TENANT))
        person = person_by_proxy(request, self.duly.settings.trusted_proxies)
        return caller if person is None else caller._replace(name=f"{person} ({caller.name})")

    def visitor(self, request: Request, nonce: str, *, signed_in: bool) -> Visitor:
        """What the visitor's cookies tell."""
        anchor = cookies.token(request, cookies.SESSION if signed_in else cookies.VISITOR)
        if anchor is None:
            request.state.new_visitor = anchor = secrets.token_urlsafe(NONCE_BYTES)
        zone = request.cookies.get(cookies.ZONE, "").replace("%2F", "/")
        theme = request.cookies.get(cookies.THEME)
        return Visitor(
            zone if zone in names() else "UTC",
            theme if theme in ("light", "dark") else None,
            token_for(anchor),
            nonce,
            signed_in,
            _receipt(request),
        )

    def _to_sign_in(self, request: Request) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        to = f"{root}/sign-in"
        if self.admission.identifies_by_itself:
            return HTMLResponse("Your application did not identify you: sign in there first.", 401)
        if request.headers.get("hx-request") == "true":
            return Response(status_code=204, headers={"HX-Redirect": to})
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = f"?next={part(asked)}" if request.method == "GET" and asked not in (root, f"{root}/") else ""
        return RedirectResponse(to + wanted, 303)

    def refused(self, answer: ApiResponse, request: Request, nonce: str) -> Response:
        """The page that tells of an error."""
        root = str(request.scope.get("root_path", "")).rstrip("/")
        told: Mapping[str, Any] = answer.body
        values = {
            "status": answer.status,
            "title": told.get("title", "Error"),
            "detail": told.get("detail"),
            "errors": told.get("errors", ()),
            "request_id": request_id(request),
            "home": f"{root}/",
            "style": f"{root}/static/duly.css?v={rendering.static_version('duly.css')}",
            "nonce": nonce,
            "instance": self.duly.settings.instance,
        }
        fragment = request.headers.get("hx-request") == "true"
        page = rendering.render("error_part.html" if fragment else "error.html", values)
        return HTMLResponse(page, answer.status, {k: v for k, v in answer.headers.items() if k == "Retry-After"})

    def _problem(self, error: Exception, request: Request) -> ApiResponse:
        if isinstance(error, DulyError) and not isinstance(error, Misuse):
            if isinstance(error, StoreError) and not isinstance(error, ApiNotReady):
                log.error(Line("request.failed", {"request": request_id(request), "error": str(error)}))
            return problem_of(error)
        log.error(Line("request.failed", {"request": request_id(request), "error": without_message(error)}))
        return problem(500, BUG)


def person_by_proxy(request: Request, trusted: Sequence[Network]) -> str | None:
    """The name of the person, as a proxy tells it that the settings trust. It says who acts, in the history; what they
    may do is a matter of the key."""
    told = request.headers.get(PERSON)
    if told is None or request.client is None or not is_trusted(request.client.host, trusted):
        return None
    return told if told.isprintable() and 0 < len(told) <= LONGEST_PERSON else None


def _require_scope(page: Page, caller: Caller) -> None:
    if not caller.scope.covers(page.needs):
        raise Forbidden(
            f"this needs a key with the scope {page.needs.value}, and yours has the scope {caller.scope.value}: "
            "sign in with another key"
        )
    if page.system and not (caller.all_tenants or caller.key is None):
        raise Forbidden("this page is about all tenants together, and needs a key for all tenants")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent; of a field that was sent twice, the last value."""
    if request.method != "POST":
        return {}
    body = await read_body(request, ORDINARY_BODY_BYTES)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _receipt(request: Request) -> Receipt | None:
    written = request.cookies.get(cookies.RECEIPT)
    if written is None or request.method != "GET" or request.headers.get("hx-request") == "true":
        return None
    request.state.receipt_shown = True
    try:
        return msgspec.json.decode(bytes.fromhex(written), type=Receipt)
    except (ValueError, msgspec.MsgspecError):
        return None
