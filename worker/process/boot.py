"""What a new process does until its own work begins: forked, preforked or started cold.

A process receives its spec on one sealed descriptor and a gateway receives its keys on a second
one. Neither passes through arguments, environment or disk.

The next agent's process may be forked before its order comes, so that no agent start waits for two
forks: it has dropped the inherited state, has its launcher, is bound to the lifeline and waits in
one system call. It knows nothing about any agent and ends with the fork-server, when its channel
closes. A cold process enters through `cold_entry.py`.
"""

import importlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn, Protocol

import msgspec

from swarm.mailbox.base.after_fork import (
    after_fork_in_child,
    become_subreaper,
    disable_core_dumps,
    exit_child,
    gc_paused,
    ignore_interrupts,
    leave_working_folder,
    redirect_output,
    reset_inherited_state,
)
from swarm.mailbox.base.proxy_environment import proxy_variables
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    AnySpec,
    GatewaySpec,
    HostsSpec,
    HubSpec,
    ProxySpec,
    decode_spec,
)

from ..base.lifeline import hold_lifeline
from ..base.process_title import launcher_title, set_title

_OWN_UMASK = 0o077  # of processes that make no file for a person
RunFromSpec = Callable[[int, int | None, int | None], int]  # spec, keys, lifeline → exit code

_PACKET_BYTES = 64 * 1024
_STDERR = 2  # the fork-server's, until the order brings its own
_decode_keys = msgspec.msgpack.Decoder(dict[str, str]).decode


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


def run_from_spec(spec_fd: int, keys_fd: int | None, lifeline_fd: int | None) -> int:
    """Read the spec, run the process that it describes and return the exit code.

    Each kind of process imports only its own program. An agent keeps the umask of `swarm run`,
    which all inherit: what it makes for itself must not rely on one (`mailbox/base/private_files`).

    Args:
        spec_fd: A memfd, positioned at its beginning; closed here.
        keys_fd: A pipe with a msgpack map of keys, for a gateway or a hub; closed here.
        lifeline_fd: The lifeline's reading end; stays open. None: there is no lifeline.
    """
    umask = os.umask(_OWN_UMASK)
    ignore_interrupts()
    spec: AnySpec = decode_spec(_read_all(os.dup(spec_fd)))
    match spec:
        case AgentSpec():
            os.umask(umask)  # commands, patches and edits make files for the person
            _drop_proxy_variables(spec)
            if spec.copy.mounts and not _enter_copies(spec):
                return 1
            from ..exec.launcher_client import fork_launcher

            launcher = fork_launcher(lifeline_fd=lifeline_fd, spec_fd=spec_fd)  # before any lock
            os.close(spec_fd)
            bind_to_run(lifeline_fd)
            from ..agent.agent_process import run_agent

            return run_agent(spec, launcher, lifeline_fd)
        case GatewaySpec():
            os.close(spec_fd)
            bind_to_run(lifeline_fd)
            keys = {} if keys_fd is None else _decode_keys(_read_all(keys_fd))
            from ..gateway.gateway_process import run_gateway

            return run_gateway(spec, keys, lifeline_fd)
        case HubSpec():
            os.close(spec_fd)
            return _run_hub(spec, keys_fd, lifeline_fd, umask=umask)
        case HostsSpec():
            os.close(spec_fd)
            bind_to_run(lifeline_fd)
            from ..parts.hosts.hosts_process import run_hosts

            return run_hosts(spec, lifeline_fd, umask=umask)
        case ProxySpec():
            bind_to_run(lifeline_fd)
            from ..parts.network.proxy_process import run_proxy

            return run_proxy(spec, lifeline_fd)


def _run_hub(spec: HubSpec, keys_fd: int | None, lifeline_fd: int | None, *, umask: int) -> int:
    from ..exec.launcher_client import fork_launcher

    os.umask(umask)  # servers make files for the person
    launcher = fork_launcher(lifeline_fd=lifeline_fd)
    os.umask(_OWN_UMASK)
    bind_to_run(lifeline_fd)
    keys = {} if keys_fd is None else _decode_keys(_read_all(keys_fd))
    from ..parts.mcp.hub_process import run_hub

    return run_hub(spec, keys, launcher, lifeline_fd)


def _enter_copies(spec: AgentSpec) -> bool:
    """Mount the agent's copy of the project; False: it cannot be had, and stderr says why."""
    from ..parts.copies.copy_mounts import CopyUnavailable, enter_copies

    try:
        enter_copies(spec.copy.mounts)
    except CopyUnavailable as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        return False
    return True


