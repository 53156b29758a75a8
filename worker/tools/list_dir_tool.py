"""The list_dir tool: makes the listing in a thread, with the paths that this agent may read."""

import trio

from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.command_decision import PolicyDecision, Run
from .call_router import decode_arguments
from .list_dir import ListDirArguments, list_directory
from .tool_context import ToolContext
from .tool_descriptions import description_of
from .tool_interface import ABORTED_CALL, Invocation, OnOutput, Schema, ToolResult, function_spec

_PROPERTIES: dict[str, Schema] = {
    "dir_path": {"type": "string", "description": "Absolute path."},
    "offset": {"type": "number", "description": "First entry to show, from 1. Default 1."},
    "limit": {"type": "number", "description": "Most entries to show. Default 25."},
    "depth": {"type": "number", "description": "Levels to go down. Default 2."},
}


class ListDirTool:
    """The list_dir tool."""

    name = "list_dir"
    parallel = True
    aborted_text = ABORTED_CALL

    def __init__(self, site: ToolContext) -> None:
        self._context = site

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        description = description_of(self.name)
        return function_spec(self.name, description, _PROPERTIES, required=("dir_path",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Invocation:
        return _ListDirInvocation(self._context, decode_arguments(call, ListDirArguments))


class _ListDirInvocation:
    def __init__(self, site: ToolContext, arguments: ListDirArguments) -> None:
        self._context, self._arguments = site, arguments

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self._arguments.dir_path[:1000])

    def judge(self) -> PolicyDecision:
        return Run()

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        def make() -> str:
            return list_directory(self._arguments, may_read=self._context.may_read)

        text = await trio.to_thread.run_sync(make, abandon_on_cancel=True)
        return ToolResult(content=text)
