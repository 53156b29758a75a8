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

from swarm.mailbox.forked import complain_to, settle_child, shed_inheritance
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order, encode_fork

from . import boot

Entry = Callable[[int, int | None, int | None], int]  # spec, keys, life-line → exit code

_PACKET_BYTES = 64 * 1024
_STDERR = 2  # the fork-server's, until it has one of its own


class ForkEarly(Protocol):
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


class Beginning(NamedTuple):
    """What an agent's process does before it knows whose it is."""

    fork_launcher: ForkEarly
    tell_launcher: Callable[[str, int, int], None]  # title, stderr, spec: to one that waits
    rehearse: Callable[[], None]  # touch what a life touches: what is copied now costs no birth


class Spare(NamedTuple):
    """The fork-server's hold on it."""

    pid: int
    channel: socket.socket

    def obey(self, order: StartProcess, fds: Sequence[int]) -> bool:
        """Give it its order. False: it is dead, and another process must be forked."""
        try:
            socket.send_fds(self.channel, [encode_fork(order)], fds)
        except OSError:
            return False
        finally:
            self.channel.close()
        return True


def wait_and_become(
    entry: Entry, early: Beginning, channel: socket.socket, lifeline_fd: int, run: str
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
    settle_child()
    shed_inheritance(stderr_fd=_STDERR, keep={channel.fileno(), lifeline_fd, kept})
    boot.set_title(title)
    boot.stand_guard(lifeline_fd)
    early.rehearse()
    packet, fds, _, _ = socket.recv_fds(channel, _PACKET_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    channel.close()
    if not packet:
        return 0
    order = decode_fork_order(packet)
    assert isinstance(order, StartProcess)
    spec_fd, stderr_fd = fds
    with suppress(OSError):  # its launcher is dead: its life ends as soon as it sees that
        early.tell_launcher(boot.launcher_title(order.title), stderr_fd, spec_fd)
    complain_to(stderr_fd)
    os.close(stderr_fd)
    boot.set_title(order.title)
    return entry(spec_fd, None, lifeline_fd)
