"""A process that has imported the launcher once and forks a fresh one for each test that asks.

A launcher's own start costs a hundred times what its first command does, since each would import
Python's modules again. The forked one is as an agent forks it: `become_launcher` in a bare child.
"""

import atexit
import socket
import struct
import subprocess
import sys
from functools import cache

_PID = struct.Struct("=q")
_PROGRAM = """
import os, signal, socket, struct, sys
from swarm.mailbox.after_fork import after_fork_in_parent, before_fork, fork_bare
from swarm.worker.exec.launcher_process import become_launcher

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end it
PID = struct.Struct("=q")
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    datagram, fds, _, _ = socket.recv_fds(asked, PID.size, 1, socket.MSG_CMSG_CLOEXEC)
    if not datagram:
        break
    if not fds:  # one of them ended, or is about to
        os.waitpid(PID.unpack(datagram)[0], 0)
        asked.send(datagram)
        continue
    before_fork()
    try:
        pid = fork_bare()
        if pid == 0:
            become_launcher(socket.socket(fileno=fds[0]), None)
    finally:
        after_fork_in_parent()
    os.close(fds[0])
    asked.send(PID.pack(pid))
"""


class LauncherForks:
    """Asks the process that forks; one per process of the tests."""

    def __init__(self) -> None:
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())]
        self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self._end)

    def fork(self, sock: socket.socket) -> int:
        """A launcher whose orders come through the other end of `sock`, which is kept; its pid."""
        socket.send_fds(self._asked, [_PID.pack(0)], [sock.fileno()])
        return int(_PID.unpack(self._asked.recv(_PID.size))[0])

    def reap(self, pid: int) -> None:
        """Wait until that launcher has ended."""
        self._asked.send(_PID.pack(pid))
        self._asked.recv(_PID.size)

    def _end(self) -> None:
        self._asked.close()
        self._process.wait()


@cache
def launcher_forks() -> LauncherForks:
    return LauncherForks()
