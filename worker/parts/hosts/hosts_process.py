"""The process that drives nodes on other machines: it speaks to Ray, and carries the agents' mail.

It decides nothing: the supervisor says what is started where. It is the only process that imports
Ray, and it holds no provider's key. What an MCP server's table names for a hub elsewhere passes it.
"""

import os
import signal
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.delivery.curve_link import connect_link, new_link_keys
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.delivery.relay import GATEWAY, SUPERVISOR
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.hosts import (
    AnyHostsEvent,
    AnyHostsOp,
    AnyNodeOrder,
    CopyShipped,
    DrainNode,
    FetchLayers,
    GatewayAt,
    HostUnusable,
    LayersStored,
    NodeFacts,
    NodeJoined,
    NodeLost,
    PrepareRemote,
    RemotePrepared,
    RemoteRefused,
    ShipCopy,
    SignalRemote,
    StartRemote,
    decode_hosts_op,
    encode_hosts_event,
)
from swarm.mailbox.protocol.nodes import HostTable, NodeOrder
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import HostsSpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

from ...base.lifeline import watch_lifeline
from .driven_node import NODE_SILENCE_S, DrivenNode
from .node_starter import Machine, NodeStarter, NodeUnavailable, StartedNode, check_card

HEARTBEAT_S, LOOK_S = 2.0, 5.0
_END_GRACE_S, _END_LIMIT_S = 5.0, 20.0
_RETRY_S, _MAX_STARTS = 5.0, 4  # of one machine's node, each after a longer wait
_SLOW_START_S = 10.0  # of a node, then people are told
_LONGEST_RETRY_S = 60.0  # of a cluster that cannot be reached

OpenStarter = Callable[[HostTable], NodeStarter]


