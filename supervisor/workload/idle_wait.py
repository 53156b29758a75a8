"""A run that stays: when all its work has ended, it waits for input instead of ending.

A kept-open run waits after every end of its root. Any other run waits only if a person interrupted
the root by itself: the agent stays, and the person says how it goes on. While the run waits, no
agent has a process, except a root whose commands still run in the background, and one whose hooks
want to know of the wait or of the session's end.
"""

import trio

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.records import AgentEnded, RunCompleted, RunIdle
from swarm.roles.parts.hooks.hook_combination import matching_hooks
from swarm.roles.parts.hooks.hook_input import IDLE_NOTIFICATION

from ..agents.life.agent_manager import AgentManager
from ..context.run_context import RunContext
from ..context.run_phases import RunEvent, RunPhase
from ..team.team_service import TeamService

# A person interrupted the root by itself, or the run already waits.
_PAUSED = (RunPhase.PAUSING, RunPhase.IDLE)


def keeps_root(hooks: tuple[Hook, ...]) -> bool:
    """True if hooks of the root run while the run waits: its process stays to run them."""
    is_told = matching_hooks(hooks, "Notification", (IDLE_NOTIFICATION,))
    return bool(is_told) or any(hook.event == "SessionEnd" for hook in hooks)


class IdleWait:
    """One per run."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        team_service: TeamService,
    ) -> None:
        self._run = running
        self._team_service = team_service
        self._life = agents.run_life
        self._answered: RunCompleted | None = None  # the last good end of a turn

    def applies_to(self, ended: AgentEnded) -> bool:
        """True if the run waits for input after this end of its root."""
        phase = self._life.phase
        if phase.is_ending or phase is RunPhase.FINISHING or ended.state == "killed":
            return False
        alone = ended.state == "interrupted" and phase in _PAUSED
        return self._run.request.lifetime.keep_open or alone

    async def wait(self, ended: AgentEnded, completed: RunCompleted) -> bool:
        """Wait for input. False: the run is to end, by a person's word or the idle timeout.

        Args:
            ended: How the root's work ended; no agent works.
            completed: How the run would end now.
        """
        if completed.status == "completed":
            self._answered = completed
        idle = RunIdle(status=completed.status, result=completed.result, message=completed.message)
        self._run.note(idle)
        self._life.apply(RunEvent.IDLE_BEGAN)
        team, service = self._run.agents, self._team_service
        if not keeps_root(self._run.request.inherited.hooks):
            service.rest(team.members[ROOT_PATH])
        limit_s = self._run.request.lifetime.idle_timeout_s
        with trio.move_on_after(float("inf") if limit_s is None else limit_s):
            while self.applies_to(ended) and service.is_idle:
                await team.wait_change()
        self._life.apply(RunEvent.IDLE_ENDED)
        return not service.is_idle

    def result(self, completed: RunCompleted) -> RunCompleted:
        """The run's result: after an interrupted turn, the last answer before it counts."""
        if completed.status == "interrupted" and not self._life.is_ending:
            return self._answered or completed
        return completed
