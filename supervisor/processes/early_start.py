"""What the entry process does before Trio, a thread or a ZeroMQ context exists.

It raises the open-files limit, makes the lifeline pipe, and forks the fork-server once the
libraries that all processes need are imported: the fork-server imports the rest while the command
line and the configuration are still being read here. The gateway is needed a little later and is
forked once they are read: forking both at once would delay the first agent.
"""

import gc
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from swarm.mailbox.base.after_fork import (
    become_subreaper,
    disable_core_dumps,
    interrupts_held,
    reset_inherited_state,
    run_and_exit,
)
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.key_wiping import wipe_secrets
from swarm.mailbox.protocol.forking import ChangeVariable, encode_fork

from .spawn_payload import spawn_cold

_MAX_PACKET_BYTES = 32 * 1024


class ChildPrograms(msgspec.Struct, frozen=True, kw_only=True):
    """The children's programs by name, as text: this package may not import theirs.

    `module:function` is called in a forked child as (channel fd, lifeline fd) → exit code. The cold
    ones are arguments of the interpreter, to which descriptor numbers are added.
    """

    shared: tuple[str, ...] = (
        "msgspec",
        "zmq",
        "trio",
        "swarm.mailbox.delivery.dealer",
        "swarm.mailbox.delivery.router",
        "swarm.mailbox.protocol.gateway",
        "swarm.mailbox.protocol.sampling",
        "swarm.mailbox.protocol.spec",
    )
    gateway: str = "swarm.worker.process.boot:run_preforked_gateway"
    forkserver: str = "swarm.worker.process.fork_server:run_fork_server"
    cold_forkserver: tuple[str, ...] = ("-m", "swarm.worker.process.fork_server")
    cold_child: tuple[str, ...] = (
        "-m",
        "swarm.worker.process.cold_entry",
    )  # the title follows, then descriptor numbers


class LaunchedProcess(msgspec.Struct, kw_only=True):
    """A process that waits for orders on a channel. Its user closes its descriptors."""

    pid: int
    pidfd: int
    channel: socket.socket  # SOCK_SEQPACKET
    stderr_fd: int  # reading end

    def close(self) -> None:
        self.channel.close()
        os.close(self.pidfd)
        os.close(self.stderr_fd)


class EarlyProcesses(msgspec.Struct, kw_only=True):
    """Descriptors and pids; no context, no thread. The process manager takes the processes over."""

    lifeline_reader: int
    lifeline_writer: int
    programs: ChildPrograms
    server: LaunchedProcess | None = None
    gateway: LaunchedProcess | None = None
    environment: dict[str, str]  # as the fork-server knows it
    deadline_s: float | None = None  # when the run must be over, from the start of its processes

    def complete(self, *, deadline_s: float | None = None) -> None:
        """Update the fork-server's environment and fork the gateway.

        The fork-server gets each variable that changed since its fork (removed keys, variables set
        by the configuration). With a second thread alive no gateway is forked. Call it once, before
        the process manager takes the processes over. Raises UsageError for a variable that is too
        long to send.
        """
        self.deadline_s = deadline_s
        before, self.environment = self.environment, dict(os.environ)
        for name in before | self.environment:
            if before.get(name) == (value := self.environment.get(name)):
                continue
            packet = encode_fork(ChangeVariable(name=name, value=value))
            if len(packet) > _MAX_PACKET_BYTES:
                raise UsageError(f"the environment variable {name[:60]!r} is too long")
            if self.server is not None:
                with suppress(OSError):  # it died; its next use shows why
                    self.server.channel.send(packet)
        if _is_single_threaded():
            self.gateway = _fork_program(self.programs.gateway, self.lifeline_reader, secrets=())

    def take_server(self) -> LaunchedProcess | None:
        """The fork-server; the caller ends it from now on."""
        server, self.server = self.server, None
        return server

    def take_gateway(self) -> LaunchedProcess | None:
        """The forked gateway; the caller ends it from now on."""
        gateway, self.gateway = self.gateway, None
        return gateway

    def close(self) -> None:
        """Close the lifeline: every process of the run ends. May be called twice.

        Processes that were not taken over have no children; they are gone when this returns.
        """
        for launched in (self.server, self.gateway):
            if launched is not None:
                kill_launched(launched)
        self.server = self.gateway = None
        for fd in (self.lifeline_writer, self.lifeline_reader):
            if fd >= 0:
                os.close(fd)
        self.lifeline_writer = self.lifeline_reader = -1


