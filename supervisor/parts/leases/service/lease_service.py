"""Gives heavy commands of this run their leases, in turn with those of all other runs.

The supervisor holds the leases: no command can reach it, and its death frees them in the kernel. A
lease ends with its command, with the process of the agent that runs it, when it was held for too
long, or when its command did nearly nothing for a minute. Nothing here costs anything before the
first heavy command.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone, SwarmError
from swarm.mailbox.parts.leases.lease_messages import (
    MAX_LEASE_TEXT,
    HeavyCommandEnded,
    LeaseGiven,
    QueuedForLease,
    TakeLease,
)
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import AnyReply

from ....agents.agent_record import Agent
from ....part_access.part_host import PartHost
from ....processes.machine_facts import MachineState
from ....processes.machine_state import memory_bytes, read_machine_state
from ....processes.process_types import Child
from ..command_costs import estimate_cost
from ..holder_usage import HolderUsage, MeasureTrees, measure_trees, was_idle, with_usage
from ..lease_folder import LeaseFolder, LeaseFolderBusy, still_counted
from ..lease_ledger import LeaseLedger
from ..lease_scheduler import (
    Decision,
    LeaseLimits,
    Ticket,
    decide_leases,
)

POLL_S = 0.25  # while a command waits: other runs and the machine tell nothing by themselves
IDLE_S = 60.0  # a command that does nearly nothing for so long holds its lease no longer
MAX_LEASES_OF_AGENT = 64
_MOST_UNWRITTEN = 64  # ended commands that are not remembered yet
_FOLDER_TRIES, _FOLDER_PAUSE_S = 100, 0.005
LEASES_FOLDER = "leases"  # in the runtime folder
_Key = tuple[str, int, int]  # path and epoch of the agent's process, number of the request


class _Holder(NamedTuple):
    """Who waits for a lease, and how it is told."""

    path: str
    child: Child | None  # the lease ends with it; a later process of the agent is another one
    pid: int  # whose commands are measured; 0: none on this machine
    tell: Callable[[QueuedForLease | LeaseGiven], Awaitable[None]]


class _OpenLease:
    """One heavy command that waits or holds a lease."""

    def __init__(self, holder: _Holder, ticket: Ticket) -> None:
        self.holder, self.ticket = holder, ticket
        self.scope = trio.CancelScope()
        self.given = trio.Event()
        self.told: tuple[int, str] = (0, "")

    def give(self, now: float) -> None:
        self.ticket = msgspec.structs.replace(self.ticket, given_s=now)
        self.given.set()


class LeaseService:
    """One per run; its tasks run in the nursery of the event router."""

    def __init__(
        self,
        host: PartHost,
        ledger: LeaseLedger,
        nursery: trio.Nursery,
        *,
        clock: Callable[[], float] = time.monotonic,
        read_machine: Callable[[], MachineState] = read_machine_state,
        measure: MeasureTrees = measure_trees,
        pool: str = LEASES_FOLDER,
    ) -> None:
        """`clock` is the machine's: other runs compare its times with theirs.

        `pool`: the folder of the leases of one machine, that of others for commands elsewhere.
        """
        self._host, self._ledger, self._nursery = host, ledger, nursery
        self._clock, self._read_machine, self._measure = clock, read_machine, measure
        self._usage = HolderUsage(measure, clock)
        self._settings = host.request.parts.leases
        self._interactive = (
            host.request.lifetime.keep_open or host.request.approvals.reviewer == "person"
        )
        folder = host.paths.sockets.parent / pool
        self._folder = LeaseFolder(folder, host.run_id)
        self._others: tuple[float, tuple[Ticket, ...]] = (0.0, ())  # as read last, and when
        self._open: dict[_Key, _OpenLease] = {}
        self._unwritten = deque[HeavyCommandEnded](maxlen=_MOST_UNWRITTEN)
        self._is_writing = False  # the task that remembers them runs
        self._served: dict[str, int] = {}  # by agent
        self._count = 0
        self._changed = trio.Event()
        self._is_deciding = False  # the task that decides runs
        self._has_warned = False

    @cached_property
    def _limits(self) -> LeaseLimits:
        """Read when the first heavy command is decided about."""
        reserve_bytes = self._settings.reserve_bytes(memory_bytes())
        return LeaseLimits(most=self._settings.most, reserve_bytes=reserve_bytes)

    def serve(self, agent: Agent, request_id: int, request: TakeLease) -> None:
        """Begin to serve one request. Never waits; a repeated one is ignored."""
        key = (agent.path, agent.epoch, request.number)
        if key in self._open:
            return
        child = agent.process.child
        pid = 0 if child is None or agent.plan.host else child.pid
        tell = partial(self._reply, agent, agent.epoch, request_id)
        self._ask(key, request, _Holder(agent.path, child, pid, tell))

    @asynccontextmanager
    async def hold(self, path: str, request: TakeLease) -> AsyncIterator[None]:
        """Hold a lease for a command that the supervisor has run itself for this agent."""
        self._count += 1
        key, given = (path, 0, self._count), trio.Event()

        async def tell(reply: QueuedForLease | LeaseGiven) -> None:
            if isinstance(reply, LeaseGiven):
                given.set()

        self._ask(key, request, _Holder(path, None, 0, tell))
        try:
            await given.wait()
            yield
        finally:
            if (lease := self._open.get(key)) is not None:
                lease.scope.cancel()

    def _ask(self, key: _Key, request: TakeLease, holder: _Holder) -> None:
        machine, command = self._read_machine(), self._redacted(request.command)[:MAX_LEASE_TEXT]
        expected = estimate_cost(
            self._ledger.costs,
            kind=request.kind,
            command=command,
            head=self._redacted(request.head),
            cwd=self._redacted(request.cwd),
            processors=machine.processors,
        )
        of_agent = sum(path == holder.path for path, _, _ in self._open)
        if expected.is_light or not self._settings.enabled or of_agent >= MAX_LEASES_OF_AGENT:
            self._nursery.start_soon(holder.tell, LeaseGiven())
            return
        self._count += 1
        ticket = Ticket(
            run=self._host.run_id,
            number=self._count,
            agent=holder.path[:MAX_LEASE_TEXT],
            kind=request.kind,
            command=command,
            asked_s=self._clock(),
            memory_bytes=expected.memory_bytes,
            cpus=expected.cpus,
            expected_s=expected.seconds,
            interactive=self._interactive,
            served=self._served.get(holder.path, 0),
            pid=holder.pid,
        )
        lease = self._open[key] = _OpenLease(holder, ticket)
        self._nursery.start_soon(self._attend, key, lease)
        if not self._is_deciding:
            self._is_deciding = True
            self._nursery.start_soon(self._decide_in_turn)
        self._notify()

    def end(self, agent: Agent, ended: HeavyCommandEnded) -> None:
        """A command has ended, or is not to run any more: its lease is free."""
        lease = self._open.get((agent.path, agent.epoch, ended.lease))
        if lease is not None:
            lease.scope.cancel()
        if ended.ran and self._settings.enabled:
            self._remember_soon(ended)

    def _redacted(self, text: str) -> str:
        return self._host.journal.redactor.redact(text)

    def _remember_soon(self, ended: HeavyCommandEnded) -> None:
        """Never waits: of an agent that tells of ever more commands the oldest are forgotten."""
        self._unwritten.append(ended)
        if not self._is_writing:
            self._is_writing = True
            self._nursery.start_soon(self._remember_all)

    async def _remember_all(self) -> None:
        try:
            while self._unwritten:
                await self._remember(self._unwritten.popleft())
        finally:
            self._is_writing = False

    async def _remember(self, ended: HeavyCommandEnded) -> None:
        known = msgspec.structs.replace(
            ended,
            command=self._redacted(ended.command)[:MAX_LEASE_TEXT],
            head=self._redacted(ended.head),
            cwd=self._redacted(ended.cwd),
        )
        try:
            await self._ledger.add(known)
        except OSError as error:
            self._warn(f"what heavy commands used could not be noted: {error}")

    async def _attend(self, key: _Key, lease: _OpenLease) -> None:
        """Wait for the lease, say that it is given, and hold it until its end."""
        try:
            with lease.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_when_ended, lease)
                    await self._wait_given(lease)
                    with trio.move_on_after(self._settings.max_hold_s):
                        await self._hold_while_busy(lease.ticket.pid)
                    nursery.cancel_scope.cancel()
        finally:
            del self._open[key]
            self._notify()

    async def _wait_given(self, lease: _OpenLease) -> None:
        path, asked_s = lease.holder.path, self._clock()
        self._host.pauses.begin_wait(path)
        try:
            with trio.move_on_after(self._settings.max_wait_s):
                await lease.given.wait()
        finally:
            self._host.pauses.end_wait(path)
        without_turn = not lease.given.is_set()
        if without_turn:
            lease.give(self._clock())
            self._notify()
        self._served[path] = self._served.get(path, 0) + 1
        given = LeaseGiven(waited_s=round(self._clock() - asked_s, 3), without_turn=without_turn)
        await lease.holder.tell(given)

    async def _hold_while_busy(self, pid: int) -> None:
        """Return when all commands of this process together did nearly nothing for a minute."""
        pids = {pid} if pid else set[int]()
        before, since = (await self._measure(pids)).get(pid), self._clock()
        while True:
            await trio.sleep(IDLE_S)
            after, now = (await self._measure(pids)).get(pid), self._clock()
            if was_idle(before, after, now - since):
                return
            before, since = after, now
            self._notify()  # other runs see from the new file that this supervisor lives

    async def _cancel_when_ended(self, lease: _OpenLease) -> None:
        if (child := lease.holder.child) is not None:
            await child.wait_ended()
            lease.scope.cancel()

    # --- deciding --------------------------------------------------------------------------------

    def _notify(self) -> None:
        self._note_run()
        self._changed.set()

    async def _decide_in_turn(self) -> None:
        """Decide whenever something changed, and now and then while a command waits."""
        try:
            while True:
                await self._changed.wait()
                self._changed = trio.Event()
                await self._decide_once()
                if any(not one.ticket.holds_lease for one in self._open.values()):
                    with trio.move_on_after(POLL_S):
                        await self._changed.wait()
                    self._changed.set()
        finally:
            self._folder.close()

    async def _decide_once(self) -> None:
        """Decide with the tickets of all runs.

        Where the folder cannot be used, decide with this run's own; where it stays locked by
        somebody who stands still, with those of the others as they were read last.
        """
        own = [one.ticket for one in self._open.values()]
        if any(not one.holds_lease for one in own):
            await self._usage.refresh([*own, *self._others[1]])
        for _ in range(_FOLDER_TRIES):
            try:
                self._decide_together()
            except LeaseFolderBusy:
                await trio.sleep(_FOLDER_PAUSE_S)
            except (OSError, SwarmError) as error:
                self._warn(f"heavy commands take turns within this run alone: {error}")
                self._decide(())
                return
            else:
                return
        read_s, others = self._others
        self._decide(still_counted(others, written_s=read_s, now=self._clock()))

    def _decide_together(self) -> None:
        if not self._open:
            self._folder.close()
            return
        with self._folder.open_exclusive() as shared:
            self._others = (self._clock(), tuple(shared.read_others(self._clock())))
            self._decide(self._others[1])
            tickets = tuple(one.ticket for one in self._open.values())
            shared.publish(tickets, self._clock())

    def _decide(self, others: tuple[Ticket, ...]) -> None:
        now = self._clock()
        own = {one.ticket.number: one for one in self._open.values()}
        tickets = [*(one.ticket for one in own.values()), *others]
        if not any(not one.ticket.holds_lease for one in own.values()):
            return
        tickets = with_usage(tickets, self._usage.measured)
        decision = decide_leases(tickets, self._read_machine(), self._limits, now=now)
        for ticket in decision.given:
            if ticket.run == self._host.run_id:
                own[ticket.number].give(now)
        self._tell_places(decision, own)
        self._note_run()

    def _note_run(self) -> None:
        open_leases = self._open.values()
        holds = any(one.ticket.holds_lease for one in open_leases)
        waits = any(not one.ticket.holds_lease for one in open_leases)
        self._host.pauses.note_run(waits_for_others=waits and not holds)

    def _tell_places(self, decision: Decision, own: dict[int, _OpenLease]) -> None:
        """Tell the agents that wait their place in the queue, when it changed."""
        for place, ticket in enumerate(decision.queue, start=1):
            lease = own.get(ticket.number) if ticket.run == self._host.run_id else None
            if lease is not None and lease.told[0] != place:
                lease.told = (place, decision.why)
                reply = QueuedForLease(place=place, why=decision.why)
                self._nursery.start_soon(lease.holder.tell, reply)

    async def _reply(self, agent: Agent, epoch: int, request_id: int, reply: AnyReply) -> None:
        if agent.epoch != epoch:
            return  # another process of the agent numbers its requests from 1: not for it
        try:
            await self._host.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # its process ended meanwhile; nobody waits for the reply

    def _warn(self, text: str) -> None:
        """Tell people once in a run."""
        if not self._has_warned:
            self._has_warned = True
            self._host.note(Warned(message=f"leases: {text}"))
