"""A command may have pairs of datagram sockets; nothing that they send reaches anybody else."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.users import USERS
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

FACTS = probe_sandbox()
STACKS = [
    pytest.param("bwrap", marks=pytest.mark.skipif(not FACTS.notifies, reason="nobody can look")),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(not (FACTS.landlock_abi and FACTS.answers), reason="no broker"),
    ),
]
_SCRIPT = """
import array, ctypes, errno, fcntl, os, socket, sys
path = sys.argv[1]
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.send(b"first")
    one.sendmsg([b"sec", b"ond"])
    assert (other.recv(99), other.recv(99)) == (b"first", b"second")
    socket.send_fds(one, [b"f"], [0])
    assert len(socket.recv_fds(other, 9, 1)[1]) == 1
    for do in (
        lambda: one.sendto(b"stray", path),
        lambda: one.sendmsg([b"stray"], [], 0, path),
        lambda: (one.connect(path), one.send(b"stray")),
        lambda: socket.socket(socket.AF_UNIX, kind).sendto(b"stray", path),
    ):
        try:
            do()
        except OSError:
            pass
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
assert fcntl.fcntl(one, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
try:
    other.recv(1)
except BlockingIOError:
    print("waits for nothing")
libc = ctypes.CDLL(None, use_errno=True)
before = len(os.listdir("/proc/self/fd"))
assert libc.socketpair(1, 2, 0, ctypes.c_void_p(8)) == -1
assert ctypes.get_errno() == errno.EFAULT
assert len(os.listdir("/proc/self/fd")) == before
print("done")
"""


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("network", [(), ("--network",)], ids=["off", "on"])
def test_an_end_sends_to_the_other_and_to_no_stranger(stack, user, network):
    work = Path(tempfile.mkdtemp(prefix="swarm-pairs-", dir="/var/tmp"))
    words = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command", "-s", "read-only"]
    words += ["--stack", stack, *network, "-C", str(work), "--", "/usr/bin/python3", "-c", _SCRIPT]
    more = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": ()}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            stranger.bind(str(work / "door"))
            work.chmod(0o755)
            (work / "door").chmod(0o777)
            done = subprocess.run(
                [*words, str(work / "door")], env={"PATH": "/usr/bin:/bin"}, timeout=60,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more,
            )  # fmt: skip
            assert done.stdout == "waits for nothing\ndone\n", done.stderr
            stranger.setblocking(False)
            with pytest.raises(BlockingIOError):
                stranger.recv(1)
    finally:
        shutil.rmtree(work)
