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
from swarm.mailbox.lineage import kill_descendants
from swarm.mailbox.protocol.forking import StartProcess, encode_fork
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec

from ..ignition import Ignition, kill_launched, launch_cold_server
from .base import Child, SpawnError, StartLost
from .child import ChildProcess
from .cold import spawn_cold
from .forkserver import Born, ForkServerLink, ServerGone
from .orphans import sweep_orphans
from .parcel import Parcel, open_parcel
from .restart import GiveUp, decide_restart

START_LIMIT_S = 3.0  # of a fork-server's silence; then it counts as dead
MOST_BIRTHS = 16  # at once: more are no sooner done, and each would seem slow
_CLOSE_GRACE_S = 5.0
_KILL_LIMIT_S = 2.0
_LOOK_AGAIN_S = 0.005


class Household:
    """Starts processes and watches each one to its end. Made by `open_household` only."""

    def __init__(self, ignition: Ignition, nursery: trio.Nursery) -> None:
        self._ignition, self._nursery = ignition, nursery
        self._children: dict[int, ChildProcess] = {}  # by pid, oldest first; living ones only
        self._server: ForkServerLink | None = None  # orders are kept until it is ready
        if ignition.server is not None:
            self._server, ignition.server = ForkServerLink(ignition.server), None
        self._births = trio.CapacityLimiter(MOST_BIRTHS)
        self._server_deaths: list[float] = []
        self._lost_server = False
        self._closing = False

    @property
    def births(self) -> trio.CapacityLimiter:
        """Held by whoever waits for a Hello."""
        return self._births

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
        with open_parcel(spec, keys) as parcel:
            order = StartProcess(
                request=0,
                title=name,
                run=run,
                has_keys=bool(parcel.keys),
                is_service=not isinstance(spec, AgentSpec),
                may_follow=isinstance(spec, AgentSpec) and spec.depth > 0,
            )
            found = await self._fork(order, parcel)
            pid, pidfd, report = found or self._spawn(name, parcel)
            child = ChildProcess(
                pid=pid,
                pidfd=pidfd,
                stderr_fd=parcel.take_stderr(),
                report=report,
            )
        self._welcome(child)
        return child

    async def first_gateway(self, spec: AnySpec, keys: Mapping[str, str]) -> Child:
        """Give the gateway that was forked at ignition its spec; start one if there is none.

        Raises SpawnError.
        """
        waiting, self._ignition.gateway = self._ignition.gateway, None
        if waiting is None:
            return await self.start(spec, title="gateway", keys=keys)
        run = short_id(spec.run_id)
        title = f"swarm: gateway {run}"
        order = encode_fork(StartProcess(request=0, title=title, run=run, has_keys=True))
        with open_parcel(spec, keys) as parcel:
            try:  # one packet into an empty socket: it never blocks
                fds = (parcel.spec_fd, *parcel.keys)
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
        child.was_forked_warm()
        self._welcome(child)
        return child

    def _welcome(self, child: ChildProcess) -> None:
        self._children[child.pid] = child
        self._nursery.start_soon(child.watch, self._bury)
        if child.is_ours:
            self._nursery.start_soon(self._let_guard, child)
        if self._closing:
            child.kill_group()

    async def _bury(self, child: ChildProcess) -> None:
        """It is over when nothing that it left lives. Below the fork-server that was seen to."""
        self._children.pop(child.pid, None)
        if child.is_ours and (self._lost_server or not child.warm):
            await self._sweep()

    async def _sweep(self) -> None:
        """Until nothing is left of adopted agents' commands, nor a zombie of them."""
        with trio.move_on_after(_KILL_LIMIT_S):
            while True:
                waiting = self._ignition.gateway
                known = {self.server_pid or 0, 0 if waiting is None else waiting.pid}
                if not sweep_orphans({*self._children, *known}):
                    return
                await trio.sleep(_LOOK_AGAIN_S)

    async def _fork(self, order: StartProcess, parcel: Parcel) -> Born | None:
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
            return await link.start(order, parcel.for_server, silence_s=START_LIMIT_S)
        except ServerGone as error:
            link.kill()
            with trio.move_on_after(_KILL_LIMIT_S):
                await link.gone.wait()  # reaped: what it forked and did not report is ours now
            await self._sweep()
            raise StartLost(f"{order.title.removeprefix('swarm: ')}: {error}") from error

    def _spawn(self, title: str, parcel: Parcel) -> tuple[int, int, None]:
        fds = (parcel.spec_fd, self._ignition.lifeline_reader, *parcel.keys)
        program = (*self._ignition.programs.cold_child, title)
        pid = spawn_cold(program, fds, stderr_fd=parcel.stderr_writer)
        try:
            return pid, os.pidfd_open(pid), None
        except OSError as error:
            os.kill(pid, signal.SIGKILL)  # a child of ours, not reaped yet: the number is its own
            os.waitpid(pid, 0)
            raise SpawnError(f"cannot watch a new process: {error.strerror}") from error

    async def keep_server(self) -> None:
        """Have a fork-server while the run lasts; give up on it after too many deaths."""
        while not self._closing:
            try:
                link = self._server or ForkServerLink(launch_cold_server(self._ignition))
            except SpawnError:
                return  # cold starts from here on
            await self._live_with(link)
            self._server_deaths.append(trio.current_time())
            verdict = decide_restart(self._server_deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp) or self._closing:
                return
            await trio.sleep(verdict.after_s)

    async def _live_with(self, link: ForkServerLink) -> None:
        self._server = link
        try:
            async with trio.open_nursery() as nursery:
                for child in self._children.values():
                    nursery.start_soon(self._let_guard, child)
                await link.run()
        finally:
            self._server = None
        self._lost_server = True  # and we are the parent of what it forked

    async def _let_guard(self, child: ChildProcess) -> None:
        """The server ends also what is not below it. If either dies there is nothing to do."""
        if self._server is not None and child.is_ours and child.ended is None:
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
            link.hang_up()
            with trio.move_on_after(_KILL_LIMIT_S):
                await link.gone.wait()
        if self._ignition.gateway is not None:  # never used
            kill_launched(self._ignition.gateway)
            self._ignition.gateway = None
        kill_descendants(os.getpid())
        with trio.move_on_after(_KILL_LIMIT_S):
            await self._wait_all()
        if self._lost_server:
            await self._sweep()

    def dissolve(self) -> None:
        """Stop watching. After `close`, or with nobody left to watch."""
        self._nursery.cancel_scope.cancel()

    async def _wait_all(self) -> None:
        for child in tuple(self._children.values()):
            await child.wait_ended()


@asynccontextmanager
async def open_household(
    ignition: Ignition, *, grace_s: float = _CLOSE_GRACE_S
) -> AsyncIterator[Household]:
    """Own all processes until the block ends, however it ends. The caller closes `ignition`.

    Asking agents to stop is the caller's business, inside the block; at its end they get SIGTERM,
    `grace_s` later SIGKILL, with all that descends from this process.
    """
    async with trio.open_nursery() as nursery:
        home: Household = await nursery.start(_keep_house, ignition)
        try:
            yield home
        finally:
            limit_s = grace_s + 4 * _KILL_LIMIT_S
            with trio.move_on_after(limit_s, shield=True):  # shielded, yet bounded
                await home.close(grace_s=grace_s)
            home.dissolve()


async def _keep_house(
    ignition: Ignition, task_status: trio.TaskStatus[Household] = trio.TASK_STATUS_IGNORED
) -> None:
    """The watchers outlive a cancellation from outside until `close` has done its bounded work."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            home = Household(ignition, nursery)
            nursery.start_soon(home.keep_server)
            task_status.started(home)
            await trio.sleep_forever()
