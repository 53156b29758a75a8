"""write_stdin: speak to a session that exec_command left running, or wait for its next output.

Rule guarded: what is typed into a program that runs outside of the sandbox is as good as a command
there, so it is asked about like one, unless the program was approved for longer than once.
"""

import msgspec

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import AnyCallDetail, StdinCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..exec.outcome import DEFAULT_WRITE_YIELD_MS, StdinFailed
from ..policy.decide import NO_SANDBOX_QUESTIONS, Ask, Refuse, Run, Verdict
from ..policy.keys import command_key
from ..policy.quoting import join_words
from .errors import ToolFailed
from .exec_command import outcome_of
from .router import decode_arguments
from .site import Site
from .spec import ABORTED_COMMAND, Listen, Outcome, Prepared, Proposal, Schema, function_spec
from .texts import description_of

_PROPERTIES: dict[str, Schema] = {
    "session_id": {"type": "number", "description": "From the answer of exec_command."},
    "chars": {"type": "string", "description": "What to write; empty (the default) only waits."},
    "yield_time_ms": {
        "type": "number",
        "description": "How long to wait for output or its end. Default 250; at least 5000, at "
        "most 300000 when nothing is written.",
    },
    "max_output_tokens": {
        "type": "number",
        "description": "Longer output is cut in the middle. Default 10000.",
    },
}


class WriteStdinArguments(msgspec.Struct, frozen=True, kw_only=True):
    """As the model writes them."""

    session_id: int
    chars: str = ""
    yield_time_ms: int = DEFAULT_WRITE_YIELD_MS
    max_output_tokens: int | None = None


class WriteStdin:
    """The tool."""

    name = "write_stdin"
    parallel = False
    aborted_text = ABORTED_COMMAND

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        description = description_of(self.name)
        return function_spec(self.name, description, _PROPERTIES, required=("session_id",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Prepared:
        return _WriteDeed(self._site, decode_arguments(call, WriteStdinArguments))


class _WriteDeed:
    def __init__(self, site: Site, arguments: WriteStdinArguments) -> None:
        self._site, self._arguments = site, arguments
        self._started = self._noted()  # outside of the sandbox; None for any other session

    @property
    def detail(self) -> AnyCallDetail:
        return StdinCall(session_id=self._arguments.session_id, chars=self._arguments.chars)

    def judge(self) -> Verdict:
        """The session was judged when it started, and keeps its sandbox, if it has one."""
        started = self._started
        asks = self._site.limits.approval in ("on-request", "untrusted")
        if started is None or not self._arguments.chars or not asks:
            return Run()
        muted = self._site.limits.granular
        if muted is not None and not muted.sandbox_approval:
            return Refuse(reason=NO_SANDBOX_QUESTIONS)
        subject = f"write to `{join_words(started.argv)}`"
        reason = "it is typed into a command that runs outside of the sandbox"
        return Ask(subject=subject, cause="escalation", reason=reason)

    def propose(self, ask: Ask) -> Proposal:
        assert self._started is not None  # else `judge` does not ask
        action = msgspec.structs.replace(
            self._started, tool="write_stdin", script=self._arguments.chars, tty=True
        )
        return Proposal(action=action, keys=(command_key(self._started),))

    def _noted(self) -> CommandAction | None:
        session_id = self._arguments.session_id
        if not self._site.commands.is_open(session_id):
            return None
        return self._site.outside.get(session_id)

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        arguments = self._arguments
        if self._noted() is not self._started:  # it has ended while somebody was asked
            raise ToolFailed(f"write_stdin failed: Unknown process id {arguments.session_id}")
        try:
            done = await self._site.commands.write(
                arguments.session_id, arguments.chars, arguments.yield_time_ms, listen
            )
        except StdinFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._site.seen.clear()
        return outcome_of(done, limit_tokens=arguments.max_output_tokens)
