"""Sockets of other programs stay out of reach whatever their names; a command's own ones work.

By an agent's launcher, by `swarm sandbox`, by a fan-out's command; as root and as a plain user.
"""

# ruff: noqa: ASYNC110 - what is waited for is another process's file

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from support.escape_testbed import PYTHON, open_escape_testbed, open_test_launcher, run_script
from swarm.mailbox.protocol.values.limits import PathRule, ProfilePolicy, ReadOnly, WorkspaceWrite
from swarm.supervisor.clients.cli.base.sandboxed_script import run_sandboxed_script
from swarm.worker.exec.launcher_protocol import CommandLimits
from swarm.worker.sandbox import prepared_command
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
MODULE = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command"]
HIT = """
import errno, os, socket, sys
def attempt(do, *args):
    try:
        do(*args)
        return "IN"
    except OSError as error:
        return errno.errorcode[error.errno]
def connect(path):
    return attempt(socket.socket(socket.AF_UNIX).connect, path)
"""
STRANGERS = (
    HIT
    + """
folder = "FOLDER"
for name in ("relative", "renamed", "linked", "new\\nline", "real"):
    print(name.split()[0], connect(f"{folder}/{name}"))
os.chdir(folder)
print("from-inside", connect("relative"), connect("../" + folder.split("/")[-1] + "/renamed"))
print("by-link", connect("alias/relative"))
print("no-socket", connect("file"), connect("nothing"))
one = socket.socket(socket.AF_UNIX)
one.setblocking(False)
print("nonblocking", attempt(one.connect, "relative"))
print("abstract", connect("\\0ABSTRACT"))
def send(kind):
    socket.socket(socket.AF_UNIX, kind).sendto(b"x", "datagram")
print("datagram", attempt(send, socket.SOCK_DGRAM), attempt(send, socket.SOCK_RAW))
print("pair", attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)))
"""
)


@contextmanager
def strangers() -> Iterator[tuple[str, str]]:
    """Listening sockets of this process, whose names in /proc/net/unix mislead. Their folder can be
    read by everybody. Returns it, and an abstract name.
    """
    folder = Path(tempfile.mkdtemp(prefix="swarm-strangers-", dir="/var/tmp"))
    name = f"swarm-strangers-{os.getpid()}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.callback(os.chdir, Path.cwd())
        folder.chmod(0o755)
        os.chdir(folder)
        kinds = {"datagram": socket.SOCK_DGRAM}
        for address in ("relative", str(folder / "real"), "before", "new\nline", f"\0{name}",
                        "once", "datagram"):  # fmt: skip
            one = stack.enter_context(
                socket.socket(socket.AF_UNIX, kinds.get(address, socket.SOCK_STREAM))
            )
            one.bind(address)
            if address not in kinds:
                one.listen()
        Path("before").rename("renamed")
        Path("linked").hardlink_to("once")
        Path("once").unlink()
        Path("file").write_text("")
        Path("alias").symlink_to(".")
        for path in folder.iterdir():
            path.chmod(0o777)
        yield str(folder), name


