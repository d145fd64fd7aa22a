"""The address that a request comes from, also through proxies: a proxy is trusted only if the settings name it."""

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import Request

from duly.decide.targets.addresses import Address, Network, innermost
from duly.errors import Forbidden

HEADERS = frozenset(
    """
    cdn-loop client-ip fastly-client-ip fastly-ff forwarded forwarded-for forwarded-for-ip front-end-https
    proxy-authorization proxy-connection true-client-ip via wl-proxy-client-ip x-amz-cf-id x-amzn-trace-id x-arr-log-id
    x-arr-ssl x-client-ip x-client-proto x-cluster-client-ip x-coming-from x-forwarded x-from-proxy x-http-forwarded-for
    x-nf-client-connection-ip x-originating-ip x-proxy-id x-proxyuser-ip x-real-ip x-real-port x-remote-addr x-remote-ip
    x-remote-port x-request-start x-scheme x-true-client-ip x-url-scheme x-varnish
    """.split()
)
"""Headers that proxies, load balancers and CDNs add to requests."""

FAMILIES = (
    "akamai-",
    "cf-",
    "fly-",
    "ngrok-",
    "tailscale-",
    "x-accel-",
    "x-appengine-",
    "x-azure-",
    "x-envoy-",
    "x-forwarded-",
    "x-haproxy-",
    "x-original-",
    "x-rewrite-",
    "x-vercel-",
)
"""Prefixes of further such headers."""

KEY_FIRST = (
    "until there is an API key, only direct requests from this machine are served: create a key with `duly "
    "keys create`, and send it in the header Authorization: Bearer …"
)

IPV6_CUSTOMER_BITS = 64
"""Bits of an IPv6 address that identify its owner: the owner may choose the others, and change them for every
request."""


def refuse_proxies(request: Request) -> None:
    """Refuses requests through a proxy on this machine, because they may come from anywhere. Most proxies identify
    themselves by a header or, as nginx long did, by HTTP/1.0, which no current client speaks. A proxy that does neither
    looks the same as a client."""
    through = next((name for name in request.headers if name in HEADERS or name.startswith(FAMILIES)), None)
    if through is not None:
        raise Forbidden(f"the header {through.title()} shows that this request came through a proxy, and {KEY_FIRST}")
    if request.scope.get("http_version") in ("0.9", "1.0"):
        raise Forbidden(f"this request uses HTTP/1.0, as some proxies do, and {KEY_FIRST}")


def whose_address(request: Request, trusted: Sequence[Network]) -> str:
    """The address that a request comes from; for IPv6, the network of one customer. X-Forwarded-For lists the addresses
    on the way, the nearest last: each is believed as long as the proxy that reports it is trusted."""
    address = request.client.host if request.client else ""
    told = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while told and is_trusted(address, trusted):
        if (before := _read(told.pop())) is None:
            break
        address = str(before)
    return network_of(address)


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    address = _read(peer)
    return address is not None and any(address in network for network in trusted)


def network_of(peer: str) -> str:
    """The owner of an address: the address itself, or for IPv6 the network of one customer."""
    address = _read(peer)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, IPV6_CUSTOMER_BITS), strict=False))
    return peer if address is None else str(address)


def _read(written: str) -> Address | None:
    """An address as proxies write it: with a port, in brackets, or plain."""
    text = written.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return innermost(ip_address(text.partition("%")[0]))
    except ValueError:
        return None
