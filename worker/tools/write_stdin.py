"""write_stdin: speak to a session that exec_command left running, or wait for its next output.

Rule guarded: an approval is for a command, not for all that it may be told later. What is typed
into a program that needed one is asked about again, unless it was approved for longer than once;
what is typed into a shell is judged as a script, too.
"""

import msgspec

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import AnyCallDetail, StdinCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..exec.outcome import DEFAULT_WRITE_YIELD_MS, StdinFailed
from ..policy.decide import NO_SANDBOX_QUESTIONS, Ask, Refuse, Run, Verdict, decide
from ..policy.facts import Wish
from ..policy.feeding import takes_script
from ..policy.keys import command_key
from ..policy.loose import loose_commands
from ..policy.quoting import join_words
from .effects import effects_of
from .errors import ToolFailed
from .exec_command import outcome_of
from .router import decode_arguments
from .site import Site, Started
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

# Asked about for what the words would do, wherever they are typed.
_OF_THE_WORDS = frozenset({"dangerous", "destructive", "rule"})


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
        arguments = decode_arguments(call, WriteStdinArguments)
        started = self._site.started(arguments.session_id)
        typed = None
        if started is not None and arguments.chars:
            typed = await _read_typed(self._site, started.action, arguments.chars)
        return _WriteDeed(self._site, arguments, call.call_id, started, typed)


class _Typed(Value):
    """What a shell is told, judged as a script of its own."""

    verdict: Verdict
    keep: tuple[str, ...] = ()  # of which a copy is to be made first


async def _read_typed(site: Site, action: CommandAction, chars: str) -> _Typed | None:
    """None for what is no shell: nobody can say what it makes of the words.

    The folder is taken to be that in which the session began.
    """
    if not any(takes_script(words) for words in loose_commands(action.argv)):
        return None
    facts = site.facts_of(("bash", "-c", chars), Wish())
    effects = await effects_of(site, facts, action.cwd)
    verdict = decide(msgspec.structs.replace(facts, loss=effects.loss))
    return _Typed(verdict=verdict, keep=effects.keep)


class _WriteDeed:
    def __init__(
        self,
        site: Site,
        arguments: WriteStdinArguments,
        call_id: str,
        started: Started | None,
        typed: _Typed | None,
    ) -> None:
        self._site, self._arguments, self._call_id = site, arguments, call_id
        self._started, self._typed = started, typed

    @property
    def detail(self) -> AnyCallDetail:
        return StdinCall(session_id=self._arguments.session_id, chars=self._arguments.chars)

    def judge(self) -> Verdict:
        """The session keeps its sandbox, if it has one; what is typed is judged where it counts."""
        if self._started is None or not self._arguments.chars:
            return Run()
        typed = None if self._typed is None else self._typed.verdict
        if isinstance(typed, Refuse) or (isinstance(typed, Ask) and typed.cause in _OF_THE_WORDS):
            return typed
        return self._judge_session(self._started)

    def _judge_session(self, started: Started) -> Verdict:
        """What was approved was the command alone, not all that it may be told later."""
        reason, limits = _reason(started), self._site.limits
        asks = limits.approval in ("on-request", "untrusted")
        if not reason or started.asked is None or not asks:
            return Run()
        muted = limits.granular
        if muted is not None and not muted.sandbox_approval:
            return Refuse(reason=NO_SANDBOX_QUESTIONS)
        subject = f"write to `{join_words(started.action.argv)}`"
        return Ask(subject=subject, cause=started.asked, reason=reason)

    def propose(self, ask: Ask) -> Proposal:
        assert self._started is not None  # else `judge` does not ask
        started = self._started.action
        action = msgspec.structs.replace(
            started, tool="write_stdin", script=self._arguments.chars, tty=True
        )
        # A yes to these words is no yes to others.
        of_the_words = self._typed is not None and ask == self._typed.verdict
        keys = () if of_the_words else (command_key(started),)
        return Proposal(action=action, keys=keys)

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        arguments = self._arguments
        if self._site.started(arguments.session_id) != self._started:  # ended while it was asked
            raise ToolFailed(f"write_stdin failed: Unknown process id {arguments.session_id}")
        if self._typed is not None and self._typed.keep:
            await self._site.keep_files(self._call_id, self._typed.keep)
        try:
            done = await self._site.commands.write(
                arguments.session_id, arguments.chars, arguments.yield_time_ms, listen
            )
        except StdinFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._site.seen.clear()
        return outcome_of(done, limit_tokens=arguments.max_output_tokens)


def _reason(started: Started) -> str:
    """Why typing into it is asked about; "" if it is not."""
    if started.asked == "escalation":
        return "it is typed into a command that runs outside of the sandbox"
    if started.asked == "permissions":
        return "it is typed into a command that was given more rights than the sandbox gives"
    if started.asked in ("untrusted", "rule"):
        return "it is typed into a command that needed approval"
    return ""
