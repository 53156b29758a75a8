"""Runs one hook, whatever it is: a command, a request to an address, an MCP tool or a question."""

from collections.abc import Awaitable, Callable
from typing import assert_never

import trio

from swarm.mailbox.protocol.hooks import CommandHook, Hook, HttpHook, McpHook, PromptHook
from swarm.mailbox.protocol.mcp import CallMcpTool, McpOutcome, McpText
from swarm.mailbox.protocol.requests import RequestRefused
from swarm.roles.parts.hooks.hook_arguments import mcp_answer, mcp_arguments
from swarm.roles.parts.hooks.hook_output import HookEnd

from ...base.reporter import Reporter
from .hook_questions import HookQuestions

RunHook = Callable[[Hook, bytes], Awaitable[HookEnd]]
_MAX_RESULT_CHARS = 1 << 20


class HookRunner:
    """Runs the hooks of one agent. `run_command` starts a process in its sandbox."""

    def __init__(self, run_command: RunHook, reporter: Reporter, questions: HookQuestions) -> None:
        self._run_command, self._reporter, self._questions = run_command, reporter, questions
        self._mcp_calls = 0

    async def run(self, hook: Hook, payload: bytes) -> HookEnd:
        """Run the hook with this input. Never raises but for cancellation."""
        match hook.action:
            case CommandHook() | HttpHook():
                return await self._run_command(hook, payload)
            case McpHook() as action:
                return await self._call_mcp(action, hook, payload)
            case PromptHook(prompt=prompt):
                return await self._questions.ask(prompt, payload, limit_s=hook.timeout_s)
            case _:
                assert_never(hook.action)

    async def _call_mcp(self, action: McpHook, hook: Hook, payload: bytes) -> HookEnd:
        """Call the tool as this agent: a server or tool that its limits do not name is refused."""
        self._mcp_calls += 1
        request = CallMcpTool(
            call_id=f"hook-{hook.hook_id}-{self._mcp_calls}",
            server=action.server,
            tool=action.tool,
            arguments=mcp_arguments(action.arguments, payload),
        )
        reply: object = None
        with trio.move_on_after(hook.timeout_s) as limit:
            reply = await self._reporter.request(request)
        if limit.cancelled_caught:
            return HookEnd(fault=f"hook timed out after {hook.timeout_s:g}s")
        if isinstance(reply, McpOutcome):
            return _end_of(reply)
        why = reply.message if isinstance(reply, RequestRefused) else "there was no answer"
        return HookEnd(fault=f"the MCP tool was not called: {why}")


def _end_of(outcome: McpOutcome) -> HookEnd:
    if outcome.state != "completed":
        return HookEnd(fault=f"the MCP tool failed: {outcome.message}")
    text = "\n".join(mcp_answer(part.text) for part in outcome.parts if isinstance(part, McpText))
    if outcome.is_error:  # it was asked, and failed
        return HookEnd(exit_code=1, stdout=text[:_MAX_RESULT_CHARS], stderr="the MCP tool failed")
    return HookEnd(exit_code=0, stdout=text[:_MAX_RESULT_CHARS])
