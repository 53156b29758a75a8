"""Manages agents: start, send input, restart, end. Every operation has a deadline.

Only the end of its process frees an agent's slot: `_watch` waits for the process itself. There is
no `await` between a check of an agent's state and its change.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.limits import Budget
from swarm.mailbox.protocol.ops import Interrupt, Mail, Shutdown, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    EndState,
    InputPosted,
    ProcessEnded,
)

from ..journal.journal_reader import read_records
from ..journal.replay import AgentMemory, fold_agent, interrupted_end
from ..processes.child_loop import stop_child
from ..processes.child_spec import GiveUp, decide_restart
from ..processes.process_types import DiedBeforeHello, ProcessEnd, SpawnError, StartInterrupted
from ..run_context import RunContext
from ..run_end import RunEnd
from .agent_observer import AgentObserver, NullObserver
from .agent_start import WITHOUT_TIMEOUT, SlotWait, send_changes_since_spec, start_agent
from .live_agent import AgentPlan, GatewayAddress, LiveAgent
from .resume_delivery import InputSource, deliver_unread_mail, input_record, with_turn_schema
from .slot_scheduler import SlotSchedulerClosed

_END_GRACE_S = 5.0
_DELIVERY_TIMEOUT_S = 30.0

_LOOK_S = 0.02


async def _admit_everybody(path: str, budget: Budget) -> None:
    """The default without a budget service: no limit applies."""


class AgentManager:
    """Owns every LiveAgent of the run. `agents` is keyed by path; ended agents are removed."""

    def __init__(self, running: RunContext, nursery: trio.Nursery, gateway: GatewayAddress) -> None:
        self._run, self._nursery, self._gateway = running, nursery, gateway
        self.agents: dict[str, LiveAgent] = {}
        self._by_peer: dict[bytes, LiveAgent] = {}
        self.on_agent_gone: Callable[[LiveAgent], None] = lambda agent: None
        self.observer: AgentObserver = NullObserver()
        self.admit: Callable[[str, Budget], Awaitable[None]] = _admit_everybody
        self.is_mail_written: Callable[[Mail], bool] = lambda mail: True
        self.all_paused = False  # a person paused the whole run
        self.run_end = RunEnd(running.deadline_unix_s)
        self.turns_started = self._births = 0  # turns begun; process starts in progress

    def find_by_peer(self, identity: bytes) -> LiveAgent | None:
        """The agent whose present process has this socket identity."""
        return self._by_peer.get(identity)

    async def spawn(
        self, plan: AgentPlan, *, memory: AgentMemory | None = None, paid_usd: float | None = None
    ) -> LiveAgent:
        """Start an agent, new or resumed; return once it has sent its Hello.

        If its process dies before its Hello, the restart policy decides about another try. `memory`
        and `paid_usd` are for a resumed agent. Raises SpawnError: nothing was started and no slot
        is held.
        """
        epoch = 1 if memory is None else self._next_epoch(plan)
        agent = LiveAgent(plan, epoch=epoch)
        agent.spending.add(paid_usd)
        try:
            while not await self._try_start(agent, memory):
                agent.reset_for_process(agent.epoch + 1)
        except BaseException:  # also when cancelled: nobody may wait for it
            agent.gone.set()
            raise
        return agent

    async def _try_start(self, agent: LiveAgent, memory: AgentMemory | None) -> bool:
        """False: it died before its Hello, and may try again now. Raises SpawnError."""
        try:
            await self.start_process(agent, memory)
        except DiedBeforeHello:
            agent.deaths.append(trio.current_time())
            verdict = decide_restart(agent.deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp):
                raise
            await trio.sleep(verdict.after_s)
            return False
        return True

    async def start_process(
        self, agent: LiveAgent, memory: AgentMemory | None, line: SlotWait = WITHOUT_TIMEOUT
    ) -> None:
        """Start a process for an agent that has none, once a slot is free.

        Raises SpawnError: nothing was started and no slot is held.
        """
        if self.run_end.is_closing:
            raise SlotSchedulerClosed("the run is ending; nothing new starts")
        self._births += 1
        try:
            await self._be_born(agent, memory, line)
        finally:
            self._births -= 1

    def _next_epoch(self, plan: AgentPlan) -> int:
        known = read_records(self._run.paths, file="run")
        lives = (
            record.body.epoch
            for record in known
            if isinstance(record.body, AgentSpawned) and record.body.agent_id == plan.agent_id
        )
        return max(lives, default=0) + 1

    async def _be_born(self, agent: LiveAgent, memory: AgentMemory | None, line: SlotWait) -> None:
        self._by_peer[agent.identity] = agent
        agent.paused = not agent.plan.slotless and (agent.plan.paused or self.all_paused)
        if memory is not None:
            for mail_id, mail in memory.mails.items():
                agent.unread_mail.setdefault(mail_id, mail)
        try:
            await self.admit(agent.path, agent.plan.limits.budget)
            try:
                await start_agent(self._run, agent, memory, self._gateway, line)
            except StartInterrupted:  # new identity: the lost process may have sent messages
                self._by_peer.pop(agent.identity, None)
                agent.reset_for_process(agent.epoch + 1)
                self._by_peer[agent.identity] = agent
                await start_agent(self._run, agent, memory, self._gateway, line)
        except BaseException:
            self._by_peer.pop(agent.identity, None)
            raise
        self.agents[agent.path] = agent
        self._nursery.start_soon(self._watch, agent)
        if not agent.plan.slotless:
            self.observer.on_process_started(agent)
        if agent.wanted_end is not None and agent.child is not None:
            agent.child.kill_group()  # its end was requested while it started
            return
        with trio.move_on_after(_DELIVERY_TIMEOUT_S, shield=True):  # the caller may be gone by now
            try:
                await send_changes_since_spec(self._run, agent, self._gateway)
                await self._redeliver_inputs(agent, memory or AgentMemory())
            finally:
                agent.is_redelivered = True  # from now on senders deliver mail themselves
            await deliver_unread_mail(self._run, agent, self.is_mail_written)

    async def _redeliver_inputs(self, agent: LiveAgent, memory: AgentMemory) -> None:
        """Deliver the inputs that the previous process did not take up; continue an open turn.

        These are the inputs in `memory` and those that came since `memory` was read.
        """
        inputs = tuple((memory.inputs | agent.undelivered_inputs).values())
        if memory.open_turn is not None:
            inputs = with_turn_schema(inputs, memory.output_schema)
        agent.undelivered_inputs.clear()
        if inputs or memory.open_turn is not None:
            await deliver_unread_mail(self._run, agent, self.is_mail_written, joining=True)
        for posted in inputs:
            await self.deliver_input(agent, posted)
        if memory.open_turn is not None and not inputs:
            await self.send_input(agent, UserInput(input_id=self._run.entropy.new_id(), parts=()))

    async def send_input(
        self, agent: LiveAgent, words: UserInput, *, source: InputSource = "task"
    ) -> None:
        """Journal and send an input. If the process dies meanwhile, the next one gets it."""
        posted = input_record(words, source)
        await self._run.commit(posted, agent=agent.path, file=agent.plan.agent_id)
        await self.deliver_input(agent, posted)

    async def deliver_input(self, agent: LiveAgent, posted: InputPosted) -> None:
        """Send a journaled input. A process that cannot receive it leaves it to the next one."""
        if agent.gone.is_set():
            agent.undelivered_inputs[posted.input_id] = posted  # a suspended turn has no process
            return
        if agent.done.is_set():  # else somebody waits for this very event
            agent.done, agent.outcome = trio.Event(), None
        agent.expect_turn(posted.input_id, is_wish=not posted.parts)
        self.observer.on_input(agent)
        words = UserInput(
            input_id=posted.input_id, parts=posted.parts, output_schema=posted.output_schema
        )
        try:
            await self._run.send(agent, words)
        except PeerGone:
            # Its memory may have been read already.
            agent.undelivered_inputs[posted.input_id] = posted

    def end_work(self, agent: LiveAgent, state: EndState, message: str, usage: TokenUsage) -> None:
        """Record that the agent's work reached an end state; its process may still live."""
        if agent.done.is_set():
            return
        agent.pending_inputs.clear()
        agent.continue_inputs.clear()
        if agent.wanted_end == "killed" and state == "interrupted":
            state, message = "killed", "it was ended for good"  # the turn saw it as an interrupt
        outcome = AgentEnded(
            agent_id=agent.plan.agent_id, state=state, message=message, usage=usage,
            cut_off=self.run_end.cuts_off(agent, state),
        )  # fmt: skip
        agent.outcome = outcome
        agent.done.set()
        if agent.plan.slotless:
            return  # a reviewer's outcome is in its `Reviewed` record; it belongs to no team
        self._run.note(outcome, agent=agent.path)
        self.observer.on_work_ended(agent)

    def on_turn_started(self, agent: LiveAgent) -> None:
        """A turn has started: an agent whose work was done is working again."""
        self.turns_started += 1
        if agent.done.is_set():
            agent.done, agent.outcome = trio.Event(), None
        self.observer.on_turn_started(agent)

    def continue_work(self, agent: LiveAgent) -> None:
        """The end of the agent's turn is written, but its next turn has already started."""
        agent.done, agent.outcome = trio.Event(), None
        self.observer.on_input(agent)

    async def suspend(self, agent: LiveAgent, why: str) -> None:
        """Kill this process in the middle of its turn; another process continues the turn.

        The caller has made sure that the agent has nothing in progress. Returns once its slot is
        free.
        """
        agent.suspending = agent.said_goodbye = True
        agent.kill_reason = why
        if agent.child is not None:
            agent.child.kill_group()
        await agent.gone.wait()

    def restore_end(self, agent: LiveAgent, state: EndState, message: str) -> None:
        """A resumed agent with nothing left to do keeps the end state that it had."""
        self.end_work(agent, state, message, TokenUsage())

    def path_of(self, agent_id: str) -> str:
        """The path of a live agent by its id; "" when it is gone."""
        ours = (one.path for one in self.agents.values() if one.plan.agent_id == agent_id)
        return next(ours, "")

    async def end_all(self) -> None:
        """End all agents in parallel, also those that are starting; no agent starts any more."""
        self.run_end.close()
        while True:
            async with trio.open_nursery() as nursery:
                for agent in list(self.agents.values()):
                    nursery.start_soon(self.end, agent)
            if not self._births and not self.agents:
                return
            await trio.sleep(_LOOK_S)  # a process start has a deadline

    async def interrupt(
        self, agents: Sequence[LiveAgent], reason: str, *, keep_commands: bool = False
    ) -> None:
        """Abort the turns; the agents stay. One that is between two processes is not restarted."""
        order = Interrupt(reason=reason, keep_commands=keep_commands)
        async with trio.open_nursery() as nursery:
            for agent in agents:
                if not agent.hello.is_set() or agent.identity not in self._by_peer:
                    agent.wanted_end = agent.wanted_end or "interrupted"
                    continue
                nursery.start_soon(self._interrupt_one, agent, order)

    async def _interrupt_one(self, agent: LiveAgent, order: Interrupt) -> None:
        with trio.move_on_after(_END_GRACE_S):
            try:
                await self._run.send(agent, order)
            except PeerGone:
                return

    async def end(self, agent: LiveAgent, *, grace_s: float = _END_GRACE_S) -> None:
        """End the process for good: ask, wait, TERM, KILL. Returns once its slot is free."""
        if agent.wanted_end is None:
            agent.wanted_end = "completed" if agent.done.is_set() else "interrupted"
        if agent.child is not None and not agent.gone.is_set():
            ask = partial(self._ask_to_stop, agent, grace_s)
            await stop_child(agent.child, ask, grace_s=grace_s)
        await agent.gone.wait()

    async def _ask_to_stop(self, agent: LiveAgent, grace_s: float) -> None:
        try:
            await self._run.send(agent, Shutdown(grace_s=grace_s))
        except PeerGone:
            return

    async def kill(self, agents: Sequence[LiveAgent]) -> None:
        """End these agents for good, at once, and never restart them (`swarm kill`)."""
        async with trio.open_nursery() as nursery:
            for agent in agents:
                agent.wanted_end = "killed"
                nursery.start_soon(partial(self.end, agent, grace_s=1.0))

    def kill_for_restart(self, agent: LiveAgent, reason: str) -> None:
        """SIGKILL a process that no longer answers; the restart policy decides what follows."""
        if agent.child is not None and not agent.kill_reason:
            agent.kill_reason = reason
            agent.child.kill_group()

    async def _watch(self, agent: LiveAgent) -> None:
        """Wait for the end of one process, free its slot, decide what follows."""
        child = agent.child
        assert child is not None  # start_agent() set it
        ended = await child.wait_ended()
        self._record_process_end(agent, ended)
        if self._remove_if_end_wanted(agent):
            return
        if agent.plan.slotless:  # a review without its process has failed; another starts afresh
            self._remove_agent(agent, "crashed", _describe_end(agent, ended))
            return
        await self._restart(agent, _describe_end(agent, ended))

    async def _restart(self, agent: LiveAgent, why: str) -> None:
        """Start the next process by the restart policy; a failed start counts as a death, too."""
        words = why
        while True:
            agent.deaths.append(trio.current_time())
            verdict = decide_restart(agent.deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp):
                self._remove_agent(agent, "crashed", f"{words}; {verdict.reason}")
                return
            self._run.broadcast.state.set_agent_state(agent.path, "restarting", note=words)
            await trio.sleep(verdict.after_s)
            if self._remove_if_end_wanted(agent):
                return
            try:
                await self._start_next_process(agent)
                return
            except SpawnError as error:
                words = f"{why}; restarting failed: {error}"
            if self._remove_if_end_wanted(agent):
                return

    def _remove_if_end_wanted(self, agent: LiveAgent) -> bool:
        """An agent whose end was requested, or that said Goodbye, gets no other process."""
        if agent.wanted_end is None and not agent.said_goodbye:
            return False
        self._remove_agent(agent, agent.wanted_end or "completed", "")
        return True

    def _record_process_end(self, agent: LiveAgent, ended: ProcessEnd) -> None:
        assert agent.child is not None
        self._by_peer.pop(agent.identity, None)
        self._run.mailbox.dismiss(agent.identity)
        self._run.registry.release(agent.path, agent.child.pid)
        self.observer.on_process_ended(agent)
        self._run.note(
            ProcessEnded(
                agent_id=agent.plan.agent_id,
                epoch=agent.epoch,
                pid=agent.child.pid,
                exit_code=ended.exit_code,
                signal=ended.signal,
                reason=agent.kill_reason or ended.reason,
                stderr_tail="" if agent.said_goodbye else ended.stderr_tail,
                orderly=agent.said_goodbye,
            ),
            agent=agent.path,
        )

    async def _start_next_process(self, agent: LiveAgent) -> None:
        await self._run.journal.flush()
        file = agent.plan.agent_id
        memory = await trio.to_thread.run_sync(self._read_memory, file)
        for call in memory.open_calls.values():
            self._run.note(interrupted_end(call), agent=agent.path, file=file)
        agent.reset_for_process(agent.epoch + 1)
        await self.start_process(agent, memory)

    def _read_memory(self, file: str) -> AgentMemory:
        return fold_agent(read_records(self._run.paths, file=file))

    def _remove_agent(self, agent: LiveAgent, state: EndState, message: str) -> None:
        """No process will follow: the agent's path stays known, its in-memory state goes."""
        if not agent.suspending:
            self.end_work(agent, state, message, TokenUsage())
        self.agents.pop(agent.path, None)
        self._run.journal.close_file(agent.plan.agent_id)
        self._run.remove_tmp(agent.plan)
        agent.gone.set()
        self.on_agent_gone(agent)
        self.observer.on_gone(agent)


def _describe_end(agent: LiveAgent, ended: ProcessEnd) -> str:
    tail = ended.stderr_tail.strip().splitlines()[-1:]
    why = agent.kill_reason or ended.reason
    return f"{why} ({tail[0][:200]})" if tail else why
