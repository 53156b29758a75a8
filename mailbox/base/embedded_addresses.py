"""The IPv4 addresses that an IPv6 address stands for. Pure.

A host, a router or a translator on the way turns such an address into the IPv4 one within it, so
whoever judges addresses judges these too.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# RFC 4291 (compatible, mapped), RFC 2765 (translated), RFC 6052 (NAT64): the last 32 bits.
_AT_THE_END = tuple(
    IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
# Prefixes of a network's own translator (RFC 8215), in whatever bits it keeps the address.
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214: before the last 32 bits
_TRIVIAL = frozenset({IPv6Address("::"), IPv6Address("::1")})


def embedded_ipv4(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Each one that some standard puts into such an address; () for an ordinary one."""
    number = int(address)
    found: list[IPv4Address] = []
    if address in _TRIVIAL:
        return ()
    if any(address in network for network in _AT_THE_END):
        found.append(_low(number))
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        found.append(_low(number))
    return tuple(dict.fromkeys(found))


def meant_addresses(text: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """The address, and those that it stands for. Raises ValueError for any other text."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return (address,)
    return (*embedded_ipv4(address), address)


def is_translated_locally(address: IPv6Address) -> bool:
    """True for an address of a network's own translator: where it leads is known there alone."""
    return address in _LOCAL_NAT64


def _low(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFF_FFFF)
