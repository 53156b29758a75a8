"""A person's requests to change an agent's settings, to pause it and to let it continue.

A change is journaled before it takes effect, and is in the agent's plan before the agent receives
it: whatever happens to its process, the next one has the new settings.
"""

from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.errors import PeerGone, UsageError
from swarm.mailbox.protocol.control import AnyControlReply, ChangeSettings, Done, Refused
from swarm.mailbox.protocol.ops import AnyOp, ApplySettings, Continue, Pause
from swarm.mailbox.protocol.records import PauseSet, SettingsChanged

from ..agents.agent_manager import AgentManager
from ..agents.child_plan import AgentRequestError
from ..agents.live_agent import AgentPlan, LiveAgent
from ..agents.spawn_limits import check_model
from ..agents.team_agent import TeamAgent
from ..run_context import RunContext
from ..team.team_service import TeamService
from .settings_change import changed_plan, check_requirements, describe_change, settings_of

_SEND_TIMEOUT_S = 5.0


class SettingsRequests:
    """Serves these requests. `find` is the control server's: path or its last step → member."""

    def __init__(
        self,
        running: RunContext,
        control: AgentManager,
        agency: TeamService,
        find: Callable[[str], TeamAgent | Refused],
    ) -> None:
        self._run, self._agents, self._team_service, self._find_member = (
            running,
            control,
            agency,
            find,
        )

    async def change_settings(self, wish: ChangeSettings) -> AnyControlReply:
        """Change settings from the next turn on; the change survives restarts and resumes."""
        member = self._find_member(wish.agent)
        if isinstance(member, Refused):
            return member
        if member.closed:
            return Refused(message=f"{member.path} was ended for good")
        before = member.plan
        try:
            plan = changed_plan(before, wish)
            check_requirements(before, plan, self._run.request.held)
            if plan.model != before.model:
                check_model(plan.model, before, self._team_service.spawn_limits.model())
        except (UsageError, AgentRequestError) as error:
            return Refused(message=str(error), exit_code=2)
        words = describe_change(before, plan)
        if not words:
            return Done(message=f"{member.path} works like that already")
        settings = settings_of(plan)
        _set_plan(member, plan)
        record = SettingsChanged(agent_id=plan.agent_id, settings=settings)
        await self._run.commit(record, agent=member.path)
        await self._send_op(member.live_agent, ApplySettings(settings=settings))
        return Done(message=f"{member.path} from its next turn on: {words}")

    async def set_paused(self, path: str, *, paused: bool) -> AnyControlReply:
        """Pause or continue one agent or the whole run; the run's deadline does not wait."""
        verb = "paused" if paused else "goes on"
        if not path:
            self._agents.all_paused = paused
            await self._run.commit(PauseSet(paused=paused))
            members = list(self._team_service.team.members.values())
        else:
            found = self._find_member(path)
            if isinstance(found, Refused):
                return found
            if not paused and self._agents.all_paused:
                words = "the whole run is paused; `swarm continue RUN` lets all of it go on"
                return Refused(message=words)
            await self._run.commit(PauseSet(paused=paused), agent=found.path)
            members = [found]
        for member in members:
            _set_plan(member, msgspec.structs.replace(member.plan, paused=bool(path) and paused))
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(
                    self._send_op, member.live_agent, Pause() if paused else Continue()
                )
        return Done(message=f"{path or 'the run'} {'is ' if paused else ''}{verb}")

    async def _send_op(self, life: LiveAgent | None, order: AnyOp) -> None:
        if life is None:
            return  # its next process gets it in its spec
        if isinstance(order, Pause | Continue):
            life.paused = isinstance(order, Pause)
        with trio.move_on_after(_SEND_TIMEOUT_S):
            try:
                await self._run.send(life, order)
            except PeerGone:
                return  # likewise


def _set_plan(member: TeamAgent, plan: AgentPlan) -> None:
    member.plan = plan
    if member.live_agent is not None:
        member.live_agent.plan = plan
