"""Where agents may write: the deepest root or closed path decides."""

import pytest

from swarm.mailbox.base.writable_places import (
    WritablePlaces,
    closed_paths,
    places_of,
    writable_roots,
)
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    PathRule,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)

PLACES = WritablePlaces(
    roots=("/p", "/p/.swarm/open", "/home/u/lib"), shut=("/p/.git", "/p/.swarm", "/p/a/held")
)


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/p", "/p"),
        ("/p/bin/tool", "/p"),
        ("/p.other/tool", ""),
        ("/p/.git/hooks/x", ""),
        ("/p/.GIT/hooks/x", "/p"),
        ("/p/.swarm/tool", ""),
        ("/p/.swarm/open/tool", "/p/.swarm/open"),
        ("/p/a/held", ""),
        ("/p/a/held2", "/p"),
        ("/usr/bin/git", ""),
        ("/", ""),
    ],
)
def test_the_deepest_root_or_closed_path_decides(path: str, root: str) -> None:
    assert PLACES.root_of(path) == root


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/p", False),  # a mount of its own: it can be written in and not moved
        ("/p/a", False),  # something below it is closed, so it is pinned
        ("/p/b", True),
        ("/p/.git", False),
        ("/home/u", False),
    ],
)
def test_roots_and_folders_above_closed_paths_cannot_be_exchanged(path: str, may: bool) -> None:
    assert PLACES.may_exchange(path) is may


def test_without_a_sandbox_every_path_can_be_written() -> None:
    places = places_of(DangerFullAccess(), ())
    assert places.root_of("/usr/bin/git") == "/"
    assert places.may_exchange("/usr")


def test_a_path_that_is_named_as_a_root_and_closed_is_open() -> None:
    assert WritablePlaces(roots=("/p", "/p/.git"), shut=("/p/.git",)).root_of("/p/.git/x")


@pytest.mark.parametrize(
    ("policy", "roots"),
    [
        (ReadOnly(), ()),
        (DangerFullAccess(), ()),
        (WorkspaceWrite(writable_roots=("/more",)), ("/w", "/more")),
        (
            ProfilePolicy(
                rules=(PathRule(path="/w", access="write"), PathRule(path="/w/x", access="read"))
            ),
            ("/w",),
        ),
    ],
)
def test_the_roots_of_each_policy(policy: object, roots: tuple[str, ...]) -> None:
    assert isinstance(policy, ReadOnly | DangerFullAccess | WorkspaceWrite | ProfilePolicy)
    assert writable_roots(policy, "/w") == roots


def test_a_profile_closes_what_it_only_lets_read() -> None:
    rules = (PathRule(path="/w", access="write"), PathRule(path="/w/x", access="read"))
    places = places_of(
        ProfilePolicy(rules=rules), ("/w",), closed_paths(ProfilePolicy(rules=rules))
    )
    assert not places.root_of("/w/x/tool")
    assert places.root_of("/w/y/tool") == "/w"


def test_what_one_agent_may_write_is_not_closed_because_another_may_not() -> None:
    both = PLACES.joined(WritablePlaces(roots=("/p/a",)))
    assert both.root_of("/p/a/held/x") == "/p/a"
    assert not both.root_of("/p/.git/config")
