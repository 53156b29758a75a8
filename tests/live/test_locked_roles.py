"""A read-only role whose process the kernel cannot lock: it is said, or refused where required."""

import sys

import pytest
import trio

from support.paths import PROGRAMS
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import AgentSpawned
from swarm.worker.sandbox.landlock import landlock_abi

LIMIT_S = 60
BARE = (sys.executable, str(PROGRAMS / "without_landlock.py"))
ROLE = ("--role", "explorer", "-s", "workspace-write", "--plain")


def warnings(rig):
    return [one.message for one in rig.bodies(Warned) if "read-only roles" in one.message]


async def test_a_run_says_once_that_its_read_only_roles_are_unlocked(rig):
    wanted = {"task_name": "one", "message": "x", "fork_turns": "none", "agent_type": "explorer"}
    spawns = [{"name": "spawn_agent", "arguments": wanted}]
    provider = rig.script(
        {"agent": "/root", "calls": spawns},
        {"agent": "/root", "calls": [{"name": "wait_agent", "arguments": {"targets": ["one"]}}]},
        {"agent": "/root", "text": "done"},
        {"agent": "/root/*", "text": "mine"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "-p", "x", "--provider", provider, *ROLE, prefix=BARE)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    (told,) = warnings(rig)
    assert len(rig.bodies(AgentSpawned)) == 2
    assert "run UNLOCKED: this kernel has no Landlock" in told
    assert "UNLOCKED" in ended.out + ended.err


async def test_a_run_that_requires_the_sandbox_does_not_begin_without_the_lock(rig):
    provider = rig.script({"text": "done"})
    words = ("run", "-p", "x", "--provider", provider, *ROLE, "--require-sandbox", "fs")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start(*words, prefix=BARE)).wait_end()
    assert ended.code == 6
    assert "Landlock" in ended.err or "cannot guarantee fs" in ended.err
    assert not rig.has_run


@pytest.mark.skipif(landlock_abi() < 3, reason="this kernel's Landlock is too old to lock a role")
async def test_where_the_lock_holds_nothing_is_said(rig):
    provider = rig.script({"text": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "-p", "x", "--provider", provider, *ROLE)
        assert (await run.wait_end()).code == 0
    assert warnings(rig) == []
