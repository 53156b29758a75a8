"""Answers what the agent's hooks say to a host that a command of the agent wants to reach."""

from contextlib import suppress

import msgspec
import trio

from swarm.mailbox.protocol.events import CommandCall
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.ops import AskPermissionHooks
from swarm.mailbox.protocol.requests import ReportPermission

from ...parts.hooks.tool_hooks import HookedCall, ToolHooks
from .agent_state import AgentState

_MOST_WAITING = 64  # the supervisor asks fewer at once
_SIDE_BY_SIDE = 8
_TOOL = "exec_command"
DESCRIPTION = "network-access {target}"  # as the reference writes it


class PermissionQuestions:
    """Questions of the supervisor that wait for hooks."""

    def __init__(self) -> None:
        self._send, self.waiting = trio.open_memory_channel[AskPermissionHooks](_MOST_WAITING)

    def take(self, op: AskPermissionHooks) -> None:
        """Never waits. A question beyond the bound gets no answer, so nothing is allowed."""
        with suppress(trio.WouldBlock):
            self._send.send_nowait(op)


async def answer_permission_questions(
    state: AgentState, hooks: ToolHooks, questions: PermissionQuestions
) -> None:
    """Answer questions, several at once, for ever."""
    limiter = trio.CapacityLimiter(_SIDE_BY_SIDE)

    async def answer(question: AskPermissionHooks) -> None:
        async with limiter:
            report = await _ask_hooks(state, hooks, question)
        await state.reporter.request(report)

    async with trio.open_nursery() as nursery:
        async for question in questions.waiting:
            nursery.start_soon(answer, question)


async def _ask_hooks(
    state: AgentState, hooks: ToolHooks, question: AskPermissionHooks
) -> ReportPermission:
    call, reason = _call_of(state, question), DESCRIPTION.format(target=question.target)
    said = await hooks.on_permission(call, reason)
    if said.denied is None:
        hooks.on_request(call, reason)
        if not said.allowed_by and state.spec.limits.reviewer == "person":
            hooks.on_waiting(call, reason)
    return ReportPermission(
        question=question.question, denied=said.denied, allowed_by=said.allowed_by
    )


def _call_of(state: AgentState, question: AskPermissionHooks) -> HookedCall:
    """The command, as hooks see a call of it."""
    arguments = msgspec.json.encode({"cmd": question.command}).decode()
    return HookedCall(
        item=FunctionCall(call_id="", name=_TOOL, arguments=arguments),
        detail=CommandCall(script=question.command, argv=(), cwd=state.spec.cwd),
        turn_id="" if state.turn is None else state.turn.turn_id,
    )
