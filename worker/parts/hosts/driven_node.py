"""One node as its driver sees it: the link, the agents' mail, the trees that go and come.

A node that is silent for `SILENCE_S` has ended itself before: its own limit is shorter. So an agent
that is started elsewhere then is the only one of its identity that acts.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.tree_pack import TreePacker, TreeRefused
from swarm.mailbox.base.tree_unpack import TreeUnpacker
from swarm.mailbox.delivery.curve_link import Link
from swarm.mailbox.delivery.node_link import ECHO, NodeLink
from swarm.mailbox.delivery.relay import GATEWAY, NearRelay
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.hosts import (
    AnyHostsEvent,
    AnyNodeOrder,
    CopyShipped,
    FetchLayers,
    LayersStored,
    NodeUsage,
    PrepareRemote,
    RemoteEnded,
    RemotePrepared,
    RemoteRefused,
    RemoteStarted,
    ShipCopy,
    ShippedFolder,
    SignalRemote,
    StartRemote,
)
from swarm.mailbox.protocol.nodes import (
    AgentLeft,
    AgentStarted,
    AnyNodeEvent,
    AnyNodeOp,
    CopiesPrepared,
    EndNode,
    LayerPart,
    LayersSent,
    NodeBeat,
    NodeLeft,
    NodeWarned,
    SendLayers,
    SignalAgent,
    StartAgent,
    StartRefused,
    TreePart,
    decode_node_event,
    encode_node_op,
)

NODE_SILENCE_S = 20.0  # then a node ends itself
SILENCE_S = 30.0  # then it is taken for lost
_ECHO_FRAMES = 2
_BEAT_S = 1.0
_END_LIMIT_S = 15.0
_MOST_CHARS = 4_000  # of a reason that a node tells


def pack_folder(folder: Path) -> Iterator[bytes]:
    """The messages of a folder; none of one that is not there. Raises OSError, TreeRefused."""
    if folder.is_dir():
        yield from TreePacker(str(folder.resolve())).pack()


Tell = Callable[[AnyHostsEvent], Awaitable[None]]


class DrivenNode:
    """One node, from its card to its end.

    Args:
        name: Of the node.
        link: Connected to it; the caller closes it.
        copies: The folder `copies` of the run.
        tell: Sends an event to the supervisor.
        epoch: Of the node's start.
    """

    def __init__(self, name: str, link: Link, copies: str, tell: Tell, *, epoch: int) -> None:
        self.name = name
        self._link, self._copies, self._tell = link, Path(copies).resolve(), tell
        self._ends = NodeLink(link, epoch=epoch)
        self._mailbox = self._ends.mailbox
        self._sent_trees: set[str] = set()
        self._sending = trio.Lock()  # one tree goes at a time
        self._preparing: dict[int, float] = {}  # requests, and when they came
        self._identities: dict[int, bytes] = {}  # by request, until its process has a pid
        self._agents: dict[int, bytes] = {}  # identities by pid
        self._places: dict[str, str] = {}  # by the layer of an agent that went there: its folder
        self._layers: dict[str, TreeUnpacker] = {}
        self._broken_layers: dict[str, str] = {}  # by layer: why it could not be stored
        self._newest_base: dict[int, str] = {}  # by root: the last one that went there
        self._growing: dict[str, TreePacker] = {}
        self.relay: NearRelay | None = None
        self._left = trio.Event()
        self._reason = f"the machine {name} has left"
        self._round_trip_ms = 0.0

    async def run(self, endpoints: dict[bytes, str]) -> str:
        """Serve the node until it leaves or is lost; returns why.

        All its agents are gone then, which `NodeLost` says of all of them at once.
        """
        async with trio.open_nursery() as nursery:
            self.relay = relay = NearRelay(self._link.send, nursery, endpoints)
            self._ends.start(nursery, relay, self._take_echo)
            nursery.start_soon(self._receive)
            nursery.start_soon(self._beat)
            reason = await self._wait_end()
            nursery.cancel_scope.cancel()
        self._agents.clear()
        for unpacker in self._layers.values():
            unpacker.__exit__()
        return reason

    async def _beat(self) -> None:
        """Ask the node every second whether it is there, which tells it that we are.

        A node that could not reach us sends nothing more until it hears that it can.
        """
        while True:
            self._link.send(ECHO, str(time.monotonic_ns()).encode())
            self._ends.announce()
            await trio.sleep(_BEAT_S)

    def _take_echo(self, message: list[bytes]) -> None:
        if len(message) == _ECHO_FRAMES:
            with suppress(ValueError):
                self._round_trip_ms = (time.monotonic_ns() - int(message[1])) / 1e6

    async def _wait_end(self) -> str:
        while not self._left.is_set():
            if time.monotonic() - self._link.last_heard > SILENCE_S:
                return f"the machine {self.name} has said nothing for {SILENCE_S:g} s"
            with trio.move_on_after(_BEAT_S):
                await self._left.wait()
        return self._reason

    def lose(self, reason: str) -> None:
        """What held the node there is gone, and so is the node."""
        self._reason = f"the machine {self.name} is lost: {reason}"
        self._left.set()

    def move_gateway(self, endpoint: str) -> None:
        """The gateway listens there now."""
        if self.relay is not None:
            self.relay.move(GATEWAY, endpoint)

    async def _receive(self) -> None:
        while True:
            message = await self._mailbox.receive()
            try:
                event = decode_node_event(message.body)
            except msgspec.DecodeError:
                event = NodeWarned(message=f"{self.name} sent what cannot be read")
            await self._on_event(event)
            self._mailbox.acknowledge(message)

    async def _on_event(self, event: AnyNodeEvent) -> None:
        match event:
            case AgentStarted(request=request, pid=pid, warm=warm):
                self._agents[pid] = self._identities.pop(request, b"")
                started = RemoteStarted(request=request, node=self.name, pid=pid, warm=warm)
                await self._tell(started)
            case StartRefused():
                await self._on_refused(event)
            case CopiesPrepared():
                await self._on_prepared(event)
            case AgentLeft():
                self._dismiss(self._agents.pop(event.pid, b""))
                await self._tell(
                    RemoteEnded(
                        node=self.name, pid=event.pid, exit_code=event.exit_code,
                        signal=event.signal, stderr_tail=event.stderr_tail, reason=event.reason,
                    )
                )  # fmt: skip
            case LayerPart():
                await self._store_part(event)
            case LayersSent():
                await self._on_layers_sent(event)
            case NodeBeat():
                await self._tell(
                    NodeUsage(
                        node=self.name, load=event.load, free_memory_bytes=event.free_memory_bytes,
                        free_disk_bytes=event.free_disk_bytes,
                        clock_offset_s=round(event.unix_s - time.time(), 3),
                        round_trip_ms=round(self._round_trip_ms, 2),
                    )
                )  # fmt: skip
            case NodeWarned(message=message):
                await self._tell(Warned(message=f"{self.name}: {message}"))
            case NodeLeft():
                self._left.set()

    async def _store_part(self, event: LayerPart) -> None:
        """Of a layer that could not be stored once, nothing more is."""
        if event.tree in self._broken_layers:
            return
        try:
            await trio.to_thread.run_sync(self._write_layer, event)
        except (OSError, TreeRefused) as error:
            self._broken_layers[event.tree] = str(error)

    async def _on_layers_sent(self, event: LayersSent) -> None:
        mine = f"agents/{event.agent_id}/"
        for tree, unpacker in self._layers.items():
            if tree.startswith(mine):
                unpacker.end_round()
        broken = [why for tree, why in self._broken_layers.items() if tree.startswith(mine)]
        problem = event.problem or "; ".join(broken[:1])
        await self._tell(LayersStored(agent_id=event.agent_id, problem=problem[:_MOST_CHARS]))

    async def _on_refused(self, event: StartRefused) -> None:
        self._dismiss(self._identities.pop(event.request, b""))
        await self._tell(
            RemoteRefused(
                request=event.request, reason=f"{self.name}: {event.reason}"[:_MOST_CHARS],
                is_lost=event.is_broken, broken_node=self.name if event.is_broken else "",
            )
        )  # fmt: skip

    async def _on_prepared(self, event: CopiesPrepared) -> None:
        began = self._preparing.pop(event.request, None)
        if began is None:
            return  # nobody asked
        await self._tell(
            RemotePrepared(
                request=event.request, node=self.name, problem=event.problem[:_MOST_CHARS],
                seconds=round(time.monotonic() - began, 1),
            )
        )  # fmt: skip

    def _dismiss(self, identity: bytes) -> None:
        if identity and self.relay is not None:
            self.relay.dismiss(identity)

    # --- orders ---------------------------------------------------------------------------------

    async def carry_out(self, order: AnyNodeOrder) -> None:
        """Send what the supervisor wants done there; the node's answers come as events."""
        match order:
            case ShipCopy():
                await self._ship(order)
            case PrepareRemote(order=inner):
                self._preparing[inner.request] = time.monotonic()
                await self._post(inner)
            case StartRemote():
                await self._start_agent(order)
            case SignalRemote(pid=pid, number=number):
                await self._post(SignalAgent(pid=pid, number=number))
            case FetchLayers(agent_id=agent_id):
                await self._post(SendLayers(agent_id=agent_id))

    async def _ship(self, order: ShipCopy) -> None:
        """Send what the agent's copy consists of, as far as the node lacks it."""
        problem = ""
        try:
            async with self._sending:
                for root in range(order.roots):
                    await self._send_base(order.base, root)
                for folder in (*order.layers, *order.folders):
                    if folder.grows:
                        await self._send_growth(folder, order.base)
                    else:
                        await self._send_tree(folder.tree, Path(folder.path))
                self._places |= {layer.tree: layer.path for layer in order.layers}
        except (OSError, TreeRefused) as error:
            problem = f"its copy cannot be sent to {self.name}: {error}"
        await self._tell(CopyShipped(request=order.request, problem=problem))

    async def _start_agent(self, order: StartRemote) -> None:
        """Order the start of a process; from now on it may send mail."""
        self._identities[order.request] = order.identity
        assert self.relay is not None
        self.relay.admit(order.identity)
        await self._post(
            StartAgent(request=order.request, spec=order.spec, title=order.title, keys=order.keys)
        )

    async def _send_tree(self, tree: str, folder: Path) -> None:
        """A tree is sent once: a base never changes, and a layer only there from then on.

        Raises OSError, TreeRefused.
        """
        if tree in self._sent_trees:
            return
        await self._send_parts(tree, pack_folder(folder))
        self._sent_trees.add(tree)

    async def _send_base(self, base: int, root: int) -> None:
        """What it has more or other than the newest one that was sent: bases share files.

        Raises OSError, TreeRefused.
        """
        tree, earlier = f"bases/{base}/tree-{root}", self._newest_base.get(root, "")
        if tree in self._sent_trees:
            return
        if not earlier:
            await self._send_tree(tree, self._copies / tree)
        else:
            packer = TreePacker(str(self._copies / tree))
            await trio.to_thread.run_sync(packer.follow, str(self._copies / earlier))
            await self._post(TreePart(tree=tree, after=earlier))
            await self._send_parts(tree, packer.pack())
            self._sent_trees.add(tree)
        self._newest_base[root] = tree

    async def _send_growth(self, folder: ShippedFolder, base: int) -> None:
        """What the folder has more than what was sent, once for each base.

        Raises OSError, TreeRefused.
        """
        if (mark := f"{folder.tree} {base}") in self._sent_trees:
            return
        packer = self._growing.setdefault(folder.tree, TreePacker(folder.path, keeps_gone=True))
        with suppress(FileNotFoundError):  # the project has it no longer
            await self._send_parts(folder.tree, packer.pack())
        self._sent_trees.add(mark)

    async def _send_parts(self, tree: str, parts: Iterator[bytes]) -> None:
        while (part := await trio.to_thread.run_sync(next, parts, None)) is not None:
            await self._post(TreePart(tree=tree, part=part))
        await self._post(TreePart(tree=tree, is_last=True))

    def _write_layer(self, event: LayerPart) -> None:
        """Into the run's own folder, which then has what the agent has there."""
        unpacker = self._layers.get(event.tree)
        if unpacker is None:
            if (place := self._places.get(event.tree)) is None:
                raise TreeRefused(f"{self.name} sent a layer of an agent that is not there")
            unpacker = self._layers[event.tree] = TreeUnpacker(str(Path(place).resolve()))
        unpacker.take(event.part)

    async def end(self, grace_s: float) -> None:
        """Have it end everything and leave; at most 15 s."""
        with trio.move_on_after(_END_LIMIT_S):
            await self._post(EndNode(grace_s=grace_s))
            await self._left.wait()

    async def _post(self, op: AnyNodeOp) -> None:
        await self._mailbox.post(encode_node_op(op))
