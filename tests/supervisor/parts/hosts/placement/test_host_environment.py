"""A host's table narrows what commands there inherit, and never widens it."""

import pytest

from swarm.mailbox.protocol.nodes import HostEnvironment
from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy
from swarm.supervisor.parts.hosts.placement.host_environment import narrowed


@pytest.mark.parametrize(
    ("run", "own", "both"),
    [("all", "all", "all"), ("all", "core", "core"), ("core", "all", "core"),
     ("none", "all", "none"), ("all", "none", "none"), ("odd", "all", "odd")],
)  # fmt: skip
def test_the_narrower_of_both_is_inherited(run, own, both):
    policy = ShellEnvironmentPolicy(inherit=run)
    assert narrowed(policy, HostEnvironment(inherit=own)).inherit == both


def test_all_that_is_excluded_stays_so_and_what_the_table_sets_wins():
    policy = ShellEnvironmentPolicy(exclude=("A*", "B"), set={"X": "run", "Y": "run"})
    got = narrowed(policy, HostEnvironment(exclude=("B", "C"), set={"X": "there"}))
    assert got.exclude == ("A*", "B", "C")
    assert got.set == {"X": "there", "Y": "run"}
    assert not got.ignore_default_excludes
