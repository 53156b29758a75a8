"""Lifecycle of team members' processes: end idle ones, start again those that are needed.

A finished agent holds no slot, and no input or mail for it is lost: its next process gets what it
has not read. A turn that only waits may stop in one process and continue in another, with the real
output of the call in which it waited.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import trio

from swarm.mailbox.protocol.events import CallEnded, TurnAborted
from swarm.mailbox.protocol.items import FunctionCallOutput, TokenUsage
from swarm.mailbox.protocol.records import ItemRecorded
from swarm.mailbox.protocol.requests import AnyRequest, Spawn, WaitFor

from ..journal.journal_reader import read_records
from ..journal.replay import AgentMemory, fold_agent, interrupted_end
from ..processes.child_spec import GiveUp, decide_restart
from ..processes.process_types import SpawnError
from ..run_context import RunContext
from ..team.team_members import TeamMembers
from .agent_manager import AgentManager
from .agent_start import SlotWait
from .end_states import last_end_state
from .live_agent import LiveAgent
from .slot_scheduler import SlotSchedulerClosed
from .team_agent import SuspendedTurn, TeamAgent

_POLL_S = 0.25
# Tools in whose calls a turn may wait without a process: the supervisor produces their output.
SUSPENDABLE_TOOLS: dict[str, type[WaitFor | Spawn]] = {"wait_agent": WaitFor, "spawn_agent": Spawn}
ABORTED = "aborted by user"


class AgentLifecycle:
    """Ends and starts processes of existing members.

    `asked` gives the open requests of an agent by its path.
    """

    def __init__(
        self,
        running: RunContext,
        control: AgentManager,
        team: TeamMembers,
        nursery: trio.Nursery,
        asked: Callable[[str], Iterable[AnyRequest]],
    ) -> None:
        self._run, self._agents, self._team, self._nursery = running, control, team, nursery
        self._open_requests = asked
        self.on_start_failed: Callable[[TeamAgent, str], None] = lambda member, why: None

    # --- ending idle processes -------------------------------------------------------------------

    def is_idle(self, life: LiveAgent) -> bool:
        """It has a process, nothing to do, and no mail that would start a turn."""
        member = self._team.members.get(life.path)
        return (
            member is not None
            and self._agents.agents.get(life.path) is life
            and life.wanted_end is None
            and life.done.is_set()
            and life.turn is None
            and not life.pending_inputs
            and not self._team.has_waking_mail(member)
        )

    async def retire(self, life: LiveAgent) -> None:
        """End the process of an agent whose work is done; commands delay it by up to `linger_s`."""
        with trio.move_on_after(self._run.request.linger_s):
            while self.is_idle(life) and _may_have_commands(life):  # noqa: ASYNC110 — heartbeats
                await trio.sleep(_POLL_S)
        if self.is_idle(life):
            await self._agents.end(life)

    # --- starting again --------------------------------------------------------------------------

    def wake(self, member: TeamAgent) -> None:
        """Start a process for a member that has none; it gets what it has not read."""
        if member.is_starting or member.closed:
            return
        member.is_starting = True
        self._team.set_state(member, "queued")
        self._nursery.start_soon(self._start_again, member)

    async def _start_again(self, member: TeamAgent) -> None:
        path = member.path
        try:
            life = member.live_agent
            if life is not None:
                await life.gone.wait()
            life = member.live_agent
            if life is None:  # no task waits for the old object's events any more
                life = LiveAgent(member.plan, epoch=member.epoch)
                life.ends_with_work = True
            life.unread_mail, life.deaths = member.unread_mail, member.deaths
            life.spending = member.spending
            life.list_children = partial(self._team.open_children, path)
            memory = await self._read_memory(member)
            if memory.open_calls:
                self._close_calls(member, memory)
                memory = await self._read_memory(member)
            if member.closed:
                return
            # Unread since before a resume.
            is_asked = any(mail.trigger_turn for mail in memory.mails.values())
            has_more = (
                memory.open_turn or memory.inputs or is_asked or self._team.has_waking_mail(member)
            )
            await self._start_process(member, life, memory)
            if not has_more:  # its last process had ended its turn; only that record was lost
                self._agents.restore_end(life, *last_end_state(None, memory))
        except SlotSchedulerClosed:
            return  # what it has not read waits for a resume
        except SpawnError as error:
            self.on_start_failed(member, f"it could not be started anew: {error}")
        finally:
            member.is_starting = False
            self._team.notify_change()

    async def _start_process(self, member: TeamAgent, life: LiveAgent, memory: AgentMemory) -> None:
        """Start its process; a failed start counts as a death. Raises the last SpawnError.

        Each try has an epoch of its own, so that messages of a failed try are not taken for the
        next one's.
        """
        place = partial(self.show_position, member.path)
        while True:
            life.reset_after_end(member.epoch + 1)
            member.epoch = life.epoch
            try:
                await self._agents.start_process(life, memory, SlotWait(on_position=place))
                return
            except SlotSchedulerClosed:
                raise
            except SpawnError:
                now = trio.current_time()
                life.deaths.append(now)
                verdict = decide_restart(life.deaths, now=now)
                if member.closed or isinstance(verdict, GiveUp):
                    raise
                await trio.sleep(verdict.after_s)

    async def _read_memory(self, member: TeamAgent) -> AgentMemory:
        await self._run.journal.flush()
        file = member.plan.agent_id
        return await trio.to_thread.run_sync(
            lambda: fold_agent(read_records(self._run.paths, file=file))
        )

    def show_position(self, path: str, place: int) -> None:
        """Show people its place in the queue for slots."""
        self._run.broadcast.state.set_agent_state(path, "queued", note=f"number {place} in line")

    # --- turns that wait without a process -----------------------------------------------------

    def only_waits(self, life: LiveAgent) -> bool:
        """True if its turn only waits, for others or for a slot, and it runs no command.

        False once the wait has its answer, even if the process has not read that yet.
        """
        (tool, *others) = life.open_calls.values() or ("",)
        return (
            self._agents.agents.get(life.path) is life
            and life.turn is not None
            and life.wanted_end is None
            and not life.suspending
            and not life.responding
            and (not life.pending_inputs or tool == "spawn_agent")  # inputs end waits, but no spawn
            and not life.live_commands
            and not life.has_detached_command
            and not others
            and tool in SUSPENDABLE_TOOLS
            and any(
                isinstance(one, SUSPENDABLE_TOOLS[tool]) for one in self._open_requests(life.path)
            )
        )

    async def suspend(self, life: LiveAgent) -> bool:
        """Free the slot of a turn that only waits. False if it does something after all."""
        member = self._team.members[life.path]
        await self._run.journal.flush()
        if not self.only_waits(life) or life.turn is None:
            return False
        (call_id, tool), *_ = life.open_calls.items()
        member.suspended = SuspendedTurn(turn_id=life.turn, call_id=call_id, tool=tool)
        await self._agents.suspend(life, "it only waits, and others need its slot")
        self._run.broadcast.state.set_agent_state(
            life.path, "suspended", note="waits without a process"
        )
        return True

    def resume(self, member: TeamAgent, output: str, *, success: bool = True) -> None:
        """The wait of a suspended turn is over: the turn continues with this output."""
        if member.suspended is not None and member.suspended.output is None:
            member.suspended.output, member.suspended.success = output, success
            self.wake(member)

    def abort_suspended(self, member: TeamAgent) -> bool:
        """Abort a suspended turn. False if it is not suspended, or already continues."""
        suspended, life = member.suspended, member.live_agent
        if suspended is None or life is None or suspended.output is not None:
            return False
        member.suspended, member.live_agent = None, None
        file = member.plan.agent_id
        self._write_output(member, suspended, ABORTED, success=False)
        aborted = TurnAborted(turn_id=suspended.turn_id)
        self._run.note(aborted, agent=member.path, file=file)
        life.last_turn_end = aborted
        self._agents.end_work(life, "interrupted", "it was interrupted", TokenUsage())
        return True

    def _close_calls(self, member: TeamAgent, memory: AgentMemory) -> None:
        """End the calls that its last process left open; the call it waited in gets its output."""
        suspended, member.suspended = member.suspended, None
        for call in memory.open_calls.values():
            if suspended is not None and call.call_id == suspended.call_id:
                output = suspended.output or ABORTED
                self._write_output(member, suspended, output, success=suspended.success)
                continue
            self._run.note(interrupted_end(call), agent=member.path, file=member.plan.agent_id)

    def _write_output(
        self, member: TeamAgent, suspended: SuspendedTurn, output: str, *, success: bool
    ) -> None:
        """Journal the call's end and output: the call ends once, the model reads it once."""
        unwell: Literal["interrupted", "failed"] = "interrupted" if output == ABORTED else "failed"
        file, path = member.plan.agent_id, member.path
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
                item_id=f"{file[-8:]}-{member.epoch}-w",
                source="tool",
            ),
            agent=path,
            file=file,
        )


def _may_have_commands(life: LiveAgent) -> bool:
    """By its last heartbeat, or because a call since then left a command running."""
    return life.live_commands > 0 or life.has_detached_command
