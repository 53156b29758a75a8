"""Owns every process of the run; when the block ends, none is left.

Warm through the fork-server, else cold. A lost fork-server costs no agent: they are adopted by
this process (a subreaper) and a new server starts.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import trio

from swarm.mailbox.ids import short_id
from swarm.mailbox.process_tree import kill_descendants
from swarm.mailbox.protocol.forking import StartProcess, encode_fork
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec

from .child_process import ChildProcess
from .cold_start import spawn_cold
from .early_start import EarlyProcesses, kill_launched, launch_fork_server
from .fork_server_client import ForkedProcess, ForkServerClient, ForkServerGone
from .orphans import reap_orphans
from .process_types import Child, SpawnError, StartInterrupted
from .restart_policy import GiveUp, decide_restart
from .spawn_payload import SpawnPayload, open_spawn_payload

START_LIMIT_S = 3.0  # of a fork-server's silence; then it counts as dead
MAX_STARTING = 16  # at once: more are no sooner done, and each would seem slow
_CLOSE_GRACE_S = 5.0
_KILL_LIMIT_S = 2.0
_POLL_S = 0.005


class ProcessManager:
    """Starts processes and watches each one to its end. Made by `open_process_manager` only."""

    def __init__(self, ignition: EarlyProcesses, nursery: trio.Nursery) -> None:
        self._early, self._nursery = ignition, nursery
        self._children: dict[int, ChildProcess] = {}  # by pid, oldest first; living ones only
        self._server: ForkServerClient | None = None  # orders are kept until it is ready
        if ignition.server is not None:
            self._server, ignition.server = ForkServerClient(ignition.server), None
        self._start_limiter = trio.CapacityLimiter(MAX_STARTING)
        self._server_deaths: list[float] = []
        self._lost_server = False
        self._closing = False

    @property
    def start_limiter(self) -> trio.CapacityLimiter:
        """Held by whoever waits for a Hello."""
        return self._start_limiter

    @property
    def children(self) -> tuple[Child, ...]:
        """The living ones, oldest first."""
        return tuple(self._children.values())

    @property
    def server_pid(self) -> int | None:
        """The fork-server that takes orders now; None: starts are cold."""
        return self._server.pid if self._server and not self._server.ended.is_set() else None

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process for this spec: by the fork-server, or cold while there is none.

        Args:
            spec: Reaches the child through a sealed memfd.
            title: For example `/root/scout [explorer]`; `ps` shows it after `swarm: `.
            keys: For a gateway; reach the child through a pipe.

        Raises SpawnError: nothing was started. StartLost: nothing of it is left; another try must
        not use this spec, so that two processes never live, nor seem to, under one identity.
        """
        if self._closing:
            raise SpawnError("the run is ending; nothing new starts")
        run = short_id(spec.run_id)
        name = f"swarm: {title.removeprefix('swarm: ')} {run}"
        with open_spawn_payload(spec, keys) as parcel:
            order = StartProcess(
                request=0,
                title=name,
                run=run,
                has_keys=bool(parcel.key_fds),
                is_service=not isinstance(spec, AgentSpec),
                may_follow=isinstance(spec, AgentSpec) and spec.depth > 0,
            )
            found = await self._fork(order, parcel)
            pid, pidfd, report = found or self._spawn_cold(name, parcel)
            child = ChildProcess(
                pid=pid,
                pidfd=pidfd,
                stderr_fd=parcel.take_stderr(),
                report=report,
            )
        self._add_child(child)
        return child

    async def start_first_gateway(self, spec: AnySpec, keys: Mapping[str, str]) -> Child:
        """Give the gateway that was forked at ignition its spec; start one if there is none.

        Raises SpawnError.
        """
        waiting, self._early.gateway = self._early.gateway, None
        if waiting is None:
            return await self.start(spec, title="gateway", keys=keys)
        run = short_id(spec.run_id)
        title = f"swarm: gateway {run}"
        order = encode_fork(StartProcess(request=0, title=title, run=run, has_keys=True))
        with open_spawn_payload(spec, keys) as parcel:
            try:  # one packet into an empty socket: it never blocks
                fds = (parcel.spec_fd, *parcel.key_fds)
                socket.send_fds(waiting.channel, [order], fds)
            except OSError:  # it died already, perhaps of a broken import: a second one shows why
                kill_launched(waiting)
                return await self.start(spec, title="gateway", keys=keys)
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
        """It is over when nothing that it left lives. Below the fork-server that was seen to."""
        self._children.pop(child.pid, None)
        if child.is_own_child and (self._lost_server or not child.warm):
            await self._reap_orphans()

    async def _reap_orphans(self) -> None:
        """Until nothing is left of adopted agents' commands, nor a zombie of them."""
        with trio.move_on_after(_KILL_LIMIT_S):
            while True:
                waiting = self._early.gateway
                known = {self.server_pid or 0, 0 if waiting is None else waiting.pid}
                if not reap_orphans({*self._children, *known}):
                    return
                await trio.sleep(_POLL_S)

    async def _fork(self, order: StartProcess, parcel: SpawnPayload) -> ForkedProcess | None:
        """None when there is no fork-server, or it is still importing: it was told nothing.

        Raises SpawnError when it says no: a cold start could not either. StartLost when it was
        told and does not answer: it is ended, and whatever it may have forked.
        """
        link = self._server
        if link is None:
            return None
        with trio.move_on_after(START_LIMIT_S):
            await link.ready.wait()
        if link.ended.is_set() or not link.ready.is_set():
            return None
        try:
            return await link.start(order, parcel.fork_server_fds, silence_s=START_LIMIT_S)
        except ForkServerGone as error:
            link.kill()
            with trio.move_on_after(_KILL_LIMIT_S):
                await link.gone.wait()  # reaped: what it forked and did not report is ours now
            await self._reap_orphans()
            raise StartInterrupted(f"{order.title.removeprefix('swarm: ')}: {error}") from error

    def _spawn_cold(self, title: str, parcel: SpawnPayload) -> tuple[int, int, None]:
        fds = (parcel.spec_fd, self._early.lifeline_reader, *parcel.key_fds)
        program = (*self._early.programs.cold_child, title)
        pid = spawn_cold(program, fds, stderr_fd=parcel.stderr_writer)
        try:
            return pid, os.pidfd_open(pid), None
        except OSError as error:
            os.kill(pid, signal.SIGKILL)  # a child of ours, not reaped yet: the number is its own
            os.waitpid(pid, 0)
            raise SpawnError(f"cannot watch a new process: {error.strerror}") from error

    async def supervise_fork_server(self) -> None:
        """Have a fork-server while the run lasts; give up on it after too many deaths."""
        while not self._closing:
            try:
                link = self._server or ForkServerClient(launch_fork_server(self._early))
            except SpawnError:
                return  # cold starts from here on
            await self._run_fork_server(link)
            self._server_deaths.append(trio.current_time())
            verdict = decide_restart(self._server_deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp) or self._closing:
                return
            await trio.sleep(verdict.after_s)

    async def _run_fork_server(self, link: ForkServerClient) -> None:
        self._server = link
        try:
            async with trio.open_nursery() as nursery:
                for child in self._children.values():
                    nursery.start_soon(self._have_guarded, child)
                await link.run()
        finally:
            self._server = None
        self._lost_server = True  # and we are the parent of what it forked

    async def _have_guarded(self, child: ChildProcess) -> None:
        """The server ends also what is not below it. If either dies there is nothing to do."""
        if self._server is not None and child.is_own_child and child.ended is None:
            with suppress(SpawnError):
                await self._server.guard(child.pid, child.pidfd)

    async def close(self, *, grace_s: float) -> None:
        """TERM to all, wait, KILL: newest first and bounded. The fork-server goes last."""
        self._closing = True
        for child in reversed(self._children.copy().values()):
            child.signal_group(signal.SIGTERM)
        with trio.move_on_after(grace_s):
            await self._wait_all()
        for child in reversed(self._children.copy().values()):
            child.kill_group()
        with trio.move_on_after(_KILL_LIMIT_S):
            await self._wait_all()
        if self._server is not None:
            link = self._server
            link.request_exit()
            with trio.move_on_after(_KILL_LIMIT_S):
                await link.gone.wait()
        if self._early.gateway is not None:  # never used
            kill_launched(self._early.gateway)
            self._early.gateway = None
        kill_descendants(os.getpid())
        with trio.move_on_after(_KILL_LIMIT_S):
            await self._wait_all()
        if self._lost_server:
            await self._reap_orphans()

    def stop_watching(self) -> None:
        """Stop watching. After `close`, or with nobody left to watch."""
        self._nursery.cancel_scope.cancel()

    async def _wait_all(self) -> None:
        for child in tuple(self._children.values()):
            await child.wait_ended()


@asynccontextmanager
async def open_process_manager(
    ignition: EarlyProcesses, *, grace_s: float = _CLOSE_GRACE_S
) -> AsyncIterator[ProcessManager]:
    """Own all processes until the block ends, however it ends. The caller closes `ignition`.

    Asking agents to stop is the caller's business, inside the block; at its end they get SIGTERM,
    `grace_s` later SIGKILL, with all that descends from this process.
    """
    async with trio.open_nursery() as nursery:
        home: ProcessManager = await nursery.start(_run_process_manager, ignition)
        try:
            yield home
        finally:
            limit_s = grace_s + 4 * _KILL_LIMIT_S
            with trio.move_on_after(limit_s, shield=True):  # shielded, yet bounded
                await home.close(grace_s=grace_s)
            home.stop_watching()


async def _run_process_manager(
    ignition: EarlyProcesses,
    task_status: trio.TaskStatus[ProcessManager] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The watchers outlive a cancellation from outside until `close` has done its bounded work."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            home = ProcessManager(ignition, nursery)
            nursery.start_soon(home.supervise_fork_server)
            task_status.started(home)
            await trio.sleep_forever()
