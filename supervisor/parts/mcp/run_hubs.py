"""The hubs of a run: one on this machine, and one on each other machine whose agents need one.

A hub elsewhere is connected to the servers whose tables say `where = "node"`, for the agents there.
It starts at their first use, and ends with its node.
"""

from collections.abc import Iterator
from functools import partial

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.protocol.mcp import McpFailure, McpOutcome, McpText, McpTool, McpTools
from swarm.mailbox.protocol.spec import HubSpec

from ...agents.agent_record import Agent
from ...agents.life.agent_start import StartServices
from ...approvals.approval_types import Decider
from ...context.run_context import RunContext
from ...context.service_process import Service
from ...processes.process_types import Child, SpawnError
from ..hosts.placement.known_nodes import Node
from .hub_manager import HubManager, HubPlace, hub_here
from .hub_questions import HubQuestions
from .model_questions import ModelQuestions

_MOST_HUBS = 10_000


class RunHubs:
    """Owns all of them. Iterates over those that run."""

    def __init__(
        self, running: RunContext, starts: StartServices, decider: Decider, *, first_epoch: int
    ) -> None:
        self._run, self._decider, self._first_epoch = running, decider, first_epoch
        self._places = starts.places
        servers = running.request.mcp.servers
        self._on_nodes = {one.name: one for one in servers if one.on_node}
        self.home = HubManager(
            running, hub_here(running, starts.processes), self._places, first_epoch=first_epoch
        )
        self.models = ModelQuestions(running, self.home, decider)
        self._elsewhere: dict[str, HubManager] = {}  # by node
        self._count = 0
        opened: tuple[trio.MemorySendChannel[HubManager], trio.MemoryReceiveChannel[HubManager]] = (
            trio.open_memory_channel(_MOST_HUBS)
        )
        self._begun, self._opened = opened

    def __iter__(self) -> Iterator[Service]:
        yield self.home
        yield from tuple(self._elsewhere.values())

    async def run(self) -> None:
        """Keep all hubs running until cancelled."""
        async with trio.open_nursery() as nursery:
            self._begun.send_nowait(self.home)
            async for hub in self._opened:
                nursery.start_soon(hub.run)
                questions = HubQuestions(self._run, hub, self.models, self._decider)
                nursery.start_soon(questions.run)

    def expect_end(self) -> None:
        """From now on no end of a hub is a crash."""
        for hub in (self.home, *self._elsewhere.values()):
            hub.process.loop.expect_end()

    async def stop(self) -> None:
        """End all hubs in order, side by side: their servers have time to leave."""
        async with trio.open_nursery() as nursery:
            for hub in (self.home, *self._elsewhere.values()):
                nursery.start_soon(hub.process.loop.stop)

    async def release_agent(self, agent_id: str) -> None:
        """As of each hub."""
        for hub in (self.home, *tuple(self._elsewhere.values())):
            await hub.release_agent(agent_id)

    def split(
        self, agent: Agent, names: tuple[str, ...]
    ) -> list[tuple[HubManager, tuple[str, ...]]]:
        """These servers by the hubs that are connected to them for this agent."""
        there = tuple(name for name in names if name in self._on_nodes)
        node = self._run.hosts.node_of(agent.plan.agent_id) if there else None
        if node is None:
            return [(self.home, names)]
        here = tuple(name for name in names if name not in self._on_nodes)
        parts = [(self.home, here), (self._hub_on(node), there)]
        return [part for part in parts if part[1]]

    def of(self, agent: Agent, server: str) -> HubManager:
        """The hub that is connected to this server for this agent."""
        return self.split(agent, (server,))[0][0]

    def _hub_on(self, node: Node) -> HubManager:
        name = node.facts.name
        if (known := self._elsewhere.get(name)) is not None:
            if known.is_of_use:
                return known
            known.process.loop.expect_end()
        self._count += 1
        place = HubPlace(
            servers=tuple(self._on_nodes.values()),
            start=partial(self._start_on, node),
            name=name,
            prefix=f"h{self._count}",
            is_there=lambda: self._run.hosts.nodes.get(name) is node,
        )
        hub = HubManager(self._run, place, self._places, first_epoch=self._first_epoch)
        self._elsewhere[name] = hub
        self._begun.send_nowait(hub)
        return hub

    async def _start_on(self, node: Node, spec: HubSpec) -> Child:
        """It gets what the tables of its servers name, and nothing else that is secret."""
        name = node.facts.name
        if self._run.hosts.nodes.get(name) is not node:
            raise SpawnError(f"the machine {name} has left")
        named = {key for one in spec.servers for key in one.environment.values()}
        credentials = self._run.request.mcp_credentials
        keys = {key: value for key, value in credentials.items() if key in named}
        return await self._run.hosts.start_on(node, spec, "mcp hub", keys)


def join_tools(found: list[McpTools], *, is_search: bool = False) -> McpTools:
    """The tools of several hubs, in the order that `McpTools` has; of a search in the hubs' order.

    Each hub has named its own: of two with one name the first counts.
    """
    if len(found) == 1:
        return found[0]
    names: set[str] = set()
    kept: list[McpTool] = []
    failures = [one for part in found for one in part.failures]
    for tool in (one for part in found for one in part.tools):
        if tool.name in names:
            reason = f"its tool `{tool.tool}` has the name of another one"
            failures.append(McpFailure(server=tool.server, reason=reason))
            continue
        names.add(tool.name)
        kept.append(tool)
    if not is_search:
        kept.sort(key=lambda tool: (tool.server, tool.tool))
    resources = tuple(one for part in found for one in part.resources)
    return McpTools(tools=tuple(kept), failures=tuple(failures), resources=resources)


def join_outcomes(outcomes: list[McpOutcome]) -> McpOutcome:
    """Lists of resources of several hubs as one; if one failed, that one."""
    for one in outcomes:
        if one.state != "completed" or len(outcomes) == 1:
            return one
    joined: dict[str, object] = {}
    for body in (_body_of(one) for one in outcomes):
        for key, value in body.items():
            before = joined.get(key)
            match before, value:
                case list(), list():
                    joined[key] = [*before, *value]
                case dict(), dict():
                    joined[key] = before | value
                case int(), int():
                    joined[key] = before + value
                case _:
                    joined[key] = value
    text = msgspec.json.encode(joined).decode()
    return msgspec.structs.replace(outcomes[0], parts=(McpText(text=text),))


def _body_of(outcome: McpOutcome) -> dict[str, object]:
    """A hub's own list. Raises no error: it is the hub that has written it."""
    text = next((one.text for one in outcome.parts if isinstance(one, McpText)), "{}")
    return decode_json_as(text, dict[str, object])
