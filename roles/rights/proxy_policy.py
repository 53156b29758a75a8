"""Network proxy policies: read from the configuration, and narrowed for children. Pure.

A child can never reach more than its parent. A read-only role reaches nothing unless it
names hosts or asks for network access.
"""

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.host_patterns import InvalidHost, intersect_patterns, normalize_pattern
from swarm.mailbox.protocol.values.base import with_shared
from swarm.mailbox.protocol.values.limits import NetworkPolicy, NetworkSettings

from ..config.layers.requirements import NetworkRequirements
from ..config.schema import Config, NetworkTable

MAX_PATTERNS = 1_000


def network_policy(config: Config, profile: NetworkTable | None = None) -> NetworkPolicy | None:
    """What the run allows through the proxy; None if no proxy is enabled.

    `profile` is the network table of the active permission profile; the run's own table overrides
    it. Raises UsageError for an invalid pattern.
    """
    if config.network.enabled:
        return read_network_table(config.network, "network")
    if profile is None:
        return None
    return read_network_table(profile, f"permissions.{config.default_permissions}.network")


def read_network_table(table: NetworkTable, place: str) -> NetworkPolicy | None:
    """The table with patterns in normal form; None if it is not enabled. Raises UsageError."""
    if not table.enabled:
        return None
    if len(table.domains) > MAX_PATTERNS:
        raise UsageError(f"{place}.domains: more than {MAX_PATTERNS} patterns")
    allow: list[str] = []
    deny: list[str] = []
    for text, word in table.domains.items():
        try:
            pattern = normalize_pattern(text, denies=word == "deny")
        except InvalidHost as error:
            raise UsageError(f"{place}.domains: {error}") from error
        (deny if word == "deny" else allow).append(pattern)
    policy = NetworkPolicy(
        allow=tuple(dict.fromkeys(allow)),
        deny=tuple(dict.fromkeys(deny)),
        upstream=table.allow_upstream_proxy,
    )
    return with_shared(policy, NetworkSettings, table)


def intersect_networks(one: NetworkPolicy, other: NetworkPolicy) -> NetworkPolicy:
    """The widest policy that allows nothing that either of the two forbids."""
    if one == other:
        return one
    limited = "limited" in (one.mode, other.mode)
    return NetworkPolicy(
        allow=intersect_patterns(one.allow, other.allow),
        deny=tuple(dict.fromkeys((*one.deny, *other.deny))),
        ask=tuple(dict.fromkeys((*one.ask, *other.ask))),
        mode="limited" if limited else "full",
        allow_local_binding=one.allow_local_binding and other.allow_local_binding,
        enable_socks5=one.enable_socks5 and other.enable_socks5,
        # A limited side without mitm lets no tunnel through.
        mitm=all(policy.mitm for policy in (one, other) if policy.mode == "limited")
        and (one.mitm or other.mitm),
        upstream=one.upstream and other.upstream,
        managed=one.managed or other.managed,
    )


def apply_network_requirements(
    policy: NetworkPolicy | None, demand: NetworkRequirements
) -> NetworkPolicy | None:
    """The policy with an administrator's denials; a managed list also limits what is allowed."""
    if policy is None:
        return None
    listed = {
        word: tuple(
            normalize_pattern(text, denies=word == "deny")
            for text, given in demand.domains.items()
            if given == word
        )
        for word in ("allow", "deny")
    }
    allow = intersect_patterns(policy.allow, listed["allow"]) if demand.managed_only else None
    return msgspec.structs.replace(
        policy,
        allow=policy.allow if allow is None else allow,
        deny=tuple(dict.fromkeys((*policy.deny, *listed["deny"]))),
        allow_local_binding=policy.allow_local_binding and demand.allow_local_binding is not False,
        upstream=policy.upstream and demand.allow_upstream_proxy is not False,
        managed=policy.managed or demand.managed_only,
    )
