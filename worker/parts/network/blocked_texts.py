"""Texts about a refused request, for the client and for the model. Pure.

Source: Codex's network proxy; the same texts.
"""

from collections.abc import Iterable

from swarm.mailbox.base.host_patterns import with_port
from swarm.mailbox.protocol.proxy import BlockReason, RouteBlocked

_MOST_TEXTS = 20


def blocked_text(host: str, reason: BlockReason) -> str:
    """The text for the model beside its command's output. `host` may contain a port."""
    return f'Network access to "{host}" was blocked: {_DETAILS.get(reason, _ELSE)}.'


def blocked_texts(blocked: Iterable[RouteBlocked]) -> tuple[str, ...]:
    """One sentence for each host and reason, at most 20."""
    found = dict.fromkeys(
        blocked_text(with_port(one.target.host, one.target.port), one.reason) for one in blocked
    )
    return tuple(found)[:_MOST_TEXTS]


_ELSE = "request is blocked by network policy"
_DETAILS: dict[BlockReason, str] = {
    "denied": "domain is explicitly denied by policy and cannot be approved from this prompt",
    "not_allowed": "domain is not on the allowlist for the current sandbox mode",
    "not_allowed_local": "local/private network addresses are blocked by the sandbox policy",
    "method_not_allowed": "request method is blocked by the current network mode",
    "body_not_allowed": "in the current network mode a request may send no body",
    "proxy_disabled": "network proxy is disabled",
}
# reason → header `x-proxy-error`, body
BLOCKED_RESPONSES: dict[BlockReason, tuple[str, str]] = {
    "not_allowed": ("blocked-by-allowlist", "Domain not in allowlist."),
    "not_allowed_local": (
        "blocked-by-allowlist",
        "Sandbox policy blocks local/private network addresses.",
    ),
    "denied": ("blocked-by-denylist", "Domain denied by the sandbox policy."),
    "method_not_allowed": ("blocked-by-method-policy", "Method not allowed in limited mode."),
    "body_not_allowed": ("blocked-by-method-policy", "Request body not allowed in limited mode."),
    "mitm_required": ("blocked-by-mitm-required", "MITM required for limited HTTPS."),
    "proxy_disabled": ("blocked-by-policy", "network proxy is disabled"),
    "other": ("blocked-by-policy", "Request blocked by network policy."),
}
