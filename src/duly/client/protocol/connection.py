"""Sends requests to a server, and retries where that can help: after a lost connection, a 503 or a 429, until the
deadline.

A retry is the same request under the same Idempotency-Key: a server that has carried it out already only repeats its
answer.
"""

import asyncio
import io
import random
import ssl
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from duly.backoff import Backoff
from duly.client.protocol.answers import RENAMED, Reply, error_of, misunderstood, named
from duly.decide.checks import name_problems
from duly.errors import DulyError, Invalid, Misuse, Problem, ServerUnavailable
from duly.extras import install
from duly.ids import new_id

if TYPE_CHECKING:
    import aiohttp

INSTALL = install("client")
CONNECT_TIMEOUT_S = 10.0
"""Seconds to open a TCP connection."""

FIRST_RETRY_WAIT_S = 0.1
"""Seconds before the second attempt."""

LONGEST_RETRY_WAIT_S = 5.0
"""Seconds between attempts, at most, unless the server's Retry-After says more."""

STREAMED_FROM_BYTES = 256 * 1024
"""Bytes; a larger body is sent piece by piece."""

LARGEST_BULK_BYTES = 8 * 1024 * 1024
"""Bytes of a request with many timers or users; the server takes twice as many."""

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses after which a request is retried."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reads(Protocol[T_co]):
    """A reader of answers: the JSON form of a record or of a page, or a decoder."""

    def decode(self, written: bytes, /) -> T_co: ...


class ConnectionLost(NamedTuple):
    """The failure of an attempt without a complete answer."""

    reason: str
    hopeless: bool = False  # a retry would not help


class ClientRequest(NamedTuple):
    method: str
    url: str
    body: bytes | None
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.headers["X-Request-Id"]


class ServerConnection:
    """The connection to one server, as one caller. Its TCP connections are kept and reused."""

    def __init__(
        self, url: str, key: str | None, tenant: str | None, timeout: float, tls: ssl.SSLContext | None
    ) -> None:
        self.url, self.tenant, self.timeout = _address(url), _tenant(tenant), timeout
        self._headers = _headers(key, tenant)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        try:
            import aiohttp
        except ImportError:
            raise Misuse(f"packages that duly.client needs are not installed: {INSTALL}") from None
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            connector=aiohttp.TCPConnector(ssl=True if self._tls is None else self._tls),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        reads: Reads[T],
        query: Mapping[str, str] | None = None,
        once: bool = False,
        headers: Mapping[str, str] | None = None,
        patience: float = 0.0,
        renamed: Mapping[str, str] = RENAMED,
    ) -> T:
        """Sends a request and returns the decoded answer. *once* adds an Idempotency-Key; *patience* is how many
        seconds longer than usual the answer may take."""
        answer, request = await self.answer(
            method, path, body, query=query, once=once, headers=headers, patience=patience, renamed=renamed
        )
        try:
            return reads.decode(answer.body)
        except (msgspec.DecodeError, ValueError, Invalid) as error:
            raise misunderstood(answer, error, request.id) from None

    async def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        once: bool = False,
        headers: Mapping[str, str] | None = None,
        patience: float = 0.0,
        renamed: Mapping[str, str] = RENAMED,
    ) -> tuple[Reply, ClientRequest]:
        id = new_id()
        sent = {"X-Request-Id": id, **(headers or {})}
        if once:
            sent["Idempotency-Key"] = id
        if body is not None:
            sent["Content-Type"] = "application/json"
        url = self.url + path + (f"?{urlencode(query, quote_via=quote, safe='')}" if query else "")
        request = ClientRequest(method, url, None if body is None else _encode(body), sent)
        answer = await self._persist(request, self.timeout + patience)
        if (error := error_of(answer, id, renamed)) is not None:
            raise error
        return answer, request

    async def _persist(self, request: ClientRequest, seconds: float) -> Reply:
        deadline = time.monotonic() + seconds
        backoff = Backoff(FIRST_RETRY_WAIT_S, LONGEST_RETRY_WAIT_S, spread=random.uniform)
        turn, unsure = 0, False
        while True:
            got = await self._try(request, deadline - time.monotonic())
            if isinstance(got, Reply) and got.status not in RETRIED_STATUSES:
                return got
            turn += 1
            unsure = unsure or _may_be_done(got, request)
            wait = _wanted(got) + backoff.next()
            hopeless = isinstance(got, ConnectionLost) and got.hopeless
            if hopeless or time.monotonic() + wait >= deadline:
                raise self._unavailable(got, request, turn, unsure)
            await asyncio.sleep(wait)

    async def _try(self, request: ClientRequest, seconds: float) -> Reply | ConnectionLost:
        """Makes one attempt. aiohttp's exceptions end here, because some of them contain the request, and so the API
        key."""
        import aiohttp
        from yarl import URL

        session = self._session
        if session is None:
            raise Misuse("this Client is not open: use `async with Client(…) as duly:` around your calls")
        try:
            async with (
                asyncio.timeout(seconds),
                session.request(
                    request.method,
                    URL(request.url, encoded=True),
                    data=_sent(request.body),
                    headers=request.headers,
                    allow_redirects=False,
                ) as response,
            ):
                return Reply(response.status, await response.read(), response.headers)
        except aiohttp.ClientConnectorCertificateError as error:
            lost = ConnectionLost(f"its certificate is not trusted: {error.certificate_error}", hopeless=True)
        except aiohttp.ClientSSLError as error:
            lost = ConnectionLost(f"no secure connection: {type(error).__name__}", hopeless=True)
        except aiohttp.ClientConnectorError as error:
            lost = ConnectionLost(f"no connection: {error.os_error.strerror or error.os_error}")
        except aiohttp.ClientError as error:
            lost = ConnectionLost(f"the connection was lost ({type(error).__name__})")
        except TimeoutError:
            lost = ConnectionLost("no answer in time")
        except OSError as error:
            lost = ConnectionLost(f"no connection: {error.strerror or type(error).__name__}")
        return lost

    def _unavailable(self, got: Reply | ConnectionLost, request: ClientRequest, turns: int, unsure: bool) -> DulyError:
        """The error for the last failed attempt. *unsure* is about all attempts: the last answer speaks only for its
        own."""
        if isinstance(got, ConnectionLost):
            told = got.reason
        else:
            error = error_of(got, request.id, {})
            told = f"answered {got.status}" + (f": {error}" if error is not None else "")
            told = told.replace(f" (request {got.request_id or request.id})", "")
        tries = "1 attempt" if turns == 1 else f"{turns} attempts"
        says_so = isinstance(got, Reply) and got.is_uncertain
        doubt = "; it may have been carried out nevertheless" if unsure and not says_so else ""
        answered = got.request_id if isinstance(got, Reply) else None
        return named(ServerUnavailable(f"{self.url}: {told}, after {tries}{doubt}"), answered or request.id)


