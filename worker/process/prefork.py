"""The next agent's process, forked before it is wanted, so that no birth waits for two forks.

The fork-server keeps at most one, from the first order on that says others may follow. It has shed
what it inherited, has its launcher, stands under the life-line, and waits in one system call. It
knows nothing of any agent, and ends with the fork-server: its channel closes.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from swarm.mailbox.after_fork import after_fork_in_child, redirect_output, reset_inherited_state
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order, encode_fork

from . import boot

RunFromSpec = Callable[[int, int | None, int | None], int]  # spec, keys, life-line → exit code

_PACKET_BYTES = 64 * 1024
_STDERR = 2  # the fork-server's, until it has one of its own


class ForkLauncher(Protocol):
    """An agent's first act, before anything is written to; returns a descriptor to keep."""

    def __call__(
        self,
        *,
        lifeline_fd: int | None,
        stderr_fd: int,
        spec_fd: int | None,
        title: str,
        waits: bool = False,
    ) -> int: ...


class ChildSetup(NamedTuple):
    """What an agent's process does before it knows whose it is."""

    fork_launcher: ForkLauncher
    assign_launcher: Callable[[str, int, int], None]  # title, stderr, spec: to one that waits
    prewarm: Callable[[], None]  # touch what a life touches: what is copied now costs no birth


class PreforkedProcess(NamedTuple):
    """The fork-server's hold on it."""

    pid: int
    channel: socket.socket

    def assign(self, order: StartProcess, fds: Sequence[int]) -> bool:
        """Give it its order. False: it is dead, and another process must be forked."""
        try:
            socket.send_fds(self.channel, [encode_fork(order)], fds)
        except OSError:
            return False
        finally:
            self.channel.close()
        return True


def wait_and_run(
    entry: RunFromSpec, early: ChildSetup, channel: socket.socket, lifeline_fd: int, run: str
) -> int:
    """The bare forked process's whole life; returns its exit code, 0 if it was never wanted."""
    title = f"swarm: spare {run}"
    kept = early.fork_launcher(
        lifeline_fd=lifeline_fd,
        stderr_fd=_STDERR,
        spec_fd=None,
        title=boot.launcher_title(title),
        waits=True,
    )
    after_fork_in_child()
    reset_inherited_state(stderr_fd=_STDERR, keep={channel.fileno(), lifeline_fd, kept})
    boot.set_title(title)
    boot.bind_to_run(lifeline_fd)
    early.prewarm()
    packet, fds, _, _ = socket.recv_fds(channel, _PACKET_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    channel.close()
    if not packet:
        return 0
    order = decode_fork_order(packet)
    assert isinstance(order, StartProcess)
    spec_fd, stderr_fd = fds
    with suppress(OSError):  # its launcher is dead: its life ends as soon as it sees that
        early.assign_launcher(boot.launcher_title(order.title), stderr_fd, spec_fd)
    redirect_output(stderr_fd)
    os.close(stderr_fd)
    boot.set_title(order.title)
    return entry(spec_fd, None, lifeline_fd)
