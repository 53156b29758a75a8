"""Decides whether a network request may pass, before and after its host is resolved. Pure.

The order is: deny list, mode, addresses of this machine, allow list; then the name is resolved and
its addresses are checked. A name is resolved only after it was allowed, because the look-up tells
the name to outside servers: invented names could carry data out. (Codex resolves first.)

An address that is not known to be public counts as not public. An IPv4 address inside an IPv6 one
(mapped, compatible, 6to4, NAT64, Teredo) is judged as the address that packets would reach.

Source: Codex's network proxy and its list of addresses; of the embedded forms Codex has only the
mapped one.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal

from swarm.mailbox.base.embedded_addresses import (
    embedded_ipv4,
    is_translated_locally,
    meant_addresses,
)
from swarm.mailbox.base.host_patterns import ANY_HOST, is_address, is_allowed, is_listed, split_port
from swarm.mailbox.protocol.proxy import BlockReason, NetworkProtocol, NetworkTarget
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import NetworkPolicy

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
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
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class Allowed(Value):
    """The request may pass."""


class Blocked(Value):
    """Refused; a person is asked only for the reason `not_allowed`."""

    reason: BlockReason


Judgement = Allowed | Blocked
RequestKind = Literal["request", "tunnel", "socks"]
PROTOCOLS: dict[RequestKind, NetworkProtocol] = {
    "request": "http",
    "tunnel": "https",
    "socks": "socks5_tcp",
}


class NetworkRequest(Value):
    """A command's request to the proxy. `target.host` is in normal form."""

    target: NetworkTarget
    kind: RequestKind
    method: str = ""  # of an HTTP request
    has_body: bool = False


def judge_request(request: NetworkRequest, policy: NetworkPolicy) -> Judgement:
    """Decide by name and port whether the request may pass."""
    host, port = request.target.host, request.target.port
    if is_listed(host, policy.deny):
        return Blocked(reason="denied")
    if (fault := _judge_mode(request, policy)) is not None:
        return Blocked(reason=fault)
    is_local = is_loopback_name(host) or (is_address(host) and not is_public(host))
    if is_local and not policy.allow_local_binding:
        # `*` means hosts elsewhere; this machine must be named explicitly.
        named = [pattern for pattern in policy.allow if split_port(pattern)[0] != ANY_HOST]
        if not is_allowed(host, port, named):
            return Blocked(reason="not_allowed_local")
    if is_listed(host, policy.ask) or not is_allowed(host, port, policy.allow):
        return Blocked(reason="not_allowed")
    return Allowed()


def _judge_mode(request: NetworkRequest, policy: NetworkPolicy) -> BlockReason | None:
    if request.kind == "socks" and not policy.enable_socks5:
        return "other"
    if policy.mode == "full":
        return None
    match request.kind:
        case "request":
            if request.method not in READING_METHODS:
                return "method_not_allowed"
            return "body_not_allowed" if request.has_body else None
        case "tunnel":
            return None if policy.mitm else "mitm_required"  # its requests are judged one by one
        case "socks":
            return "method_not_allowed"


def judge_addresses(
    host: str, addresses: Sequence[str], policy: NetworkPolicy
) -> tuple[str, ...] | Blocked:
    """The addresses that may be connected to, in order; nothing is resolved again. An empty result
    means that the host is unknown.

    Args:
        host: Judged and allowed, or approved.
        addresses: What it resolved to; empty if the look-up failed or took too long.
    """
    if policy.allow_local_binding:
        return tuple(addresses)
    if is_loopback_name(host):
        kept = tuple(address for address in addresses if is_loopback(address))
        return kept or Blocked(reason="not_allowed_local")
    if is_address(host):  # public, or named explicitly
        return tuple(addresses)
    if not addresses or not all(map(is_public, addresses)):
        return Blocked(reason="not_allowed_local")
    return tuple(addresses)


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
    return any(address.is_loopback for address in meant_addresses(text))


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _CLOSED_4)


def _is_public_6(address: IPv6Address) -> bool:
    if address.scope_id or is_translated_locally(address):
        return False
    if any(address in network for network in _CLOSED_6):
        return False
    return all(map(_is_public_4, embedded_ipv4(address)))
