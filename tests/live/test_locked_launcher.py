"""A locked agent's launcher: it pins itself by the sealed spec, whatever the agent asks for."""

import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, RoleBrief, encode_spec
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.worker.exec.command_state import CommandNotStarted
from swarm.worker.exec.launcher_client import LauncherLink, open_launcher
from swarm.worker.exec.launcher_protocol import LaunchOrder
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, plan_sandbox
from swarm.worker.sandbox.sandbox_probe import find_system_program

pytestmark = pytest.mark.live

# A launcher on this machine, or on one without bubblewrap, or on one without any sandbox.
CODE = """
import socket, sys
from msgspec.structs import replace
from swarm.worker.exec import command_plan
from swarm.worker.exec.launcher_process import become_launcher
facts = command_plan.probe_sandbox()
stack = sys.argv[3]
facts = replace(
    facts,
    bwrap=facts.bwrap if stack == "bwrap" else None,
    landlock_abi=0 if stack == "none" else facts.landlock_abi,
)
command_plan.probe_sandbox = lambda: facts
become_launcher(socket.socket(fileno=int(sys.argv[1])), None, None, int(sys.argv[2]))
"""
BASE = {"PATH": "/usr/bin:/bin"}


def spec_of(tmp_path, *, locked=True, sandbox=None):
    return AgentSpec(
        run_id="r",
        agent_id="a",
        path="/root/scout",
        epoch=1,
        role=RoleBrief(name="explorer", locked=locked),
        limits=Limits(sandbox=sandbox or ReadOnly()),
        cwd="/usr",
        endpoint="",
        identity=b"i",
        secret=b"s",
        gateway=GatewayAccess(endpoint="", token=b""),
        tmp_dir=str(tmp_path),
        environment={},
    )


@contextmanager
def started_launcher(spec, stack):
    """The launcher's process and the agent's end of its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given = os.memfd_create("spec")
    os.write(given, encode_spec(spec) if isinstance(spec, AgentSpec) else spec)
    argv = [sys.executable, "-P", "-c", CODE, str(theirs.fileno()), str(given), stack]
    with subprocess.Popen(argv, pass_fds=[theirs.fileno(), given]) as process:
        theirs.close()
        os.close(given)
        try:
            yield LauncherLink(pid=process.pid, sock=ours)
        finally:
            process.kill()


@asynccontextmanager
async def opened_launcher(spec, stack):
    with started_launcher(spec, stack) as link, trio.fail_after(20):
        async with open_launcher(link) as launcher:
            yield launcher


async def run(launcher, *argv, sandbox):
    asked = CommandRequest(argv=argv, cwd="/", environment=BASE, sandbox=sandbox)
    command = await start_command(launcher, asked)
    said = b""
    while chunk := await command.receive():
        said += chunk
    command.close()
    return said


def plan_of(tmp_path, stack, policy=None):
    return plan_sandbox(policy or ReadOnly(), cwd="/usr", tmp_dir=str(tmp_path), stack=stack)


@pytest.fixture(params=["landlock", "bwrap"])
def stack(request):
    if request.param == "bwrap" and find_system_program("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return request.param


@pytest.fixture
def target():
    """A file that nobody may make: outside of /tmp, which is private anyway."""
    path = Path("/var/tmp") / f"swarm-pin-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


async def test_a_locked_agents_command_runs_in_the_sandbox_of_its_spec(tmp_path, stack, target):
    script = f"touch {target}; echo tried; grep Seccomp: /proc/self/status"
    async with opened_launcher(spec_of(tmp_path), stack) as launcher:
        said = await run(launcher, "sh", "-c", script, sandbox=plan_of(tmp_path, stack))
    assert b"tried\nSeccomp:\t2" in said
    assert not target.exists()


async def launch(launcher, *argv, **more):
    """An order of a hostile agent's own making; what it says if it starts."""
    ours, taken = os.pipe2(os.O_CLOEXEC)
    order = LaunchOrder(
        token=launcher.next_token(), argv=argv, cwd="/", **{"environment": BASE} | more
    )
    with FileIO(ours) as output, FileIO(os.devnull) as nothing:
        try:
            await launcher.launch(
                order, stdin_fd=nothing.fileno(), stdout_fd=taken, stderr_fd=taken
            )
        finally:
            os.close(taken)
        return await trio.to_thread.run_sync(output.read)


