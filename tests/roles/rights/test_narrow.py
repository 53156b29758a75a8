"""Whatever a role says, the result allows nothing that the parent or the role forbids."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.path_rules import make_rules, may_read, may_write
from swarm.mailbox.protocol.values.limits import (
    Budget,
    DangerFullAccess,
    Limits,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.roles.config.schema import WorkspaceTable
from swarm.roles.rights.narrow import (
    intersect_sandboxes,
    narrow_approval,
    narrow_budget,
    narrow_limits,
)
from swarm.roles.rights.role import Role

PATHS = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/x", "/x/y", "/a/../x", "/a/."]
ROOTS = st.lists(st.sampled_from(PATHS), max_size=4).map(tuple)
POLICIES = (
    st.just(DangerFullAccess())
    | st.builds(ReadOnly, network_access=st.booleans())
    | st.builds(
        WorkspaceWrite,
        writable_roots=ROOTS,
        network_access=st.booleans(),
        exclude_tmpdir_env_var=st.booleans(),
        exclude_slash_tmp=st.booleans(),
    )
)
APPROVALS = st.sampled_from(["untrusted", "on-failure", "on-request", "never"])
ROLES = st.builds(
    Role,
    name=st.just("r"),
    approval=st.none() | APPROVALS,
    sandbox_mode=st.sampled_from([None, "read-only", "workspace-write", "danger-full-access"]),
    workspace=st.none()
    | st.builds(WorkspaceTable, writable_roots=ROOTS, network_access=st.booleans()),
)


def rights(policy):
    """Everything a policy allows, as a set: an own model, not the code's."""
    if isinstance(policy, DangerFullAccess):
        return {"net", "cwd", "tmp", "tmpdir", "all", *(f"w:{p}" for p in real_places())}
    allowed = {"net"} if policy.network_access else set()
    if isinstance(policy, ReadOnly):
        return allowed
    allowed |= {"cwd"}
    allowed |= set() if policy.exclude_slash_tmp else {"tmp"}
    allowed |= set() if policy.exclude_tmpdir_env_var else {"tmpdir"}
    for place, root in itertools.product(real_places(), policy.writable_roots):
        parts = normal(root)
        if normal(place)[: len(parts)] == parts:
            allowed.add(f"w:{place}")
    return allowed


def real_places():
    return ["/", "/a", "/a/b", "/a/b/c", "/ab", "/x", "/x/y", "/q"]


def normal(path):
    steps = []
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in {"", "."}:
            steps.append(step)
    return steps


@given(POLICIES, POLICIES)
def test_an_intersection_is_within_both(one, other):
    both = rights(intersect_sandboxes(one, other))
    assert both <= rights(one)
    assert both <= rights(other)


@given(POLICIES, POLICIES)
def test_an_intersection_loses_nothing_that_both_allow(one, other):
    plain = [p for p in (one, other) if not any("." in r for r in getattr(p, "writable_roots", ()))]
    if len(plain) == 2:
        assert rights(one) & rights(other) <= rights(intersect_sandboxes(one, other))


@given(st.builds(Limits, sandbox=POLICIES, approval=APPROVALS), ROLES)
def test_a_role_never_widens_its_parents_limits(parent, role):
    own = narrow_limits(parent, role)
    assert rights(own.sandbox) <= rights(parent.sandbox)
    if role.sandbox_mode == "read-only":
        assert isinstance(own.sandbox, ReadOnly)
    assert (own.reviewer, own.budget, own.max_depth) == (
        parent.reviewer, parent.budget, parent.max_depth,
    )  # fmt: skip


def test_the_table_of_approvals():
    ladder = ["untrusted", "on-failure", "on-request"]
    for parent, role in itertools.product(ladder, ladder):
        assert (
            narrow_approval(parent, role) == ladder[min(ladder.index(parent), ladder.index(role))]
        )
    for word in [*ladder, "never"]:
        assert narrow_approval("never", word) == "never"
        assert narrow_approval(word, None) == word
    assert narrow_approval("on-request", "never") == "never"
    assert narrow_approval("untrusted", "never") == "untrusted"


@given(
    st.builds(Budget, tokens=st.none() | st.integers(1), usd=st.none() | st.floats(1, 9)),
    st.builds(Budget, tokens=st.none() | st.integers(1), usd=st.none() | st.floats(1, 9)),
)
def test_a_budget_is_the_smaller_of_both(parent, wanted):
    own = narrow_budget(parent, wanted)
    for name in ("tokens", "usd", "requests"):
        bounds = [getattr(b, name) for b in (parent, wanted) if getattr(b, name) is not None]
        assert getattr(own, name) == (min(bounds) if bounds else None)


# --- permission profiles -------------------------------------------------------------------------

PLACES = ("/", "/a", "/a/b", "/a/b/c", "/x", "/x/y", "/w", "/w/a", "/tmp/q", "/run/q")
WORKSPACE = ("/w",)
PROFILES = st.builds(
    ProfilePolicy,
    name=st.just("p"),
    rules=st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["read", "write", "deny"])), max_size=5
    ).map(make_rules),
    tmp=st.sampled_from(["read", "write", "deny"]),
    deny_globs=st.sampled_from([(), ("/a/*",)]),
    workspace=st.just(WORKSPACE),
    network_access=st.booleans(),
)


def reads(policy, path):
    """What a policy shows of the machine: an own model, by the documentation."""
    if isinstance(policy, DangerFullAccess):
        return True
    if isinstance(policy, ProfilePolicy):
        return may_read(policy, path)
    return not path.startswith(("/tmp", "/run"))


def writes(policy, path):
    if isinstance(policy, DangerFullAccess):
        return True
    if isinstance(policy, ProfilePolicy):
        return may_write(policy, path)
    roots = (*WORKSPACE, *policy.writable_roots) if isinstance(policy, WorkspaceWrite) else ()
    return any(normal(path)[: len(normal(root))] == normal(root) for root in roots)


@given(PROFILES, POLICIES | PROFILES, st.sampled_from(PLACES), st.booleans())
def test_an_intersection_with_a_profile_is_within_both(one, other, path, turned):
    both = intersect_sandboxes(other, one) if turned else intersect_sandboxes(one, other)
    for side in (one, other):
        assert not reads(both, path) or reads(side, path)
        assert not writes(both, path) or writes(side, path)
        if not isinstance(side, DangerFullAccess):
            assert not both.network_access or side.network_access


@given(st.builds(Limits, sandbox=PROFILES, approval=APPROVALS), ROLES, st.sampled_from(PLACES))
def test_a_role_never_widens_a_profile(parent, role, path):
    own = narrow_limits(parent, role).sandbox
    assert not reads(own, path) or reads(parent.sandbox, path)
    assert not writes(own, path) or writes(parent.sandbox, path)
    assert isinstance(own, ProfilePolicy)
    if role.sandbox_mode == "read-only":
        assert not writes(own, path)
