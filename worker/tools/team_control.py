"""list_agents, interrupt_agent, close_agent: list the team, stop a turn, end a subtree."""

from collections.abc import Mapping
from functools import partial

import msgspec

from swarm.mailbox.ids import AgentPath, is_within
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import CloseAgent as CloseRequest
from swarm.mailbox.protocol.requests import HaltAgent, ListAgents, PreviousStatus
from swarm.mailbox.protocol.requests import Team as TeamReply

from .call_router import decode_arguments
from .team_client import TeamInvocation, TeamTool, as_json
from .team_status import agent_status
from .tool_interface import Invocation, Schema, ToolResult

CLOSE_LIMIT_S = 60.0  # longer than the supervisor's graceful stop (request, terminate, kill)
_TARGET: Schema = {"type": "string", "description": "Path of an agent below you."}
_NOT_SPAWNED = "root is not a spawned agent"
_NOT_MYSELF = "you cannot {verb} yourself: to end, return your result as your final answer"


class ListAgentsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path_prefix: str | None = None


class TargetArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: str


class ListAgentsTool(TeamTool):
    """Lists the agents with their states and tasks."""

    name = "list_agents"

    def properties(self) -> Mapping[str, Schema]:
        words = "Only this agent and those below it."
        return {"path_prefix": {"type": "string", "description": words}}

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, ListAgentsArguments).path_prefix or ""
        prefix = self._team.resolve(given) if given.strip() else None
        return TeamInvocation(prefix or "all", partial(self._list, ListAgents(path_prefix=prefix)))

    async def _list(self, request: ListAgents) -> ToolResult:
        team = await self._team.request(request, TeamReply)
        agents = [
            {
                "agent_name": member.path,
                "agent_status": agent_status(member),
                "last_task_message": member.last_task,
            }
            for member in team.members
        ]
        return ToolResult(content=as_json({"agents": agents}))


class InterruptAgentTool(TeamTool):
    """Aborts an agent's turn; the agent stays."""

    name = "interrupt_agent"
    required = ("target",)

    def properties(self) -> Mapping[str, Schema]:
        return {"target": _TARGET}

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, TargetArguments)
        target = self._team.resolve_other(
            arguments.target, root=_NOT_SPAWNED, myself=_NOT_MYSELF.replace("{verb}", "interrupt")
        )
        return TeamInvocation(target, partial(self._halt, target))

    async def _halt(self, target: AgentPath) -> ToolResult:
        before = await self._team.request(HaltAgent(target=target), PreviousStatus)
        return ToolResult(content=as_json({"previous_status": before.status}))


class CloseAgentTool(TeamTool):
    """Ends an agent and all its descendants."""

    name = "close_agent"
    required = ("target",)

    def properties(self) -> Mapping[str, Schema]:
        return {"target": _TARGET}

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, TargetArguments)
        target = self._team.resolve_other(
            arguments.target, root=_NOT_SPAWNED, myself=_NOT_MYSELF.replace("{verb}", "close")
        )
        return TeamInvocation(target, partial(self._close, target))

    async def _close(self, target: AgentPath) -> ToolResult:
        before = await self._team.request(
            CloseRequest(target=target),
            PreviousStatus,
            limit_s=CLOSE_LIMIT_S,
            waiting=f"closes {target}",
        )
        for path in tuple(self._team.children):
            if is_within(AgentPath(path), target):
                del self._team.children[path]
        return ToolResult(content=as_json({"previous_status": before.status}))