def refusals(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def check(text: str, *, network: bool = False) -> None:
    """What everybody must have heard."""
    said = refusals(text)
    for name in ("relative", "renamed", "linked", "new", "real", "by-link", "nonblocking"):
        assert said.pop(name) == ["EACCES"], (name, text)
    assert said.pop("from-inside") == ["EACCES", "EACCES"]
    assert said.pop("no-socket") == ["ECONNREFUSED", "ENOENT"]
    assert said.pop("abstract") == ["EACCES" if network else "ECONNREFUSED"]
    assert said.pop("datagram") == ["EPERM", "EPERM"]
    assert said.pop("pair") == ["IN"]  # of a kind that takes no addresses
    assert said == {}


def script_for(folder: str, name: str) -> str:
    return STRANGERS.replace("FOLDER", folder).replace("ABSTRACT", name)


@pytest.mark.parametrize("limits", [CommandLimits(), CommandLimits(cpu_s=60)], ids=["", "limited"])
@pytest.mark.parametrize("network", [False, True])
async def test_an_agents_command_reaches_no_other_programs_socket(network, limits):
    with strangers() as (folder, name), open_escape_testbed("bwrap") as testbed:
        policy = WorkspaceWrite(network_access=network)
        asked = testbed.request(script_for(folder, name), python=True, policy=policy)
        asked = type(asked)(**{field: getattr(asked, field) for field in asked.__struct_fields__
                               if field != "limits"}, limits=limits)  # fmt: skip
        async with open_test_launcher() as (launcher, _):
            check((await run_script(launcher, asked)).text, network=network)


async def test_who_may_write_everywhere_reaches_no_other_programs_socket_either():
    with strangers() as (folder, name), open_escape_testbed("bwrap") as testbed:
        hidden = Path(folder) / "deep/hidden"
        hidden.mkdir(parents=True)  # so that the folders above it are mounts of their own
        rules = (PathRule(path="/", access="write"), PathRule(path=str(hidden), access="deny"))
        policy = ProfilePolicy(name="all", rules=rules, tmp="write")
        script = script_for(folder, name)
        assert folder in testbed.request("", policy=policy).sandbox.pinned
        check((await testbed.py(script, policy=policy)).text)
        own = await testbed.py('import os\nos.chdir("/tmp")\n' + OWN, policy=policy)
        assert own.text == "hello " * 8 + "EAGAIN waited\n"


def run_standalone(*words: str, before: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*before, *MODULE, *words], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("options", [(), ("--network",), ("-s", "workspace-write")])
def test_swarm_sandbox_reaches_no_other_programs_socket(tmp_path, options):
    with strangers() as (folder, name):
        words = ("--", PYTHON, "-I", "-S", "-c", script_for(folder, name))
        said = run_standalone(*options, "-C", str(tmp_path), *words)
    check(said, network="--network" in options)


def test_a_fan_outs_command_reaches_no_other_programs_socket(tmp_path):
    with strangers() as (folder, name):
        script = shlex.join((PYTHON, "-I", "-S", "-c", script_for(folder, name)))
        check(run_sandboxed_script(script, tmp_path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_plain_users_command_reaches_no_other_programs_socket():
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    before = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
    able = subprocess.run([*before, *MODULE, "--", "/bin/true"], capture_output=True, check=False)
    if able.returncode != 0:
        pytest.skip("a plain user has no sandbox here")
    with strangers() as (folder, name):
        words = ("-C", "/usr", "--", PYTHON, "-I", "-S", "-c", script_for(folder, name))
        check(run_standalone(*words, before=before))


OWN = (
    HIT
    + """
import os, threading
os.makedirs("deep/er", exist_ok=True)
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind("deep/one")
    server.listen()
    os.rename("deep/one", "deep/er/two")
    os.symlink(os.path.abspath("deep/er"), "deep/link")
    ways = ("deep/er/two", "deep/er/../er/./two", "deep/link/two", os.path.abspath("deep/link/two"))
    for path in ways:
        client = socket.socket(socket.AF_UNIX, kind)
        client.connect(path)
        client.send(b"hello")
        print(server.accept()[0].recv(9).decode(), end=" ")
    os.unlink("deep/link")
    os.unlink("deep/er/two")
full = socket.socket(socket.AF_UNIX)
full.bind("full")
full.listen(0)
waits = [socket.socket(socket.AF_UNIX) for _ in range(2)]
waits[0].connect("full")
waits[1].setblocking(False)
print(attempt(waits[1].connect, "full"), end=" ")
waits[1].setblocking(True)
thread = threading.Thread(target=waits[1].connect, args=("full",))
thread.start()
full.accept()
full.accept()
thread.join()
print("waited")
"""
)


@pytest.mark.parametrize("network", [False, True])
async def test_a_commands_own_sockets_work(network):
    with open_escape_testbed("bwrap") as testbed:
        said = await testbed.py(OWN, policy=WorkspaceWrite(network_access=network))
        assert said.text == "hello " * 8 + "EAGAIN waited\n"
        private = await testbed.py('import os\nos.chdir("/tmp")\n' + OWN, policy=ReadOnly())
        assert private.text == "hello " * 8 + "EAGAIN waited\n"


LOOPBACK = """
import http.server, socket, threading, urllib.request
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "[::1]")):
    class Server(http.server.ThreadingHTTPServer):
        address_family = family
    server = Server((host.strip("[]"), 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(urllib.request.urlopen(f"http://{host}:{server.server_port}/").status)
one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
one.bind(("127.0.0.1", 0))
other.sendto(b"packet", one.getsockname())
print(one.recv(9).decode())
"""


@pytest.mark.parametrize("policy", [ReadOnly(), WorkspaceWrite()])
async def test_a_test_that_starts_a_server_works_without_the_network(policy):
    with open_escape_testbed("bwrap") as testbed:
        said = await testbed.py(LOOPBACK, policy=policy)
        assert [line for line in said.text.splitlines() if "GET" not in line] == [
            "200", "200", "packet"
        ]  # fmt: skip


async def test_loopback_leads_to_no_other_commands_server_nor_the_machines():
    with open_escape_testbed("bwrap") as testbed, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        serving = (
            f"python3 -c \"import socket; s = socket.create_server(('127.0.0.1', {port}));"
            "open('up', 'w'); s.accept()\" & while ! [ -e up ]; do :; done; wait"
        )
        asking = f"{HIT}\nprint(attempt(socket.create_connection, ('127.0.0.1', {port})))"
        async with open_test_launcher() as (launcher, _), trio.open_nursery() as nursery:
            nursery.start_soon(run_script, launcher, testbed.request(serving))
            with trio.fail_after(10):
                while not (testbed.work / "up").exists():
                    await trio.sleep(0.01)
            said = await run_script(launcher, testbed.request(asking, python=True))
            nursery.cancel_scope.cancel()
    assert said.text == "ECONNREFUSED\n"


SWAP = (
    HIT
    + """
import ctypes, threading
# One thread changes address and descriptor for ever, while another connects to its own socket.
own = socket.socket(socket.AF_UNIX)
own.bind("own")
own.listen(4096)
libc = ctypes.CDLL(None, use_errno=True)
def address(path):
    return (b"\\1\\0" + path.encode()).ljust(110, b"\\0")
good, evil = address("own"), address("FOLDER/real")
memory = ctypes.create_string_buffer(good, 110)
over = False
def swap():
    while not over:
        ctypes.memmove(memory, evil, 110)
        ctypes.memmove(memory, good, 110)
thread = threading.Thread(target=swap)
thread.start()
seen = set()
for _ in range(300):
    one = socket.socket(socket.AF_UNIX)
    if libc.connect(one.fileno(), memory, 110) == 0:
        seen.add(one.getpeername())
over = True
thread.join()
print(sorted(seen))
"""
)


async def test_an_address_that_changes_while_it_is_judged_opens_nothing():
    with strangers() as (folder, _), open_escape_testbed("bwrap") as testbed:
        said = await testbed.py(SWAP.replace("FOLDER", folder))
    assert said.text in {"['own']\n", "[]\n"}


async def test_where_nobody_can_look_no_unix_socket_is_made(monkeypatch):
    facts = msgspec.structs.replace(probe_sandbox(), notifies=False)
    monkeypatch.setattr(prepared_command, "probe_sandbox", lambda: facts)
    with open_escape_testbed("bwrap") as testbed:
        script = HIT + (
            "print(attempt(lambda: socket.socket(socket.AF_UNIX)), attempt(socket.socketpair),"
            "attempt(lambda: socket.socket(socket.AF_INET)))"
        )
        for network in (False, True):
            said = await testbed.py(script, policy=WorkspaceWrite(network_access=network))
            assert said.text == "EPERM IN IN\n"
