"""tool_search and call_mcp_tool: MCP tools that are too many to be described in each request.

The list of tools in a request never changes. What was found is described in the search's output,
after the history, and called by its name through `call_mcp_tool` (or directly, by a model that
does so). The call itself is judged, approved and run as one of a tool that was described.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct

from swarm.mailbox.protocol.events import OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.mcp import McpTool

from .interface.function_tool import (
    NUMBER,
    DirectInvocation,
    FunctionTool,
    decode_arguments,
    described,
    description_of,
)
from .interface.tool_interface import Invocation, Tool, ToolFailed, ToolResult

MAX_DESCRIBED = 20  # tools of one agent that each request describes
MAX_DESCRIBED_BYTES = 4 << 10  # of their descriptions and schemas
MAX_FOUND = 20  # by one search
_FOUND_BYTES = 24 << 10
_SERVERS_SHOWN = 40

Search = Callable[[str], Awaitable[tuple[McpTool, ...]]]
"""The tools that fit a query, best first. Raises ToolFailed."""


def should_defer(tools: Sequence[McpTool]) -> bool:
    """True if these tools are to be found by a search instead of described in each request."""
    size = sum(len(one.parameters) + len(one.description.encode()) for one in tools)
    return len(tools) > MAX_DESCRIBED or size > MAX_DESCRIBED_BYTES


class ToolSearchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, described("Words for what the tool should do.")]
    limit: Annotated[int, described(f"At most {MAX_FOUND}.", NUMBER)] = 6


class CallMcpToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, described("The tool's name, as tool_search shows it.")]
    arguments: Annotated[dict[str, object], described("Arguments that fit its schema.")] = {}


class ToolSearchTool(FunctionTool):
    """Finds MCP tools of this agent.

    Args:
        counts: The number of tools by server; part of the description, so it never changes.
        note_found: Gets the tools that were found, before the model reads of them.
    """

    name = "tool_search"
    arguments = ToolSearchArguments
    parallel = True

    def __init__(
        self,
        counts: Mapping[str, int],
        search: Search,
        note_found: Callable[[Sequence[McpTool]], None],
    ) -> None:
        self._search, self._note_found = search, note_found
        shown = [f"{name} ({number})" for name, number in sorted(counts.items())]
        more = f", and {len(shown) - _SERVERS_SHOWN} more" if len(shown) > _SERVERS_SHOWN else ""
        self._servers = ", ".join(shown[:_SERVERS_SHOWN]) + more

    def description(self) -> str:
        return f"{description_of(self.name)} Servers and their numbers of tools: {self._servers}."

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, ToolSearchArguments)
        if not arguments.query.strip():
            raise ToolFailed("`query` must have at least one word")
        limit = min(max(arguments.limit, 1), MAX_FOUND)

        async def find() -> ToolResult:
            found = (await self._search(arguments.query))[:limit]
            self._note_found(found)
            shown = ", ".join(one.name for one in found) or "none"
            return ToolResult(content=found_text(found, self._servers), shown=shown)

        return DirectInvocation(OtherCall(argument=arguments.query[:200]), find)


def found_text(found: Sequence[McpTool], servers: str) -> str:
    """The tools as the model reads them: name, description, schema; bounded."""
    if not found:
        return f"No tool fits these words; try others. Servers: {servers}"
    lines: list[str] = []
    left_out: list[str] = []
    room = _FOUND_BYTES
    for one in found:
        parameters = msgspec.Raw(one.parameters)
        told = {"name": one.name, "description": one.description, "parameters": parameters}
        line = msgspec.json.encode(told).decode()
        room -= len(line.encode())
        if room >= 0 or not lines:
            lines.append(line)
        else:
            left_out.append(one.name)
    if left_out:
        lines.append(f"Also found; search for one of them to see it: {', '.join(left_out)}")
    return "\n".join(lines)


class CallMcpToolTool(FunctionTool):
    """Calls a tool that each request does not describe.

    Args:
        find: A tool by its name; None: there is none.
    """

    name = "call_mcp_tool"
    arguments = CallMcpToolArguments

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        self._find = find

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, CallMcpToolArguments)
        tool = self._find(arguments.name)
        if tool is None:
            raise ToolFailed(f"there is no MCP tool `{arguments.name:.100}`; use tool_search first")
        given = msgspec.json.encode(arguments.arguments).decode()
        return await tool.prepare(
            FunctionCall(call_id=call.call_id, name=tool.name, arguments=given)
        )
