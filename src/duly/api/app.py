"""Assembles the API: a Starlette application that runs alone, or is mounted in yours."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from duly.api.access.auth import Authenticate, Authenticator
from duly.api.access.preview_places import PreviewPlaces
from duly.api.description.openapi import described_api
from duly.api.description.operations import Operation
from duly.api.nouns import acts as acts  # adds its operations to those of schedules and events
from duly.api.nouns import (
    event_types,
    events,
    forecast,
    search,
    stats,
    system,
    targets,
    templates,
    timers,
    users,
    workers,
)
from duly.api.nouns.schedules import previews, schedules, why_not
from duly.api.protocol.handler import RequestHandler, write
from duly.api.protocol.long_poll import LongPoll
from duly.api.protocol.middleware import Middleware
from duly.api.protocol.problems import problem
from duly.dashboard.app import Dashboard
from duly.duly import Duly
from duly.observers.metrics.http import HttpMetrics

OPERATIONS: Sequence[Operation] = [
    operation
    for subject in (
        timers,
        schedules,
        previews,
        why_not,
        templates,
        users,
        event_types,
        events,
        targets,
        workers,
        forecast,
        stats,
        search,
    )
    for operation in subject.operations.all
]


class Api(Starlette):
    """Duly's HTTP API."""

    @cached_property
    def _description(self) -> dict[str, Any]:
        return described_api(OPERATIONS, system.OPEN)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of this API."""
        return self._description


def create_api(duly: Duly, *, keyless: bool | str = False, authenticate: Authenticate | None = None) -> Api:
    """The API of a Duly, which must be open while the API is used: ``app.mount("/duly", create_api(duly))``.

    Callers send API keys (``duly keys create``). *authenticate* is your own function that identifies the caller and the
    tenant. With *keyless*, until the first key is created, every caller is the tenant ``default``, or the tenant that
    *keyless* names: use it only to try things on a machine that nobody else can reach, not even through a proxy or a
    tunnel. Requests through proxies that identify themselves are refused; not every proxy does.
    """
    api = Api()
    api.router.redirect_slashes = False
    api.state.waiting, api.state.previews = LongPoll(), PreviewPlaces()
    api.state.forecasts = forecast.ForecastCache()
    admission = Authenticator(duly, keyless=keyless, authenticate=authenticate)
    answering = RequestHandler(duly, admission)
    for operation in OPERATIONS:
        api.router.routes.append(OperationRoute(operation, answering))
    metrics = HttpMetrics()
    duly.metrics()  # counts from now on
    api.router.routes += system.open_routes(api.openapi, answering, metrics)
    dashboard = Dashboard(duly, answering, admission)
    api.state.live = dashboard.live
    api.router.routes += dashboard.routes()
    api.add_exception_handler(HTTPException, _refused)
    api.add_middleware(Middleware, told=metrics.request_answered)
    return api


class OperationRoute(Route):
    """The route of an operation, for its one method. Starlette's own would add HEAD to GET, and wrap the handler in
    code that turns exceptions into answers, which the handler does itself."""

    def __init__(self, operation: Operation, answering: RequestHandler) -> None:
        async def respond(request: Request) -> Response:
            return await answering.respond(operation, request)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await respond(Request(scope, receive, send))
            await response(scope, receive, send)

        super().__init__(operation.path, respond, name=operation.name, methods=[operation.method])
        self.methods, self.app = {operation.method}, app
        self.operation = operation


async def _refused(request: Request, error: Exception) -> Response:
    """The answer to a request that matches no route, or no route with its method."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    where = f"{request.scope.get('root_path', '')}/openapi.json"
    told = {
        404: f"there is nothing at this address: {where} describes all addresses",
        405: f"this address does not support {request.method}: the header Allow lists the supported methods",
    }
    answer = problem(error.status_code, told.get(error.status_code, str(error.detail)), headers=headers)
    return write(answer, request)


def _methods(request: Request) -> set[str]:
    """The methods of all routes with this path; Starlette reports only those of the first."""
    return {
        method
        for route in request.app.routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
