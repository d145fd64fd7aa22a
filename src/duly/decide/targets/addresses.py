"""The IP addresses that a request may go to. Any tenant can name a target, and workers run inside a private network."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Written out, because ipaddress.is_private and is_global differ between Python versions.
CLOSED: dict[Network, str] = {
    ip_network(network): what
    for network, what in {
        "0.0.0.0/8": "this host",
        "10.0.0.0/8": "a private network",
        "100.64.0.0/10": "a carrier's own network",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "a cloud's credentials service",
        "169.254.0.0/16": "link-local, used by clouds' credentials services",
        "172.16.0.0/12": "a private network",
        "192.0.0.0/24": "reserved for protocols",
        "192.0.2.0/24": "for documentation",
        "192.31.196.0/24": "an anycast sink",
        "192.52.193.0/24": "for multicast relays",
        "192.88.99.0/24": "a 6to4 relay",
        "192.168.0.0/16": "a private network",
        "192.175.48.0/24": "an anycast sink",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "2001::/23": "reserved for protocols",  # Teredo and ORCHID among them
        "2001:db8::/32": "for documentation",
        "2620:4f:8000::/48": "an anycast sink",
        "3fff::/20": "for documentation",
    }.items()
}

PUBLIC_V6 = ip_network("2000::/3")
"""Every other IPv6 address is loopback, link-local, unique local, multicast or unassigned."""

# Networks whose addresses embed an IPv4 address:
_MAPPED = ip_network("::ffff:0:0/96")
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")
_NAT64 = ip_network("64:ff9b::/96")
_6TO4 = ip_network("2002::/16")


def read_networks(written: str) -> list[Network]:
    """Reads networks separated by commas; raises ValueError for text that is not a network.

    >>> read_networks("10.0.0.0/8, ::1")
    [IPv4Network('10.0.0.0/8'), IPv6Network('::1/128')]
    """
    return [ip_network(part.strip()) for part in written.split(",") if part.strip()]


def refusal(written: str, allowed: Sequence[Network] = ()) -> str | None:
    """Why requests to this address are refused; None if they are allowed. An IPv4 address embedded in an IPv6 address,
    as in NAT64 and 6to4, is checked as itself."""
    address = innermost(ip_address(written.partition("%")[0]))
    if any(address in network for network in allowed):
        return None
    for network, what in CLOSED.items():
        if address in network:
            return f"{address} is {what}"
    if isinstance(address, IPv6Address) and address not in PUBLIC_V6:
        return f"{address} is not a public address"
    return None


def innermost(address: Address) -> Address:
    """The IPv4 address that is embedded in an IPv6 address; without one, the address itself."""
    if isinstance(address, IPv4Address):
        return address
    number = int(address)
    if address in _6TO4:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    if any(address in network for network in (_MAPPED, _TRANSLATED, _NAT64)):
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _COMPATIBLE and number > 1:
        return IPv4Address(number & 0xFFFFFFFF)
    return address


def is_loopback(host: str | None) -> bool:
    """Whether a host name or address means the local machine."""
    if host is None:
        return False
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return innermost(ip_address(name.partition("%")[0])).is_loopback
    except ValueError:
        return False
