"""send_message and followup_task: mail to other agents; only followup_task starts a turn."""

from collections.abc import Mapping
from functools import partial

import msgspec

from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import FollowUp, SendMail, Sent

from .call_router import decode_arguments
from .team_client import TeamInvocation, TeamTool, require_text
from .tool_interface import Invocation, Schema, ToolResult

FOLLOW_UP_LIMIT_S = 135.0  # a finished agent's process is restarted, and may wait for a slot
_TARGET: Schema = {
    "type": "string",
    "description": "Path of the agent; relative ones start at you.",
}
_TO_MYSELF = "that is you: a message to yourself goes nowhere"


class SendMessageArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: str
    message: str


class FollowupTaskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    target: str
    message: str
    interrupt: bool = False


class SendMessageTool(TeamTool):
    """Sends mail that the recipient reads with its next request or turn."""

    name = "send_message"
    required = ("target", "message")

    def properties(self) -> Mapping[str, Schema]:
        return {"target": _TARGET, "message": {"type": "string"}}

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, SendMessageArguments)
        target = self._team.resolve_other(arguments.target, root="", myself=_TO_MYSELF)
        letter = SendMail(target=target, message=require_text(arguments.message))
        return TeamInvocation(f"{target}: {letter.message}", partial(self._send, letter))

    async def _send(self, letter: SendMail) -> ToolResult:
        await self._team.request(letter, Sent, waiting=f"sends a message to {letter.target}")
        return ToolResult(content="", shown=f"sent to {letter.target}")


class FollowupTaskTool(TeamTool):
    """Assigns a further task: starts a turn of the recipient, or restarts its process."""

    name = "followup_task"
    required = ("target", "message")

    def properties(self) -> Mapping[str, Schema]:
        interrupt = {
            "type": "boolean",
            "description": "End what it does now first; else it queues.",
        }
        return {"target": _TARGET, "message": {"type": "string"}, "interrupt": interrupt}

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
