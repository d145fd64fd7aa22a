"""Webhook and HTTP targets: how they are written, read and checked. Pure: no access to the network."""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

from duly.errors import Problem
from duly.values.durations import EXAMPLES, format_duration, parse_duration
from duly.values.numbers import as_whole

WEBHOOK = "webhook"
HTTP = "http"

FORMATS = ("standard", "cloudevents")

TIMEOUTS = timedelta(milliseconds=100), timedelta(minutes=5)
"""The shortest and the longest timeout of a request."""

LONGEST_URL = 2000
"""Characters of a URL, at most."""

MOST_HEADERS = 50

LONGEST_NAME = 200
"""Characters of a header's name, at most."""

LONGEST_HEADER = 8000
"""Characters of a header's value, at most."""

OURS = frozenset(
    "host connection content-length transfer-encoding upgrade te trailer proxy-authorization proxy-connection "
    "keep-alive expect".split()
)
"""Headers that the connection sets, and that a target must not set."""

SAID = frozenset("content-type webhook-id webhook-timestamp webhook-signature idempotency-key".split())
"""Headers that every webhook sends."""

RETRIED_STATUSES = frozenset({401, 403, 404, 408, 425, 429, *range(500, 600)})
"""Statuses after which a delivery is retried, and which count towards parking, unless an HTTP target sets others. 401,
403 and 404 are among them because a bad deploy of the receiver answers with them for some minutes, to every event."""

STATUSES = 100, 599
"""The least and the greatest status of an answer."""

MOST_STATUSES = 400
"""Statuses in ``retry_statuses``, at most: all that there are, except 2xx."""

KNOWN = {
    WEBHOOK: ("url", "target", "format", "timeout"),
    HTTP: ("method", "url", "target", "headers", "body", "timeout", "retry_statuses"),
}
"""The fields of each channel's targets."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD = re.compile(r"(?!CONNECT$|TRACE$)[A-Z]{1,20}")  # CONNECT and TRACE concern the connection, and deliver nothing


def webhook(
    url: str | None = None,
    *,
    target: str | None = None,
    format: str | None = None,
    timeout: timedelta | str | None = None,
) -> dict[str, Any]:
    """Deliver as a signed webhook: to a URL, or to the *target* that is stored under a name.

    >>> webhook("https://example.com/hook")
    {'webhook': 'https://example.com/hook'}
    """
    said = {"url": url, "target": target, "format": format, "timeout": _written(timeout)}
    given = {name: value for name, value in said.items() if value is not None}
    return {WEBHOOK: url if set(given) == {"url"} else given}


def http(
    method: str | None = None,
    url: str | None = None,
    *,
    target: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: timedelta | str | None = None,
    retry_statuses: Collection[int] | None = None,
    **body: Any,
) -> dict[str, Any]:
    """Send any request: ``http("PUT", "https://…", headers={…}, body={…})``. Without a body, the event's payload is
    sent where the method has one. *retry_statuses* are the only statuses that are retried; without them, 401, 403, 404,
    408, 425, 429 and 5xx are."""
    if unknown := sorted(set(body) - {"body"}):
        known = "method, url, target, headers, timeout, retry_statuses, body"
        raise TypeError(f"http() has no option {unknown[0]!r}; known: {known}")
    said = {
        "method": method,
        "url": url,
        "target": target,
        "headers": headers,
        "timeout": _written(timeout),
        "retry_statuses": listed_statuses(retry_statuses),
    }
    return {HTTP: {name: value for name, value in said.items() if value is not None} | body}


def _written(span: timedelta | str | None) -> str | None:
    return format_duration(span) if isinstance(span, timedelta) else span


def listed_statuses(given: Any) -> Any:
    """Statuses in any kind of collection as a list; what is no collection stays, for the checks to name."""
    if isinstance(given, set | frozenset):
        return sorted(given, key=str)
    return list(given) if isinstance(given, tuple | range) else given


# -- reading


def named(target: Any) -> tuple[str, str] | None:
    """The channel and name of a stored target; None for a target with a URL of its own."""
    if isinstance(target, dict) and len(target) == 1:
        [(channel, spec)] = target.items()
        if channel in (WEBHOOK, HTTP) and isinstance(spec, dict) and isinstance(spec.get("target"), str):
            return channel, spec["target"]
    return None


def url_of(target: Any) -> str | None:
    """The URL of a target that is not stored."""
    if isinstance(target, dict) and len(target) == 1:
        [(channel, spec)] = target.items()
        url = spec.get("url") if isinstance(spec, dict) else spec
        if channel in (WEBHOOK, HTTP) and isinstance(url, str):
            return url
    return None


def destination_of(target: Any) -> str | None:
    """The destination that limits apply to: the name of a stored target, or the origin of a URL. None for channels
    without destinations."""
    if target is None:
        return None
    if (stored := named(target)) is not None:
        return stored[1]
    url = url_of(target)
    return None if url is None else origin_of(url)


AMBIGUOUS = "has a host name with two meanings (IDNA 2003 and IDNA 2008): write it in the form xn--…"
AMBIGUOUS_CHARACTERS = re.compile("[ß\u1e9e\u03c2\u200c\u200d]")
"""Characters that IDNA 2003, built into Python, turns into ss, a plain sigma or nothing, while IDNA 2008, used by HTTP
clients, keeps them. So a webhook to straße.example was signed for strasse.example and sent to xn--strae-oqa.example,
which may belong to somebody else."""


class AmbiguousHost(ValueError):
    """A host name that means two different hosts."""


@lru_cache(maxsize=4096)
def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in normal form. Names of stored targets never look like an origin.

    >>> origin_of("HTTPS://Hooks.Example:443/in?x=1")
    'https://hooks.example'
    """
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else _in_ascii(name)
    return f"{parts.scheme}://{host}" if parts.port in (None, usual) else f"{parts.scheme}://{host}:{parts.port}"


