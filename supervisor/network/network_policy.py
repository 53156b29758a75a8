"""What agents may reach: rule files' words merged into the run's policy, and tickets. Pure."""

import msgspec

from swarm.mailbox.host_patterns import InvalidHost, normalize_pattern
from swarm.mailbox.network_tickets import seal_ticket, ticket_key
from swarm.mailbox.protocol.limits import Limits, NetworkPolicy
from swarm.mailbox.protocol.proxy import NetworkTicket
from swarm.mailbox.protocol.rules import NetworkRule, RuleSet


def with_rules(policy: NetworkPolicy, rules: RuleSet) -> NetworkPolicy:
    """The policy and the rules together: what either denies is denied, what either asks is asked.

    While a rule file cannot be read nobody knows what it denies: then nothing is allowed unasked.
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
    """What the agent at this path shows to the proxy; b"" for one without a way to it."""
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
    except InvalidHost:  # the rules' own reader has refused it already
        return ""
