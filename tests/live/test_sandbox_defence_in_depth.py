"""Beside bubblewrap stands a wall of its own: it holds where namespaces and filter are gone."""

import os
import socket

import msgspec
import pytest

from support.escape_testbed import open_escape_testbed, open_victim
from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.worker.exec import running_command
from swarm.worker.sandbox.landlock import landlock_abi
from swarm.worker.sandbox.prepared_command import prepare_command

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(landlock_abi() < 6, reason="Landlock scopes signals from ABI 6 on"),
]
FIRST_WALL = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--seccomp", "3")
ATTEMPTS = """
import errno, os, socket
def attempt(do, *args):
    try:
        do(*args)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
print(attempt(socket.create_connection, ("127.0.0.1", PORT)),
      attempt(socket.socket(socket.AF_UNIX).connect, "\\0NAME"), attempt(os.kill, PID, 0))
"""


@pytest.fixture
def testbed():
    with open_escape_testbed("bwrap") as made:
        yield made


def without_first_wall(monkeypatch, *, second):
    """Commands run in bubblewrap's mounts alone, with or without what is put on bubblewrap."""

    def prepare(*args, **more):
        made = prepare_command(*args, **more)
        words = tuple(word for word in made.argv if word not in FIRST_WALL)
        kept = made.confinement if second else None
        return msgspec.structs.replace(made, argv=words, confinement=kept)

    monkeypatch.setattr(running_command, "prepare_command", prepare)


async def attempts(testbed, **more):
    """TCP to this machine, an abstract socket, a signal to a stranger."""
    name = f"swarm-wall-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        open_victim() as victim,
    ):
        abstract.bind(f"\0{name}")
        abstract.listen()
        script = ATTEMPTS.replace("PORT", str(tcp.getsockname()[1])).replace("NAME", name)
        said = await testbed.py(script.replace("PID", str(victim.pid)), **more)
    assert said.status.exit_code == 0, said.text
    return said.text.split()


async def test_without_namespaces_abstract_sockets_and_signals_stay_inside(testbed, monkeypatch):
    without_first_wall(monkeypatch, second=False)
    assert await attempts(testbed) == ["done", "done", "done"]
    without_first_wall(monkeypatch, second=True)
    assert await attempts(testbed) == ["done", "EACCES", "EPERM"]


async def test_with_the_network_granted_it_leaves_tcp_open_and_nothing_else(testbed, monkeypatch):
    without_first_wall(monkeypatch, second=True)
    granted = WorkspaceWrite(network_access=True)
    assert await attempts(testbed, policy=granted) == ["done", "EACCES", "EPERM"]


async def test_a_command_goes_on_signalling_its_own_children(testbed):
    said = await testbed.sh("sleep 60 & kill %1; wait %1; echo $?; setsid sh -c 'kill -TERM $$'")
    assert said.text.splitlines()[0] == "143"
    assert said.status.exit_code == 143
