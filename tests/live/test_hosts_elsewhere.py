"""Agents on machines that have nothing of the project: each node has a file system of its own."""

import os
import subprocess
import sys

import pytest
import trio

from support.copied_agents import LIMIT_S, make_repository, play, project, root, swarm, turns
from support.ray_lab import cluster, nodes_of, write_host

__all__ = ["project"]

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
UNSHARE = f"unshare {'--mount' if os.geteuid() == 0 else '-rm'} --propagation private"
CAN_MOUNT = subprocess.run([*UNSHARE.split(), "true"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CAN_MOUNT, reason="needs a mount namespace for each machine"),
]
HOSTS = ("--hosts", "lab")


@pytest.fixture(scope="module")
def lab():
    """The address of a cluster of one node."""
    with cluster(1) as made:
        yield made.address


def elsewhere(rig, project):
    """A Python whose node sees an empty folder in the place of the project."""
    program = rig.home / "python-elsewhere"
    program.write_text(
        f'#!/bin/sh\nexec {UNSHARE} sh -c \'mount -t tmpfs none {project} && exec "$@"\' sh '
        f'{sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return f'"{program}"'


async def test_git_works_there_and_an_agents_commits_come_back(rig, project, lab):
    git = make_repository(project)
    write_host(rig, lab, python=elsewhere(rig, project))
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one"),
            *turns(
                "/root/one",
                "ls; git log --format=%s; git status -s",
                "echo 1 > first",
                "git add first && git commit -qm 'the first'",
                "rm gone",
                "git add -A && git commit -qm 'the second'",
            ),
            words=(*HOSTS, "--allow-commit"),
        )
        assert nodes_of(rig)["/root/one"]
        listed = rig.outputs("/root/one")[0]
        assert "gone\ntext\nbase" in listed, listed
        assert git("log", "--all", "--format=%s") == "base\n"
        said = await swarm(rig, "branch", rig.run_id, "one", "of-one")
        assert "2 of its commits are /root/one's own" in said
    assert git("log", "--format=%s", "of-one").splitlines() == ["the second", "the first", "base"]
    assert git("ls-tree", "--name-only", "of-one").split() == ["first", "text"]
    git("fsck", "--strict")
