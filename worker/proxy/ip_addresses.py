"""Classify IP addresses as public or not. Pure.

An address that is not known to be public counts as not public. An IPv4 address inside an IPv6 one
(mapped, compatible, 6to4, NAT64, Teredo) is judged as the address that packets would reach.

Source: the list of Codex's network proxy; of the embedded forms Codex has only the mapped one.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
_CLOSED_6 = tuple(
    map(
        IPv6Network,
        ("::/128", "::1/128", "100::/64", "2001:db8::/32", "fc00::/7", "fe80::/10", "fec0::/10",
         "ff00::/8"),
    )
)  # fmt: skip
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = IPv6Network("::/96")
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def is_public(text: str) -> bool:
    """True for an address outside all special ranges. False also for text that is no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_4(address)
    return _is_public_6(address)


def is_loopback_name(host: str) -> bool:
    """True for a name that means this machine by convention, whatever it resolves to."""
    return host in _LOOPBACK_NAMES or host.endswith(".localhost")


def is_loopback(text: str) -> bool:
    """True for a loopback address."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _CLOSED_4)


def _is_public_6(address: IPv6Address) -> bool:
    if address.scope_id or address in _NAT64_LOCAL:
        return False
    if any(address in network for network in _CLOSED_6):
        return False
    return all(map(_is_public_4, _embedded_ipv4(address)))


def _embedded_ipv4(address: IPv6Address) -> list[IPv4Address]:
    found: list[IPv4Address] = []
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return found
