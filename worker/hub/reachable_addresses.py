"""Which addresses a server may lead the hub to. Pure.

A server names addresses: of its metadata, of its authorization server. It may name public ones, and
others only if it is there itself: a server on the internet leads nobody into a private network.
"""

import ipaddress
from collections.abc import Iterable
from enum import IntEnum

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Reach(IntEnum):
    """From where an address can be reached; a larger one is more open."""

    CLOSED = 0  # link-local (there clouds keep their credentials), multicast, reserved
    LOOPBACK = 1
    PRIVATE = 2
    PUBLIC = 3


def reach_of(text: str) -> Reach:
    """The reach of an IP address. Raises ValueError for text that is none."""
    address = _unwrapped(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_loopback:
        return Reach.LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return Reach.CLOSED
    if address.is_global:
        return Reach.PUBLIC
    return Reach.CLOSED if address.is_reserved else Reach.PRIVATE


def may_lead_to(own: Iterable[Reach], target: Reach) -> bool:
    """True if a server that was reached at `own` may name an address of this reach.

    The most open of its own counts, so a name that sometimes leads to a private address opens
    nothing.
    """
    if target is Reach.PUBLIC:
        return True
    most_open = max(own, default=Reach.PUBLIC)
    return target is not Reach.CLOSED and Reach.CLOSED < most_open <= target


def _unwrapped(address: _Address) -> _Address:
    """The IPv4 address within an IPv6 one that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
