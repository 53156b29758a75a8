"""Lifecycle of team members' processes: end idle ones, start again those that are needed.

A finished agent holds no slot, and no input or mail for it is lost: its next process gets what it
has not read. A turn that only waits may stop in one process and continue in another, with the real
output of the call in which it waited.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import trio

from swarm.mailbox.protocol.control import AgentHeld
from swarm.mailbox.protocol.events import CallEnded, TurnAborted
from swarm.mailbox.protocol.items import FunctionCallOutput
from swarm.mailbox.protocol.records import ItemRecorded
from swarm.mailbox.protocol.requests import AnyRequest, Spawn, WaitFor

from ...context.run_context import RunContext
from ...journal.replay import AgentMemory, interrupted_end
from ...processes.process_types import SpawnError
from ...processes.start_faults import start_faults
from ..agent_phases import AgentEvent, Effect
from ..agent_record import Agent
from ..end_states import end_state_of, last_end_state
from ..process_record import SuspendedTurn
from ..slots import SlotsClosed
from .agent_manager import AgentManager
from .agent_start import SlotWait, read_agent_memory

_POLL_S = 0.25
_RESTING_POLL_S = 2.0  # the interval of heartbeats
# Tools in whose calls a turn may wait without a process: the supervisor produces their output.
SUSPENDABLE_TOOLS: dict[str, type[WaitFor | Spawn]] = {"wait_agent": WaitFor, "spawn_agent": Spawn}
ABORTED = "aborted by user"


class AgentLifecycle:
    """Ends and starts processes of existing agents.

    Args:
        open_requests: The open requests of an agent, by its path.
        on_start_failed: Called with an agent that could not be started again, and why.
    """

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        nursery: trio.Nursery,
        open_requests: Callable[[str], Iterable[AnyRequest]],
        on_start_failed: Callable[[Agent, str], None],
    ) -> None:
        self._run, self._agents, self._nursery = running, agents, nursery
        self._open_requests, self._on_start_failed = open_requests, on_start_failed

    # --- ending idle processes -------------------------------------------------------------------

    def is_idle(self, agent: Agent) -> bool:
        """It has a process, nothing to do, and no mail that would start a turn."""
        return (
            self._agents.agents.get(agent.path) is agent
            and not agent.plan.slotless
            and agent.wanted_end is None
            and agent.done.is_set()
            and agent.process.turn is None
            and not agent.pending_inputs
            and not agent.has_waking_mail
        )

    async def retire(self, agent: Agent) -> None:
        """End the process of an agent whose work is done; commands delay it by up to `linger_s`."""
        with trio.move_on_after(self._run.request.lifetime.linger_s):
            while self.is_idle(agent) and agent.process.may_have_commands:  # noqa: ASYNC110 — heartbeats
                await trio.sleep(_POLL_S)
        if self.is_idle(agent):
            await self._agents.end(agent)

    async def end_resting(self, agent: Agent) -> None:
        """End the process of an agent that waits for input; not while one of its commands runs."""
        while self.is_idle(agent) and agent.process.may_have_commands:  # noqa: ASYNC110 — heartbeats
            await trio.sleep(_RESTING_POLL_S)
        if self.is_idle(agent):
            await self._agents.end(agent)

    # --- starting again --------------------------------------------------------------------------

    def wake(self, agent: Agent) -> None:
        """Start a process for an agent that has none; it gets what it has not read."""
        if agent.is_starting:
            return
        effects = self._run.agents.apply(agent, AgentEvent.PROCESS_REQUESTED)
        if Effect.START_PROCESS in effects:
            agent.begin_start()
            self._nursery.start_soon(self._start_again, agent)

    async def _start_again(self, agent: Agent) -> None:
        try:
            if agent.is_live or agent.process.suspending:
                await agent.gone.wait()
            file = agent.plan.agent_id
            with start_faults(agent.path):
                memory = await read_agent_memory(self._run, file)
                if memory.open_calls:
                    self._close_calls(agent, memory)
                    memory = await read_agent_memory(self._run, file)
            if agent.closed:
                return
            # Unread since before a resume.
            is_asked = any(mail.trigger_turn for mail in memory.mails.values())
            has_more = memory.open_turn or memory.inputs or is_asked or agent.has_waking_mail
            await self._start_process(agent, memory)
            if not (has_more or agent.has_taken_work):
                # Its last process had ended its turn; only that record was lost.
                self._agents.end_work(agent, *last_end_state(None, memory))
        except SlotsClosed:
            return  # what it has not read waits for a resume
        except SpawnError as error:
            self._on_start_failed(agent, f"it could not be started again: {error}")
        finally:
            agent.end_start()
            self._run.agents.notify_change()

    async def _start_process(self, agent: Agent, memory: AgentMemory) -> None:
        """Start its process; a failed start counts as a death. Raises the last SpawnError.

        Each try has an epoch of its own, so that messages of a failed try are not taken for the
        next one's.
        """
        wait = SlotWait(on_position=partial(self.show_position, agent.path))

        async def start() -> None:
            agent.reopen()
            agent.renew_process()
            await self._agents.start_process(agent, memory, wait)

        def is_retried(error: SpawnError) -> bool:
            return not (agent.closed or isinstance(error, SlotsClosed))

        await agent.restarts.start(start, retries=is_retried)

    def show_position(self, path: str, place: int) -> None:
        """Show people its place in the queue for slots."""
        held = AgentHeld(state="queued", note=f"number {place} in line")
        self._run.broadcast.show(path, held)

    # --- turns that wait without a process -----------------------------------------------------

    def only_waits(self, agent: Agent) -> bool:
        """True if its turn only waits, for others or for a slot, and it runs no command.

        False once the wait has its answer, even if the process has not read that yet.
        """
        process = agent.process
        (tool, *others) = process.open_calls.values() or ("",)
        return (
            self._agents.agents.get(agent.path) is agent
            and process.turn is not None
            and agent.wanted_end is None
            and not process.suspending
            and not process.responding
            and (not agent.pending_inputs or tool == "spawn_agent")  # inputs end waits only
            and not process.may_have_commands
            and not others
            and tool in SUSPENDABLE_TOOLS
            and any(
                isinstance(one, SUSPENDABLE_TOOLS[tool]) for one in self._open_requests(agent.path)
            )
        )

    async def suspend(self, agent: Agent) -> bool:
        """Free the slot of a turn that only waits. False if it does something after all."""
        await self._run.journal.flush()
        turn_id = agent.process.turn
        if not self.only_waits(agent) or turn_id is None:
            return False
        agent.suspend_turn()
        await self._agents.suspend(agent, "it only waits, and others need its slot")
        held = AgentHeld(state="suspended", note="waits without a process")
        self._run.broadcast.show(agent.path, held)
        return True

    async def suspend_at_limit(self, agent: Agent, over: trio.Event) -> None:
        """End the process of a turn that waits for a limit to reset; not while a command runs."""
        while not over.is_set():
            await self._run.journal.flush()
            if over.is_set() or not self._stands_still(agent):
                return
            if not agent.process.may_have_commands:
                agent.suspend_between_calls()
                await self._agents.suspend(agent, "it waits for a limit to reset")
                held = AgentHeld(state="suspended", note="waits for a limit to reset")
                self._run.broadcast.show(agent.path, held)
                return
            with trio.move_on_after(_RESTING_POLL_S):
                await over.wait()

    def _stands_still(self, agent: Agent) -> bool:
        """Its turn has neither a call nor a response in progress."""
        process = agent.process
        return (
            self._agents.agents.get(agent.path) is agent
            and process.turn is not None
            and agent.wanted_end is None
            and agent.suspended is None
            and not (process.suspending or process.responding or process.open_calls)
        )

    def continue_turn(self, agent: Agent) -> None:
        """A turn that was suspended between calls goes on."""
        agent.take_suspended()
        self.wake(agent)

    def resume(self, agent: Agent, output: str, *, success: bool = True) -> None:
        """The wait of a suspended turn is over: the turn continues with this output."""
        if agent.suspended is not None and agent.suspended.end_wait(output, success=success):
            self.wake(agent)

    def abort_suspended(self, agent: Agent) -> bool:
        """Abort a suspended turn. False if it is not suspended, or already continues."""
        suspended = agent.suspended
        if suspended is None or suspended.output is not None:
            return False
        agent.take_suspended()
        if suspended.call_id:
            self._write_output(agent, suspended, ABORTED, success=False)
        closing = self._agents.run_life.is_closing
        reason: Literal["run_ended", "interrupted"] = "run_ended" if closing else "interrupted"
        aborted = TurnAborted(turn_id=suspended.turn_id, reason=reason)
        self._run.note(aborted, agent=agent.path, file=agent.plan.agent_id)
        agent.note_turn_end(aborted)
        self._agents.end_work(agent, *end_state_of(aborted))
        return True

    def _close_calls(self, agent: Agent, memory: AgentMemory) -> None:
        """End the calls that its last process left open; the call it waited in gets its output."""
        suspended = agent.take_suspended()
        for call in memory.open_calls.values():
            if suspended is not None and call.call_id == suspended.call_id:
                output = suspended.output or ABORTED
                self._write_output(agent, suspended, output, success=suspended.success)
                continue
            self._run.note(interrupted_end(call), agent=agent.path, file=agent.plan.agent_id)

    def _write_output(
        self, agent: Agent, suspended: SuspendedTurn, output: str, *, success: bool
    ) -> None:
        """Journal the call's end and output: the call ends once, the model reads it once."""
        unwell: Literal["interrupted", "failed"] = "interrupted" if output == ABORTED else "failed"
        file, path = agent.plan.agent_id, agent.path
        self._run.note(
            CallEnded(
                turn_id=suspended.turn_id,
                call_id=suspended.call_id,
                tool=suspended.tool,
                status="completed" if success else unwell,
                output=output,
            ),
            agent=path,
            file=file,
        )
        self._run.note(
            ItemRecorded(
                turn_id=suspended.turn_id,
                item=FunctionCallOutput(call_id=suspended.call_id, output=output, success=success),
                item_id=f"{file[-8:]}-{agent.epoch}-w",
                source="tool",
            ),
            agent=path,
            file=file,
        )
