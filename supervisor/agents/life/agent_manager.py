"""Manages agents: start, send input, restart, end. Every operation has a deadline.

Only the end of its process frees an agent's slot: `_watch` waits for the process itself. There is
no `await` between a check of an agent's state and its change.
"""

from collections.abc import Sequence
from functools import partial

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.control import AgentHeld
from swarm.mailbox.protocol.events import TurnAborted, TurnEnd, TurnFailed
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.ops import Interrupt, Shutdown, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    EndState,
    InputPosted,
    ProcessEnded,
)

from ...context.run_context import RunContext
from ...context.run_life import RunLife
from ...context.run_phases import RunEvent
from ...journal.replay import AgentMemory, interrupted_end
from ...processes.child_loop import stop_child
from ...processes.child_spec import GiveUp
from ...processes.process_types import DiedBeforeHello, ProcessEnd, SpawnError, StartInterrupted
from ...processes.start_faults import start_faults
from ..agent_hooks import AgentHooks, AgentListener
from ..agent_phases import AgentEvent, Effect
from ..agent_record import Agent
from ..end_states import end_state_of
from ..private_tmp import remove_caches
from ..slots import SlotsClosed
from .agent_start import (
    WITHOUT_TIMEOUT,
    SlotWait,
    StartServices,
    read_agent_memory,
    send_changes_since_spec,
    start_agent,
)
from .mail_delivery import deliver_unread_mail
from .resume_continuation import InputSource, input_record, with_turn_schema

_END_GRACE_S = 5.0
_DELIVERY_TIMEOUT_S = 30.0

_LOOK_S = 0.02


