"""Sends one HTTP request and turns its answer into an outcome. However a receiver misbehaves, the result is an outcome
within the deadline, never an exception."""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from duly.channels.http.deadlines import Deadlines, PendingRequest
from duly.channels.http.guard import Dial, Guard, Resolver, dialling, why_none_is_free
from duly.decide.exhaustion import unreachable
from duly.decide.targets.addresses import Network
from duly.decide.targets.targets import RETRIED_STATUSES, AmbiguousHost, shown, url_in_ascii
from duly.ports import HttpAnswer, answer_listener
from duly.records.event import Delivered, Failed, Outcome, Rejected, Unreachable

log = logging.getLogger("duly")

CONNECT_TIMEOUT = 5.0
"""Seconds for a connection."""

ANSWER_TIMEOUT = 15.0
"""Seconds from connecting until the head of the answer has arrived."""

DEFAULT_TIMEOUT = timedelta(seconds=30)
"""The time for the whole request, unless the target sets another."""

MOST_READ_BYTES = 64 * 1024
"""Bytes of an answer's body that are read: the status has decided already. The connection of a longer answer is closed
and not reused."""

READ_SECONDS = 1.0
"""Seconds for which an answer's body is read, for the same reason."""

LARGE_BYTES = 256 * 1024
"""Bytes above which a request body is written in pieces."""

TRIES = 3
"""Tries within one attempt, if kept-open connections turn out to be closed."""

STALE_WITHIN = 1.0
"""Seconds in which a kept-open connection turns out to be closed. If it breaks later, the receiver failed while it
processed the request."""

SNIPPET_CHARACTERS = 300
"""Characters of an answer that are stored with a failure."""

LONGEST_PAUSE = timedelta(days=1)
"""The longest pause that a receiver can ask for with Retry-After."""

GONE = 410
"""The status of a receiver that no longer exists; it disables a stored target."""

DELIVERED = Delivered()

_CERTIFICATE_ERRORS = (aiohttp.ClientConnectorCertificateError, ssl.CertificateError)
_TLS_ERRORS = (aiohttp.ClientSSLError, ssl.SSLError)


class OutgoingRequest(msgspec.Struct, frozen=True):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    timeout: timedelta = DEFAULT_TIMEOUT
    retried: frozenset[int] = RETRIED_STATUSES


