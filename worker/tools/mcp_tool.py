"""Tools of MCP servers: offered under their own schemas, judged like commands, run by the hub."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

import msgspec
import trio

from swarm.mailbox.base.schema_check import SchemaValidator, find_violation
from swarm.mailbox.protocol.approvals import McpToolAction
from swarm.mailbox.protocol.events import AnyCallDetail, McpCall, Warned
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.mcp import (
    CallMcpTool,
    ListMcpResources,
    ListMcpTools,
    McpOutcome,
    McpTool,
    McpTools,
    ReadMcpResource,
    ReadMcpResult,
)
from swarm.mailbox.protocol.requests import RequestRefused
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.values.limits import Limits

from ..base.current_spec import CurrentSpec
from ..base.reporter import Reporter
from ..policy.approval_offers import ToolStanding, is_mcp_tool_usable
from ..policy.command_decision import Ask, PolicyDecision, Run
from ..policy.mcp_decision import decide_mcp_call, session_keys
from .interface.tool_interface import (
    ABORTED_CALL,
    Invocation,
    OnOutput,
    Proposal,
    Tool,
    ToolFailed,
    ToolResult,
)
from .mcp_resources import ReadMcpResultTool, resource_tools
from .mcp_results import McpResults, StructuredCheck, open_schema_check
from .tool_search import CallMcpToolTool, ToolSearchTool, should_defer

CHANGED_SINCE_ALWAYS = "approved for always, described differently since"
LIST_AGAIN_LIMIT_S = 5.0
_DETAIL_CHARS = 2_000
_SHOWN_CHARS = 400


class McpClient:
    """An agent's side of MCP: it lists tools, again between two turns, and calls them."""

    def __init__(self, current: CurrentSpec, reporter: Reporter) -> None:
        self._current, self._reporter = current, reporter
        self._known: dict[str, Tool] = {}
        self._finders: tuple[Tool, ...] = ()  # their descriptions stay the same
        self._listed: tuple[McpTool, ...] | None = None  # None: no list was received
        self.results = McpResults(reporter)

    @property
    def limits(self) -> Limits:
        """The limits that hold now."""
        return self._current.spec.limits

    @property
    def standing(self) -> ToolStanding:
        """What decides which of the tools can be used at all."""
        spec = self._current.spec
        return ToolStanding(limits=spec.limits, has_hooks=bool(spec.inherited.hooks))

    async def load_tools(self) -> tuple[Tool, ...]:
        """The tools of the servers that this agent may use; none if they are not there in time."""
        limit_s = self._current.spec.mcp_wait_s
        if not limit_s:
            return ()
        reply: object = None
        with trio.move_on_after(limit_s):
            async with self._reporter.shown_wait("starts MCP servers", after_s=0.5):
                reply = await self._reporter.request(ListMcpTools())
        if isinstance(reply, McpTools):
            self._listed = reply.tools
            return (*self._offer(reply.tools), *self._readers(reply))
        why = reply.message if isinstance(reply, RequestRefused) else f"no answer in {limit_s:g} s"
        self._reporter.emit(Warned(message=f"this agent has no MCP tools: {why}"))
        return ()

    async def load_again(self) -> tuple[Tool, ...] | None:
        """The tools as their servers describe them now; None: as before, or not known in time.

        Where tools are found by a search, requests describe what they described before.
        """
        if self._listed is None:
            return None
        reply: object = None
        with trio.move_on_after(LIST_AGAIN_LIMIT_S):
            reply = await self._reporter.request(ListMcpTools(again=True))
        if not isinstance(reply, McpTools):
            return None
        now = with_unlisted(reply, self._listed)
        if {(one.name, one.digest) for one in now} == {
            (one.name, one.digest) for one in self._listed
        }:
            return None
        self._listed = now
        return (*self._offer(now), *self._readers(reply))

    def _offer(self, tools: tuple[McpTool, ...]) -> tuple[Tool, ...]:
        """The tools themselves, or a search for them if there are too many."""
        is_deferred = should_defer(tools)
        self._known.clear()
        for one in tools:
            self._known[one.name] = McpServerTool(self, one, is_described=not is_deferred)
        every: tuple[Tool, ...] = tuple(self._known.values())
        if not is_deferred:
            return every
        if not self._finders:
            counts = Counter(one.server for one in tools)
            search = ToolSearchTool(counts, self._search, self._note_found)
            self._finders = search, CallMcpToolTool(self._known.get)
        return *self._finders, *every

    def _readers(self, found: McpTools) -> tuple[Tool, ...]:
        """What reads resources and long results, where there may be any."""
        resources = resource_tools(self.call, self.results) if found.resources else ()
        stored = (ReadMcpResultTool(self.call, self.results),)
        return (*resources, *(stored if found.tools or resources else ()))

    async def _search(self, query: str) -> tuple[McpTool, ...]:
        async with self._reporter.shown_wait("searches MCP tools", after_s=2.0):
            reply = await self._reporter.request(ListMcpTools(query=query))
        if isinstance(reply, McpTools):
            return reply.tools
        why = reply.message if isinstance(reply, RequestRefused) else "no answer"
        raise ToolFailed(f"the search failed: {why}")

    def _note_found(self, tools: Sequence[McpTool]) -> None:
        """A tool is called as it was found: its server may have changed it since the start."""
        for one in tools:
            self._known[one.name] = McpServerTool(self, one, is_described=False)

    async def call(
        self, request: CallMcpTool | ListMcpResources | ReadMcpResource | ReadMcpResult
    ) -> McpOutcome:
        """Raises ToolFailed if the supervisor refuses."""
        where = "result" if isinstance(request, ReadMcpResult) else f"server {request.server}"
        async with self._reporter.shown_wait(f"MCP {where}".rstrip(), after_s=2.0):
            reply = await self._reporter.request(request)
        if isinstance(reply, McpOutcome):
            return reply
        if isinstance(reply, RequestRefused):
            raise ToolFailed(reply.message)
        raise ToolFailed("the supervisor gave no answer to the call")


