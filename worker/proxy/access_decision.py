"""One request's way through the policy, before and after its host is looked up. Pure.

Order: deny list, mode, addresses of this machine, allow list; then the name is looked up, and what
it resolves to is judged. A name is looked up only once it is allowed: a look-up tells the name to
servers outside, so it would be a way out for whoever invents names. (Codex looks up first.)

Source: safety sheet 11.
"""

from collections.abc import Sequence
from typing import Literal

from swarm.mailbox.host_patterns import ANY_HOST, is_address, is_allowed, is_listed, split_port
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import NetworkPolicy
from swarm.mailbox.protocol.proxy import BlockReason, NetworkProtocol, NetworkTarget

from .ip_addresses import is_loopback, is_loopback_name, is_public

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Allowed(Value):
    """Go on."""


class Blocked(Value):
    """Refused; only `not_allowed` may be asked about."""

    reason: BlockReason


Judgement = Allowed | Blocked
RequestKind = Literal["request", "tunnel", "socks"]
PROTOCOLS: dict[RequestKind, NetworkProtocol] = {
    "request": "http",
    "tunnel": "https",
    "socks": "socks5_tcp",
}


class NetworkRequest(Value):
    """What a command asked the proxy for. `target.host` is in normal form."""

    target: NetworkTarget
    kind: RequestKind
    method: str = ""  # of a request
    has_body: bool = False


def judge_request(wish: NetworkRequest, policy: NetworkPolicy) -> Judgement:
    """May it go to this port of this host, as far as its name tells?"""
    host, port = wish.target.host, wish.target.port
    if is_listed(host, policy.deny):
        return Blocked(reason="denied")
    if (fault := _judge_mode(wish, policy)) is not None:
        return Blocked(reason=fault)
    is_local = is_loopback_name(host) or (is_address(host) and not is_public(host))
    if is_local and not policy.allow_local_binding:
        # `*` means the world outside; this machine has to be meant.
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
            if wish.method not in _READING:
                return "method_not_allowed"
            return "body_not_allowed" if wish.has_body else None
        case "tunnel":
            return None if policy.mitm else "mitm_required"  # then every request in it comes here
        case "socks":
            return "method_not_allowed"


def judge_addresses(
    host: str, addresses: Sequence[str], policy: NetworkPolicy
) -> tuple[str, ...] | Blocked:
    """The addresses that may be connected to, in order; only these, and nothing looked up again.
    None of them: the host is not known.

    Args:
        host: Judged and allowed, or approved.
        addresses: What it resolved to; empty: it did not, or took too long.
    """
    if policy.allow_local_binding:
        return tuple(addresses)
    if is_loopback_name(host):
        kept = tuple(address for address in addresses if is_loopback(address))
        return kept or Blocked(reason="not_allowed_local")
    if is_address(host):  # public, or named outright
        return tuple(addresses)
    if not addresses or not all(map(is_public, addresses)):
        return Blocked(reason="not_allowed_local")
    return tuple(addresses)
