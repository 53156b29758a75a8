"""write_stdin: speak to a session that exec_command left running, or wait for its next output."""

import msgspec

from swarm.mailbox.protocol.events import AnyCallDetail, StdinCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..exec.outcome import DEFAULT_WRITE_YIELD_MS, StdinFailed
from ..policy.decide import Run, Verdict
from .errors import ToolFailed
from .exec_command import outcome_of
from .router import decode_arguments
from .site import Site
from .spec import ABORTED_COMMAND, Listen, Outcome, Prepared, Schema, function_spec
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

    @property
    def detail(self) -> AnyCallDetail:
        return StdinCall(session_id=self._arguments.session_id, chars=self._arguments.chars)

    def judge(self) -> Verdict:
        return Run()  # the session was judged when it started, and keeps its sandbox

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        arguments = self._arguments
        try:
            done = await self._site.commands.write(
                arguments.session_id, arguments.chars, arguments.yield_time_ms, listen
            )
        except StdinFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._site.seen.clear()
        return outcome_of(done, limit_tokens=arguments.max_output_tokens)
