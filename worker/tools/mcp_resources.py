"""Tools that read what MCP servers offer beside their tools, and read on in long results.

The three resource tools are offered only to agents with a server that has resources.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from swarm.mailbox.protocol.events import McpCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.mcp import (
    ListMcpResources,
    McpOutcome,
    McpText,
    ReadMcpResource,
    ReadMcpResult,
)

from .interface.function_tool import (
    NUMBER,
    DirectInvocation,
    FunctionTool,
    decode_arguments,
    described,
)
from .interface.tool_interface import Invocation, Tool, ToolFailed, ToolResult
from .mcp_results import McpResults

ALL_SERVERS = "all servers"
STORED = "stored results"
_CURSOR_ALONE = "cursor can only be used when a server is specified"
_SHOWN_CHARS = 400

Ask = Callable[[ListMcpResources | ReadMcpResource | ReadMcpResult], Awaitable[McpOutcome]]
"""Asks the supervisor. Raises ToolFailed if it refuses."""


class ListResourcesArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: Annotated[str | None, described("One server's name.")] = None
    cursor: Annotated[str | None, described("`nextCursor` of the list before.")] = None


class ReadResourceArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: Annotated[str, described("The server's name, as it is listed.")]
    uri: Annotated[str, described("The resource's address, as it is listed.")]


class ReadResultArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: Annotated[str, described("As the cut result says.")]
    offset: Annotated[int, described("The first byte to read.", NUMBER)] = 0


class _ListTool(FunctionTool):
    """Both lists. Claims of servers about themselves are no content of strangers."""

    arguments = ListResourcesArguments
    parallel = True
    templates = False

    def __init__(self, ask: Ask, results: McpResults) -> None:
        self._ask, self._results = ask, results

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, ListResourcesArguments)
        server, cursor = given.server or "", given.cursor or ""
        if cursor and not server:
            raise ToolFailed(_CURSOR_ALONE)
        question = ListMcpResources(server=server, cursor=cursor, templates=self.templates)

        async def ask() -> ToolResult:
            outcome = await self._ask(question)
            return await self._results.make(outcome, open_world=True)

        detail = McpCall(server=server or ALL_SERVERS, tool=self.name, arguments=_shown(call))
        return DirectInvocation(detail, ask)


class ListMcpResourcesTool(_ListTool):
    name = "list_mcp_resources"


class ListMcpResourceTemplatesTool(_ListTool):
    name = "list_mcp_resource_templates"
    templates = True


class ReadMcpResourceTool(FunctionTool):
    name = "read_mcp_resource"
    arguments = ReadResourceArguments
    parallel = True

    def __init__(self, ask: Ask, results: McpResults) -> None:
        self._ask, self._results = ask, results

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, ReadResourceArguments)

        async def read() -> ToolResult:
            limit = self._results.limit_bytes
            question = ReadMcpResource(server=given.server, uri=given.uri, keep_over_bytes=limit)
            return await self._results.make(await self._ask(question), open_world=True)

        detail = McpCall(server=given.server[:100], tool=self.name, arguments=_shown(call))
        return DirectInvocation(detail, read)


class ReadMcpResultTool(FunctionTool):
    name = "read_mcp_result"
    arguments = ReadResultArguments
    parallel = True

    def __init__(self, ask: Ask, results: McpResults) -> None:
        self._ask, self._results = ask, results

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, ReadResultArguments)
        if given.offset < 0:
            raise ToolFailed("`offset` must not be negative")

        async def read() -> ToolResult:
            question = ReadMcpResult(
                address=given.address,
                offset=given.offset,
                limit_bytes=self._results.limit_bytes,
            )
            outcome = await self._ask(question)
            texts = (one.text for one in outcome.parts if isinstance(one, McpText))
            end = given.offset + sum(len(text.encode()) for text in texts)
            more = f"; read on at offset {end}" if end < outcome.size_bytes else "; this is its end"
            outcome = replace(outcome, address="")  # its own address is no news
            made = await self._results.make(outcome, open_world=True)
            return made.framed(
                head=f"Bytes {given.offset:,} to {end:,} of {outcome.size_bytes:,}{more}\n"
            )

        detail = McpCall(server=STORED, tool=self.name, arguments=_shown(call))
        return DirectInvocation(detail, read)


def resource_tools(ask: Ask, results: McpResults) -> tuple[Tool, ...]:
    """The tools of an agent that has a server with resources."""
    return (
        ListMcpResourcesTool(ask, results),
        ListMcpResourceTemplatesTool(ask, results),
        ReadMcpResourceTool(ask, results),
    )


def _shown(call: AnyCall) -> str:
    return call.arguments[:_SHOWN_CHARS] if isinstance(call, FunctionCall) else ""