def _in_ascii(name: str) -> str:
    """A host name as DNS queries use it."""
    return name if name.isascii() else name.encode("idna").decode()


def url_in_ascii(url: str) -> str:
    """The URL with its host written as in its origin, so that the signature and the connection are for the same host.
    Raises AmbiguousHost where they would differ.

    >>> url_in_ascii("https://Bücher.example:8443/in?x=1")
    'https://xn--bcher-kva.example:8443/in?x=1'
    """
    parts = urlsplit(url)
    name = parts.hostname or ""
    if name.isascii():
        return url
    if AMBIGUOUS_CHARACTERS.search(name):
        raise AmbiguousHost(f"it {AMBIGUOUS}")
    port = "" if parts.port is None else f":{parts.port}"
    return parts._replace(netloc=_in_ascii(name) + port).geturl()


def waits_for(destination: str) -> str:
    """The beginning of the hold reason of an event whose destination is parked."""
    return f"target {destination} "


def parked_alone(url: str) -> str:
    """The name of a parked single URL; it always differs from the name of its origin.

    >>> parked_alone("https://Hooks.Example"), parked_alone("https://hooks.example/in?token=1")
    ('https://hooks.example/', 'https://hooks.example/in')
    """
    return f"{origin_of(url)}{urlsplit(url).path or '/'}"


def parked_as(written: str) -> str:
    """The name of a parked destination from a URL that a person wrote: without a path, it means the whole origin."""
    return parked_alone(written) if urlsplit(written).path else origin_of(written)


def whose_events(parked: str) -> str:
    """The destination of the events that wait for a parked target or URL; for a single URL, that is its origin."""
    return origin_of(parked) if "://" in parked else parked


# -- checking


def spec_problems(channel: str, spec: Any) -> Iterator[Problem]:
    """All problems of a webhook or HTTP target."""
    path = f"target.{channel}"
    if channel == WEBHOOK and isinstance(spec, str):
        yield from url_problems(path, spec)
        return
    if not isinstance(spec, dict):
        expected = "a URL or an object" if channel == WEBHOOK else "an object with method and url"
        yield Problem(path, f"expected {expected}, not {type(spec).__name__}")
        return
    known = KNOWN[channel]
    if unknown := sorted(str(name) for name in set(spec) - set(known)):
        yield Problem(f"{path}.{unknown[0]:.50}", f"is not known; known: {', '.join(known)}")
    if ("url" in spec) == ("target" in spec):
        yield Problem(path, "needs either url or target (the name of a stored target)")
    if "target" in spec:
        yield from _named_problems(path, channel, spec)
    elif "url" in spec:
        yield from url_problems(f"{path}.url", spec["url"])
    yield from request_problems(path, spec, known)


