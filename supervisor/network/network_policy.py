"""Merges rule files into the run's network policy, and makes agents' proxy tickets. Pure."""

import msgspec

from swarm.mailbox.host_patterns import InvalidHost, normalize_pattern
from swarm.mailbox.network_tickets import seal_ticket, ticket_key
from swarm.mailbox.protocol.limits import Limits, NetworkPolicy
from swarm.mailbox.protocol.proxy import NetworkTicket
from swarm.mailbox.protocol.rules import NetworkRule, RuleSet


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
