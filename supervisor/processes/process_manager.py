"""Owns every process of the run; when the block ends, none is left.

Starts through the fork-server, else cold. The loss of a fork-server ends no agent: this process (a
subreaper) adopts them, and a new server starts.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress

import trio

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.process_tree import (
    children_of,
    is_zombie,
    kill_descendants,
    kill_descendants_once,
)
from swarm.mailbox.protocol.forking import StartProcess, encode_fork
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec, GatewaySpec, HostsSpec

from .child_loop import ChildLoop
from .child_process import ChildProcess
from .child_spec import ChildSpec
from .early_start import EarlyProcesses, kill_launched, launch_fork_server
from .fork_server_client import ForkedProcess, ForkServerClient, ForkServerGone
from .process_types import Child, SpawnError, StartInterrupted
from .spawn_payload import SpawnPayload, open_spawn_payload, spawn_cold
from .start_faults import start_faults
from .stop_notice import StopNotice, open_stop_notice

START_LIMIT_S = 3.0  # a fork-server silent for so long counts as dead
MAX_STARTING = 16  # at once: more would finish no sooner, and each would seem slow
_CLOSE_GRACE_S = 5.0
_KILL_LIMIT_S = 2.0
_SERVER_GRACE_S = 3.0  # it kills what it forked, and its client kills it after 1.5 s
_POLL_S = 0.005


class ProcessManager:
    """Starts processes and watches each to its end. Made by `open_process_manager` only."""

    def __init__(self, early: EarlyProcesses, nursery: trio.Nursery, notice: StopNotice) -> None:
        self._early, self._nursery, self._notice = early, nursery, notice
        self._children: dict[int, ChildProcess] = {}  # by pid, oldest first; living ones only
        self._server: ForkServerClient | None = None  # orders wait until it is ready
        if (server := early.take_server()) is not None:
            self._server = ForkServerClient(server)
        self.start_limiter = trio.CapacityLimiter(MAX_STARTING)  # held while waiting for a Hello
        self._lost_server = False
        self.server_loop = ChildLoop(
            ChildSpec(
                start=self._start_server,
                on_end=self._on_server_end,
                ask_to_stop=self._ask_server_to_exit,
                grace_s=_SERVER_GRACE_S,
            )
        )
        self._closing = False

    @property
    def server_pid(self) -> int | None:
        """The pid of the fork-server that takes orders now; None: starts are cold."""
        return self._server.pid if self._server and not self._server.ended.is_set() else None

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process for this spec: by the fork-server, or cold while there is none.

        Args:
            spec: Reaches the child through a sealed memfd.
            title: For example `/root/scout [explorer]`; `ps` shows it after `swarm: `.
            keys: For a gateway; reach the child through a pipe. The first gateway was forked early
                and only gets its spec now.

        Raises SpawnError: nothing was started. StartInterrupted: nothing of it is left; the next
        try must use another identity, so that two processes never have, nor seem to have, the same
        one.
        """
        if self._closing:
            raise SpawnError("the run is ending; nothing new starts")
        is_cold = isinstance(
            spec, HostsSpec
        )  # Ray starts threads and wants an interpreter of its own
        if isinstance(spec, GatewaySpec) and (child := self._assign_early_gateway(spec, keys)):
            return child
        run = short_id(spec.run_id)
        name = f"swarm: {title.removeprefix('swarm: ')} {run}"
        with start_faults(title), open_spawn_payload(spec, keys) as payload:
            order = StartProcess(
                request=0,
                title=name,
                run=run,
                has_keys=bool(payload.key_fds),
                is_service=not isinstance(spec, AgentSpec),
                may_follow=isinstance(spec, AgentSpec) and spec.depth > 0,
                in_copy=isinstance(spec, AgentSpec) and bool(spec.copy.mounts),
            )
            forked = None if is_cold else await self._fork(order, payload)
            pid, pidfd, report = forked or self._spawn_cold(name, payload)
            child = ChildProcess(
                pid=pid,
                pidfd=pidfd,
                stderr_fd=payload.stderr_reader,
                report=report,
            )
        self._add_child(child)
        return child

    def _assign_early_gateway(
        self, spec: GatewaySpec, keys: Mapping[str, str] | None
    ) -> Child | None:
        """Give the early forked gateway its spec; None: there is none. Raises SpawnError."""
        if (waiting := self._early.take_gateway()) is None:
            return None
        run = short_id(spec.run_id)
        title = f"swarm: gateway {run}"
        order = encode_fork(StartProcess(request=0, title=title, run=run, has_keys=True))
        with open_spawn_payload(spec, keys) as payload:
            os.close(payload.stderr_reader)  # it was forked with a pipe for its stderr
            try:  # one packet into an empty socket never blocks
                fds = (payload.spec_fd, *payload.key_fds)
                socket.send_fds(waiting.channel, [order], fds)
            except OSError:  # it died, perhaps of a broken import: a second one shows why
                kill_launched(waiting)
                return None
        waiting.channel.close()
        child = ChildProcess(
            pid=waiting.pid,
            pidfd=waiting.pidfd,
            stderr_fd=waiting.stderr_fd,
            report=None,
        )
        child.mark_warm()
        self._add_child(child)
        return child

    def _add_child(self, child: ChildProcess) -> None:
        self._children[child.pid] = child
        self._nursery.start_soon(child.watch, self._on_child_ended)
        if child.is_own_child:
            self._nursery.start_soon(self._have_guarded, child)
        if self._closing:
            child.kill_group()

    async def _on_child_ended(self, child: ChildProcess) -> None:
        """Reap what the child left. Below the fork-server, the fork-server does that."""
        self._children.pop(child.pid, None)
        if child.is_own_child and (self._lost_server or not child.warm):
            await self._reap_orphans()

    async def _reap_orphans(self) -> None:
        """Repeat until no command of an adopted agent is left, not even a zombie; at most 2 s."""
        with trio.move_on_after(_KILL_LIMIT_S):
            while True:
                waiting = self._early.gateway
                known = {self.server_pid or 0, 0 if waiting is None else waiting.pid}
                if not _reap_orphans_once({*self._children, *known}):
                    return
                await trio.sleep(_POLL_S)

    async def _fork(self, order: StartProcess, payload: SpawnPayload) -> ForkedProcess | None:
        """None when there is no fork-server or it is still importing: then no order was sent.

        Raises SpawnError when it refuses: a cold start would fail as well. Raises StartInterrupted
        when it got the order and does not answer: then it is killed, and so is all that it may have
        forked.
        """
        client = self._server
        if client is None:
            return None
        with trio.move_on_after(START_LIMIT_S):
            await client.ready.wait()
        if client.ended.is_set() or not client.ready.is_set():
            return None
        try:
            fds = (payload.spec_fd, payload.stderr_writer, *payload.key_fds)
            return await client.start(order, fds, silence_s=START_LIMIT_S)
        except ForkServerGone as error:
            client.kill_group()
            with trio.move_on_after(_KILL_LIMIT_S):
                await client.gone.wait()  # reaped: what it forked without a report is ours now
            await self._reap_orphans()
            raise StartInterrupted(f"{order.title.removeprefix('swarm: ')}: {error}") from error

    def _spawn_cold(self, title: str, payload: SpawnPayload) -> tuple[int, int, None]:
        fds = (payload.spec_fd, self._early.lifeline_reader, *payload.key_fds)
        program = (*self._early.programs.cold_child, title)
        pid = spawn_cold(program, fds, stderr_fd=payload.stderr_writer)
        try:
            return pid, os.pidfd_open(pid), None
        except OSError as error:
            os.kill(pid, signal.SIGKILL)  # a child of ours, not reaped yet: its pid is not reused
            os.waitpid(pid, 0)
            raise SpawnError(f"cannot watch a new process: {error.strerror}") from error

    async def _start_server(self) -> ForkServerClient:
        client = self._server or ForkServerClient(launch_fork_server(self._early))
        self._server = client
        self._nursery.start_soon(client.run)
        for child in self._children.values():
            self._nursery.start_soon(self._have_guarded, child)
        self._nursery.start_soon(self._have_loop_watched, client)
        return client

    async def _have_loop_watched(self, client: ForkServerClient) -> None:
        with suppress(SpawnError):  # it is gone; the next one watches
            await client.watch_this_process(self._notice)

    def _on_server_end(self) -> None:
        self._server = None
        self._lost_server = True  # and this process is the parent of what it forked

    async def _ask_server_to_exit(self) -> None:
        if self._server is not None:
            self._server.request_exit()

    async def _have_guarded(self, child: ChildProcess) -> None:
        """Have the server end this child, too. If either dies, nothing is to be done."""
        if self._server is not None and child.is_own_child and child.is_alive:
            with suppress(SpawnError):
                await self._server.guard(child.pid, child.pidfd)

    async def close(self, *, grace_s: float) -> None:
        """SIGTERM to all, wait, SIGKILL: newest first and bounded. The fork-server goes last."""
        self._closing = True
        self.server_loop.expect_end()
        for child in reversed(self._children.copy().values()):
            child.signal_group(signal.SIGTERM)
        with trio.move_on_after(grace_s):
            await self._wait_all()
        for child in reversed(self._children.copy().values()):
            child.kill_group()
        with trio.move_on_after(_KILL_LIMIT_S):
            await self._wait_all()
        await self.server_loop.stop()
        if (unused := self._early.take_gateway()) is not None:
            kill_launched(unused)
        kill_descendants(os.getpid())
        with trio.move_on_after(_KILL_LIMIT_S):
            await self._wait_all()
        if self._lost_server:
            await self._reap_orphans()

    def stop_watching(self) -> None:
        """Stop watching. Call it after `close`, or when there is nothing to watch."""
        self._nursery.cancel_scope.cancel()

    async def _wait_all(self) -> None:
        for child in tuple(self._children.values()):
            await child.wait_ended()