def _may_be_done(got: Reply | ConnectionLost, request: ClientRequest) -> bool:
    """Whether the server may have carried the request out, although no good answer arrived."""
    if request.method == "GET":
        return False
    if isinstance(got, ConnectionLost):
        return not got.hopeless
    return got.status in (502, 504) or got.is_uncertain


def _sent(body: bytes | None) -> bytes | io.BytesIO | None:
    """The body; a large one as a stream, sent piece by piece, so that other tasks of the event loop get their turn."""
    return body if body is None or len(body) <= STREAMED_FROM_BYTES else io.BytesIO(body)


def place(*parts: str) -> str:
    """A path below /v1. A name may be any text, so all of its special characters are encoded."""
    return "/v1/" + "/".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _wanted(got: Reply | ConnectionLost) -> float:
    """Seconds from the server's Retry-After; the next attempt comes no sooner."""
    wanted = got.headers.get("Retry-After", "") if isinstance(got, Reply) else ""
    return float(wanted) if wanted.isdecimal() and len(wanted) < 6 else 0.0


def _encode(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid([Problem("body", f"cannot be encoded as JSON: {error}")]) from None


def _address(url: Any) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        known = False
    if not known or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
        raise Misuse("a Client needs the address of a server, such as https://duly.example, and the key as key=")
    return str(url).rstrip("/")


def _tenant(tenant: str | None) -> str | None:
    if tenant is not None and (problems := name_problems("tenant", tenant)):
        raise Invalid(problems)
    return tenant


def _headers(key: str | None, tenant: str | None) -> dict[str, str]:
    try:
        known = f"duly-client/{version('duly')}"
    except PackageNotFoundError:
        known = "duly-client"
    headers = {"User-Agent": known, "Accept": "application/json"}
    if key is not None:
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key.strip():
            raise Misuse("key= is not an API key: API keys begin with duly_; create one with `duly keys create`")
        headers["Authorization"] = f"Bearer {key.strip()}"
    if tenant is not None:
        headers["Duly-Tenant"] = tenant
    return headers
