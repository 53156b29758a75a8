"""Serves agents' requests about MCP tools; what their limits do not name does not exist for them.

A call ends with the turn and the process that made it.
"""

from functools import partial

import msgspec
import trio

from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import Waiting, Warned
from swarm.mailbox.protocol.mcp import (
    CallMcpTool,
    ListMcpResources,
    ListMcpTools,
    McpOutcome,
    McpTools,
    ReadMcpResource,
    ReadMcpResult,
)
from swarm.mailbox.protocol.requests import (
    AnyReply,
    McpRequest,
    ReportModelAnswer,
    RequestRefused,
)
from swarm.mailbox.protocol.values.limits import McpAccess

from ...agents.agent_record import Agent
from ...context.run_context import RunContext
from ...context.served_requests import ServedRequests
from .hub_manager import HubManager
from .run_hubs import RunHubs, join_outcomes, join_tools
from .stored_results import StoredResults
from .tool_changes import OfferedTools

_CACHE = "What the provider has cached of this agent's earlier requests may fit no more"
MAX_SERVED = 64  # requests of one agent at once
MAX_ARGUMENT_BYTES = 1 << 20
MAX_QUERY_CHARS = 1_000
MAX_ADDRESS = 4_000  # characters of a resource's address or a cursor


class McpEndpoint:
    """Serves requests concurrently; its tasks run in the event router's nursery."""

    def __init__(
        self,
        running: RunContext,
        hubs: RunHubs,
        nursery: trio.Nursery,
    ) -> None:
        self._run, self._hubs = running, hubs
        self._served = ServedRequests[McpRequest](running, nursery)
        self._stored = StoredResults(running.paths.mcp_results, running.journal.redactor)
        self._told: set[tuple[str, str]] = set()  # failures that were warned of
        self._offered = OfferedTools()

    def serve(self, agent: Agent, request_id: int, request: McpRequest) -> None:
        """Start serving one request. Never waits. A repeated one is ignored."""
        if self._served.find(agent, request_id) is not None:
            return
        if self._served.count(agent) >= MAX_SERVED:
            why = RequestRefused(message=f"{MAX_SERVED} MCP calls of this agent run already")
            self._served.answer_at_once(agent, request_id, why)
            return
        self._served.begin(agent, request_id, request, self._reply_to)

    def withdraw(self, agent: Agent) -> None:
        """The agent's turn is over: cancel its requests."""
        self._served.withdraw(agent)

    async def _reply_to(self, agent: Agent, request: McpRequest) -> AnyReply:
        access = {one.server: one for one in agent.plan.limits.mcp}
        access = {name: one for name, one in access.items() if name in self._hubs.home.servers}
        if isinstance(request, ListMcpTools):
            asked = msgspec.structs.replace(request, query=request.query[:MAX_QUERY_CHARS])
            found = await self._list_tools(agent, tuple(access), asked)
            self._warn_of_failures(found)
            seen = visible_tools(found, access)
            if not request.query:
                self._warn_of_changes(agent, seen)
            return seen
        match request:
            case ReportModelAnswer():
                return self._hubs.models.take_report(agent, request)
            case ReadMcpResult():
                return await self._stored.read(request)
            case ListMcpResources() | ReadMcpResource():
                return await self._ask(agent, request, access)
            case CallMcpTool():
                return await self._call(agent, request, access)

    async def _list_tools(
        self, agent: Agent, names: tuple[str, ...], asked: ListMcpTools
    ) -> McpTools:
        parts = self._hubs.split(agent, names)
        found = [McpTools()] * len(parts)

        async def list_of(place: int, hub: HubManager, names: tuple[str, ...]) -> None:
            found[place] = await hub.list_tools(agent.plan.agent_id, names, asked)

        async with trio.open_nursery() as nursery:
            for place, (hub, some) in enumerate(parts):
                nursery.start_soon(list_of, place, hub, some)
        return join_tools(found, is_search=bool(asked.query))

    async def _ask_hubs(
        self, agent: Agent, names: tuple[str, ...], question: ListMcpResources | ReadMcpResource
    ) -> list[McpOutcome]:
        """One outcome of each hub that is connected to one of these servers; at least one."""
        parts = self._hubs.split(agent, names)
        return [await hub.ask(agent.plan.agent_id, some, question) for hub, some in parts]

    async def _call(
        self, agent: Agent, request: CallMcpTool, access: dict[str, McpAccess]
    ) -> AnyReply:
        if not may_call(access.get(request.server), request.tool):
            text = f"this agent has no MCP tool `{request.tool}` of `{request.server}`"
            return RequestRefused(message=text)
        if len(request.arguments) > MAX_ARGUMENT_BYTES:
            return RequestRefused(message="the arguments are over 1 MiB")
        show = partial(self._show_progress, agent, request.server)
        hub = self._hubs.of(agent, request.server)
        outcome = await hub.call(agent, request, show)
        return await self._stored.keep(outcome, over_bytes=request.keep_over_bytes)

    async def _ask(
        self,
        agent: Agent,
        request: ListMcpResources | ReadMcpResource,
        access: dict[str, McpAccess],
    ) -> AnyReply:
        readable = tuple(name for name, one in access.items() if may_read(one))
        names = (request.server,) if request.server else readable
        if request.server and request.server not in readable:
            known = ", ".join(sorted(readable)) or "none"
            text = f"this agent reads no resources of `{request.server:.100}`; servers: {known}"
            return RequestRefused(message=text)
        if isinstance(request, ListMcpResources):
            if len(request.cursor) > MAX_ADDRESS:
                return RequestRefused(message="the cursor is too long")
            return join_outcomes(await self._ask_hubs(agent, names, request))
        if not 0 < len(request.uri) <= MAX_ADDRESS:
            return RequestRefused(message=f"a uri has 1 to {MAX_ADDRESS:,} characters")
        (outcome,) = await self._ask_hubs(agent, names, request)
        return await self._stored.keep(outcome, over_bytes=request.keep_over_bytes)

    def _show_progress(self, agent: Agent, server: str, line: str) -> None:
        """What a server says of a running call is what its agent does now."""
        event = Waiting(reason=f"MCP server {server}: {line}")
        self._run.broadcast.publish_transient(TransientEvent(agent=agent.path, event=event))

    def _warn_of_failures(self, found: McpTools) -> None:
        """Tell people once of each reason why tools are missing."""
        for one in found.failures:
            if (one.server, one.reason) not in self._told:
                self._told.add((one.server, one.reason))
                text = f"MCP server `{one.server}`: its tools are missing: {one.reason}"
                self._run.note(Warned(message=text))

    def _warn_of_changes(self, agent: Agent, found: McpTools) -> None:
        """Tell people that an agent's requests describe other tools than before."""
        if changes := self._offered.note(agent.plan.agent_id, found):
            self._run.note(Warned(message=f"{changes}. {_CACHE}"), agent=agent.path)


def visible_tools(found: McpTools, access: dict[str, McpAccess]) -> McpTools:
    """What of these tools the agent may call."""
    kept = (one for one in found.tools if may_call(access.get(one.server), one.tool))
    readable = (name for name in found.resources if may_read(access.get(name)))
    return msgspec.structs.replace(found, tools=tuple(kept), resources=tuple(readable))


def may_call(access: McpAccess | None, tool: str) -> bool:
    """True if these limits name the server, and do not leave the tool out."""
    return access is not None and (access.tools is None or tool in access.tools)


def may_read(access: McpAccess | None) -> bool:
    """True if these limits name the server whole: who may use a few tools reads no resources."""
    return access is not None and access.tools is None