@asynccontextmanager
async def open_process_manager(
    early: EarlyProcesses, *, grace_s: float = _CLOSE_GRACE_S
) -> AsyncIterator[ProcessManager]:
    """Own all processes until the block ends, however it ends. The caller closes `early`.

    Inside the block the caller asks agents to stop. At its end all processes get SIGTERM, and after
    `grace_s` SIGKILL, with all descendants of this process.
    """
    async with trio.open_nursery() as nursery:
        manager: ProcessManager = await nursery.start(_run_process_manager, early)
        try:
            yield manager
        finally:
            limit_s = grace_s + 4 * _KILL_LIMIT_S
            with trio.move_on_after(limit_s, shield=True):  # shielded, but bounded
                await manager.close(grace_s=grace_s)
            manager.stop_watching()


async def _run_process_manager(
    early: EarlyProcesses,
    task_status: trio.TaskStatus[ProcessManager] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Shield the watchers from outside cancellation until `close` has done its bounded work."""
    with trio.CancelScope(shield=True), open_stop_notice(early.deadline_s) as notice:
        async with trio.open_nursery() as nursery:
            manager = ProcessManager(early, nursery, notice)
            nursery.start_soon(manager.server_loop.run)
            task_status.started(manager)
            await trio.sleep_forever()


def _reap_orphans_once(known: Collection[int]) -> int:
    """Kill and reap every child of this process that is neither in `known` nor in our group.

    After a fork-server was lost, the agents that it forked become children of this process, a
    subreaper, and so do their commands when those agents die. Subprocesses of this process share
    its process group; commands never do. Returns how many there were. A later call reaps those that
    take a moment to die.
    """
    ours, found = os.getpgrp(), 0
    for pid in children_of(os.getpid()):
        with suppress(ProcessLookupError, ChildProcessError):
            if pid in known or os.getpgid(pid) == ours:
                continue
            found += 1
            if not is_zombie(pid):
                kill_descendants_once(pid)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
    return found
