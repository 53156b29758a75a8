"""Preforking: the next agent's process is forked early, so no agent start waits for two forks.

The fork-server keeps at most one, starting with the first order that says that others may follow.
The process has dropped the inherited state, has its launcher, is bound to the lifeline and waits in
one system call. It knows nothing about any agent and ends with the fork-server, when its channel
closes.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from swarm.mailbox.after_fork import after_fork_in_child, redirect_output, reset_inherited_state
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order, encode_fork

from . import boot

RunFromSpec = Callable[[int, int | None, int | None], int]  # spec, keys, lifeline → exit code

_PACKET_BYTES = 64 * 1024
_STDERR = 2  # the fork-server's, until the order brings its own


class ForkLauncher(Protocol):
    """Fork the launcher before the agent writes to memory; returns a descriptor to keep."""

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
    """What an agent's process does before it receives its order."""

    fork_launcher: ForkLauncher
    # Title, stderr, spec: for a launcher that waits.
    assign_launcher: Callable[[str, int, int], None]
    # Write to the pages that a session writes to: copying them now delays no agent start.
    prewarm: Callable[[], None]


class PreforkedProcess(NamedTuple):
    """The fork-server's handle of the preforked process."""

    pid: int
    channel: socket.socket

    def assign(self, order: StartProcess, fds: Sequence[int]) -> bool:
        """Send the process its order. False: it is dead, and another process must be forked."""
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
    """Run the preforked process from fork to end; returns its exit code, 0 without an order."""
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
    with suppress(OSError):  # the launcher is dead: the agent ends as soon as it notices
        early.assign_launcher(boot.launcher_title(order.title), stderr_fd, spec_fd)
    redirect_output(stderr_fd)
    os.close(stderr_fd)
    boot.set_title(order.title)
    return entry(spec_fd, None, lifeline_fd)
