"""The nodes of a run, and the agents' processes on them, as the supervisor knows them.

Orders wait here until `HostManager` sends them to the process that drives the nodes; its answers
come back here. A run without hosts has none of this but an empty value.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count

import msgspec
import trio

from swarm.mailbox.protocol.hosts import (
    AnyHostsOp,
    CopyShipped,
    DrainNode,
    FetchLayers,
    GatewayAt,
    LayersStored,
    NodeFacts,
    NodeUsage,
    PrepareRemote,
    RemoteEnded,
    RemotePrepared,
    RemoteRefused,
    RemoteStarted,
    SignalRemote,
    StartRemote,
)
from swarm.mailbox.protocol.nodes import HostTable
from swarm.mailbox.protocol.spec import AgentSpec, CopyMount, HubSpec, encode_spec

from ....agents.agent_record import AgentPlan
from ....processes.machine_facts import MachineState
from ....processes.machine_turns import HoldTurn, MachineWork, hold_no_turn
from ....processes.process_types import DiedBeforeHello, ProcessEnd, SpawnError
from ...copies.copy_folder import AgentCopy
from .copy_shipment import ship_order
from .host_environment import narrowed
from .known_nodes import Node, NodePlace, RemoteChild
from .node_preparation import (
    ANSWER_LIMIT_S,
    prepare_order,
    prepare_work,
)

_WAIT_LIMIT_S, _SHIP_LIMIT_S, _START_LIMIT_S, _FETCH_LIMIT_S = 600.0, 900.0, 20.0, 120.0
_MOST_ORDERS = 100_000
_NO_ANSWER = "no answer came"

_Reply = RemoteStarted | RemoteRefused | RemotePrepared | CopyShipped


def _failure(text: str, *, is_lost: bool) -> SpawnError:
    """What is raised: a start that may do on another machine is tried again."""
    return DiedBeforeHello(text) if is_lost else SpawnError(text)


class RemoteHosts:
    """Of one run; without tables it has no nodes and sends no orders."""

    def __init__(self, tables: tuple[HostTable, ...] = ()) -> None:
        self.tables = {table.name: table for table in tables}
        self.nodes: dict[str, Node] = {}
        self._failures: dict[str, str] = {}  # by table: why it has no nodes
        self._are_final = False  # these failures
        self._drained: dict[str, str] = {}  # by node, also of one that has left: why
        self._changed = trio.Event()  # a node came or went, or has room again
        self._numbers = count(1)
        self._replies: dict[int, tuple[trio.Event, list[_Reply]]] = {}
        self._fetches: dict[str, trio.Event] = {}  # by agent: its layers are being brought
        self._places: dict[str, str] = {}  # agent → node of its newest process
        self._born: dict[int, RemoteChild] = {}  # by request, until who asked for it takes it
        channels: tuple[
            trio.MemorySendChannel[AnyHostsOp], trio.MemoryReceiveChannel[AnyHostsOp]
        ] = trio.open_memory_channel(_MOST_ORDERS)
        self._orders, self.orders = channels
        self._hold_turn: HoldTurn = hold_no_turn

    def order(self, op: AnyHostsOp) -> None:
        """Queue an order; never waits."""
        self._orders.send_nowait(op)

    def use_turns(self, hold_turn: HoldTurn) -> None:
        """Commands that get a machine ready wait for their turn from now on."""
        self._hold_turn = hold_turn

    def hold_turn(self, work: MachineWork) -> AbstractAsyncContextManager[None]:
        """Implements `HoldTurn`, also for commands on this machine (`machine` is "")."""
        return self._hold_turn(work)

    def move_gateway(self, endpoint: str) -> None:
        """The gateway listens there now; agents on nodes are led there."""
        if self.tables:
            self.order(GatewayAt(endpoint=endpoint))

    def node_of(self, agent_id: str) -> Node | None:
        """The node on which the agent is, or was last; None: it is here, or its node is lost."""
        return self.nodes.get(self._places.get(agent_id, ""))

    def machine_of(self, agent_id: str) -> str:
        """The name of the agent's node; "": it is here, or its node is lost."""
        node = self.node_of(agent_id)
        return "" if node is None else node.facts.name

    def state_of(self, machine: str) -> MachineState | None:
        """What is left of a node, as it told last; None: it is gone."""
        node = self.nodes.get(machine)
        return None if node is None else node.machine

    # --- starts ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def place(
        self, plan: AgentPlan, copy: AgentCopy, mounts: tuple[CopyMount, ...]
    ) -> AsyncIterator[NodePlace]:
        """A slot on a node of the plan's table, with all that the agent's copy consists of.

        If nothing was started in the block, the slot is free again. Raises SpawnError.
        """
        node = await self._wait_for_room(plan)
        place = NodePlace(self, node)
        node.take(plan.resources)
        try:
            await self._ship(node, copy, mounts)
            await self._prepare(node, copy)
            yield place
        finally:
            free = partial(self._free, node, plan.resources)
            if place.child is None:
                free()
            else:
                place.child.call_at_end(free)

    async def _wait_for_room(self, plan: AgentPlan) -> Node:
        """An agent goes back to the node that has its files, as long as that node is there."""
        with trio.move_on_after(_WAIT_LIMIT_S):
            while True:
                if why := self._failures.get(plan.host):
                    raise SpawnError(f"{plan.path} cannot start on {plan.host}: {why}")
                if fitting := [node for node in self._nodes_for(plan) if node.fits(plan.resources)]:
                    return min(fitting, key=lambda node: (node.share, -node.free_memory_bytes))
                known = self._nodes_of(plan.host)
                if known and all(node.why_drained for node in known):
                    why = self._describe_room(plan)
                    raise SpawnError(f"{plan.path} finds no machine: {why}")
                await self._changed.wait()
        raise SpawnError(
            f"{plan.path} found no room on {plan.host} within {_WAIT_LIMIT_S:g} s: "
            + self._describe_room(plan)
        )

    def _nodes_for(self, plan: AgentPlan) -> list[Node]:
        own = self.node_of(plan.agent_id)
        return self._nodes_of(plan.host) if own is None or own.why_drained else [own]

    def _nodes_of(self, host: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.facts.host == host]

    def _describe_room(self, plan: AgentPlan) -> str:
        known = self._nodes_of(plan.host)
        if not known:
            return "none of its machines answers"
        if not any(node.could_fit(plan.resources) for node in known):
            wanted = ", ".join(f"{name} {amount:g}" for name, amount in plan.resources.items())
            return f"none of its machines has {wanted}"
        return ", ".join(f"{node.facts.name}: {node.why_drained or 'it is full'}" for node in known)

    async def _ship(self, node: Node, copy: AgentCopy, mounts: tuple[CopyMount, ...]) -> None:
        facts, number = node.facts, next(self._numbers)
        order = ship_order(number, facts.name, copy, mounts, self.tables[facts.host].ship)
        reply = await self._ask(number, order, _SHIP_LIMIT_S)
        if isinstance(reply, CopyShipped) and not reply.problem:
            return
        why = reply.problem if isinstance(reply, CopyShipped) else _NO_ANSWER
        is_lost = not isinstance(reply, CopyShipped) or reply.is_lost
        raise _failure(f"{copy.path} gets no copy on {node.facts.name}: {why}", is_lost=is_lost)

    async def _prepare(self, node: Node, copy: AgentCopy) -> None:
        """A machine on which the commands fail is left: what they make is counted on. The start may
        do on another one.
        """
        table = self.tables[node.facts.host]
        if not table.prepare:
            return
        reply: _Reply | None = None
        async with node.preparing:
            if not node.is_prepared and not node.why_drained:
                order = prepare_order(next(self._numbers), copy, table)
                work = prepare_work(order, machine=node.facts.name, agent=copy.path)
                async with self._hold_turn(work):
                    remote = PrepareRemote(node=node.facts.name, order=order)
                    reply = await self._ask(order.request, remote, ANSWER_LIMIT_S)
        if not node.is_prepared:
            told = reply.problem if isinstance(reply, RemotePrepared) else _NO_ANSWER
            why = node.why_drained or told
            raise _failure(f"{copy.path} cannot start on {node.facts.name}: {why}", is_lost=True)

    async def start_on(
        self,
        node: Node,
        spec: AgentSpec | HubSpec,
        title: str,
        keys: Mapping[str, str] | None = None,
    ) -> RemoteChild:
        """`keys`: for a hub. Raises SpawnError."""
        number = next(self._numbers)
        if isinstance(spec, AgentSpec):
            own = self.tables[node.facts.host].environment
            environment = narrowed(spec.inherited.shell_environment, own)
            inherited = msgspec.structs.replace(spec.inherited, shell_environment=environment)
            spec = msgspec.structs.replace(spec, inherited=inherited)
        order = StartRemote(
            request=number, node=node.facts.name, spec=encode_spec(spec), title=title,
            identity=spec.identity, keys=dict(keys or {}),
        )  # fmt: skip
        reply = await self._ask(number, order, _START_LIMIT_S)
        child = self._born.pop(number, None)
        if child is None:
            why = reply.reason if isinstance(reply, RemoteRefused) else _NO_ANSWER
            is_lost = not isinstance(reply, RemoteRefused) or reply.is_lost
            text = f"{title} could not be started on {node.facts.name}: {why}"
            raise _failure(text, is_lost=is_lost)
        if isinstance(spec, AgentSpec):
            self._places[spec.agent_id] = node.facts.name
        return child

    async def _ask(self, number: int, order: AnyHostsOp, limit_s: float) -> _Reply | None:
        """The reply; None if none came in time."""
        answered, replies = self._replies[number] = (trio.Event(), [])
        try:
            self.order(order)
            with trio.move_on_after(limit_s):
                await answered.wait()
            return replies[0] if replies else None
        finally:
            del self._replies[number]

    # --- what agents changed --------------------------------------------------------------------

    async def bring_layers(self, agent_id: str) -> None:
        """Return once what the agent has changed so far is in the run's folder, if it can be had.

        At once for an agent that runs here.
        """
        with trio.move_on_after(_FETCH_LIMIT_S):
            while (under_way := self._fetches.get(agent_id)) is not None:
                await under_way.wait()
            if (node := self.node_of(agent_id)) is not None:
                await self._fetch(agent_id, node)

    async def _fetch(self, agent_id: str, node: Node) -> None:
        stored = self._fetches[agent_id] = trio.Event()
        try:
            self.order(FetchLayers(node=node.facts.name, agent_id=agent_id))
            await stored.wait()
        finally:
            if self._fetches.get(agent_id) is stored:  # no answer came: nobody waits for it either
                del self._fetches[agent_id]
                stored.set()

    def on_stored(self, stored: LayersStored) -> None:
        """The layers of an agent are in the run's folder."""
        if (waiting := self._fetches.pop(stored.agent_id, None)) is not None:
            waiting.set()

    # --- what the driver says -------------------------------------------------------------------

    def on_reply(self, reply: _Reply) -> None:
        """An order was carried out, or could not be."""
        waiting = self._replies.get(reply.request)
        if waiting is None:
            if isinstance(reply, RemoteStarted):  # nobody waits any more, so nobody will end it
                self.order(SignalRemote(node=reply.node, pid=reply.pid))
            return
        answered, replies = waiting
        replies.append(reply)
        answered.set()
        if isinstance(reply, RemoteStarted) and (node := self.nodes.get(reply.node)) is not None:
            child = RemoteChild(self, reply.node, reply)
            node.children[reply.pid] = self._born[reply.request] = child

    def on_refused(self, reply: RemoteRefused) -> str:
        """A start was refused. Returns why its node is drained now, else ""."""
        node = self.nodes.get(reply.broken_node)
        why = reply.reason if node is not None and self.drain(node, reply.reason) else ""
        self.on_reply(reply)
        return why

    def on_prepared(self, reply: RemotePrepared) -> str:
        """Commands have run on a node. Returns why it is drained now, else ""."""
        why = ""
        if (node := self.nodes.get(reply.node)) is not None and not reply.is_lost:
            if reply.problem:
                why = f"prepare failed there: {reply.problem}"
                self.drain(node, why)
            else:
                node.note_prepared()
        self.on_reply(reply)
        return why

    def on_unusable(self, host: str, reason: str) -> None:
        """No node of this table can join now."""
        self._failures[host] = reason
        self._note_room()

    def on_joined(self, facts: NodeFacts) -> None:
        """A node can be used, unless it was drained before."""
        node = self.nodes[facts.name] = Node(facts)
        if not self._are_final:
            self._failures.pop(facts.host, None)
        if why := self._drained.get(facts.name):
            node.drain(why)
            self._end_if_drained(node)
        self._note_room()

    def on_usage(self, usage: NodeUsage) -> str:
        """How a node does. Returns why it gets no new agents from now on, else ""."""
        node = self.nodes.get(usage.node)
        if node is None:
            return ""
        was_heard, why = node.is_heard, node.note_usage(usage)
        if why:
            self._on_drained(node)
        elif not was_heard:
            self._note_room()
        return why

    def drain(self, node: Node, why: str) -> bool:
        """Start nothing there any more in this run. False: it was so already."""
        if is_new := node.drain(why):
            self._on_drained(node)
        return is_new

    def _on_drained(self, node: Node) -> None:
        self._drained[node.facts.name] = node.why_drained
        self._end_if_drained(node)
        self._note_room()

    def on_ended(self, ended: RemoteEnded) -> None:
        """A process on a node has ended."""
        node = self.nodes.get(ended.node)
        child = node.children.pop(ended.pid, None) if node is not None else None
        if node is None or child is None:
            return
        child.end(
            ProcessEnd(
                exit_code=ended.exit_code, signal=ended.signal, stderr_tail=ended.stderr_tail,
                reason=ended.reason,
            )
        )  # fmt: skip

    def on_lost(self, name: str, reason: str) -> bool:
        """A node is lost, and all that ran there. False: it was not known."""
        node = self.nodes.pop(name, None)
        if node is None:
            return False
        for child in tuple(node.children.values()):
            child.end(ProcessEnd(reason=reason))
        for agent_id, place in self._places.items():
            if place == name and (waiting := self._fetches.pop(agent_id, None)) is not None:
                waiting.set()
        self._note_room()
        return True

    def lose_all(self, reason: str, *, for_good: bool = False) -> None:
        """The process that drives the nodes has ended."""
        if for_good:
            self._failures, self._are_final = dict.fromkeys(self.tables, reason), True
        for name in tuple(self.nodes):
            self.on_lost(name, reason)
        for answered, _ in self._replies.values():
            answered.set()
        self._note_room()

    def _end_if_drained(self, node: Node) -> None:
        if node.why_drained and not node.taken:
            self.order(DrainNode(node=node.facts.name))

    def _free(self, node: Node, wanted: dict[str, float]) -> None:
        node.give_back(wanted)
        self._end_if_drained(node)
        self._note_room()

    def _note_room(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