def _drop_proxy_variables(spec: AgentSpec) -> None:
    """Remove the proxy variables that the spec's environment omits from this process."""
    for name in set(proxy_variables(os.environ)) - set(spec.environment):
        del os.environ[name]


def bind_to_run(lifeline_fd: int | None) -> None:
    """Become the subreaper of all descendants and end with the run.

    Call it after the launcher's fork: memory written before a fork is copied twice.
    """
    become_subreaper()
    if lifeline_fd is not None:
        hold_lifeline(lifeline_fd)


class ForkedChild(NamedTuple):
    """How the fork-server's children run. All of it is known before the first fork."""

    entry: RunFromSpec
    lifeline_fd: int  # the reading end, which every child keeps
    setup: ChildSetup | None = None  # what an agent does first, before it writes to its memory

    def run_order(self, order: StartProcess, fds: Sequence[int]) -> int:
        """In a child that was forked for this order; returns the exit code."""
        spec_fd, stderr_fd, *rest = fds
        kept = {spec_fd, self.lifeline_fd, *rest}
        forks_early = not (order.has_keys or order.is_service or order.in_copy)
        if self.setup is not None and forks_early:
            launcher = self.setup.fork_launcher(
                lifeline_fd=self.lifeline_fd,
                stderr_fd=stderr_fd,
                spec_fd=spec_fd,
                title=launcher_title(order.title),
            )
            kept.add(launcher)
        after_fork_in_child()
        reset_inherited_state(stderr_fd=stderr_fd, keep=kept)
        set_title(order.title)
        return self.entry(spec_fd, rest[0] if order.has_keys else None, self.lifeline_fd)

    def wait_for_order(self, channel: socket.socket, run: str) -> int:
        """In a preforked agent, from fork to end; returns the exit code, 0 without an order."""
        assert self.setup is not None
        title = f"swarm: spare {run}"
        launcher = self.setup.fork_launcher(
            lifeline_fd=self.lifeline_fd,
            stderr_fd=_STDERR,
            spec_fd=None,
            title=launcher_title(title),
            waits=True,
        )
        after_fork_in_child()
        kept = {channel.fileno(), self.lifeline_fd, launcher}
        reset_inherited_state(stderr_fd=_STDERR, keep=kept)
        set_title(title)
        bind_to_run(self.lifeline_fd)
        self.setup.prewarm()
        order, fds = _receive_order(channel)
        if order is None:
            return 0
        spec_fd, stderr_fd = fds
        with suppress(OSError):  # the launcher is dead: the agent ends as soon as it notices
            self.setup.assign_launcher(launcher_title(order.title), stderr_fd, spec_fd)
        redirect_output(stderr_fd)
        os.close(stderr_fd)
        set_title(order.title)
        return self.entry(spec_fd, None, self.lifeline_fd)


def run_preforked_gateway(channel_fd: int, lifeline_fd: int) -> int:
    """Run a gateway forked before its spec is known: import modules, then take one StartProcess.

    Returns the exit code; 0 when the supervisor closes the channel without an order.
    """
    hold_lifeline(lifeline_fd)
    with gc_paused():
        importlib.import_module("swarm.worker.gateway.gateway_process")
        # Else the first connection would spend 2 ms on it.
        importlib.import_module("encodings.idna")
    order, fds = _receive_order(socket.socket(fileno=channel_fd))
    if order is None:
        return 0
    set_title(order.title)
    return run_from_spec(fds[0], fds[1] if order.has_keys else None, lifeline_fd)


def _receive_order(channel: socket.socket) -> tuple[StartProcess | None, list[int]]:
    """Wait for the one order; None: the other end closed the channel. Closes `channel`."""
    packet, fds, _, _ = socket.recv_fds(channel, _PACKET_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
    channel.close()
    if not packet:
        return None, []
    order = decode_fork_order(packet)
    assert isinstance(order, StartProcess)
    return order, fds


def _read_all(fd: int) -> bytes:
    pieces: list[bytes] = []  # no file object: it would cost each agent 20 pages
    while piece := os.read(fd, _PACKET_BYTES):
        pieces.append(piece)
    os.close(fd)
    return b"".join(pieces)


def run_cold_started(title: str, spec_fd: int, keys_fd: int | None, lifeline_fd: int) -> NoReturn:
    """Run what the spec describes in the process that `cold_entry.py` started; never returns."""
    disable_core_dumps()
    leave_working_folder()
    set_title(title)
    exit_child(run_from_spec(spec_fd, keys_fd, lifeline_fd))
