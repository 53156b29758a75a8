"""Decide whether a network request may pass, before and after its host is resolved. Pure.

The order is: deny list, mode, addresses of this machine, allow list; then the name is resolved and
its addresses are checked. A name is resolved only after it was allowed, because the look-up tells
the name to outside servers: invented names could carry data out. (Codex resolves first.)

Source: Codex's network proxy.
"""

from collections.abc import Sequence
from typing import Literal

from swarm.mailbox.host_patterns import ANY_HOST, is_address, is_allowed, is_listed, split_port
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import NetworkPolicy
from swarm.mailbox.protocol.proxy import BlockReason, NetworkProtocol, NetworkTarget

from .ip_addresses import is_loopback, is_loopback_name, is_public

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


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


def judge_request(wish: NetworkRequest, policy: NetworkPolicy) -> Judgement:
    """Decide by name and port whether the request may pass."""
    host, port = wish.target.host, wish.target.port
    if is_listed(host, policy.deny):
        return Blocked(reason="denied")
    if (fault := _judge_mode(wish, policy)) is not None:
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


def _judge_mode(wish: NetworkRequest, policy: NetworkPolicy) -> BlockReason | None:
    if wish.kind == "socks" and not policy.enable_socks5:
        return "other"
    if policy.mode == "full":
        return None
    match wish.kind:
        case "request":
            if wish.method not in READING_METHODS:
                return "method_not_allowed"
            return "body_not_allowed" if wish.has_body else None
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
