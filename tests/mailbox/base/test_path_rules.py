"""Rules about paths: the deepest decides, and what two allow together neither forbids."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.path_rules import (
    ACCESS_RANK,
    access_at,
    compile_glob,
    denies_reading,
    glob_base,
    intersect_profiles,
    intersect_rules,
    is_explicitly_denied,
    make_rules,
    matches_deny_glob,
    may_read,
    may_write,
    read_only_profile,
)
from swarm.mailbox.protocol.values.limits import ProfilePolicy

NAMES = ("a", "b", "tmp", "run")
PLACES = ["/", *("/" + "/".join(p) for n in (1, 2, 3) for p in itertools.product(NAMES, repeat=n))]
RULES = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(["read", "write", "deny"])), max_size=6
).map(make_rules)
PROFILES = st.builds(
    ProfilePolicy,
    name=st.just("p"),
    rules=RULES,
    deny_globs=st.lists(st.sampled_from(["/a/**/b", "/a/*", "/b/a/**"]), max_size=2).map(tuple),
    glob_depth=st.none() | st.integers(1, 4),
    tmp=st.sampled_from(["read", "write", "deny"]),
    network_access=st.booleans(),
)


@pytest.mark.parametrize(
    ("entries", "path", "access"),
    [
        ([("/", "read")], "/etc/passwd", "read"),
        ([("/", "read"), ("/w", "write")], "/w/x", "write"),
        ([("/", "read"), ("/w", "write")], "/wx", "read"),
        ([("/", "read"), ("/s", "deny"), ("/s/pub", "read")], "/s/pub/x", "read"),
        ([("/", "read"), ("/s", "deny"), ("/s/pub", "read")], "/s/x", "deny"),
        ([], "/x", "deny"),
        ([("/w", "write"), ("/w", "deny")], "/w", "deny"),
        ([("/w", "read"), ("/w", "write")], "/w", "write"),
        # Private trees: only what is named inside of them is the machine's own.
        ([("/", "write")], "/tmp/x", "deny"),
        ([("/tmp", "write")], "/tmp/x", "deny"),
        ([("/tmp/x", "write")], "/tmp/x/y", "write"),
        ([("/", "read"), ("/run/x", "read")], "/run/y", "deny"),
    ],
)
def test_the_deepest_rule_decides(entries, path, access):
    assert access_at(make_rules(entries), path) == access


@given(RULES, RULES, st.sampled_from(PLACES))
def test_an_intersection_allows_exactly_what_both_allow(one, other, path):
    both = access_at(intersect_rules(one, other), path)
    assert both == min(access_at(one, path), access_at(other, path), key=ACCESS_RANK.__getitem__)


@given(PROFILES, PROFILES, st.sampled_from(PLACES))
def test_what_two_profiles_allow_together_neither_forbids(one, other, path):
    both = intersect_profiles(one, other)
    for side in (one, other):
        assert not may_read(both, path) or may_read(side, path)
        assert not may_write(both, path) or may_write(side, path)
        assert ACCESS_RANK[both.tmp] <= ACCESS_RANK[side.tmp]
        assert not both.network_access or side.network_access
        assert set(side.deny_globs) <= set(both.deny_globs)
        if side.deny_globs and both.glob_depth is not None:
            assert side.glob_depth is not None
            assert side.glob_depth <= both.glob_depth


@given(PROFILES, st.sampled_from(PLACES))
def test_a_reading_profile_reads_the_same_and_writes_nothing(policy, path):
    reading = read_only_profile(policy)
    assert may_read(reading, path) == may_read(policy, path)
    assert not may_write(reading, path)
    assert not reading.network_access


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("/w/**/*.env", "/w/.env", True),
        ("/w/**/*.env", "/w/a/b/x.env", True),
        ("/w/**/*.env", "/w/x.envy", False),
        ("/w/*.env", "/w/a/x.env", False),
        ("/w/?.env", "/w/a.env", True),
        ("/w/?.env", "/w//.env", False),
        ("/w/[ab].env", "/w/a.env", True),
        ("/w/[!ab].env", "/w/a.env", False),
        ("/w/[!ab].env", "/w/c.env", True),
        ("/w/a**b", "/w/axxb", True),
        ("/w/a**b", "/w/a/b", False),
        ("/w/**", "/w/a/b", True),
        ("/w[[]1]/*.env", "/w[1]/x.env", True),
        ("/w/[", "/w/[", True),
        ("/w/a.b", "/w/axb", False),
        ("/w/*", "/w/a\nb", True),
    ],
)
def test_patterns_fit_as_a_shell_would_have_it(glob, path, fits):
    assert bool(compile_glob(glob).fullmatch(path)) is fits


def test_what_lies_in_a_folder_that_fits_is_denied_too():
    policy = ProfilePolicy(rules=make_rules([("/", "write")]), deny_globs=("/w/**/secrets",))
    assert matches_deny_glob(policy, "/w/a/secrets/key")
    assert not may_read(policy, "/w/a/secrets/key")
    assert is_explicitly_denied(policy, "/w/secrets")
    assert may_write(policy, "/w/a/key")


@pytest.mark.parametrize(
    ("glob", "fixed"),
    [("/a/b/**/*.x", "/a/b"), ("/a/*", "/a"), ("/*", "/"), ("/a[*]b/c*", "/a*b"), ("/a/b", "/a/b")],
)
def test_a_search_begins_below_the_fixed_part(glob, fixed):
    assert glob_base(glob) == fixed


def test_only_a_profile_that_shows_all_denies_nothing():
    assert not denies_reading(ProfilePolicy(rules=make_rules([("/", "read"), ("/w", "write")])))
    assert denies_reading(ProfilePolicy(rules=make_rules([("/w", "write")])))
    assert denies_reading(ProfilePolicy(rules=make_rules([("/", "read"), ("/s", "deny")])))
    assert denies_reading(ProfilePolicy(rules=make_rules([("/", "read")]), deny_globs=("/a/*",)))
