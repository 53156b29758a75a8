"""A place to try escapes from: folders, a launcher, and scripts run through it in either stack."""
# ruff: noqa: ASYNC110 - the output may never end; a launcher outlives no block

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from support.forked_programs import forked_launchers
from swarm.mailbox.protocol.values.limits import ResourceLimits, SandboxPolicy, WorkspaceWrite
from swarm.worker.exec.command_state import ExitStatus
from swarm.worker.exec.launcher_client import LauncherClient, LauncherLink, open_launcher
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import Stack, plan_sandbox

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
UNTOUCHED = {"file": "untouched"}
BASE = {"PATH": "/usr/bin:/bin"}


class ScriptResult(NamedTuple):
    """How a script ended and what it printed."""

    status: ExitStatus
    text: str


class EscapeTestbed:
    """`work` is the root, `out` is not, `run` is hidden, `tmp` private."""

    def __init__(self, home: Path, stack: Stack) -> None:
        self.home, self.stack = home, stack
        for name in ("work", "work/src", "out", "run", "tmp"):
            (home / name).mkdir()
        self.work, self.out, self.run_folder = home / "work", home / "out", home / "run"
        (self.out / "file").write_text("untouched")

    def outside(self) -> dict[str, str]:
        """Every file outside the root and what is in it."""
        return {
            str(path.relative_to(self.out)): path.read_text()
            for path in self.out.rglob("*")
            if path.is_file()
        }

    def request(
        self, script: str, *, python: bool = False, tty: bool = False,
        policy: SandboxPolicy | None = None, environment: dict[str, str] | None = None,
    ) -> CommandRequest:  # fmt: skip
        """The script as the launcher is asked for it; `{out}` and `{work}` are filled in."""
        script = script.replace("{out}", str(self.out)).replace("{work}", str(self.work))
        plan = plan_sandbox(
            policy or WorkspaceWrite(), cwd=str(self.work), tmp_dir=str(self.home / "tmp"),
            hidden_paths=(str(self.run_folder),), stack=self.stack,
        )  # fmt: skip
        argv = (PYTHON, "-I", "-S", "-c", script) if python else ("/bin/bash", "-c", script)
        return CommandRequest(
            argv=argv, cwd=str(self.work), environment={**BASE, **(environment or {})},
            sandbox=plan, tty=tty, resources=ResourceLimits(command_processes=500, command_s=20),
        )  # fmt: skip

    async def sh(self, script, **more):
        """Run a shell script to the end of its whole tree, as a session does."""
        async with open_test_launcher() as (launcher, _):
            return await run_script(launcher, self.request(script, **more))

    async def py(self, script, **more):
        """Likewise, a Python script."""
        return await self.sh(script, python=True, **more)


async def run_script(launcher: LauncherClient, asked: CommandRequest) -> ScriptResult:
    """What a session does: what is left of a command is killed at its end."""
    command = await start_command(launcher, asked)
    said = bytearray()

    async def listen() -> None:
        while chunk := await command.receive():
            said.extend(chunk)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            status = await command.wait()
            if status.leftovers:
                await command.kill_tree()
            with trio.move_on_after(0.5):
                while nursery.child_tasks:
                    await trio.sleep(0.005)
            nursery.cancel_scope.cancel()
    except BaseException:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await command.kill_tree()
        raise
    finally:
        command.close()
    return ScriptResult(status, said.decode("utf-8", "replace"))


@asynccontextmanager
async def open_test_launcher() -> AsyncIterator[tuple[LauncherClient, int]]:
    """A launcher of its own, and its pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        pid = forked_launchers().fork(theirs.fileno())
    try:
        with trio.fail_after(30):
            async with open_launcher(LauncherLink(pid=pid, sock=ours)) as launcher:
                yield launcher, pid
    finally:
        forked_launchers().wait(pid)


@contextmanager
def open_escape_testbed(stack: Stack) -> Iterator[EscapeTestbed]:
    """Outside /tmp, since a sandbox has one of its own. Skips where there is no bubblewrap."""
    if stack == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    home = Path(tempfile.mkdtemp(prefix="swarm-escape-", dir="/var/tmp"))
    try:
        yield EscapeTestbed(home, stack)
    finally:
        shutil.rmtree(home)


@contextmanager
def open_victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user outside every sandbox, with a secret in its environment."""
    argv = ["/bin/sleep", "60"]
    with subprocess.Popen(argv, env={"SECRET": "hush"}, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
