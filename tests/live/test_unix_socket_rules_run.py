"""A socket of another program is out of reach until a rule names it, and then that one alone."""

import shutil
import socket
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from support.escape_testbed import PYTHON, open_escape_testbed, open_test_launcher, run_script
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, GuardedPlaces, RoleBrief
from swarm.mailbox.protocol.values.limits import (
    Limits,
    NetworkPolicy,
    PathRule,
    ProfilePolicy,
    ReadOnly,
    UnixSockets,
    WorkspaceWrite,
)
from swarm.worker.exec import command_plan
from swarm.worker.exec.command_plan import plan_command
from swarm.worker.exec.running_command import CommandRequest
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

pytestmark = pytest.mark.live
CALL = """
import socket, errno, sys
for path in sys.argv[1:]:
    try:
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        print(one.recv(99).decode())
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


@contextmanager
def answering(path, *, word="hello"):
    """A real server: it says a word to everybody who connects."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()

        def serve():
            while True:
                try:
                    sock, _ = door.accept()
                except OSError:
                    return
                with sock:
                    sock.sendall(word.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(path)
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(params=["landlock", "bwrap"])
def testbed(request, monkeypatch):
    facts = probe_sandbox()
    if request.param == "landlock":
        facts = msgspec.structs.replace(facts, bwrap=None)
    monkeypatch.setattr(command_plan, "probe_sandbox", lambda: facts)
    with open_escape_testbed(request.param) as made:
        yield made


@pytest.fixture
def places(testbed):
    """Three sockets of others: beside the root, in a covered tree, and among the run's own."""
    covered = Path(tempfile.mkdtemp(prefix="swarm-sockets-", dir="/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, covered)
        beside = (
            testbed.out / "beside.sock",
            covered / "covered.sock",
            testbed.run_folder / "own.sock",
        )
        yield [stack.enter_context(answering(path, word=path.stem)) for path in beside]


async def call(testbed, paths, *, rules=UnixSockets(), policy=None, network=None, began_s=0.0):  # noqa: B008,
    """What a command hears that connects to each of these."""
    policy = policy or WorkspaceWrite()
    spec = AgentSpec(
        run_id="r",
        agent_id="a",
        path="/root",
        epoch=1,
        role=RoleBrief(name="default"),
        limits=Limits(sandbox=policy, unix_sockets=rules, network=network),
        cwd=str(testbed.work),
        endpoint="",
        gateway=GatewayAccess(endpoint="", token=b""),
        identity=b"",
        secret=b"",
        model_settings=ModelSettings(model="m"),
        environment={},
        tmp_dir=str(testbed.home / "tmp"),
        guarded=GuardedPlaces(hidden_paths=(str(testbed.run_folder),)),
        run_began_s=began_s,
    )
    asked = CommandRequest(
        argv=(PYTHON, "-I", "-S", "-c", CALL, *paths), cwd=str(testbed.work),
        environment={"PATH": "/usr/bin:/bin"}, sandbox=plan_command(spec, policy, spec.cwd),
    )  # fmt: skip
    async with open_test_launcher() as (launcher, _):
        return (await run_script(launcher, asked)).text.split()


def is_error(word):
    return word in {"EPERM", "EACCES", "ENOENT", "ECONNREFUSED", "ENOTSOCK"}


async def test_without_a_rule_nothing_of_others_is_reached(testbed, places):
    heard = await call(testbed, places)
    assert len(heard) == 3
    assert all(map(is_error, heard))


async def test_a_socket_in_a_root_that_is_older_than_the_run_needs_a_rule_too(testbed):
    with answering(testbed.work / "older.sock") as path:
        began_s = time.time() + 1  # as if: no clock is waited for
        assert is_error((await call(testbed, [path], began_s=began_s))[0])
        opened = await call(testbed, [path], rules=UnixSockets(allow=(path,)), began_s=began_s)
        assert opened[0] == "hello" if testbed.stack == "bwrap" else is_error(opened[0])
        assert await call(testbed, [path]) == ["hello"]  # younger, it is the command's own


async def test_a_rule_opens_what_it_names_and_nothing_else(testbed, places):
    beside, covered, own = places
    heard = await call(testbed, places, rules=UnixSockets(allow=(covered, own)))
    assert [is_error(word) for word in heard] == [True, testbed.stack == "landlock", True]
    heard = await call(testbed, places, rules=UnixSockets(allow=(beside,)), policy=ReadOnly())
    assert [is_error(word) for word in heard] == [testbed.stack == "landlock", True, True]


async def test_all_of_them_is_all_but_the_runs_own_and_what_is_denied(testbed, places):
    _, covered, _ = places
    heard = await call(testbed, places, rules=UnixSockets(every=True, deny=(covered,)))
    expected = [True] * 3 if testbed.stack == "landlock" else [False, True, True]
    assert [is_error(word) for word in heard] == expected


async def test_beside_the_network_proxy_the_rule_holds_too(testbed, places):
    if testbed.stack == "landlock":
        pytest.skip("the network proxy needs bubblewrap")
    _, covered, _ = places
    closed = NetworkPolicy()
    assert await call(testbed, [covered], network=closed) == ["ENOENT"]
    heard = await call(testbed, places, rules=UnixSockets(allow=(covered,)), network=closed)
    assert [is_error(word) for word in heard] == [True, False, True]


async def test_a_profile_shows_the_socket_and_not_its_folder(testbed, places):
    if testbed.stack == "landlock":
        pytest.skip("no rule opens a single socket there")
    beside, covered, _ = places
    rules = [PathRule(path=path, access="read") for path in ("/usr", "/lib", "/lib64", "/bin")]
    rules += [PathRule(path=str(testbed.work), access="write")]
    narrow = ProfilePolicy(name="narrow", rules=tuple(rules), workspace=(str(testbed.work),))
    opened = UnixSockets(allow=(beside, covered))
    assert await call(testbed, [beside, covered], rules=opened, policy=narrow) == [
        "beside", "covered"
    ]  # fmt: skip
    denied = PathRule(path=str(testbed.out), access="deny")
    closed = msgspec.structs.replace(narrow, rules=(*narrow.rules, denied))
    heard = await call(testbed, [beside, covered], rules=opened, policy=closed)
    assert [is_error(word) for word in heard] == [True, False]


async def test_a_link_in_the_place_of_a_socket_opens_nothing(testbed, places):
    _, _, own = places
    link = testbed.out / "link.sock"
    link.symlink_to(own)
    assert is_error((await call(testbed, [str(link)], rules=UnixSockets(allow=(str(link),))))[0])


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_in_a_run_the_configuration_opens_it_and_the_model_is_told(rig):
    folder = Path(tempfile.mkdtemp(prefix="swarm-sockets-", dir="/tmp"))
    words = f"{PYTHON} -I -S -c '{CALL}' "
    with trio.fail_after(60), ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        one, other = (
            stack.enter_context(answering(folder / name, word=name)) for name in ("one", "other")
        )
        cmd = words + f"{one} {other} {rig.runtime}/swarm/*/s"
        turns = [
            {"calls": [{"name": "exec_command", "arguments": {"cmd": cmd}}]},
            {"text": "done"},
        ]
        setting = f'network.unix_sockets={{"{one}"="allow"}}'
        script = rig.script(*turns)
        ended = await (await rig.run(script, "-c", setting, sandbox="workspace-write")).wait_end()
    assert ended.code == 0, ended.err
    heard = rig.outputs()[0].split("Output:")[-1].split()
    assert heard[0] == "one"
    assert len(heard) == 3
    assert all(map(is_error, heard[1:]))
    assert rig.lives()[0].limits.unix_sockets.allow == (one,)
