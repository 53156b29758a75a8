"""write_stdin: write to a session that exec_command left running, or wait for its next output.

An approval covers a command, not all later input to it. Input to a program that needed approval
needs approval again, unless the program was approved for longer than once. Input to a shell is also
judged as a script.
"""

from typing import Annotated

import msgspec
from msgspec import Struct

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import AnyCallDetail, StdinCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.values.base import Value

from ..exec.exec_outcome import DEFAULT_WRITE_YIELD_MS, StdinFailed
from ..policy.approval_offers import command_key
from ..policy.command_decision import (
    NO_SANDBOX_QUESTIONS,
    Ask,
    PolicyDecision,
    Refuse,
    Run,
    decide_command,
)
from ..policy.command_facts import EscalationRequest
from ..policy.script_commands import find_commands
from ..policy.script_input import reads_script
from ..policy.shell_quoting import quote_command
from .command_effects import find_effects
from .exec_command import exec_result
from .interface.function_tool import HIDDEN, NUMBER, FunctionTool, decode_arguments, described
from .interface.tool_context import StartedCommand, ToolContext
from .interface.tool_interface import (
    ABORTED_COMMAND,
    Invocation,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
)

# These causes concern what the words do, wherever they are typed.
_SCRIPT_CAUSES = frozenset({"dangerous", "destructive", "rule"})


class WriteStdinArguments(Struct, frozen=True, kw_only=True):
    """Arguments as the model writes them."""

    session_id: Annotated[int, described("From the answer of exec_command.", NUMBER)]
    chars: str = ""
    yield_time_ms: Annotated[
        int,
        described(
            "How long to wait. Default 250; when nothing is written 5000 to 300000.",
            NUMBER,
        ),
    ] = DEFAULT_WRITE_YIELD_MS
    max_output_tokens: Annotated[int | None, HIDDEN] = None


class WriteStdinTool(FunctionTool):
    """The write_stdin tool."""

    name = "write_stdin"
    arguments = WriteStdinArguments
    aborted_text = ABORTED_COMMAND

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, WriteStdinArguments)
        started = self._context.started_command(arguments.session_id)
        typed = None
        if started is not None and arguments.chars:
            typed = await _read_typed(self._context, started.action, arguments.chars)
        return _WriteStdinInvocation(self._context, arguments, call.call_id, started, typed)


class _TypedScript(Value):
    """Input to a shell, judged as a script of its own."""

    verdict: PolicyDecision
    keep: tuple[str, ...] = ()  # to be copied first


async def _read_typed(
    context: ToolContext, action: CommandAction, chars: str
) -> _TypedScript | None:
    """Judge input to a shell as a script; None for other programs, whose use of it is unknown.

    The folder is assumed to be the one in which the session began.
    """
    if not any(reads_script(words) for words in find_commands(action.argv)):
        return None
    facts = context.command_facts(("bash", "-c", chars), EscalationRequest())
    effects = await find_effects(context, facts, action.cwd)
    verdict = decide_command(msgspec.structs.replace(facts, loss=effects.loss))
    return _TypedScript(verdict=verdict, keep=effects.keep)


class _WriteStdinInvocation:
    def __init__(
        self,
        context: ToolContext,
        arguments: WriteStdinArguments,
        call_id: str,
        started: StartedCommand | None,
        typed: _TypedScript | None,
    ) -> None:
        self._context, self._arguments, self._call_id = context, arguments, call_id
        self._started, self._typed = started, typed

    @property
    def detail(self) -> AnyCallDetail:
        return StdinCall(session_id=self._arguments.session_id, chars=self._arguments.chars)

    def judge(self) -> PolicyDecision:
        """Judge the input; the session keeps its sandbox, if it has one."""
        if self._started is None or not self._arguments.chars:
            return Run()
        typed = None if self._typed is None else self._typed.verdict
        if isinstance(typed, Refuse) or (isinstance(typed, Ask) and typed.cause in _SCRIPT_CAUSES):
            return typed
        return self._judge_session(self._started)

    def _judge_session(self, started: StartedCommand) -> PolicyDecision:
        """Require approval for input if the command needed it: that covered only the command."""
        reason, limits = _reason(started), self._context.limits
        asks = limits.approval in ("on-request", "untrusted")
        if not reason or started.asked is None or not asks:
            return Run()
        muted = limits.granular
        if muted is not None and not muted.sandbox_approval:
            return Refuse(reason=NO_SANDBOX_QUESTIONS)
        subject = f"write to {quote_command(started.action.argv)}"
        return Ask(subject=subject, cause=started.asked, reason=reason)

    def propose(self, ask: Ask) -> Proposal:
        assert self._started is not None  # otherwise `judge` does not ask
        started = self._started.action
        action = msgspec.structs.replace(
            started, tool="write_stdin", script=self._arguments.chars, tty=True
        )
        # An approval of this script covers no other input.
        of_the_words = self._typed is not None and ask == self._typed.verdict
        keys = () if of_the_words else (command_key(started),)
        return Proposal(action=action, keys=keys)

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        arguments = self._arguments
        # It ended while approval was pending.
        if self._context.started_command(arguments.session_id) != self._started:
            raise ToolFailed(
                f"write_stdin failed: session_id {arguments.session_id} is of no running command; "
                "take the number behind `session ID` in the answer of exec_command"
            )
        if self._typed is not None and self._typed.keep:
            await self._context.keep_files(self._call_id, self._typed.keep)
        try:
            done = await self._context.commands.write(
                arguments.session_id, arguments.chars, arguments.yield_time_ms, listen
            )
        except StdinFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._context.patched_digests.clear()
        return exec_result(done, limit_tokens=arguments.max_output_tokens)


def _reason(started: StartedCommand) -> str:
    """Return why input to the command needs approval; "" if it does not."""
    if started.asked == "escalation":
        return "it is typed into a command that runs outside of the sandbox"
    if started.asked == "permissions":
        return "it is typed into a command that was given more rights than the sandbox gives"
    if started.asked in ("untrusted", "rule"):
        return "it is typed into a command that needed approval"
    return ""
