"""About the server itself: whether it is up, what it knows, how it is described."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response

from duly.core.model import HANDLER
from duly.edges.http import examples
from duly.edges.http.answering import Answering, write
from duly.edges.http.asking import Answer, Ask
from duly.edges.http.docs_page import POLICY, docs_page
from duly.edges.http.operations import Answers, Operations
from duly.edges.http.problems import problem
from duly.edges.http.shapes import ref
from duly.errors import DulyError
from duly.observers.metrics import Metrics

operations = Operations("system")


@operations.add(
    "GET",
    "/v1/event-types",
    {200: Answers("Those that are known here", ref("EventTypes"), examples.EVENT_TYPES)},
)
async def list_event_types(ask: Ask) -> Answer:
    """List the types of events that are registered: those of users' calendars, and those that have handlers here."""
    duly = ask.own.duly
    calendar: list[Mapping[str, Any]] = [
        {"name": type.name, "source": "calendar", "depends_on": sorted(type.depends_on)} for type in duly.event_types
    ]
    prefix = f"{HANDLER}:"
    handlers = [
        {"name": lane.removeprefix(prefix), "source": "handler", "depends_on": []}
        for lane in duly.routes()
        if lane.startswith(prefix)
    ]
    return Answer({"event_types": sorted([*calendar, *handlers], key=lambda one: (one["name"], one["source"]))})


def add_routes(api: FastAPI, answering: Answering, metrics: Metrics) -> None:
    """Those that need no key: they tell nothing of anybody."""

    async def healthz(request: Request) -> Response:
        return write(Answer({"status": "alive"}), request)

    async def readyz(request: Request) -> Response:
        try:
            await answering.prepare()
            await answering.duly.store.now()
        except DulyError:
            return write(problem(503, "the database cannot be used just now"), request)
        return write(Answer({"status": "ready"}), request)

    async def figures(request: Request) -> Response:
        body, media_type = metrics.written()
        return Response(body, media_type=media_type)

    async def docs(request: Request) -> Response:
        here = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        page = docs_page(api.openapi(), here)
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    for path, endpoint in (("/healthz", healthz), ("/readyz", readyz), ("/metrics", figures), ("/docs", docs)):
        api.add_route(path, endpoint, include_in_schema=False)
