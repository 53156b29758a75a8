"""Bounds of a command's whole tree, by the real launcher: it is ended, and its end says why."""

import os
import shutil

import pytest

from support.escape_testbed import open_test_launcher
from swarm.mailbox.base.process_tree import descendants_of, is_zombie
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, Inherited, RoleBrief
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Limits,
    ResourceLimits,
    WorkspaceWrite,
)
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec.exec_outcome import ExecRequest
from swarm.worker.exec.exec_sessions import open_exec_sessions
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, plan_sandbox

MIB = 1 << 20
STACKS = ["none", "landlock", "bwrap"]


@pytest.fixture(params=STACKS)
def plan(request, tmp_path):
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if request.param == "none":
        return SandboxPlan()
    return plan_sandbox(
        WorkspaceWrite(), cwd=str(tmp_path), tmp_dir=str(tmp_path), stack=request.param
    )


def request(plan, script, limits):
    return CommandRequest(
        argv=("/bin/bash", "-c", script), cwd="/", environment={"PATH": "/usr/bin:/bin"},
        sandbox=plan, resources=limits,
    )  # fmt: skip


async def ended(launcher, asked):
    """Its status, once nothing of it lives."""
    command = await start_command(launcher, asked)
    status = await command.wait()
    await command.kill_tree()
    command.close()
    return status


HOG = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); sleep 60"
MANY = "for i in {1..40}; do sleep 60 & done; wait"


@pytest.mark.parametrize(
    ("script", "limits", "name", "least"),
    [
        (HOG, ResourceLimits(command_memory_bytes=100 * MIB), "command_memory", 100 * MIB),
        (MANY, ResourceLimits(command_processes=20), "command_processes", 21),
        (MANY, ResourceLimits(agent_processes=20), "agent_processes", 21),
        ("sleep 60", ResourceLimits(command_s=0.2), "command_seconds", 0),
    ],
)
async def test_what_uses_too_much_is_ended_and_told(plan, script, limits, name, least):
    async with open_test_launcher() as (launcher, pid):
        status = await ended(launcher, request(plan, script, limits))
        assert status.overrun is not None
        assert status.overrun.limit == name
        assert status.overrun.measured >= least
        assert status.signal == 9 or status.exit_code == 137
        assert [one for one in descendants_of(pid) if not is_zombie(one)] == []


async def test_a_fork_bomb_ends(plan):
    # At most 511 of them, so that a failure here harms nobody else.
    bomb = (
        "bomb() { if [ $1 -gt 7 ]; then sleep 20; else"
        " bomb $(($1+1)) & bomb $(($1+1)) & wait; fi; }; bomb 0"
    )
    async with open_test_launcher() as (launcher, pid):
        limits = ResourceLimits(command_processes=100)
        status = await ended(launcher, request(plan, bomb, limits))
        assert status.overrun is not None
        assert status.overrun.limit == "command_processes"
        assert [one for one in descendants_of(pid) if not is_zombie(one)] == []
        after = await ended(launcher, request(plan, "exit 3", limits))
        assert (after.exit_code, after.overrun) == (3, None)


async def test_one_who_uses_too_much_does_not_take_the_others_along():
    async with open_test_launcher() as (launcher, _):
        limits = ResourceLimits(command_processes=20)
        quiet = await start_command(launcher, request(SandboxPlan(), "sleep 60", limits))
        status = await ended(launcher, request(SandboxPlan(), MANY, limits))
        assert status.overrun is not None
        os.kill(quiet.pid, 0)
        assert not is_zombie(quiet.pid)
        await quiet.kill_tree()
        assert (await quiet.wait()).overrun is None
        quiet.close()


async def test_the_models_answer_names_the_limit(tmp_path):
    spec = AgentSpec(
        run_id="r",
        agent_id="a",
        path="/root",
        epoch=1,
        role=RoleBrief(),
        limits=Limits(),
        cwd=str(tmp_path),
        endpoint="",
        identity=b"",
        secret=b"",
        gateway=GatewayAccess(endpoint="", token=b""),
        tmp_dir=str(tmp_path),
        environment={"PATH": "/usr/bin:/bin"},
        inherited=Inherited(resources=ResourceLimits(command_s=0.3)),
    )
    async with (
        open_test_launcher() as (launcher, _),
        open_exec_sessions(launcher, CurrentSpec(spec)) as sessions,
    ):
        argv = ("/bin/bash", "-c", "echo begun; sleep 60")
        done = await sessions.exec(
            ExecRequest(argv=argv, cwd=str(tmp_path), policy=DangerFullAccess())
        )
    assert done.output == "begun\n"
    assert done.exit_code == 137
    assert "(limits.command_seconds)" in done.warning
