"""What the network proxy may allow: the run's policy, agents' tickets, its questions. Pure.

A question becomes an approval request. Anything but an approval is answered with no.
"""

from typing import Literal

import msgspec

from swarm.mailbox.base.host_patterns import InvalidHost, normalize_pattern, with_port
from swarm.mailbox.contents.credentials import seal_ticket, ticket_key
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.proxy import (
    NetworkAnswered,
    NetworkAsked,
    NetworkTarget,
    NetworkTicket,
)
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.rules import NetworkRule, RuleSet
from swarm.mailbox.protocol.values.limits import Limits, NetworkPolicy

_encode_key = msgspec.json.Encoder(order="sorted").encode


def with_rules(policy: NetworkPolicy, rules: RuleSet) -> NetworkPolicy:
    """Merge policy and rules: what either denies is denied, what either asks about is asked about.

    If a rule file cannot be read, its denials are unknown, so nothing is allowed without asking.
    """
    if rules.broken:
        return msgspec.structs.replace(policy, allow=())
    added = () if policy.managed else _hosts(rules, "allow")
    return msgspec.structs.replace(
        policy,
        allow=(*policy.allow, *added),
        ask=(*policy.ask, *_hosts(rules, "prompt")),
        deny=(*policy.deny, *_hosts(rules, "deny")),
    )


def ticket_for(path: str, limits: Limits, run_key: bytes) -> bytes:
    """The proxy ticket of the agent at this path; b"" if it has no network access."""
    if limits.network is None:
        return b""
    asks = limits.approval != "never" and not limits.network.managed
    ticket = NetworkTicket(agent=path, policy=limits.network, asks=asks)
    return seal_ticket(ticket, ticket_key(run_key))


def _hosts(rules: RuleSet, decision: str) -> tuple[str, ...]:
    chosen = (rule for rule in rules.network if rule.decision == decision)
    found = dict.fromkeys(pattern for rule in chosen if (pattern := _pattern(rule)))
    return tuple(found)


def _pattern(rule: NetworkRule) -> str:
    try:
        return normalize_pattern(rule.host)
    except InvalidHost:  # the parser of the rules has refused it already
        return ""


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
