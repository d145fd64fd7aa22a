"""The middleware around every request: a request id, security headers, a log line, and metrics."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from urllib.parse import unquote

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duly.api.protocol.problems import BUG, MEDIA_TYPE, problem, without_message
from duly.api.protocol.request import SLASH
from duly.ids import new_id
from duly.observers.logs import Line

log = logging.getLogger("duly.http")

SAFETY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

RAW_SAFETY = {name.lower().encode(): value.encode() for name, value in SAFETY.items()}
HTTPS = {b"strict-transport-security": b"max-age=31536000"}

CLIENT_CLOSED_REQUEST = 499
"""The status, in metrics and in the log, of a request that ended before it was answered: the client disconnected, or
the server was stopped."""

_ID = re.compile(rb"[\w.:/+=@-]{1,100}")
_SLASH = re.compile(rb"%2f", re.IGNORECASE)

Told = Callable[[str, str, int, float], None]
RawHeader = tuple[bytes, bytes]


def _nobody(_method: str, _route: str, _status: int, _seconds: float) -> None:
    """Ignores a request: there are no metrics."""


class Middleware:
    """The outermost layer. *told* is called for each request with its method, route, status and seconds."""

    def __init__(self, app: ASGIApp, told: Told = _nobody) -> None:
        self._app, self._told = app, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = id
        _keep_slashes(scope)
        status, begun = 500, False

        async def send_on(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = _with_safety(message["headers"], id, https=scope.get("scheme") == "https")
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except asyncio.CancelledError:
            status = status if begun else CLIENT_CLOSED_REQUEST
            raise
        except Exception as error:
            log.error(Line("request.failed", {"request": id, "error": without_message(error)}))
            if begun:
                raise  # a half-sent answer cannot be replaced; the server closes the connection
            await write_problem(id)(scope, receive, send_on)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "-")
            self._told(scope["method"] if scope.get("route") else "-", route, status, seconds)
            _log(scope, id, route, status, seconds)


def _with_safety(given: Iterable[RawHeader], id: str, *, https: bool) -> list[RawHeader]:
    """The headers of an answer, with the security headers that it does not set itself."""
    headers = [header for header in given if header[0] != b"x-request-id"]
    said = {name for name, _ in headers}
    headers.append((b"x-request-id", id.encode()))
    for wanted in (RAW_SAFETY, HTTPS) if https else (RAW_SAFETY,):
        headers += [header for header in wanted.items() if header[0] not in said]
    return headers


def write_problem(id: str) -> Response:
    body = {**problem(500, BUG).body, "request_id": id}
    return Response(msgspec.json.encode(body), 500, media_type=MEDIA_TYPE)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value):
            return str(value.decode())
    return new_id()


def _keep_slashes(scope: Scope) -> None:
    """Keeps an encoded slash in a name apart from the slashes of the path: the server has decoded both to the same
    character."""
    raw = scope.get("raw_path") or b""
    if _SLASH.search(raw):
        kept = _SLASH.sub(SLASH.encode(), raw.partition(b"?")[0])
        scope["path"] = unquote(kept.decode("latin-1").encode("latin-1"))


def _log(scope: Scope, id: str, route: str, status: int, seconds: float) -> None:
    """Logs an answered request. Logs the route, not the path, because names and keys in a path may be private.
    Successful reads are logged at DEBUG."""
    level = (
        logging.ERROR if status >= 500 else logging.DEBUG if status < 400 and scope["method"] == "GET" else logging.INFO
    )
    if not log.isEnabledFor(level):
        return
    caller = scope["state"].get("caller")
    who = {} if caller is None else {"tenant": caller.tenant, "by": caller.key or caller.name}
    facts = {"request": id, "method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 2)}
    log.log(level, Line("request.answered", {**facts, **who}))
