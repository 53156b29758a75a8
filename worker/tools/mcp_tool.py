"""Tools of MCP servers: offered under their own schemas, judged like commands, run by the hub."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Literal, cast

import msgspec
import trio

from swarm.mailbox.protocol.approvals import McpToolAction
from swarm.mailbox.protocol.events import AnyCallDetail, McpCall, Warned
from swarm.mailbox.protocol.items import (
    AnyCall,
    ContentPart,
    FunctionCall,
    InputImage,
    InputText,
)
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.mcp import (
    CallMcpTool,
    ListMcpTools,
    McpImage,
    McpOutcome,
    McpText,
    McpTool,
    McpTools,
)
from swarm.mailbox.protocol.requests import RequestRefused, StoreBlob
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.schema_check import (
    SchemaUnusable,
    SchemaValidator,
    find_violation,
    open_validator,
)

from ..agent.reporter import Reporter
from ..current_spec import CurrentSpec
from ..policy.command_decision import Ask, PolicyDecision, Run
from ..policy.mcp_decision import decide_mcp_call, session_keys
from .tool_interface import (
    ABORTED_CALL,
    Invocation,
    OnOutput,
    Proposal,
    Tool,
    ToolFailed,
    ToolResult,
)
from .tool_search import CallMcpToolTool, ToolSearchTool, should_defer

STORE_LIMIT_S = 30.0
_DETAIL_CHARS = 2_000
_SHOWN_CHARS = 400


class McpClient:
    """An agent's side of MCP: it lists tools once, and calls them."""

    def __init__(self, current: CurrentSpec, reporter: Reporter) -> None:
        self._current, self._reporter = current, reporter
        self._known: dict[str, Tool] = {}
        self.takes_images = True  # the model that is used now

    @property
    def limits(self) -> Limits:
        """The limits that hold now."""
        return self._current.spec.limits

    def note_model(self, model: ModelInfo) -> None:
        """The tools are described to this model: results are made for it."""
        self.takes_images = model.image_input

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
            return self._offer(reply.tools)
        why = reply.message if isinstance(reply, RequestRefused) else f"no answer in {limit_s:g} s"
        self._reporter.emit(Warned(message=f"this agent has no MCP tools: {why}"))
        return ()

    def _offer(self, tools: tuple[McpTool, ...]) -> tuple[Tool, ...]:
        """The tools themselves, or a search for them if there are too many."""
        is_deferred = should_defer(tools)
        self._known = {
            one.name: McpServerTool(self, one, is_described=not is_deferred) for one in tools
        }
        every: tuple[Tool, ...] = tuple(self._known.values())
        if not is_deferred:
            return every
        counts = Counter(one.server for one in tools)
        search = ToolSearchTool(counts, self._search, self._note_found)
        return search, CallMcpToolTool(self._known.get), *every

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

    async def call(self, request: CallMcpTool) -> McpOutcome:
        """Raises ToolFailed if the supervisor refuses."""
        async with self._reporter.shown_wait(f"MCP server {request.server}", after_s=2.0):
            reply = await self._reporter.request(request)
        if isinstance(reply, McpOutcome):
            return reply
        if isinstance(reply, RequestRefused):
            raise ToolFailed(reply.message)
        raise ToolFailed("the supervisor gave no answer to the call")

    async def store(self, image: McpImage) -> ContentPart:
        """The image's address in the run's folder; a text where it could not be stored."""
        digest = hashlib.sha256(image.data).hexdigest()
        reply: object = None
        with trio.move_on_after(STORE_LIMIT_S):
            reply = await self._reporter.request(StoreBlob(sha256=digest, data=image.data))
        if reply is None or isinstance(reply, RequestRefused):
            why = "no answer" if reply is None else reply.message
            return InputText(text=f"[an image could not be stored: {why}]")
        return InputImage(image_url=f"blob:{digest};{image.mime}")


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

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        self._client.note_model(model)
        if not self._is_described:
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
            value = msgspec.json.decode(text.encode() or b"{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolFailed(f"err: {error}") from error
        if not isinstance(value, dict):
            raise ToolFailed("err: the arguments must be a JSON object")
        self._check_schema(cast("object", value))
        return msgspec.json.encode(value)

    def _check_schema(self, value: object) -> None:
        if self._check is None:
            self._check = _open_check(self._tool.parameters)
        if (violation := find_violation(value, self._check)) is not None:
            text = f"err: the arguments do not fit the tool's schema {violation:.600}"
            raise ToolFailed(text)


def _open_check(schema: bytes) -> SchemaValidator:
    """A check against a server's schema; one that is none accepts everything."""
    try:
        return open_validator(msgspec.json.decode(schema, type=dict[str, object]), linear=True)
    except (SchemaUnusable, msgspec.DecodeError):
        return _accept_all


def _accept_all(value: object, /) -> None:
    return


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
        )
        return Proposal(action=action, keys=session_keys(self._tool))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        outcome = await self._client.call(
            CallMcpTool(
                call_id=self._call_id,
                server=self._tool.server,
                tool=self._tool.tool,
                arguments=self._arguments,
            )
        )
        if outcome.state != "completed":
            return ToolResult(content=f"tool call error: {outcome.message}", status="failed")
        parts = [await self._as_content(part) for part in outcome.parts]
        head = f"Wall time: {outcome.duration_s:.4f} seconds\nOutput:"
        status: Literal["completed", "failed"] = "failed" if outcome.is_error else "completed"
        texts = [part.text for part in parts if isinstance(part, InputText)]
        if len(texts) == len(parts):
            text = "\n".join(texts)
            return ToolResult(content=f"{head}\n{text}", status=status, shown=text)
        return ToolResult(content=(InputText(text=head), *parts), status=status)

    async def _as_content(self, part: McpText | McpImage) -> ContentPart:
        if isinstance(part, McpText):
            return InputText(text=part.text)
        if not self._client.takes_images:
            return InputText(text=f"[an image ({part.mime}): this model reads none]")
        return await self._client.store(part)
