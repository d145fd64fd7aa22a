"""Live updates: one query and one rendered fragment a second, for all visitors who look at the same thing."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from duly.api.protocol.problems import problem_of
from duly.dashboard.handler import NONCE_BYTES, DashboardHandler
from duly.dashboard.pages import Page
from duly.errors import DulyError

EVERY_S = 1.0
"""Seconds between two updates of what is looked at."""

QUIET_S = 15.0
"""Seconds after which a stream without news sends a comment, so that proxies do not close it."""

MOST_STREAMS = 200
"""Visitors who get live updates at the same time; others have to reload their pages."""

LONGEST_STREAM_S = 600.0
"""Seconds after which a stream ends, and the browser opens another one: so the visitor's key is checked again."""


@dataclass(slots=True)
class Watched:
    """What some visitors look at, and its latest fragment."""

    viewers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # replaced after each change
    fragment: str = ""
    number: int = 0
    task: "asyncio.Task[None] | None" = None

    async def newer_than(self, seen: int) -> None:
        """Waits for a fragment newer than the one with this number, at most QUIET_S."""
        if self.number == seen:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), QUIET_S)

    def show(self, fragment: str) -> None:
        """Takes the present fragment, and wakes those who look if it is another one."""
        if fragment != self.fragment:
            self.fragment, self.number = fragment, self.number + 1
            self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass(frozen=True, slots=True)
class LiveKey:
    """What visitors have in common who get the same fragment."""

    tenant: str
    scope: str
    sees_system: bool
    zone: str
    address: str


class LivePages:
    """Renders what somebody looks at, and sends it to all who look at it."""

    def __init__(self, handler: DashboardHandler, pages: Iterable[Page]) -> None:
        self._handler = handler
        self._pages = [(page, Route(page.path, _never)) for page in pages if page.method == "GET"]
        self._watched: dict[LiveKey, Watched] = {}
        self._streams = 0
        self._over = False

    def end(self) -> None:
        """Ends all streams, because the server stops. Browsers connect again, to whoever serves then."""
        self._over = True
        for watched in self._watched.values():
            watched.wake()

    async def respond(self, request: Request) -> Response:
        """A stream of server-sent events with the live part of the page ``?page=``."""
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        found = self._find(request.query_params.get("page", ""))
        if found is None:
            return Response("there is no such page", 404, media_type="text/plain")
        if self._streams >= MOST_STREAMS:
            return Response("too many live pages are open: reload by hand", 503, media_type="text/plain")
        page, scope = found
        visited = Request({**request.scope, **scope})
        try:
            first = await self._handler.rendered_live(page, visited)
        except DulyError as error:
            return Response(str(error), problem_of(error).status, media_type="text/plain")
        key = LiveKey(first.tenant, first.scope, first.sees_system, first.zone, request.query_params["page"])
        stream = self._stream(key, page, visited)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return self._handler.finished(
            StreamingResponse(stream, media_type="text/event-stream", headers=headers), request, nonce
        )

    def _find(self, address: str) -> tuple[Page, dict[str, object]] | None:
        split = urlsplit(address)
        if split.scheme or split.netloc or not address.startswith("/"):
            return None
        query = [*parse_qsl(split.query), ("live", "1")]
        scope = {"type": "http", "method": "GET", "path": unquote(split.path), "root_path": ""}
        for page, route in self._pages:
            matched, found = route.matches(scope)
            if matched is Match.FULL:
                raw = urlencode(query).encode()
                return page, {"query_string": raw, "path_params": found["path_params"], "live": True}
        return None

    async def _stream(self, key: LiveKey, page: Page, visited: Request) -> AsyncIterator[str]:
        watched = self._watched.setdefault(key, Watched())
        watched.viewers += 1
        self._streams += 1
        if watched.task is None:
            watched.task = asyncio.create_task(self._keep_rendering(watched, page, visited))
        seen, ends = 0, asyncio.get_running_loop().time() + LONGEST_STREAM_S
        try:
            yield "retry: 2000\n\n"
            while not self._over and asyncio.get_running_loop().time() < ends:
                await watched.newer_than(seen)
                if not await self._handler.may_still_look(visited):
                    return
                if watched.number == seen:
                    yield ": nothing new\n\n"
                else:
                    seen = watched.number
                    yield _event(watched.fragment)
        finally:
            self._streams -= 1
            watched.viewers -= 1
            if not watched.viewers:
                self._watched.pop(key, None)
                if watched.task is not None:
                    watched.task.cancel()

    async def _keep_rendering(self, watched: Watched, page: Page, visited: Request) -> None:
        while watched.viewers:
            with contextlib.suppress(DulyError):  # the visitors keep what they see, and their sessions are checked
                watched.show((await self._handler.rendered_live(page, visited)).html)
            await asyncio.sleep(EVERY_S)


def _event(fragment: str) -> str:
    return "event: live\n" + "".join(f"data: {line}\n" for line in fragment.splitlines()) + "\n"


async def _never(request: Request) -> Response:
    raise AssertionError(f"{request.url.path} is only matched")
