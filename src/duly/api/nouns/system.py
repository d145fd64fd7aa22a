"""Operations of the server itself: health, known event types, metrics, and the description of the API."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from duly.api.description import examples
from duly.api.description.docs_page import POLICY, docs_page
from duly.api.description.operations import DescribedResponse, OpenOperation
from duly.api.description.schema_words import choice
from duly.api.protocol.handler import RequestHandler, write
from duly.api.protocol.problems import NO_RIGHT, RETRY_AFTER, problem
from duly.api.protocol.request import ApiResponse
from duly.errors import ApiNotReady, DulyError, RightsMissing, StoreUnavailable
from duly.observers.metrics.http import HttpMetrics
from duly.signals import StoreDown

UNAVAILABLE = "the database is not available at the moment"
READINESS_CACHED_FOR_S = 1.0
"""Seconds for which the result of the database check is cached."""


def _state(word: str) -> tuple[Mapping[str, Any], dict[str, str]]:
    return {"type": "object", "properties": {"status": choice(word)}, "required": ["status"]}, {"status": word}


OPEN = (
    OpenOperation(
        "/healthz",
        "is_alive",
        "Liveness check: tell whether the server is running.",
        {200: DescribedResponse("The server is running", *_state("alive"))},
    ),
    OpenOperation(
        "/readyz",
        "is_ready",
        "Readiness check: tell whether requests can be answered. The database must be readable and "
        "writable, and on PostgreSQL, the role of requests must be ready; this is checked at most once per second.",
        {200: DescribedResponse("Requests can be answered", *_state("ready"))},
        refuses=(503,),
    ),
    OpenOperation(
        "/metrics",
        "read_metrics",
        "Metrics, for Prometheus. They are of all tenants together: as soon as there is an API key, they need one for "
        "all tenants.",
        {
            200: DescribedResponse(
                "The metrics in Prometheus text format", {"type": "string"}, examples.METRICS, media_type="text/plain"
            )
        },
        of_all_tenants=True,
    ),
)
"""The operations that machines call. They reveal no tenant's data."""


class Readiness:
    """Whether requests can be answered. The database is checked once a second at most, however many clients ask. The
    check only reads, until a request or the worker of this process has failed to write: then it writes as well."""

    def __init__(self, answering: RequestHandler) -> None:
        self._answering = answering
        self._asking = asyncio.Lock()
        self._answers, self._asked = False, -READINESS_CACHED_FOR_S
        self._writing: asyncio.Task[None] | None = None
        answering.duly.observe(self._hear, StoreDown)

    async def now(self) -> str | None:
        """None if requests can be answered, otherwise why not."""
        try:
            await self._answering.require_ready()
        except ApiNotReady as error:
            return f"{error.found}. The server's log, and `duly doctor`, say what to do"
        except RightsMissing:
            return NO_RIGHT
        except DulyError:
            return UNAVAILABLE
        async with self._asking:
            if time.monotonic() - self._asked >= READINESS_CACHED_FOR_S:
                self._answers = await self._ask()
                self._asked = time.monotonic()
        return None if self._answers else UNAVAILABLE

    async def _ask(self) -> bool:
        try:
            await self._answering.duly.store.now()
        except DulyError:
            return False
        return not self._answering.not_writable or await self._writes_again()

    async def _writes_again(self) -> bool:
        """Whether a test write succeeds. One attempt at a time: while another process holds the lock, the attempt may
        take longer than a readiness probe waits."""
        if self._writing is None:
            self._writing = asyncio.create_task(self._answering.duly.store.try_writing())
        await asyncio.wait({self._writing}, timeout=READINESS_CACHED_FOR_S)
        if not self._writing.done():
            return False
        ended, self._writing = self._writing, None
        self._answering.not_writable = isinstance(ended.exception(), StoreUnavailable)
        return not self._answering.not_writable

    def _hear(self, signal: StoreDown) -> None:
        self._answering.not_writable |= signal.readable


def open_routes(
    openapi: Callable[[], dict[str, Any]], answering: RequestHandler, metrics: HttpMetrics
) -> Iterator[Route]:
    """The routes outside ``/v1``; they reveal no tenant's data."""
    ready = Readiness(answering)

    async def healthz(request: Request) -> Response:
        return write(ApiResponse({"status": "alive"}), request)

    async def readyz(request: Request) -> Response:
        told = await ready.now()
        if told is None:
            return write(ApiResponse({"status": "ready"}), request)
        return write(problem(503, told, headers={"Retry-After": RETRY_AFTER}), request)

    async def figures(request: Request) -> Response:
        async def answer() -> Response:
            return Response(metrics.written() + await answering.duly.metrics().text(), media_type=CONTENT_TYPE_LATEST)

        return await answering.respond_to_all_tenants(request, answer)

    async def docs(request: Request) -> Response:
        here = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        page = docs_page(openapi(), here)
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    async def description(request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        servers = {"servers": [{"url": root}]} if root else {}
        return Response(msgspec.json.encode(openapi() | servers), media_type="application/json")

    pages = {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": figures,
        "/docs": docs,
        "/openapi.json": description,
    }
    for path, endpoint in pages.items():
        yield Route(path, endpoint)
