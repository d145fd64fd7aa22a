"""A visit: one request of a person to the dashboard, with the verbs that it may use, and the pages that answer it."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duly.api.access.tenancy import Tenancy
from duly.api.protocol.request import SLASH, Caller
from duly.config import Settings
from duly.dashboard import rendering
from duly.dashboard.page_cache import PageCache
from duly.dashboard.times import Times, short
from duly.errors import Problem
from duly.records.api_key import Scope

T = TypeVar("T")


class Receipt(msgspec.Struct, frozen=True):
    """What an act has done, as the next page shows it."""

    message: str
    link: str | None = None  # the address of what has changed, or of its history
    undo: str | None = None  # the address of the act that undoes it
    failed: bool = False
    to: str | None = None  # the page to open; None: the one that the visitor came from


class NavigationItem(NamedTuple):
    """An entry of the navigation."""

    name: str
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who visits, as cookies and settings tell."""

    zone: str
    theme: str | None
    csrf: str
    nonce: str
    signed_in: bool
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a person."""

    request: Request
    caller: Caller
    visitor: Visitor
    own: Tenancy
    times: Times
    navigation: Sequence[NavigationItem]
    kept: PageCache
    form: Mapping[str, str] = field(default_factory=dict)
    afterwards: list[Callable[[], Awaitable[Response]]] = field(default_factory=list)
    """What answers instead, once the transaction of this visit has ended: for acts that wait for other machines."""

    # -- what was asked

    def named(self, parameter: str) -> str:
        """A parameter of the path."""
        return str(self.request.path_params[parameter]).replace(SLASH, "/")

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def settings(self) -> Settings:
        return self.own.duly.settings

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def by(self) -> str:
        """Who acts, as the history shows it."""
        return self.caller.name if self.caller.name != "api" else "dashboard"

    @property
    def may_write(self) -> bool:
        return self.caller.scope.covers(Scope.WRITE)

    @property
    def sees_system(self) -> bool:
        """Whether the visitor may see what belongs to no tenant: workers, versions and sizes."""
        return self.caller.all_tenants or self.caller.key is None

    @property
    def is_fragment(self) -> bool:
        """Whether a script asks for a part of a page."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def is_live(self) -> bool:
        """Whether only the live part of the page is rendered, for all who look at it. It has no forms of its own: their
        tokens belong to one visitor."""
        return bool(self.request.scope.get("live"))

    async def cached(self, name: str, seconds: float, make: Callable[[], Awaitable[T]], *which: Hashable) -> T:
        """A value of the tenant that is computed anew after some seconds; it must not depend on the visitor, but for
        the time zone."""
        key = (name, self.tenant, self.sees_system, self.visitor.zone, *which)
        return await self.kept.get(key, seconds, make)

    # -- addresses

    @property
    def root(self) -> str:
        """The path under which the dashboard is mounted."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    def url(self, path: str, /, **query: Any) -> str:
        """The address of a page. Names in it have to be quoted, by ``part``."""
        asked = {name: value for name, value in query.items() if value not in (None, "", False)}
        return f"{self.root}{path}" + (f"?{urlencode(asked, doseq=True)}" if asked else "")

    def here(self, **changed: Any) -> str:
        """The address of this page with other values in its query: None removes one."""
        return self.url(self.path, **({**self.query} | changed))

    @property
    def path(self) -> str:
        """The path of this page, below where the dashboard is mounted, percent-encoded."""
        path = self.request.scope["path"].replace(SLASH, "\0")
        if self.root and path.startswith(self.root):
            path = path[len(self.root) :]
        return quote(path).replace("%00", "%2F") or "/"

    @property
    def server(self) -> str:
        """The address of this server, as ``curl`` needs it."""
        return f"{self.request.url.scheme}://{self.request.url.netloc}{self.root}"

    # -- answers

    def page(self, template: str, /, *, status: int = 200, **values: Any) -> Response:
        """A page."""
        return HTMLResponse(self.rendered(template, **values), status)

    def live_page(self, template: str, live: str, /, **values: Any) -> Response:
        """A page with a part that is kept up to date: *live* is the template of that part."""
        return self.page(live if self.is_live else template, live=live, **values)

    def rendered(self, template: str, /, **values: Any) -> str:
        """The HTML of a page, or of a part of one."""
        return rendering.render(template, self._common() | values)

    def redirect(self, to: str) -> Response:
        """Leads to another page of the dashboard."""
        if self.is_fragment:
            return Response(status_code=204, headers={"HX-Redirect": to})
        return RedirectResponse(to, 303)

    def _common(self) -> dict[str, Any]:
        return {
            "visit": self,
            "visitor": self.visitor,
            "caller": self.caller,
            "at": self.times.at,
            "near": self.times.near,
            "now": self.times.now,
            "short": short,
            "url": self.url,
            "here": self.here,
            "part": part,
            "static": self.static,
            "instance": self.settings.instance,
        }

    def static(self, name: str) -> str:
        """The address of a static file."""
        return self.url(f"/static/{name}", v=rendering.static_version(name))


def part(name: str) -> str:
    """A name as a part of a path."""
    quoted = quote(name, safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(quoted, quoted)


def problems_by_field(problems: Sequence[Problem]) -> dict[str, list[str]]:
    """The problems of a form, by the field that they are shown at."""
    found: dict[str, list[str]] = {}
    for problem in problems:
        found.setdefault(problem.path, []).append(problem.message)
    return found