def with_unlisted(found: McpTools, before: Sequence[McpTool]) -> tuple[McpTool, ...]:
    """The tools that were found, and those of servers that could not be asked."""
    missing = {one.server for one in found.failures} - {one.server for one in found.tools}
    return (*found.tools, *(one for one in before if one.server in missing))


class McpServerTool:
    """One tool of a server, for one agent.

    Args:
        is_described: Each request describes it; else it is found by `tool_search`.
    """

    def __init__(self, client: McpClient, tool: McpTool, *, is_described: bool) -> None:
        self.name, self.parallel = tool.name, tool.parallel
        self.aborted_text = ABORTED_CALL
        self._client, self._tool, self._is_described = client, tool, is_described
        self._check: SchemaValidator | None = None
        self._is_opened = False

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        self._client.results.note_model(model)
        if not self._is_described or not is_mcp_tool_usable(self._tool, self._client.standing):
            return None
        return ToolSpec(
            name=self.name,
            description=self._tool.description,
            parameters=self._tool.parameters,
        )

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Invocation:
        assert isinstance(call, FunctionCall)
        arguments = self._checked(call.arguments)
        return _McpInvocation(self._client, self._tool, call.call_id, arguments)

    def _checked(self, text: str) -> bytes:
        """The arguments as a JSON object that fits the schema. Raises ToolFailed."""
        try:
            value = msgspec.json.decode(text.encode().strip() or b"{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolFailed(f"err: {error}") from error
        if value is None:
            value = {}  # no arguments at all; those that there are stay as they are
        if not isinstance(value, dict):
            raise ToolFailed("err: the arguments must be a JSON object")
        self._check_schema(cast("object", value))
        return msgspec.json.encode(value)

    def _check_schema(self, value: object) -> None:
        if not self._is_opened:
            self._check, self._is_opened = open_schema_check(self._tool.parameters), True
        if self._check is None:
            return  # the server sent no valid schema: it checks its arguments
        if (violation := find_violation(value, self._check)) is not None:
            raise ToolFailed(f"err: the arguments do not fit the tool's schema {violation:.600}")


class _McpInvocation:
    """One call of an MCP tool."""

    def __init__(self, client: McpClient, tool: McpTool, call_id: str, arguments: bytes) -> None:
        self._client, self._tool, self._call_id = client, tool, call_id
        self._arguments = arguments

    @property
    def detail(self) -> AnyCallDetail:
        return McpCall(
            server=self._tool.server,
            tool=self._tool.tool[:_SHOWN_CHARS],
            arguments=self._arguments.decode()[:_DETAIL_CHARS],
        )

    def judge(self) -> PolicyDecision:
        return decide_mcp_call(self._tool, self._client.limits)

    def propose(self, ask: Ask) -> Proposal:
        action = McpToolAction(
            server=self._tool.server,
            tool=self._tool.tool,
            arguments=self._arguments.decode(),
            description=self._tool.description,
            annotations=self._tool.annotations,
            source=self._tool.source,
            schema=self._tool.parameters.decode(),
            digest=self._tool.digest,
            open_world=self._tool.open_world,
            changed=(CHANGED_SINCE_ALWAYS,) if self._tool.has_changed else (),
        )
        return Proposal(action=action, keys=session_keys(self._tool))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        results = self._client.results
        outcome = await self._client.call(
            CallMcpTool(
                call_id=self._call_id,
                server=self._tool.server,
                tool=self._tool.tool,
                arguments=self._arguments,
                keep_over_bytes=results.limit_bytes,
            )
        )
        fault = StructuredCheck(self._tool.output_schema).find_fault(outcome)
        return await results.make(outcome, open_world=self._tool.open_world, fault=fault)