class AgentManager:
    """Starts and ends the processes of all agents. `agents`: those that have one, by path."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        starts: StartServices,
        hooks: AgentHooks = AgentHooks(),  # noqa: B008 — immutable
        *,
        listener: AgentListener | None = None,
    ) -> None:
        self._run = running
        self._nursery = nursery
        self.starts = starts
        self._directory, self.agents = running.agents, running.agents.live
        self._hooks, self._listener = hooks, listener
        self._by_peer: dict[bytes, Agent] = {}
        self.run_life = RunLife(running.deadline_unix_s)
        self.turns_started = self._starts = 0  # turns begun; process starts in progress

    def find_by_peer(self, identity: bytes) -> Agent | None:
        """The agent whose present process has this socket identity."""
        return self._by_peer.get(identity)

    def _emit(self, agent: Agent, event: AgentEvent) -> None:
        effects = self._directory.apply(agent, event)
        if self._listener is not None and not agent.plan.slotless:
            self._listener.on_agent_event(agent, event, effects)

    async def admit(self, agent: Agent) -> None:
        """Its limits hold on return."""
        await self._hooks.admit(agent.path, agent.plan.limits.budget)

    # --- starting ------------------------------------------------------------------------------

    async def spawn(self, agent: Agent, *, memory: AgentMemory | None = None) -> None:
        """Start an agent, new or resumed; return once it has sent its Hello.

        If its process dies before its Hello, the restart policy decides about another try. `memory`
        is for a resumed agent, whose last epoch was noted. Raises SpawnError: nothing was started
        and no slot is held.
        """

        async def start() -> None:
            agent.renew_process()
            await self.start_process(agent, memory)

        try:
            await agent.restarts.start(start, retries=lambda why: isinstance(why, DiedBeforeHello))
        except BaseException:  # also when cancelled: nobody may wait for it
            agent.gone.set()
            raise

    async def start_process(
        self, agent: Agent, memory: AgentMemory | None, wait: SlotWait = WITHOUT_TIMEOUT
    ) -> None:
        """Start a process for an agent that has none, once a slot is free.

        Raises SpawnError: nothing was started and no slot is held.
        """
        if self.run_life.is_closing:
            raise SlotsClosed("the run is ending; nothing new starts")
        self._starts += 1
        try:
            with start_faults(agent.path):
                await self._start_process(agent, memory, wait)
        finally:
            self._starts -= 1

    async def _start_process(
        self, agent: Agent, memory: AgentMemory | None, wait: SlotWait
    ) -> None:
        self._by_peer[agent.identity] = agent
        if memory is not None:
            for mail_id, mail in memory.mails.items():
                agent.unread_mail.setdefault(mail_id, mail)
        try:
            await self.admit(agent)
            try:
                await start_agent(self._run, self.starts, agent, memory, wait)
            except StartInterrupted:  # new identity: the lost process may have sent messages
                self._by_peer.pop(agent.identity, None)
                agent.renew_process()
                self._by_peer[agent.identity] = agent
                await start_agent(self._run, self.starts, agent, memory, wait)
        except BaseException:
            self._by_peer.pop(agent.identity, None)
            raise
        self._nursery.start_soon(self._watch, agent)
        if Effect.END_PROCESS in self._directory.on_process_started(agent):
            agent.request_end("killed")
        process = agent.process
        if agent.wanted_end is not None and process.child is not None:
            process.child.kill_group()  # its end was requested while it started
            return
        if self._listener is not None and not agent.plan.slotless:
            self._listener.on_agent_event(agent, AgentEvent.PROCESS_STARTED, frozenset())
        with trio.move_on_after(_DELIVERY_TIMEOUT_S, shield=True):  # the caller may be gone by now
            try:
                await send_changes_since_spec(self._run, agent, self.starts.gateway)
                await self._redeliver_inputs(agent, memory or AgentMemory())
            finally:
                process.end_redelivery()
            await deliver_unread_mail(self._run, agent)

    async def _redeliver_inputs(self, agent: Agent, memory: AgentMemory) -> None:
        """Deliver the inputs that the previous process did not take up; continue an open turn.

        These are the inputs in `memory` and those that came since `memory` was read.
        """
        inputs = tuple((memory.inputs | agent.undelivered_inputs).values())
        if memory.open_turn is not None:
            inputs = with_turn_schema(inputs, memory.output_schema)
        agent.undelivered_inputs.clear()
        if inputs or memory.open_turn is not None:
            await deliver_unread_mail(self._run, agent, joining=True)
        for posted in inputs:
            await self.deliver_input(agent, posted)
        if memory.open_turn is not None and not inputs:
            await self.send_input(agent, UserInput(input_id=self._run.entropy.new_id(), parts=()))

    async def send_input(
        self, agent: Agent, message: UserInput, *, source: InputSource = "task"
    ) -> None:
        """Journal and send an input. If the process dies meanwhile, the next one gets it."""
        posted = input_record(message, source)
        await self._run.commit(posted, agent=agent.path, file=agent.plan.agent_id)
        await self.deliver_input(agent, posted)

    async def deliver_input(self, agent: Agent, posted: InputPosted) -> None:
        """Send a journaled input. A process that cannot receive it leaves it to the next one."""
        if agent.gone.is_set():
            agent.undelivered_inputs[posted.input_id] = posted  # a suspended turn has no process
            return
        agent.begin_work()
        agent.expect_turn(posted.input_id, is_continue=not posted.parts)
        self._directory.apply(agent, AgentEvent.INPUT_SENT)
        message = UserInput(
            input_id=posted.input_id, parts=posted.parts, output_schema=posted.output_schema
        )
        try:
            await self._run.send(agent, message)
        except PeerGone:  # its memory may have been read already
            agent.undelivered_inputs[posted.input_id] = posted

    # --- turns and work ------------------------------------------------------------------------

    def on_turn_started(self, agent: Agent, turn_id: str) -> None:
        """A turn has started: an agent whose work was done is working again."""
        agent.begin_turn(turn_id)
        self.turns_started += 1
        agent.begin_work()
        self._emit(agent, AgentEvent.TURN_STARTED)

    def on_turn_end(self, agent: Agent, end: TurnEnd) -> None:
        """The end of a turn is written. The work ends with it, unless another turn follows.

        That is when an input was sent meanwhile. In a run that is ending, the work ends even then:
        what was not read waits for the resume.
        """
        agent.turn_ends_pending -= 1
        state, message = end_state_of(end)
        if agent.pending_inputs and not isinstance(end, TurnFailed):
            if not self.run_life.is_ending:
                return
            state, message = "interrupted", "the run ended before it had read all that it was told"
        agent.note_turn_end(end)
        if isinstance(end, TurnAborted) and agent.wanted_end == "killed":
            state, message = "killed", "it was killed"
        self.end_work(agent, state, message, end.usage)
        is_at_work = agent.process.turn is not None or agent.turn_ends_pending
        if is_at_work and not agent.gone.is_set():  # mail has started the next turn meanwhile
            agent.begin_work()
            self._directory.apply(agent, AgentEvent.INPUT_SENT)

    def end_work(
        self, agent: Agent, state: EndState, message: str, usage: TokenUsage | None = None
    ) -> None:
        """Record that the agent's work reached an end state; its process may still live."""
        if agent.done.is_set():
            return
        if agent.wanted_end == "killed" and state == "interrupted":
            state, message = "killed", "it was ended for good"  # the turn saw it as an interrupt
        outcome = AgentEnded(
            agent_id=agent.plan.agent_id, state=state, message=message,
            usage=usage or TokenUsage(), cut_off=self.run_life.cuts_off(agent, state),
        )  # fmt: skip
        agent.end_work(outcome)
        if not agent.plan.slotless:  # a reviewer's outcome is in its `Reviewed` record
            self._run.note(outcome, agent=agent.path)
        self._emit(agent, AgentEvent.WORK_ENDED)

    async def suspend(self, agent: Agent, why: str) -> None:
        """Kill this process in the middle of its turn; another process continues the turn.

        The caller has made sure that the agent has nothing in progress. Returns once its slot is
        free.
        """
        self._directory.apply(agent, AgentEvent.SUSPENDED)
        process = agent.process
        process.begin_suspension()
        self.kill_for_restart(agent, why)
        await agent.gone.wait()

    # --- ending --------------------------------------------------------------------------------

    async def end_all(self) -> None:
        """End all agents in parallel, also those that are starting; no agent starts any more."""
        self.run_life.apply(RunEvent.CLOSED)
        while True:
            async with trio.open_nursery() as nursery:
                for agent in list(self.agents.values()):
                    nursery.start_soon(self.end, agent)
            if not self._starts and not self.agents:
                return
            await trio.sleep(_LOOK_S)  # a process start has a deadline

    async def interrupt(
        self, agents: Sequence[Agent], reason: str, *, keep_commands: bool = False
    ) -> None:
        """Abort the turns; the agents stay. One that is between two processes is not restarted."""
        order = Interrupt(reason=reason, keep_commands=keep_commands)
        async with trio.open_nursery() as nursery:
            for agent in agents:
                if not agent.process.hello.is_set() or agent.identity not in self._by_peer:
                    agent.request_end("interrupted")
                    continue
                nursery.start_soon(self._interrupt_one, agent, order)

    async def _interrupt_one(self, agent: Agent, order: Interrupt) -> None:
        with trio.move_on_after(_END_GRACE_S):
            try:
                await self._run.send(agent, order)
            except PeerGone:
                return

    async def end(self, agent: Agent, *, grace_s: float = _END_GRACE_S) -> None:
        """End the process for good: ask, wait, TERM, KILL. Returns once its slot is free."""
        agent.request_end("completed" if agent.done.is_set() else "interrupted")
        child = agent.process.child
        if child is not None and not agent.gone.is_set():
            await stop_child(child, partial(self._ask_to_stop, agent, grace_s), grace_s=grace_s)
        await agent.gone.wait()

    async def _ask_to_stop(self, agent: Agent, grace_s: float) -> None:
        try:
            await self._run.send(
                agent, Shutdown(grace_s=grace_s, run_ended=self.run_life.is_closing)
            )
        except PeerGone:
            return

    def kill_for_restart(self, agent: Agent, reason: str) -> None:
        """SIGKILL a process that no longer answers; the restart policy decides what follows."""
        agent.process.kill(reason)

    async def _watch(self, agent: Agent) -> None:
        """Wait for the end of one process, free its slot, decide what follows."""
        child = agent.process.child
        assert child is not None  # start_agent() set it
        ended = await child.wait_ended()
        self._record_process_end(agent, ended)
        if self._remove_if_end_wanted(agent):
            return
        if agent.plan.slotless:  # a review without its process has failed; another starts afresh
            self._remove_agent(agent, "crashed", _describe_end(agent, ended))
            return
        await self._restart(agent, _describe_end(agent, ended))

    async def _restart(self, agent: Agent, why: str) -> None:
        """Start the next process by the restart policy; a failed start counts as a death, too."""
        note = why
        while True:
            verdict = agent.restarts.record_death()
            if isinstance(verdict, GiveUp):
                self._remove_agent(agent, "crashed", f"{note}; {verdict.reason}")
                return
            self._run.broadcast.show(agent.path, AgentHeld(state="restarting", note=note))
            await trio.sleep(verdict.after_s)
            if self._remove_if_end_wanted(agent):
                return
            try:
                await self._start_next_process(agent)
                return
            except SpawnError as error:
                note = f"{why}; restarting failed: {error}"
            if self._remove_if_end_wanted(agent):
                return

    def _remove_if_end_wanted(self, agent: Agent) -> bool:
        """An agent whose end was requested, or that said Goodbye, gets no other process."""
        if agent.wanted_end is None and not agent.process.said_goodbye:
            return False
        state = agent.wanted_end or "completed"
        is_cut_off = self.run_life.is_closing and state == "interrupted"
        self._remove_agent(agent, state, "the run ended first" if is_cut_off else "")
        return True

    def _record_process_end(self, agent: Agent, ended: ProcessEnd) -> None:
        process = agent.process
        assert process.child is not None
        self._by_peer.pop(agent.identity, None)
        self._run.mailbox.dismiss(agent.identity)
        self._directory.registry.release(agent.path, process.child.pid)
        if not process.suspending:
            self._emit(agent, AgentEvent.PROCESS_ENDED)
        self._run.note(
            ProcessEnded(
                agent_id=agent.plan.agent_id,
                epoch=agent.epoch,
                pid=process.child.pid,
                exit_code=ended.exit_code,
                signal=ended.signal,
                reason=process.kill_reason or ended.reason,
                stderr_tail="" if process.said_goodbye else ended.stderr_tail,
                orderly=process.said_goodbye,
            ),
            agent=agent.path,
        )

    async def _start_next_process(self, agent: Agent) -> None:
        file = agent.plan.agent_id
        memory = await read_agent_memory(self._run, file)
        for call in memory.open_calls.values():
            self._run.note(interrupted_end(call), agent=agent.path, file=file)
        agent.renew_process()
        await self.start_process(agent, memory)

    def _remove_agent(self, agent: Agent, state: EndState, message: str) -> None:
        """No process will follow, unless somebody requests one."""
        if not agent.process.suspending or agent.closed:
            self.end_work(agent, state, message)
        self._run.journal.close_file(agent.plan.agent_id)
        for caches in self.starts.places.remove_tmp(self._run, agent.plan):
            self._nursery.start_soon(trio.to_thread.run_sync, remove_caches, caches)
        if self._hooks.forget is not None:
            self._hooks.forget(agent)
        self._emit(agent, AgentEvent.PROCESS_GONE)


def _describe_end(agent: Agent, ended: ProcessEnd) -> str:
    tail = ended.stderr_tail.strip().splitlines()[-1:]
    why = agent.process.kill_reason or ended.reason
    return f"{why} ({tail[0][:200]})" if tail else why