def run_hosts(spec: HostsSpec, lifeline_fd: int | None, *, umask: int) -> int:
    """Drive nodes until the supervisor shuts this process down; returns the exit code.

    `umask`: what agents on other machines make gets its modes by it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from .ray_cluster import RayCluster

    drive = partial(_drive_nodes, umask=umask)
    return trio.run(drive, spec, lifeline_fd, RayCluster)


async def _drive_nodes(
    spec: HostsSpec, lifeline_fd: int | None, open_starter: OpenStarter, *, umask: int
) -> int:
    async with trio.open_nursery() as nursery:
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        async with open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as supervisor:
            await HostsProcess(spec, supervisor, open_starter, umask=umask).run()
        nursery.cancel_scope.cancel()
    return 0


class HostsProcess:
    """From Hello to Goodbye."""

    def __init__(
        self, spec: HostsSpec, supervisor: Mailbox, open_starter: OpenStarter, *, umask: int
    ) -> None:
        self._umask = umask
        self._spec, self._supervisor, self._open = spec, supervisor, open_starter
        self._endpoints = {SUPERVISOR: spec.endpoint, GATEWAY: spec.gateway_endpoint}
        self._nodes: dict[str, DrivenNode] = {}
        self._ends: dict[str, trio.Event] = {}  # by node: its end was told
        self._held: set[str] = set()  # machines that have a node, or will have none any more
        self._given_up: set[str] = set()  # names of machines that cannot be used
        self._drained: set[str] = set()  # nodes that are not started again
        self._epochs = count(1_000 * spec.epoch)
        self._work = trio.CancelScope()

    async def run(self) -> None:
        """Serve until a Shutdown; then no node is left."""
        await self._tell(
            Hello(
                secret=self._spec.secret, pid=os.getpid(), protocol_version=PROTOCOL_VERSION,
                kind="hosts",
            )
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_heartbeats)
            with self._work:
                async with trio.open_nursery() as working:
                    for table in self._spec.hosts:
                        working.start_soon(self._hold_machines, table)
                    await self._serve_ops(working)
            nursery.cancel_scope.cancel()
        with trio.move_on_after(2.0):
            await self._tell(Goodbye())
            await self._supervisor.flush()

    # --- machines -------------------------------------------------------------------------------

    async def _hold_machines(self, table: HostTable) -> None:
        """A node on each machine of the table, also on those that join later."""
        starter = self._open(table)
        await self._connect(table, starter)
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    for machine in await _present(starter):
                        if machine.name not in self._held:
                            self._held.add(machine.name)
                            nursery.start_soon(self._hold_node, table, starter, machine)
                    await trio.sleep(LOOK_S)
        finally:
            with trio.CancelScope(shield=True):
                await starter.close()

    async def _connect(self, table: HostTable, starter: NodeStarter) -> None:
        """Return once the table's cluster can be reached; say why as long as it cannot."""
        told, waits = "", 0
        while True:
            try:
                return await starter.open()
            except NodeUnavailable as error:
                if (reason := str(error)) != told:
                    await self._tell(HostUnusable(host=table.name, reason=reason))
                told = reason
            await trio.sleep(min(_RETRY_S * 2**waits, _LONGEST_RETRY_S))
            waits += 1

    async def _hold_node(self, table: HostTable, starter: NodeStarter, machine: Machine) -> None:
        """Start the machine's node, again when it is lost, a few times."""
        reason = ""
        for attempt in range(_MAX_STARTS):
            if attempt:
                await trio.sleep(_RETRY_S * 2 ** (attempt - 1))
            try:
                reason = await self._run_node(table, starter, machine)
            except NodeUnavailable as error:
                reason = str(error)
                await self._tell(NodeLost(node=_name(table, machine), reason=reason))
            if _name(table, machine) in self._drained:
                return
            if machine not in await _present(starter):
                self._held.discard(machine.name)  # it may come back
                return
        await self._tell(Warned(message=f"{_name(table, machine)} is given up: {reason}"))
        self._given_up.add(machine.name)
        if all(one.name in self._given_up for one in await _present(starter)):
            why = f"none of its machines can be used: {reason}"
            await self._tell(HostUnusable(host=table.name, reason=why))

    async def _run_node(self, table: HostTable, starter: NodeStarter, machine: Machine) -> str:
        keys, name = new_link_keys(), _name(table, machine)
        order = NodeOrder(
            run_id=self._spec.run_id, name=name, epoch=next(self._epochs),
            address=machine.address, driver_key=keys.public, cwd=self._spec.cwd,
            silence_s=NODE_SILENCE_S, umask=self._umask,
        )  # fmt: skip
        started = await self._start_node(table, starter, machine, order)
        try:
            card = started.card
            check_card(card, self._spec.version)
            with connect_link(machine.address, card.port, keys, card.public_key) as link:
                node = DrivenNode(name, link, self._spec.copies, self._tell, epoch=order.epoch)
                facts = NodeFacts(
                    name=name, host=table.name, address=machine.address,
                    slots=table.slots or max(1, int(card.processors)), card=card,
                    resources=machine.resources,
                )  # fmt: skip
                return await self._serve_node(node, started, facts)
        finally:
            with trio.CancelScope(shield=True):
                await started.stop()

    async def _start_node(
        self, table: HostTable, starter: NodeStarter, machine: Machine, order: NodeOrder
    ) -> StartedNode:
        """Start it, and tell people if that takes long. Raises NodeUnavailable."""
        made: StartedNode | NodeUnavailable = NodeUnavailable("it was not started")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_if_slow, table, order.name)
            try:
                made = await starter.start(machine, order)
            except NodeUnavailable as error:  # a nursery would wrap it
                made = error
            nursery.cancel_scope.cancel()
        if isinstance(made, NodeUnavailable):
            raise made
        return made

    async def _say_if_slow(self, table: HostTable, name: str) -> None:
        await trio.sleep(_SLOW_START_S)
        what = "its python_env is installed" if table.python_env else "it starts slowly"
        await self._tell(Warned(message=f"{name}: {what}; agents wait for it"))

    async def _serve_node(self, node: DrivenNode, started: StartedNode, facts: NodeFacts) -> str:
        async with trio.open_nursery() as nursery:

            async def notice_end() -> None:
                node.lose(await started.wait_ended())

            nursery.start_soon(notice_end)
            self._nodes[node.name], self._ends[node.name] = node, trio.Event()
            try:
                await self._tell(NodeJoined(node=facts))
                reason = await node.run(self._endpoints)
            finally:
                del self._nodes[node.name]
                nursery.cancel_scope.cancel()
        await self._tell(NodeLost(node=node.name, reason=reason))  # what held it may take long
        self._ends[node.name].set()
        return reason

    # --- orders ---------------------------------------------------------------------------------

    async def _serve_ops(self, nursery: trio.Nursery) -> None:
        while True:
            message = await self._supervisor.receive()
            self._supervisor.acknowledge(message)
            try:
                op = decode_hosts_op(message.body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # of a newer supervisor
            if isinstance(op, Shutdown):
                await self._end_nodes()
                self._work.cancel()
                return
            nursery.start_soon(self._serve, op)

    async def _serve(self, op: AnyHostsOp) -> None:
        match op:
            case GatewayAt(endpoint=endpoint):
                self._endpoints[GATEWAY] = endpoint
                for one in self._nodes.values():
                    one.move_gateway(endpoint)
            case DrainNode(node=name):
                self._drained.add(name)
                if (node := self._nodes.get(name)) is not None:
                    await node.end(_END_GRACE_S)
            case Shutdown():
                return
            case _:
                if (node := self._nodes.get(op.node)) is not None:
                    await node.carry_out(op)
                elif (answer := _lost(op)) is not None:
                    await self._tell(answer)

    async def _end_nodes(self) -> None:
        with trio.move_on_after(_END_LIMIT_S):
            async with trio.open_nursery() as nursery:
                for node in tuple(self._nodes.values()):
                    nursery.start_soon(node.end, _END_GRACE_S)
                    nursery.start_soon(self._ends[node.name].wait)

    async def _send_heartbeats(self) -> None:
        while True:
            beat = Heartbeat(progress=0, busy=bool(self._nodes))
            self._supervisor.send_transient(encode_hosts_event(beat))
            await trio.sleep(HEARTBEAT_S)

    async def _tell(self, event: AnyHostsEvent) -> None:
        await self._supervisor.post(encode_hosts_event(event))


async def _present(starter: NodeStarter) -> tuple[Machine, ...]:
    """The machines that are there now; none if that cannot be found out."""
    try:
        return await starter.machines()
    except NodeUnavailable:
        return ()


def _name(table: HostTable, machine: Machine) -> str:
    """As people see it: the table's name and the address."""
    return f"{table.name}/{machine.address}-{machine.name[:6]}"


def _lost(op: AnyNodeOrder) -> AnyHostsEvent | None:
    """The reply to an order for a node that is lost, if one is waited for."""
    why = "it is lost"
    match op:
        case StartRemote(request=request):
            return RemoteRefused(request=request, reason=why, is_lost=True)
        case ShipCopy(request=request):
            return CopyShipped(request=request, problem=why, is_lost=True)
        case PrepareRemote(node=name, order=order):
            return RemotePrepared(request=order.request, node=name, problem=why, is_lost=True)
        case FetchLayers(node=name, agent_id=agent_id):
            return LayersStored(agent_id=agent_id, problem=f"{name} is lost")
        case SignalRemote():
            return None
        case _:
            assert_never(op)
