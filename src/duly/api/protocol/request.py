"""A request to the API, its caller, and its answer."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request

from duly.api.access.tenancy import Tenancy
from duly.records.api_key import Scope

IDEMPOTENCY_KEY = "idempotency-key"
SLASH = "\uffff"
"""Stands for a slash inside a name, which a URL writes as %2F: no name can contain this character."""

_DOTS = re.compile(r"(?<=/)\.{1,2}(?=/|$)")
"""Names that a URL parser would take for the current or the parent folder."""


class Caller(NamedTuple):
    """The caller of a request: the tenant, the scope, and the name that the history shows."""

    tenant: str
    scope: Scope = Scope.READ
    name: str = "api"
    key: str | None = None  # the id of the API key
    all_tenants: bool = False  # may name another tenant in Duly-Tenant; the scope applies there as well


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that has been authenticated and read."""

    request: Request
    caller: Caller
    own: Tenancy
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)

    def named(self, parameter: str) -> str:
        """A parameter of the path."""
        return str(self.request.path_params[parameter]).replace(SLASH, "/")

    @property
    def address(self) -> str:
        """The path of the request, percent-encoded."""
        written = quote(self.request.scope["path"]).replace(quote(SLASH), "%2F")
        return _DOTS.sub(lambda dots: dots[0].replace(".", "%2E"), written)

    @property
    def by(self) -> str:
        return self.caller.name

    @property
    def tenant(self) -> str:
        return self.caller.tenant


@dataclass(frozen=True, slots=True)
class ApiResponse:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Run = Callable[[ApiRequest], Awaitable[ApiResponse]]
Afterwards = Callable[[ApiRequest, ApiResponse], Awaitable[ApiResponse]]
