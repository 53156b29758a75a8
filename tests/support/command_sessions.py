"""A place to run an agent's commands in: folders, a launcher of its own, and sessions over it."""

import os
import random
from contextlib import asynccontextmanager

import trio

from support.escape_testbed import open_test_launcher
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, Inherited, RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec.exec_outcome import ExecRequest
from swarm.worker.exec.exec_sessions import open_exec_sessions


@asynccontextmanager
async def open_command_testbed(folder, *, stack="none", limit_s=20, prewarmed=True, **environment):
    """An agent's sessions over a launcher that is a fresh process."""
    for name in ("work", "tmp"):
        (folder / name).mkdir()
    spec = AgentSpec(
        run_id="r", agent_id="agent-1", path="/root", epoch=1, role=RoleBrief(),
        limits=Limits(), cwd=str(folder / "work"), endpoint="", identity=b"", secret=b"",
        gateway=GatewayAccess(endpoint="", token=b""), tmp_dir=str(folder / "tmp"),
        environment={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        inherited=Inherited(prewarmed_sandbox=prewarmed),
    )  # fmt: skip
    with trio.fail_after(limit_s):
        async with (
            open_test_launcher() as (launcher, pid),
            open_exec_sessions(launcher, CurrentSpec(spec), chance=random.Random(1)) as sessions,
        ):
            yield CommandTestbed(sessions, spec.cwd, stack, pid)


class CommandTestbed:
    def __init__(self, sessions, cwd, stack, launcher_pid):
        self.sessions, self.cwd, self.launcher_pid = sessions, cwd, launcher_pid
        self.policy = DangerFullAccess() if stack == "none" else WorkspaceWrite()

    async def run(self, script, on_output=None, **more):
        argv = ("/bin/bash", "-c", script)
        more = {"yield_time_ms": 15_000, **more}
        more = {"cwd": self.cwd, **more}
        request = ExecRequest(argv=argv, policy=self.policy, **more)
        return await self.sessions.exec(request, on_output)