def _named_problems(path: str, channel: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    yield from target_name_problems(f"{path}.target", spec["target"])
    allowed = {"target", "body"} if channel == HTTP else {"target"}
    if more := sorted(str(name) for name in set(spec) - allowed - {"url"}):
        yield Problem(f"{path}.{more[0]:.50}", "is set in the stored target: change it there")


def request_problems(path: str, spec: Mapping[str, Any], known: Collection[str]) -> Iterator[Problem]:
    """The problems with a target's method, format, timeout, headers and retried statuses. What is not *known* is named
    elsewhere."""
    if "method" in spec and not (isinstance(spec["method"], str) and _METHOD.fullmatch(spec["method"])):
        yield Problem(f"{path}.method", f"expected a method such as POST, not {spec['method']!r:.50}")
    if spec.get("format", FORMATS[0]) not in FORMATS:
        yield Problem(f"{path}.format", f"expected one of {', '.join(FORMATS)}, not {spec['format']!r:.50}")
    if "timeout" in spec:
        yield from _timeout_problems(f"{path}.timeout", spec["timeout"])
    if "headers" in spec:
        yield from header_problems(f"{path}.headers", spec["headers"])
    if "retry_statuses" in spec and "retry_statuses" in known:
        yield from _status_problems(f"{path}.retry_statuses", spec["retry_statuses"])


def url_problems(path: str, url: Any) -> Iterator[Problem]:
    if not isinstance(url, str):
        yield Problem(path, f"expected a URL, not {type(url).__name__}")
        return
    if len(url) > LONGEST_URL:
        yield Problem(path, f"has {len(url):,} characters; at most {LONGEST_URL:,}")
        return
    if any(c.isspace() or not c.isprintable() for c in url):
        yield Problem(path, "has a space or a character that cannot be printed")
        return
    try:
        problem = _part_problem(urlsplit(url))
    except ValueError:  # its message may repeat credentials in the URL
        problem = "cannot be read as a URL"
    if problem:
        yield Problem(path, f"{shown(url)!r:.120} {problem}")


def _part_problem(parts: SplitResult) -> str | None:
    if parts.scheme not in ("http", "https"):
        return "is not an http or https URL"
    if not parts.hostname:
        return "has no host"
    if parts.username is not None or parts.password is not None:
        return (
            "contains credentials, which would be visible wherever the URL is shown: send them in a "
            "header of a stored target"
        )
    if "\\" in parts.netloc:
        return "has a backslash in its host, which programs interpret differently: remove it"
    if parts.fragment:
        return "has a fragment (#…), which is never sent"
    try:
        if parts.port == 0:
            return "has the port 0"
    except ValueError:
        return "has an invalid port: expected a number from 1 to 65535"
    return _host_problem(parts.hostname)


def _host_problem(name: str) -> str | None:
    if AMBIGUOUS_CHARACTERS.search(name):
        return AMBIGUOUS
    try:
        name.encode("idna")
    except UnicodeError:
        return "has an invalid host name"
    return None


def shown(url: str) -> str:
    """A URL without credentials and query, which may contain secrets, for messages.

    >>> shown("https://ada:secret@example.com/in?token=1")
    'https://example.com/in'
    """
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname:
            return f"{origin_of(url)}{parts.path}"
    scheme, between, rest = re.split(r"[?#]", url)[0].rpartition("://")
    return f"{scheme}{between}{rest.rpartition('@')[2]}"


def target_name_problems(path: str, name: Any) -> Iterator[Problem]:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        yield Problem(
            path, f"{name!r:.60} is not a valid target name: use 1 to 100 letters, digits, dots, dashes or underscores"
        )


def _timeout_problems(path: str, written: Any) -> Iterator[Problem]:
    least, most = TIMEOUTS
    try:
        span = parse_duration(written)
    except (ValueError, AttributeError, TypeError):
        yield Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")
        return
    if not least <= span <= most:
        yield Problem(path, f"must be from {format_duration(least)} to {format_duration(most)}, not {written!r:.50}")


def _status_problems(path: str, given: Any) -> Iterator[Problem]:
    least, most = STATUSES
    if not isinstance(given, list):
        yield Problem(path, f"expected a list of statuses such as [404, 409], not {given!r:.50}")
        return
    if len(given) > MOST_STATUSES:
        yield Problem(path, f"has {len(given):,} statuses; at most {MOST_STATUSES}")
        return
    for index, one in enumerate(given):
        status = as_whole(one)
        if type(status) is not int or not least <= status <= most:
            yield Problem(f"{path}[{index}]", f"expected a whole number from {least} to {most}, not {one!r:.50}")
        elif 200 <= status < 300:
            yield Problem(f"{path}[{index}]", f"{status} means success: no 2xx status can be retried")


def header_problems(path: str, headers: Any) -> Iterator[Problem]:
    if not isinstance(headers, dict):
        yield Problem(path, f"expected an object with names and values, not {type(headers).__name__}")
        return
    if len(headers) > MOST_HEADERS:
        yield Problem(path, f"has {len(headers)} headers; at most {MOST_HEADERS}")
    seen: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name) or len(name) > LONGEST_NAME:
            yield Problem(path, f"{name!r:.50} is not a valid header name")
        elif name.lower() in seen:
            yield Problem(f"{path}.{name}", "is given twice: upper and lower case make no difference in header names")
        elif name.lower() in OURS:
            yield Problem(f"{path}.{name}", "is set by the connection and cannot be given")
        elif not isinstance(value, str):
            yield Problem(f"{path}.{name}", f"expected text, not {type(value).__name__}")
        elif len(value) > LONGEST_HEADER or not all(c == "\t" or " " <= c <= "~" for c in value):
            yield Problem(f"{path}.{name}", f"must be at most {LONGEST_HEADER:,} characters of printable ASCII")
        seen.add(str(name).lower())
