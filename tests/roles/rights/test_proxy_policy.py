"""What the proxy lets through is read strictly and never grows below its owner."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.host_patterns import is_listed
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Limits,
    NetworkPolicy,
    WorkspaceWrite,
)
from swarm.roles.config.schema import Config, NetworkTable, WorkspaceTable
from swarm.roles.rights.narrow import narrow_limits
from swarm.roles.rights.proxy_policy import intersect_networks, network_policy, read_network_table
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import built_in_role

OPEN = NetworkPolicy(allow=("**.example.com", "a.org"), deny=("x.example.com",))
PARENT = Limits(sandbox=WorkspaceWrite(), network=OPEN)
HOSTS = ("example.com", "a.example.com", "x.example.com", "a.org", "b.org")
PATTERNS = st.lists(
    st.sampled_from(["*", "*.example.com", "**.example.com", "a.example.com", "a.org"]), max_size=3
).map(tuple)
POLICIES = st.builds(
    NetworkPolicy,
    allow=PATTERNS,
    deny=st.lists(st.sampled_from(["*.example.com", "a.org"]), max_size=2).map(tuple),
    ask=PATTERNS,
    mode=st.sampled_from(["full", "limited"]),
    allow_local_binding=st.booleans(),
    enable_socks5=st.booleans(),
    upstream=st.booleans(),
    mitm=st.booleans(),
)


def config(**keys):
    return msgspec.convert(keys, Config)


def test_a_table_that_is_not_enabled_gives_no_proxy():
    assert network_policy(config()) is None
    assert network_policy(config(network={"domains": {"a.org": "allow"}})) is None


def test_the_table_is_read_into_normal_form():
    domains = {
        "A.org.": "allow",
        "[::1]:3000": "allow",
        "**.Example.com": "allow",
        "X.example.com:443": "deny",
    }
    policy = network_policy(config(network={"enabled": True, "domains": domains}))
    assert policy == NetworkPolicy(
        allow=("a.org", "[::1]:3000", "**.example.com"), deny=("x.example.com",)
    )


def test_the_table_of_a_permission_profile_counts_where_the_run_has_none_of_its_own():
    profile = NetworkTable(enabled=True, domains={"a.org": "allow"})
    assert network_policy(config(), profile).allow == ("a.org",)
    own = config(network={"enabled": True, "domains": {"b.org": "allow"}})
    assert network_policy(own, profile).allow == ("b.org",)
    with pytest.raises(UsageError, match=r"permissions\.dev\.network\.domains"):
        bad = NetworkTable(enabled=True, domains={"*": "deny"})
        network_policy(config(default_permissions="dev"), bad)


@pytest.mark.parametrize(
    ("domains", "words"),
    [({"*": "deny"}, "unsupported global wildcard"), ({"a b": "allow"}, "not a domain pattern")],
)
def test_a_pattern_that_cannot_be_names_its_place(domains, words):
    with pytest.raises(UsageError, match=rf"network\.domains: .*{words}"):
        read_network_table(NetworkTable(enabled=True, domains=domains), "network")


def test_a_reading_role_has_no_network_unless_it_names_some():
    assert narrow_limits(PARENT, built_in_role("explorer")).network is None
    own = NetworkPolicy(allow=("a.org", "b.org"))
    reader = Role(name="reader", sandbox_mode="read-only", network=own)
    assert narrow_limits(PARENT, reader).network == intersect_networks(OPEN, own)
    assert narrow_limits(PARENT, reader).network.allow == ("a.org",)


def test_other_roles_keep_their_parents():
    assert narrow_limits(PARENT, Role(name="any")).network == OPEN
    assert narrow_limits(Limits(), Role(name="any", network=OPEN)).network is None


def test_a_role_that_names_hosts_never_has_all_of_them():
    free = Limits(sandbox=WorkspaceWrite(network_access=True))
    role = Role(
        name="r", sandbox_mode="workspace-write", network=OPEN,
        workspace=WorkspaceTable(network_access=True),
    )  # fmt: skip
    assert narrow_limits(free, role).sandbox == WorkspaceWrite(network_access=False)
    assert isinstance(
        narrow_limits(Limits(sandbox=DangerFullAccess()), Role(name="any")).sandbox,
        DangerFullAccess,
    )


def tunnels(policy):
    if policy.mode == "full":
        return "closed"
    return "open" if policy.mitm else None


@given(POLICIES, POLICIES, st.sampled_from(HOSTS))
def test_an_intersection_is_never_wider_than_either(one, other, host):
    both = intersect_networks(one, other)

    def lets(policy):
        listed = is_listed(host, policy.allow) and not is_listed(host, policy.ask)
        return listed and not is_listed(host, policy.deny)

    assert lets(both) == (lets(one) and lets(other))
    assert both.allow_local_binding <= min(one.allow_local_binding, other.allow_local_binding)
    assert both.enable_socks5 <= min(one.enable_socks5, other.enable_socks5)
    for policy in (one, other):  # a tunnel passes closed in full mode, open by `mitm`, or not
        assert tunnels(both) in (None, "open", tunnels(policy))
        assert tunnels(policy) is not None or tunnels(both) is None
    assert both.upstream <= min(one.upstream, other.upstream)
    assert (both.mode == "limited") or (one.mode == other.mode == "full")
