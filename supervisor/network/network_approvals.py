"""Translates the network proxy's questions to approval requests and decisions to answers.

Anything but an approval is answered with no.
"""

from typing import Literal

import msgspec

from swarm.mailbox.host_patterns import with_port
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.proxy import NetworkAnswered, NetworkAsked, NetworkTarget
from swarm.mailbox.protocol.requests import Decided

_encode_key = msgspec.json.Encoder(order="sorted").encode


def approval_request(asked: NetworkAsked) -> ApprovalRequest:
    """The proxy's question as the approval request that people and reviewers see."""
    target = asked.target
    action = NetworkAction(
        host=target.host, port=target.port, protocol=target.protocol, trigger=asked.trigger
    )
    return ApprovalRequest(
        action=action,
        cause="network",
        reason=f"{with_port(target.host, target.port)} is not in the allowed_domains",
        keys=(network_key(target),),
    )


def network_key(target: NetworkTarget) -> str:
    """The key of a grant: this host, protocol and port."""
    return _encode_key(
        {"host": target.host, "network": target.protocol, "port": target.port}
    ).decode()


def network_answer(asked: NetworkAsked, decided: Decided) -> NetworkAnswered:
    """The decision as an answer for the proxy, which remembers it if its scope outlasts once.

    A denial for once is not remembered: a later attempt asks again.
    """
    allow = decided.outcome == "approved"
    remember, below = _remember_for(decided.scope, asked.agent)
    if not allow and decided.outcome != "denied":
        remember = False
    return NetworkAnswered(question=asked.question, allow=allow, remember=remember, below=below)


def _remember_for(
    scope: Literal["once", "session", "subtree", "always"], agent: str
) -> tuple[bool, str]:
    match scope:
        case "once":
            return False, ""
        case "subtree":
            return True, agent
        case "session" | "always":
            return True, ""
