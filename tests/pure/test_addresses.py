from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.targets.addresses import CLOSED, read_networks, refusal

IPV4_CLOSED = [str(network) for network in CLOSED if network.version == 4]

# As IANA's registries of special addresses have them, apart from what the code lists.
REGISTERED = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
240.0.0.0/4 255.255.255.255/32
::/128 ::1/128 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20 5f00::/16
fc00::/7 fe80::/10 fec0::/10 ff00::/8
""".split()

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
    *("2606:4700:4700::1111", "2001:4860:4860::8888", "2001:200::1", "2a00:1450::1", "2620:4f:7fff::1"),
]

Carries: dict[str, Callable[[object], str]] = {
    "mapped": lambda four: f"::ffff:{four}",
    "compatible": lambda four: f"::{four}",
    "translated": lambda four: f"::ffff:0:{four}",
    "NAT64": lambda four: f"64:ff9b::{four}",
    "6to4": lambda four: str(IPv6Address(0x2002 << 112 | int(IPv4Address(four)) << 80 | 1)),
}
"""How an IPv6 address can carry an IPv4 one."""


@pytest.mark.parametrize("network", REGISTERED)
def test_a_closed_network_is_closed_from_its_first_address_to_its_last(network: str) -> None:
    inside = ip_network(network)
    for address in (inside[0], inside[-1], inside[inside.num_addresses // 2]):
        assert refusal(str(address)) is not None, address


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_open_up_to_the_edge_of_the_closed_ones(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize("carries", Carries)
@pytest.mark.parametrize("network", IPV4_CLOSED)
def test_an_embedded_ipv4_address_counts_as_itself(network: str, carries: str) -> None:
    inside = IPv4Network(network)
    for address in (inside[0], inside[-1]):
        if carries == "compatible" and int(address) <= 1:
            continue  # :: and ::1 are addresses of their own, and closed as such
        told = refusal(Carries[carries](address))
        assert told == refusal(str(address)), "in the same words"
        assert str(address) in str(told)


@pytest.mark.parametrize("carries", ["mapped", "translated", "NAT64", "6to4"])
def test_an_embedded_public_ipv4_address_is_open(carries: str) -> None:
    assert refusal(Carries[carries]("8.8.8.8")) is None


@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b:1::a00:1",  # NAT64 as an operator may have it, to whatever is behind
        "64:ff9b:1:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",  # Teredo
        "2001::f5ff:fffe",  # Teredo, with the client 10.0.0.1 in it
        "fe80::1%eth0",
        "::1%lo",
        "fe80::a9fe:a9fe%2",
        "fd00:ec2::254",  # where one cloud keeps its credentials
        "168.63.129.16",  # and another one
        "169.254.169.254",
        "100.100.100.200",
    ],
)
def test_other_addresses_that_lead_to_internal_networks_are_closed(address: str) -> None:
    assert refusal(address) is not None


def test_a_refusal_tells_the_address_and_what_it_is() -> None:
    assert refusal("127.0.0.1") == "127.0.0.1 is loopback"
    assert refusal("::ffff:169.254.169.254") == "169.254.169.254 is link-local, used by clouds' credentials services"
    assert refusal("fe80::1%eth0") == "fe80::1 is not a public address"


# -- what is allowed


@pytest.mark.parametrize("address", ["10.20.0.0", "10.20.255.255", *(carry("10.20.3.4") for carry in Carries.values())])
def test_an_allowed_network_is_open_in_whatever_form(address: str) -> None:
    assert refusal(address, read_networks("10.20.0.0/16")) is None


@pytest.mark.parametrize("address", ["10.19.255.255", "10.21.0.0", "127.0.0.1", "::1", "::ffff:10.21.0.0", "fd00::1"])
def test_an_allowed_network_opens_nothing_beside_it(address: str) -> None:
    assert refusal(address, read_networks("10.20.0.0/16")) is not None


def test_an_allowed_network_of_one_kind_opens_none_of_the_other() -> None:
    assert refusal("::1", read_networks("0.0.0.0/0")) is not None
    assert refusal("127.0.0.1", read_networks("::/0")) is not None
    assert refusal("::1", read_networks("::1")) is None


@pytest.mark.parametrize("written", ["10.0.0.1/8", "localhost", "10.0.0.0/33", "10.0.0.0-10.0.0.255", "*"])
def test_text_that_is_no_network_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"10|localhost|\*"):
        read_networks(f"127.0.0.0/8,{written}")


# -- against somebody else's opinion


def at_the_edges(network: str) -> st.SearchStrategy[int]:
    inside = ip_network(network)
    first, last = int(inside[0]), int(inside[-1])
    return st.integers(first, last) | st.sampled_from([first, last, max(0, first - 1), last + 1])


IPV4 = st.one_of(st.integers(0, 2**32 - 1), *map(at_the_edges, IPV4_CLOSED)).map(lambda n: IPv4Address(n % 2**32))
IPV6 = st.one_of(
    st.integers(0, 2**128 - 1),
    st.integers(0x2000 << 112, (0x4000 << 112) - 1),
    *(at_the_edges(network) for network in REGISTERED if ":" in network),
).map(lambda n: IPv6Address(n % 2**128))
CARRIED = st.builds(lambda carry, four: ip_address(carry(four)), st.sampled_from(list(Carries.values())), IPV4)


def may_be_global(address: IPv4Address | IPv6Address) -> bool:
    """What the standard library thinks of it, and of what it carries."""
    if isinstance(address, IPv6Address):
        if address.teredo is not None or address.is_site_local or address not in ip_network("2000::/3"):
            number = int(address)
            carried = any(
                number >> 32 == int(ip_address(base)) >> 32
                for base in ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "::")
            )
            return carried and number > 1 and may_be_global(IPv4Address(number & 0xFFFFFFFF))
        if address.sixtofour is not None:
            return may_be_global(address.sixtofour)
    return address.is_global and not address.is_multicast and not address.is_reserved


@given(IPV4 | IPV6 | CARRIED)
def test_no_address_is_open_that_the_standard_library_takes_for_closed(address: IPv4Address | IPv6Address) -> None:
    assert refusal(str(address)) is not None or may_be_global(address)


BESIDES = [ip_network(network) for network in (*REGISTERED, "168.63.129.16/32")]


@given(IPV4 | IPV6)
def test_no_address_is_closed_that_the_standard_library_takes_for_open_except_registered_ones(
    address: IPv4Address | IPv6Address,
) -> None:
    carried = isinstance(address, IPv6Address) and (address.sixtofour or address in ip_network("::/64"))
    if may_be_global(address) and not carried and not any(address in network for network in BESIDES):
        assert refusal(str(address)) is None
