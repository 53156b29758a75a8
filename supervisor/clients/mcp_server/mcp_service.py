"""The MCP server itself: which requests it answers, for stdio and HTTP alike."""

import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from swarm.mailbox.base.errors import SwarmError, UsageError

from ...base.exception_groups import first_error
from ...base.version import VERSION
from .calling_client import CallingClient
from .codex_tools import CODEX_NAMES, CodexTools
from .run_resources import TEMPLATES, list_run_resources, read_run_resource
from .served_runs import ServedRuns
from .swarm_tools import CallResult, SwarmTools, error_result
from .tool_list import tools_of

_MOST_CALLS = 64  # at once, of all clients
_INSTRUCTIONS = (
    "swarm runs coding agents on a task, each in a sandbox. swarm_run starts one and waits; with "
    "background, swarm_status shows it and swarm_result has its answer. Resources are journals."
)
_Context = ServerRequestContext[object, object]


class McpService:
    """The handlers of one server. `with_codex` also offers Codex's two tools."""

    def __init__(self, runs: ServedRuns, *, with_codex: bool) -> None:
        self._runs = runs
        self._tools = SwarmTools(runs)
        self._codex = CodexTools(runs) if with_codex else None
        self._listed = list(tools_of(with_codex=with_codex))
        self._calls = 0

    def build(self) -> Server[object]:
        """The SDK's server with these handlers."""
        return Server[object](
            "swarm",
            version=VERSION,
            title="swarm",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._listed)

    async def _call_tool(self, ctx: _Context, params: types.CallToolRequestParams) -> CallResult:
        if params.name not in {tool.name for tool in self._listed}:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name[:100]!r}")
        if self._calls >= _MOST_CALLS:
            return error_result(SwarmError(f"{_MOST_CALLS} calls wait already; end one first"))
        self._calls += 1
        try:
            if self._codex is not None and params.name in CODEX_NAMES:
                return await self._codex.call(params, ctx)
            return await self._tools.call(params.name, params, CallingClient(ctx))
        except (SwarmError, ExceptionGroup) as error:
            if isinstance(found := first_error(error), SwarmError):
                return error_result(found)
            raise
        finally:
            self._calls -= 1

    async def _list_resources(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = await anyio.to_thread.run_sync(list_run_resources, self._runs)
        return types.ListResourcesResult(resources=found)

    async def _list_templates(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[*TEMPLATES])

    async def _read_resource(
        self, ctx: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            read = await anyio.to_thread.run_sync(read_run_resource, self._runs, params.uri)
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except SwarmError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        return types.ReadResourceResult(contents=[read])
