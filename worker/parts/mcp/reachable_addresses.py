"""Which addresses a server may lead the hub to. Pure.

A server names addresses: of its metadata, of its authorization server. It may name public ones, and
others only if it is there itself: a server on the internet leads nobody into a private network.
"""

import ipaddress
from collections.abc import Iterable
from enum import IntEnum

from swarm.mailbox.base.embedded_addresses import is_translated_locally, meant_addresses


class Reach(IntEnum):
    """From where an address can be reached; a larger one is more open."""

    CLOSED = 0  # link-local (there clouds keep their credentials), multicast, reserved
    LOOPBACK = 1
    PRIVATE = 2
    PUBLIC = 3


def reach_of(text: str) -> Reach:
    """The reach of an IP address. Raises ValueError for any other text.

    One that stands for another is as closed as the most closed of both.
    """
    meant = meant_addresses(text)
    embedded = meant[:-1]
    if embedded:
        return min(map(_reach, embedded))
    own = meant[-1]
    if isinstance(own, ipaddress.IPv6Address) and is_translated_locally(own):
        return Reach.CLOSED
    return _reach(own)


def _reach(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Reach:
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
