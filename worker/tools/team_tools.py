"""The team tools that are one request: list_agents, send_message, followup_task, interrupt_agent,
close_agent. Of these only followup_task starts a turn.
"""

from functools import partial
from typing import Annotated

import msgspec

from swarm.mailbox.base.ids import AgentPath, is_within
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import CloseAgent as CloseRequest
from swarm.mailbox.protocol.requests import (
    FollowUp,
    HaltAgent,
    ListAgents,
    PreviousStatus,
    SendMail,
    Sent,
)
from swarm.mailbox.protocol.requests import Team as TeamReply

from .interface.function_tool import decode_arguments, described
from .interface.team_client import TeamInvocation, TeamTool, as_json, require_text
from .interface.tool_interface import Invocation, ToolResult
from .team_status import agent_status

FOLLOW_UP_LIMIT_S = 135.0  # a finished agent's process is restarted, and may wait for a slot
_Target = Annotated[str, described("Its path.")]
_TO_MYSELF = "that is you: a message to yourself goes nowhere"


class SendMessageArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: _Target
    message: str


class FollowupTaskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: _Target
    message: str
    interrupt: Annotated[bool, described("End first what it does now; else it queues.")] = False


class SendMessageTool(TeamTool):
    """Sends mail that the recipient reads with its next request or turn."""

    name = "send_message"
    arguments = SendMessageArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, SendMessageArguments)
        target = self._team.resolve_other(arguments.target, root="", myself=_TO_MYSELF)
        mail = SendMail(target=target, message=require_text(arguments.message))
        return TeamInvocation(f"{target}: {mail.message}", partial(self._send, mail))

    async def _send(self, mail: SendMail) -> ToolResult:
        await self._team.request(mail, Sent, waiting=f"sends a message to {mail.target}")
        return ToolResult(content="", shown=f"sent to {mail.target}")


class FollowupTaskTool(TeamTool):
    """Assigns a further task: starts a turn of the recipient, or restarts its process."""

    name = "followup_task"
    arguments = FollowupTaskArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, FollowupTaskArguments)
        target = self._team.resolve_other(
            arguments.target, root="Follow-up tasks can't target the root agent", myself=_TO_MYSELF
        )
        task = FollowUp(
            target=target, message=require_text(arguments.message), interrupt=arguments.interrupt
        )
        return TeamInvocation(f"{target}: {task.message}", partial(self._assign, task))

    async def _assign(self, task: FollowUp) -> ToolResult:
        await self._team.request(
            task, Sent, limit_s=FOLLOW_UP_LIMIT_S, waiting=f"gives {task.target} a further task"
        )
        self._team.forget_result_shown(task.target)
        return ToolResult(content="", shown=f"given to {task.target}")


CLOSE_LIMIT_S = 60.0  # longer than the supervisor's graceful stop (request, terminate, kill)
_NOT_SPAWNED = "root is not a spawned agent"
_NOT_MYSELF = "you cannot {verb} yourself: to end, return your result as your final answer"


class ListAgentsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path_prefix: Annotated[str | None, described("Only it and those below.")] = None


class TargetArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: str


class ListAgentsTool(TeamTool):
    """Lists the agents with their states and tasks."""

    name = "list_agents"
    arguments = ListAgentsArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, ListAgentsArguments).path_prefix or ""
        prefix = self._team.resolve(given, argument="path_prefix") if given.strip() else None
        return TeamInvocation(prefix or "all", partial(self._list, ListAgents(path_prefix=prefix)))

    async def _list(self, request: ListAgents) -> ToolResult:
        team = await self._team.request(request, TeamReply)
        agents = [
            {
                "agent_name": member.path,
                "agent_status": agent_status(member),
                "last_task_message": member.last_task,
                **({"claims": member.claims} if member.claims else {}),
            }
            for member in team.members
        ]
        return ToolResult(content=as_json({"agents": agents}))


class InterruptAgentTool(TeamTool):
    """Aborts an agent's turn; the agent stays."""

    name = "interrupt_agent"
    arguments = TargetArguments

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
    arguments = TargetArguments

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