class Sender:
    """Sends requests over a shared pool of connections. It follows no redirects, and uses no proxy and no cookies."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        *,
        resolver: Any = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard, self._resolver, self._tls = Guard(allowed), resolver, tls
        self._session: aiohttp.ClientSession | None = None
        self._connecting = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        self._deadlines = Deadlines()
        self._name = f"Duly/{version('duly')}"  # read from a file; senders are made in a thread, so nothing blocks

    async def send(self, request: OutgoingRequest) -> Outcome:
        dial, total = Dial(), request.timeout.total_seconds()
        dialling.set(dial)
        underway = self._deadlines.begin(dial, ANSWER_TIMEOUT if request.timeout <= DEFAULT_TIMEOUT else total, total)
        try:
            return await self._send(request, dial, underway)
        except asyncio.CancelledError:
            if not underway.was_ended_here():
                raise
            return Failed(f"no answer within {underway.exceeded:g} s ({host_of(request.url)})", outage=True)
        finally:
            self._deadlines.end(underway)

    async def _send(self, request: OutgoingRequest, dial: Dial, underway: PendingRequest) -> Outcome:
        for tries in range(1, TRIES + 1):
            try:
                async with self._request(request) as answer:
                    self._deadlines.end(underway)
                    body = await _beginning(answer, underway.until - time.monotonic())
                    if (listener := answer_listener.get()) is not None:
                        listener(HttpAnswer(answer.status, answer.headers, body))
                    return DELIVERED if 200 <= answer.status < 300 else _refusal(answer, body, request)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # A kept-open connection that turns out to be closed is no failure of the receiver.
                late = time.monotonic() - dial.began > STALE_WITHIN
                if dial.opened or dial.refused or late or tries == TRIES:
                    return _trouble(error, request, dial)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                return _trouble(error, request, dial)
        raise AssertionError("the last try returns")

    def _request(self, request: OutgoingRequest) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._opened().request(
            request.method,
            url_in_ascii(request.url),
            data=_data(request.body),
            headers=request.headers,
            allow_redirects=False,
            timeout=self._connecting,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0,  # no limit: the worker bounds the number of concurrent requests
                ttl_dns_cache=10,
                keepalive_timeout=15,
                socket_factory=self._guard.open,
                resolver=self._resolver or Resolver(),
                ssl=self._tls or True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._name, "Accept-Encoding": "identity"},
                skip_auto_headers=["Content-Type"],  # a request with a body sets it itself
                trust_env=False,
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _data(body: bytes | None) -> bytes | BytesIO | None:
    """The body to write. A large body is written piece by piece, so that other requests can proceed in between."""
    return BytesIO(body) if body is not None and len(body) > LARGE_BYTES else body


async def _beginning(answer: aiohttp.ClientResponse, left: float) -> bytes:
    """The beginning of the answer's body, limited in bytes and to *left* seconds. An error in the body is ignored: only
    the status decides."""
    if answer.content.is_eof():
        return answer.content.read_nowait(MOST_READ_BYTES)
    read: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(min(READ_SECONDS, left)):
            while size < MOST_READ_BYTES and (chunk := await answer.content.read(MOST_READ_BYTES - size)):
                read.append(chunk)
                size += len(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        answer.close()
    return b"".join(read)


def _refusal(answer: aiohttp.ClientResponse, body: bytes, request: OutgoingRequest) -> Outcome:
    status = answer.status
    error = f"{_named(status)} from {host_of(request.url)}"
    if 300 <= status < 400:
        where = shown(answer.headers.get("Location", "nowhere"))
        error = f"{error}: redirects are not followed\nit redirects to {printable(where)}"
    elif snippet := printable(body.decode(errors="replace")):
        error = f"{error}\n{snippet}"
    if status in request.retried:
        return Failed(error, retry_after(answer.headers.get("Retry-After")), outage=True)
    return Rejected(error, gone=status == GONE)


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _trouble(error: Exception, request: OutgoingRequest, dial: Dial) -> Outcome:
    host = host_of(request.url)
    if (exhausted := dial.exhausted or _exhausted(error)) is not None:
        return exhausted
    if dial.refused and not dial.opened:
        # The outcome does not show the internal address of a name: users who name targets could map the network.
        log.warning("target.blocked host=%s reason=%r", host, ", ".join(dict.fromkeys(dial.refused)))
        return Rejected(
            f"blocked: {host} has an address in a network that is not public; to allow it, set "
            "DULY_WEBHOOK_ALLOW where the worker runs"
        )
    if isinstance(error, AmbiguousHost):  # stored before ambiguous URLs were refused
        return Rejected(f"blocked: {host}: {error}")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return Rejected(f"blocked: {shown(request.url)!r} is not a valid URL to send to: {_told(error)}")
    if (what := _what(error)) is None:
        return Failed(f"its answer is not HTTP ({host})\n{_told(error)}", outage=True)
    return Failed(f"{what} ({host})", outage=True)


def _exhausted(error: Exception) -> Unreachable | None:
    """The outcome if this machine has run out of a resource, which is no failure of the receiver; else None."""
    why = why_none_is_free() if isinstance(error, _CERTIFICATE_ERRORS) else None
    return unreachable(why or error)


def _what(error: Exception) -> str | None:
    """The error in words. None if the error repeats the receiver's answer, which may contain the payload: only the
    first line of an outcome is logged."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, TimeoutError):
        return "the operating system closed the connection after a time-out"
    if isinstance(error, _CERTIFICATE_ERRORS):
        return f"its certificate is not trusted: {_told(error)}"
    if isinstance(error, _TLS_ERRORS):
        return f"TLS failed: {_told(error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its host name cannot be resolved: {_told(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {_told(error.os_error)}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer"
    if isinstance(error, aiohttp.ClientOSError | ConnectionError):
        return f"the connection broke: {_told(error)}"
    return None


def _told(error: BaseException) -> str:
    """The message of the system or of the parser. The HTTP client's own message is not used: it contains the URL, whose
    query may be secret."""
    if isinstance(error, aiohttp.ClientResponseError):
        return printable(error.message)
    if type(error) is aiohttp.ClientOSError and error.__cause__ is not None:
        return _told(error.__cause__)
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def printable(text: str) -> str:
    """Untrusted text as one short line, without control characters that a terminal would execute."""
    line = " ".join(
        "".join(c if c.isprintable() or c.isspace() else "·" for c in text[: 4 * SNIPPET_CHARACTERS]).split()
    )
    return line if len(line) <= SNIPPET_CHARACTERS else f"{line[:SNIPPET_CHARACTERS]}…"


def retry_after(written: str | None) -> timedelta | None:
    """The pause that a Retry-After header asks for, as seconds or as a date by the receiver's clock; None if the header
    is neither."""
    if written is None:
        return None
    written = written.strip()
    try:
        if written.isascii() and written.isdigit():
            seconds = float(written[:12])
        else:
            date = parsedate_to_datetime(written)  # a date without a zone is in UTC
            seconds = (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(timedelta(), min(timedelta(seconds=min(seconds, 1e9)), LONGEST_PAUSE))
