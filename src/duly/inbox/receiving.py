"""The inbox: takes the headers and body of a request, and returns its message or raises `Refused`."""

from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from duly.errors import Misuse
from duly.inbox.asgi import App, Handle, endpoint
from duly.inbox.message import Message, read_message
from duly.inbox.refusals import BadSignature, Stale, TooLarge
from duly.inbox.signatures import any_matches, key_of, sign

Headers = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"

MOST_DIGITS = 12
"""Digits of a number of seconds or bytes, at most: a longer number is not plausible."""


class InboxClock(Protocol):
    def now(self) -> datetime: ...


class Inbox:
    """Verifies deliveries with the secrets of the targets that lead here. A signature with any of the secrets is valid,
    so that a secret can be changed on one side first. A payload of Duly's is at most 1 MiB; *max_body* leaves room for
    the rest of the body."""

    def __init__(
        self,
        *secrets: str,
        tolerance: timedelta = timedelta(minutes=5),
        max_body: int = 2 * 1024 * 1024,
        clock: InboxClock | None = None,
    ) -> None:
        if not secrets:
            raise Misuse("an inbox needs the secret of the target that sends to it: Inbox('whsec_…')")
        self._keys = [key_of(secret) for secret in secrets]
        self.tolerance, self.max_body, self._clock = tolerance, max_body, clock

    def verify(self, headers: Headers, body: bytes) -> Message:
        """Returns the message if Duly signed exactly these bytes within the tolerance. Raises `Refused`, whose
        ``status`` is the HTTP status to answer with."""
        body = _as_it_came(body)
        self._refuse_longer(len(body))
        given = _signing(_pairs(headers))
        expected = [sign(key, given[ID], given[TIMESTAMP], body) for key in self._keys]
        if not any_matches(given[SIGNATURE].split(), expected):
            raise BadSignature(
                "no signature matches: the secret here is not the target's secret, or a proxy has changed "
                "the request. Fix the cause, then replay the event."
            )
        self._refuse_stale(int(given[TIMESTAMP]))
        return read_message(given[ID], body)

    async def receive(self, headers: Headers, parts: AsyncIterable[bytes]) -> Message:
        """Verifies a request whose body is still arriving, and reads at most *max_body* bytes of it."""
        known = _pairs(headers)
        _signing(known)  # raises at once if the signature's headers are missing
        for name, value in known:
            if name == "content-length" and _is_number(value):
                self._refuse_longer(int(value))
        body = bytearray()
        async for part in parts:
            body += part
            self._refuse_longer(len(body))
        return self.verify(known, bytes(body))

    def asgi(self, handle: Handle) -> App:
        """An ASGI application that calls *handle* with each verified message. It answers 204 when *handle* returns, and
        the refusal's status when the delivery is refused. An exception of *handle* becomes the server's 500, and Duly
        retries. A plain ``def`` runs in a thread."""
        return endpoint(self.receive, handle)

    def sign(self, id: str, body: bytes) -> dict[str, str]:
        """The headers that Duly would send with *body*, for the tests of a receiver."""
        timestamp = str(int(self._now().timestamp()))
        signatures = " ".join(sign(key, id, timestamp, body) for key in self._keys)
        return {ID: id, TIMESTAMP: timestamp, SIGNATURE: signatures}

    def _refuse_longer(self, length: int) -> None:
        if length > self.max_body:
            raise TooLarge(f"the body has more than {self.max_body} bytes, the maximum of this receiver")

    def _refuse_stale(self, seconds: int) -> None:
        age = int(self._now().timestamp()) - seconds
        if abs(age) > self.tolerance.total_seconds():
            when = f"{age} seconds ago" if age > 0 else f"{-age} seconds from now"
            raise Stale(
                f"it was signed {when}, but only {self.tolerance} is allowed: check the clocks of sender and receiver"
            )

    def _now(self) -> datetime:
        return self._clock.now() if self._clock else datetime.now(UTC)


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    """The headers with lower-case names: HTTP/2 sends lower case, and Django capitalizes."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(_text(name).lower(), _text(value).strip(" \t")) for name, value in pairs]


def _signing(headers: list[tuple[str, str]]) -> dict[str, str]:
    """The three headers of the signature. Raises `BadSignature` unless each occurs once, in the form Duly sends."""
    found: dict[str, str] = {}
    for wanted in (ID, TIMESTAMP, SIGNATURE):
        values = [value for name, value in headers if name == wanted]
        if not any(values):
            raise BadSignature(
                f"the request has no {wanted}: it is not from Duly, Duly has no secret for it, or a proxy "
                "has removed the header"
            )
        if len(values) > 1 or not (values[0].isascii() and values[0].isprintable()):
            raise BadSignature(f"the request has a {wanted} that Duly never sends, or more than one")
        found[wanted] = values[0]
    if not _is_number(found[TIMESTAMP]):
        raise BadSignature(f"the request's {TIMESTAMP} is not a number of seconds since 1970")
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def _as_it_came(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise Misuse(
        f"verify got a {type(body).__name__} as the body: pass the bytes of the body unchanged, because "
        "Duly signed exactly these bytes. A body that was parsed and written again usually differs."
    )


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
