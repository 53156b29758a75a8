"""Delivers a person's input to an agent, with or without a process.

Every accepted input is read. The run does not end while an input for one of its agents is being
written, and once it ends it accepts none.
"""

from collections.abc import Callable

from swarm.mailbox.protocol.ops import UserInput

from ..agents.agent_phases import Phase
from ..agents.agent_record import Agent
from ..agents.child_plan import AgentRequestError
from ..agents.life.agent_manager import AgentManager
from ..agents.life.resume_continuation import input_record
from ..context.run_context import RunContext


class RunEnds(AgentRequestError):
    """The run is ending and has not taken the input."""


class PersonInput:
    """`wake` is called for an agent without a process."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        wake: Callable[[Agent], None],
    ) -> None:
        self._run, self._agents, self._team, self._wake = running, agents, running.agents, wake
        self._writing, self._is_closed = 0, False

    @property
    def is_idle(self) -> bool:
        """False while an input is on its way to the journal."""
        return not self._writing

    def close(self) -> None:
        """The run ends: refuse further input."""
        self._is_closed = True

    async def send(self, member: Agent, message: UserInput) -> None:
        """Journaled on return. Raises AgentRequestError: no agent will read it in this run.

        That is RunEnds if the input is nowhere in the journal.
        """
        if self._is_closed:
            raise RunEnds("the run is ending; say it with `swarm resume`")
        self._writing += 1
        try:
            await self._write_and_deliver(member, message)
        finally:
            self._writing -= 1
            # the end of the run, or a suspended turn, may wait for this
            self._team.notify_change()

    async def _write_and_deliver(self, member: Agent, message: UserInput) -> None:
        posted = input_record(message, "person")
        await self._run.commit(posted, agent=member.path, file=member.plan.agent_id)
        if self._is_closed:
            raise AgentRequestError(
                "the run ended meanwhile; `swarm resume` begins with these words"
            )
        if not member.has_started and self._team.find(member.path) is not member:
            raise AgentRequestError(
                f"{member.path} was never started; nobody reads what was said to it"
            )
        if member.is_live and member.wanted_end is None:
            await self._agents.deliver_input(member, posted)
        else:
            member.undelivered_inputs[posted.input_id] = posted
        if member.phase is Phase.SUSPENDED:
            return  # the call that it waits in ends now
        if not member.is_live or member.wanted_end is not None:
            self._wake(member)  # after its end, if that has begun