def start_early(
    programs: ChildPrograms | None = None, *, secrets: Collection[str] = ()
) -> EarlyProcesses:
    """Prepare this process and start the fork-server; `EarlyProcesses.complete` does the rest.

    Args:
        programs: What to start; only tests name others.
        secrets: Values of keys that were taken out of the environment before: wiped from the memory
            that the fork-server inherits. `complete` reports keys that are taken out later.

    Returns:
        EarlyProcesses; close it when the run is over. With a second thread alive nothing is forked:
            the fork-server starts cold, and the gateway when its spec is known.
    """
    chosen = programs or ChildPrograms()
    _raise_open_files_limit()
    become_subreaper()
    disable_core_dumps()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    early = EarlyProcesses(
        lifeline_reader=reader,
        lifeline_writer=writer,
        programs=chosen,
        environment=dict(os.environ),
    )
    if not _is_single_threaded():
        early.server = launch_fork_server(early)
        return early
    for name in chosen.shared:
        importlib.import_module(name)
    gc.freeze()  # modules: no garbage collection, here or in a child, needs to visit them again
    early.server = _fork_program(chosen.forkserver, reader, secrets=secrets)
    return early


def _is_single_threaded() -> bool:
    """True if this process has one thread: only then may it fork."""
    return len(list(Path("/proc/self/task").iterdir())) == 1


def launch_fork_server(early: EarlyProcesses) -> LaunchedProcess:
    """Start a fork-server without forking: the first was lost, or this process has threads.

    Raises SpawnError.
    """
    program, lifeline_fd = early.programs.cold_forkserver, early.lifeline_reader
    return _launch(lambda fd, stderr: spawn_cold(program, (fd, lifeline_fd), stderr_fd=stderr))


def _launch(start: Callable[[int, int], int]) -> LaunchedProcess:
    """`start` gets the process's end of the channel and its stderr, and returns its pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stderr_reader, stderr_writer = os.pipe2(os.O_CLOEXEC)
    try:
        pid = start(theirs.fileno(), stderr_writer)
    except BaseException:
        ours.close()
        os.close(stderr_reader)
        raise
    finally:
        theirs.close()
        os.close(stderr_writer)
    pidfd = os.pidfd_open(pid)
    return LaunchedProcess(pid=pid, pidfd=pidfd, channel=ours, stderr_fd=stderr_reader)


def _raise_open_files_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # 1,000 agents need it; smaller runs do not
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _fork_program(program: str, lifeline_fd: int, *, secrets: Collection[str]) -> LaunchedProcess:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # else the child prints it again

    def fork(fd: int, stderr_fd: int) -> int:
        with interrupts_held():
            pid = os.fork()
            if pid == 0:  # it never leaves the block, and ignores interrupts once it is set up
                run_and_exit(lambda: _run_program(program, fd, stderr_fd, lifeline_fd, secrets))
        with suppress(OSError):
            os.setpgid(pid, pid)
        return pid

    return _launch(fork)


def _run_program(
    program: str, channel_fd: int, stderr_fd: int, lifeline_fd: int, secrets: Collection[str]
) -> int:
    """Runs in the child; returns its exit code."""
    reset_inherited_state(stderr_fd=stderr_fd, keep={channel_fd, lifeline_fd})
    wipe_secrets(secrets)
    module, _, name = program.partition(":")
    code: int = getattr(importlib.import_module(module), name)(channel_fd, lifeline_fd)
    return code


def kill_launched(launched: LaunchedProcess) -> None:
    """SIGKILL a process that was never used, and reap it. Never waits long."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(launched.pidfd, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, launched.pidfd, os.WEXITED)
    launched.close()