async def test_whatever_a_hostile_agent_wraps_a_command_in_its_launcher_wraps_it_again(
    tmp_path, stack, target
):
    plan = plan_of(tmp_path, stack, WorkspaceWrite(writable_roots=("/var/tmp",)))
    command = ("sh", "-c", f"touch {target}; echo tried; grep Seccomp: /proc/self/status")
    words = ("bwrap", "--bind", "/", "/", "--setenv", "MARK", "x", "--")
    async with opened_launcher(spec_of(tmp_path), stack) as launcher:
        said = [
            await run(launcher, *command, sandbox=plan),
            await run(launcher, *command, sandbox=SandboxPlan()),
            await launch(launcher, *words, *command, wrapped=stack == "bwrap"),
            await launch(launcher, *command, placeholders=(str(tmp_path),)),
        ]
    assert [b"tried\nSeccomp:\t2" in text for text in said] == [True, True, stack == "bwrap", True]
    assert not target.exists()
    assert tmp_path.exists()


async def test_an_order_that_is_nothing_but_wrapping_is_refused(tmp_path):
    if find_system_program("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    async with opened_launcher(spec_of(tmp_path), "bwrap") as launcher:
        for argv in (("touch", "x"), ("bwrap", "--bind", "/", "/", "--"), ("--",)):
            with pytest.raises(CommandNotStarted, match="pinned"):
                await launch(launcher, *argv, wrapped=True)
        with pytest.raises(CommandNotStarted, match="pinned"):
            await launch(launcher, "true", keep_session=True)


async def test_a_terminal_asked_for_by_another_stack_is_taken_inside(tmp_path):
    if find_system_program("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    asked = CommandRequest(
        argv=("sh", "-c", "tty <&0; ps -o tty= -p $$ || true"), cwd="/", environment=BASE,
        sandbox=plan_of(tmp_path, "landlock"), tty=True,
    )  # fmt: skip
    async with opened_launcher(spec_of(tmp_path), "bwrap") as launcher:
        command = await start_command(launcher, asked)
        assert b"not a tty" not in await command.receive()
        await command.kill_tree()
        command.close()


async def test_a_loader_variable_reaches_the_command_and_never_bwrap(tmp_path):
    if find_system_program("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    words = ("bwrap", "--setenv", "LD_LIBRARY_PATH", "/inside", "--", "env")
    hostile = {**BASE, "LD_LIBRARY_PATH": "/outside", "LD_DEBUG": "files"}
    async with opened_launcher(spec_of(tmp_path), "bwrap") as launcher:
        assert b"LD_LIBRARY_PATH=/inside\n" in await launch(launcher, *words, wrapped=True)
        said = await launch(launcher, *words[:1], "--", "env", wrapped=True, environment=hostile)
        assert b"LD_LIBRARY_PATH=/outside\n" in said
        assert b"libcap" not in said  # bwrap's own library, which its loader would have told of


@pytest.mark.parametrize(
    ("stack", "policy"),
    [("none", ReadOnly()), ("landlock", WorkspaceWrite()), ("landlock", DangerFullAccess())],
)
async def test_where_nothing_read_only_can_be_enforced_nothing_starts(tmp_path, stack, policy):
    async with opened_launcher(spec_of(tmp_path, sandbox=policy), stack) as launcher:
        with pytest.raises(CommandNotStarted, match="pinned"):
            await run(launcher, "true", sandbox=SandboxPlan())


async def test_an_agent_whose_role_is_not_locked_is_not_pinned(tmp_path, target):
    async with opened_launcher(spec_of(tmp_path, locked=False), "landlock") as launcher:
        await run(launcher, "touch", str(target), sandbox=SandboxPlan())
    assert target.exists()


async def test_a_spec_that_cannot_be_read_starts_nothing(target):
    async with opened_launcher(b"\xc1", "landlock") as launcher:
        with pytest.raises(Exception, match="launcher died"):
            await run(launcher, "touch", str(target), sandbox=SandboxPlan())
    assert not target.exists()


async def test_a_socket_of_another_program_is_not_reached_by_a_pinned_command(tmp_path):
    if find_system_program("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    path = Path("/var/tmp") / f"swarm-pin-{os.getpid()}.sock"
    async with opened_launcher(spec_of(tmp_path), "bwrap") as launcher:
        await run(launcher, "true", sandbox=plan_of(tmp_path, "bwrap"))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            try:
                script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
                words = ("/usr/bin/python3", "-I", "-S", "-c", script)
                said = await run(launcher, *words, sandbox=plan_of(tmp_path, "bwrap"))
            finally:
                path.unlink()
    assert b"Permission denied" in said
