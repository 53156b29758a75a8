"""Rights granted beyond the sandbox, in real sandboxes: what opens, and what stays shut."""

import random
import shutil
import socket
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.escape_testbed import PYTHON, open_test_launcher
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, GuardedPlaces, RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, NetworkPolicy, ReadOnly, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec.exec_outcome import ExecRequest
from swarm.worker.exec.exec_sessions import open_exec_sessions
from swarm.worker.sandbox.sandbox_probe import probe_sandbox


@pytest.fixture(params=["landlock", "bwrap"])
def stack(request, monkeypatch):
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    kind = type(probe_sandbox())
    monkeypatch.setattr(kind, "stack", property(lambda _: request.param))
    return request.param


@pytest.fixture
def place():
    """A folder outside /tmp: `work` is the root, `out` is not, `run` is hidden, `tmp` private."""
    home = Path(tempfile.mkdtemp(prefix="swarm-rights-", dir="/var/tmp"))
    for name in ("work", "out", "out/.git", "run", "tmp"):
        (home / name).mkdir()
    (home / "out/file").write_text("old")
    (home / "run/secret").write_text("the secret")
    yield home
    shutil.rmtree(home)


@asynccontextmanager
async def opened_sessions(place, limits):
    spec = AgentSpec(
        run_id="r",
        agent_id="agent-1",
        path="/root",
        epoch=1,
        role=RoleBrief(),
        limits=limits,
        cwd=str(place / "work"),
        endpoint="",
        identity=b"",
        secret=b"",
        gateway=GatewayAccess(endpoint="", token=b""),
        tmp_dir=str(place / "tmp"),
        environment={"PATH": "/usr/bin:/bin"},
        guarded=GuardedPlaces(hidden_paths=(str(place / "run"),)),
    )
    async with (
        open_test_launcher() as (launcher, _),
        open_exec_sessions(launcher, CurrentSpec(spec), chance=random.Random(1)) as sessions,
    ):
        yield sessions


async def run(place, script, extra, *, policy=None, python=False):
    """The exit code, and all that was printed."""
    policy = policy or WorkspaceWrite()
    argv = (PYTHON, "-I", "-S", "-c", script) if python else ("/bin/bash", "-c", script)
    async with opened_sessions(place, Limits(sandbox=policy)) as sessions:
        done = await sessions.exec(
            ExecRequest(argv=argv, cwd=str(place / "work"), policy=policy, extra=extra)
        )
    return done.exit_code, done.output


def writes(*paths):
    return ExtraPermissions(write=tuple(str(path) for path in paths))


@pytest.mark.parametrize("policy", [ReadOnly(), WorkspaceWrite()])
async def test_a_granted_folder_can_be_written_for_that_command_alone(place, stack, policy):
    script = f"echo new >{place}/out/file"
    code, said = await run(place, script, writes(place / "out"), policy=policy)
    assert (code, (place / "out/file").read_text()) == (0, "new\n"), said
    assert (await run(place, script, None, policy=policy))[0] != 0


async def test_a_granted_file_opens_nothing_beside_it(place, stack):
    extra = writes(place / "out/file")
    assert (await run(place, f"echo new >{place}/out/file", extra))[0] == 0
    assert (await run(place, f"echo x >{place}/out/other", extra))[0] != 0


async def test_what_steers_tools_stays_shut_unless_exactly_named(place, stack):
    script = f"echo x >{place}/out/.git/config"
    assert (await run(place, script, writes(place / "out")))[0] != 0
    named = writes(place / "out", place / "out/.git")
    assert (await run(place, script, named))[0] == 0


async def test_the_runs_own_folder_is_not_opened_by_any_grant(place, stack):
    extra = ExtraPermissions(
        write=(str(place), str(place / "run")), read=(str(place / "run"), str(place))
    )
    code, said = await run(place, f"cat {place}/run/secret; echo x >{place}/run/new", extra)
    assert code != 0
    assert "the secret" not in said
    assert not (place / "run/new").exists()


async def test_a_grant_does_not_follow_a_link_that_came_later(place, stack):
    extra = writes(place / "out/later")  # approved as a folder to be, then made a link
    (place / "out/later").symlink_to(place / "run")
    (place / "elsewhere").mkdir()
    code, _ = await run(place, f"echo x >{place}/out/later/new", extra)
    assert code != 0
    (place / "out/later").unlink()
    (place / "out/later").symlink_to(place / "elsewhere")
    assert (await run(place, f"echo x >{place}/elsewhere/new", extra))[0] != 0


@pytest.fixture
def shared():
    """A folder in everybody's /tmp, with a file `seen`."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "seen").write_text("here\n")
        yield folder
        assert Path(folder, "seen").read_text() == "here\n"


async def test_a_granted_read_shows_through_a_private_tmp(place, stack, shared):
    if stack == "bwrap":  # the other stack leaves /tmp readable
        assert (await run(place, f"cat {shared}/seen", None))[0] != 0
    extra = ExtraPermissions(read=(shared,))
    assert await run(place, f"cat {shared}/seen", extra) == (0, "here\n")
    assert (await run(place, f"echo x >{shared}/seen", extra))[0] != 0


async def test_a_granted_read_shows_no_socket_that_could_be_talked_to(place, stack, shared):
    with socket.socket(socket.AF_UNIX) as door:
        path = f"{shared}/door"
        door.bind(path)
        door.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        extra = ExtraPermissions(read=(shared,))
        code, said = await run(place, script, extra, python=True)
        assert (code, "Error" in said) == (1, True)


async def test_the_network_opens_for_the_command_that_was_granted_it(place, stack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('in')"
        extra = ExtraPermissions(network=True)
        assert await run(place, script, extra, python=True) == (0, "in\n")
        assert (await run(place, script, None, python=True))[0] != 0


async def test_a_run_with_a_network_policy_keeps_to_its_proxy(place):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    limits = Limits(sandbox=WorkspaceWrite(), network=NetworkPolicy())
    async with opened_sessions(place, limits) as sessions:
        plan = sessions.plan(limits.sandbox, str(place / "work"), ExtraPermissions(network=True))
    assert not plan.network
