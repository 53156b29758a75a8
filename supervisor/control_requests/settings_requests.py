"""A person's requests to change an agent's settings, to pause it and to let it continue.

A change is journaled before it takes effect, and is in the agent's plan before the agent receives
it: whatever happens to its process, the next one has the new settings.
"""

from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone, UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import (
    AcceptPlan,
    AnyControlReply,
    ChangeSettings,
    Done,
    Refused,
)
from swarm.mailbox.protocol.ops import AnyOp, ApplySettings, Continue, Pause
from swarm.mailbox.protocol.records import PauseSet, SettingsChanged

from ..agents.agent_record import Agent, AgentPlan
from ..agents.child_plan import AgentRequestError, check_model
from ..agents.rights_widening import RightsBound
from ..agents.settings_change import changed_plan, check_requirements, describe_change, settings_of
from ..context.run_context import RunContext
from ..parts.copies.copy_bounds import starts_to_write
from ..parts.copies.project_copies import OUTSIDE_SANDBOX
from ..team.team_service import TeamService
from .run_limits import run_limits

_SEND_TIMEOUT_S = 5.0


class SettingsRequests:
    """Serves these requests. `find` is the control server's: path or its last step → agent."""

    def __init__(
        self,
        running: RunContext,
        team_service: TeamService,
        find: Callable[[str], Agent | Refused],
    ) -> None:
        self._run, self._team_service, self._find_agent = running, team_service, find

    async def change_settings(self, request: ChangeSettings) -> AnyControlReply:
        """Change settings from the next turn on; the change survives restarts and resumes."""
        agent = self._find_agent(request.agent)
        if isinstance(agent, Refused):
            return agent
        if agent.closed:
            return Refused(message=f"{agent.path} was ended for good")
        before = agent.plan
        try:
            providers = self._team_service.spawner.providers
            plan = changed_plan(before, request, self._bound(agent), providers=providers)
            check_requirements(before, plan, self._run.request.approvals.held)
            self._check_copy(before, plan)
            asked, former = plan.model_reference, before.model_reference
            if asked.model != former.model and asked.provider is None:
                check_model(asked.model, before, self._team_service.spawner.limits.find_model())
        except (UsageError, AgentRequestError, OSError, ValueError) as error:
            return Refused(message=str(error), exit_code=2)
        text = describe_change(before, plan)
        if not text:
            return Done(message=f"{agent.path} works like that already")
        settings = settings_of(plan)
        agent.change_plan(plan)
        record = SettingsChanged(agent_id=plan.agent_id, settings=settings)
        await self._run.commit(record, agent=agent.path)
        await self._send_op(agent, ApplySettings(settings=settings))
        if plan.limits.network != before.limits.network:
            self._team_service.rest(agent)  # a process keeps its ticket for the network proxy
        return Done(message=f"{agent.path} from its next turn on: {text}")

    def _check_copy(self, before: AgentPlan, after: AgentPlan) -> None:
        """Raises UsageError for a change with which it would write past a copy of the project."""
        self._run.copies.check_change(after)
        wants = self._run.request.isolation_wanted(after.role.name, is_root=after.depth == 0)
        is_shared = after.limits.isolation == "shared"
        if is_shared and wants == "copy" and starts_to_write(before, after):
            raise UsageError(
                f"{after.path} would work in a copy of the project, but has none since it could "
                "only read; start another agent"
            )

    async def accept_plan(self, request: AcceptPlan) -> AnyControlReply:
        """End an agent's plan mode; the caller then sends it the text."""
        agent = self._find_agent(request.agent or ROOT_PATH)
        if isinstance(agent, Refused):
            return agent
        if not agent.plan.limits.planning:
            return Refused(message=f"{agent.path} is not in plan mode", exit_code=2)
        return await self.change_settings(ChangeSettings(agent=agent.path, plan=False))

    def _bound(self, agent: Agent) -> RightsBound:
        """The most that a person may give to this agent."""
        request = self._run.request
        required = request.inherited.sandbox_required
        if not required and agent.plan.limits.isolation == "copy":
            required = OUTSIDE_SANDBOX
        if not required and "fs" in request.require_sandbox:
            required = "the run was started with --require-sandbox fs"
        parent = self._run.agents.find(agent.plan.parent) if agent.plan.parent else None
        if parent is None:
            return RightsBound(run_limits(self._run), sandbox_required=required)
        return RightsBound(parent.plan.limits, is_parent=True, sandbox_required=required)

    async def set_paused(self, path: str, *, paused: bool) -> AnyControlReply:
        """Pause or continue one agent or the whole run; the run's deadline does not wait.

        An agent that was paused by itself stays so when the whole run goes on.
        """
        verb = "paused" if paused else "goes on"
        agents = self._run.agents
        if not path:
            agents.set_all_paused(paused=paused)
            await self._run.commit(PauseSet(paused=paused))
            reached = [one for one in agents.members.values() if not one.plan.paused]
        else:
            found = self._find_agent(path)
            if isinstance(found, Refused):
                return found
            if not paused and agents.all_paused:
                text = "the whole run is paused; `swarm continue RUN` lets all of it go on"
                return Refused(message=text)
            await self._run.commit(PauseSet(paused=paused), agent=found.path)
            found.change_plan(msgspec.structs.replace(found.plan, paused=paused))
            reached = [found]
        async with trio.open_nursery() as nursery:
            for agent in reached:
                nursery.start_soon(self._send_op, agent, Pause() if paused else Continue())
        return Done(message=f"{path or 'the run'} {'is ' if paused else ''}{verb}")

    async def _send_op(self, agent: Agent, op: AnyOp) -> None:
        if not agent.is_live:
            return  # its next process gets it in its spec
        with trio.move_on_after(_SEND_TIMEOUT_S):
            try:
                await self._run.send(agent, op)
            except PeerGone:
                return  # likewise
