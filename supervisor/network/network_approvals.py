"""The proxy's questions, put to whoever decides about approvals.

Guards: without somebody to decide, and for whatever is no yes, the answer is no.
"""

from typing import Literal

import msgspec

from swarm.mailbox.host_patterns import with_port
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.proxy import NetworkAnswered, NetworkAsked, NetworkTarget
from swarm.mailbox.protocol.requests import Decided

_encode_key = msgspec.json.Encoder(order="sorted").encode


def approval_request(asked: NetworkAsked) -> ApprovalRequest:
    """The question as people and reviewers see it."""
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
    """What a grant names: this host, protocol and port."""
    return _encode_key(
        {"host": target.host, "network": target.protocol, "port": target.port}
    ).decode()


def network_answer(asked: NetworkAsked, decided: Decided) -> NetworkAnswered:
    """The decision as the proxy obeys it. A no is remembered if it was said for longer than once.

    A person's no for once stays one: the same command may be tried again later and is asked anew.
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
