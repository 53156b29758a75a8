"""A node's process: starts, watches and ends agents of one run on this machine.

It is to its agents what the supervisor is at home, and nothing more: a fork-server, a lifeline, two
doors of the relay. It decides nothing. It ends, with all that it started, when its standard input
closes (whoever started it is gone), when its driver is silent for too long, and when it is told to.

Start: `python -P -m swarm.supervisor.parts.node.node_process`, with a `NodeOrder` on standard
input.
"""

import os
import shutil
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import trio
from setproctitle import setproctitle

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.tree_pack import TreeRefused
from swarm.mailbox.delivery.curve_link import Link, listen_link, new_link_keys
from swarm.mailbox.delivery.dealer import SinglePeerMailbox
from swarm.mailbox.delivery.node_link import NodeLink
from swarm.mailbox.delivery.relay import GATEWAY, SUPERVISOR, FarRelay
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
    NodeCard,
    NodeLeft,
    NodeOrder,
    NodeWarned,
    PrepareCopies,
    SendLayers,
    SignalAgent,
    StartAgent,
    StartRefused,
    TreePart,
    decode_node_op,
    decode_node_order,
    encode_node_event,
    encode_node_value,
)
from swarm.mailbox.protocol.spec import AgentSpec, FolderIdentity, HubSpec, decode_spec

from ...base.version import VERSION
from ...processes.early_start import EarlyProcesses, start_early
from ...processes.machine_sandbox import SandboxProbeFailed, probe_sandbox
from ...processes.machine_state import read_machine_state
from ...processes.process_manager import ProcessManager, open_process_manager
from ...processes.process_types import Child
from ...processes.shell_snapshot import ShellSnapshot
from ...runs.paths import UserPaths, find_user_paths
from ...runs.short_tmp import open_short_tmp
from ..copies.prepare_commands import PrepareFailed
from .node_paths import NodePaths, hub_spec_for_node, identities, spec_for_node
from .node_prepare import prepare_copies
from .node_trees import NodeTrees, TreeBroken
from .tree_copy import in_folder

_BEAT_S, _SYNC_S = 2.0, 15.0
_MAX_ORDER_BYTES = 64 * 1024
_LAST_WORDS_S = 5.0
_END_GRACE_S = 5.0
_STDERR_CHARS = 8_000
_TOOLS = ("git", "rg", "make", "gcc", "node", "npm", "uv", "cargo", "go", "docker")


class NodeService:
    """Carries out what the driver asks for."""

    def __init__(
        self,
        paths: NodePaths,
        processes: ProcessManager,
        mailbox: SinglePeerMailbox,
        nursery: trio.Nursery,
        *,
        shell: ShellSnapshot,
        hidden: tuple[FolderIdentity, ...],
    ) -> None:
        self._paths, self._processes = paths, processes
        self._shell, self._mailbox, self._nursery = shell, mailbox, nursery
        self._trees = NodeTrees(paths)
        self._tree_lock = trio.Lock()  # one tree comes or goes at a time
        self._children: dict[int, Child] = {}
        self._agents: dict[int, str] = {}  # pid → agent id
        self._one_left = trio.Event()  # renewed for each
        self._hidden = hidden
        self.ended = trio.Event()

    async def run(self) -> None:
        """Serve until `EndNode`."""
        self._nursery.start_soon(self._beat)
        self._nursery.start_soon(self._sync)
        while not self.ended.is_set():
            message = await self._mailbox.receive()
            try:
                op = decode_node_op(message.body)
            except msgspec.DecodeError as error:
                await self._post(NodeWarned(message=f"an order could not be read: {error}"))
            else:
                await self._serve(op)
            self._mailbox.acknowledge(message)

    async def _serve(self, op: AnyNodeOp) -> None:
        match op:
            case StartAgent():
                self._nursery.start_soon(self._start, op)
            case SignalAgent(pid=pid, number=number):
                if (child := self._children.get(pid)) is not None:
                    child.signal_group(number) if number else child.kill_group()
            case TreePart():
                await self._take_tree(op)
            case PrepareCopies():
                self._nursery.start_soon(self._prepare_copies, op)
            case SendLayers(agent_id=agent_id):
                self._nursery.start_soon(self._send_layers, agent_id)
            case EndNode(grace_s=grace_s):
                await self._end(grace_s)

    async def _take_tree(self, op: TreePart) -> None:
        take = partial(self._trees.take, op.tree, op.part, is_last=op.is_last, after=op.after)
        try:
            async with self._tree_lock:
                await trio.to_thread.run_sync(take)
        except (OSError, ValueError, TreeRefused) as error:
            await self._post(NodeWarned(message=f"{op.tree} could not be written: {error}"))

    async def _start(self, op: StartAgent) -> None:
        try:
            spec = await self._spec_from(op)
            child = await self._processes.start(spec, title=op.title, keys=op.keys or None)
        except (SwarmError, OSError, ValueError, msgspec.DecodeError) as error:
            is_broken = isinstance(error, TreeBroken)
            await self._post(
                StartRefused(request=op.request, reason=str(error), is_broken=is_broken)
            )
            return
        self._children[child.pid] = child
        if isinstance(spec, AgentSpec):
            self._agents[child.pid] = spec.agent_id
        await self._post(AgentStarted(request=op.request, pid=child.pid, warm=child.warm))
        end = await child.wait_ended()
        if isinstance(spec, AgentSpec):
            await self._send_layers(spec.agent_id)
            del self._agents[child.pid]
        await self._post(
            AgentLeft(
                pid=child.pid,
                exit_code=end.exit_code,
                signal=end.signal,
                stderr_tail=end.stderr_tail[-_STDERR_CHARS:],
                reason=end.reason,
            )
        )
        del self._children[child.pid]
        left, self._one_left = self._one_left, trio.Event()
        left.set()

    async def _spec_from(self, op: StartAgent) -> AgentSpec | HubSpec:
        """The spec with this machine's paths; an agent's copy is there then.

        Raises SwarmError, OSError, ValueError, msgspec.DecodeError.
        """
        given, shell = decode_spec(op.spec), await self._shell.get()
        if isinstance(given, HubSpec):
            return hub_spec_for_node(given, self._paths, shell, self._hidden)
        if not isinstance(given, AgentSpec):
            raise ValueError("a node starts agents, and hubs of MCP servers")
        layered = spec_for_node(given, self._paths, shell, self._hidden)
        spec = layered if self._paths.has_overlays else in_folder(layered, self._paths)
        await trio.to_thread.run_sync(self._make_copy, layered)
        return spec

    async def _prepare_copies(self, op: PrepareCopies) -> None:
        problem = ""
        try:
            await prepare_copies(self._paths, op, await self._shell.get(), self._hidden)
        except (PrepareFailed, SwarmError, OSError, ValueError) as error:
            problem = str(error)
        await self._post(CopiesPrepared(request=op.request, problem=problem))

    def _make_copy(self, spec: AgentSpec) -> None:
        for folder in filter(None, (spec.tmp_dir, spec.short_tmp_dir)):
            Path(folder).mkdir(mode=0o700, exist_ok=True)
        self._trees.make_copy(spec)

    async def _send_layers(self, agent_id: str) -> None:
        """Send what changed; then say that it is whole."""
        problem = ""
        async with self._tree_lock:
            packing = self._trees.pack(agent_id)
            try:
                while (found := await trio.to_thread.run_sync(next, packing, None)) is not None:
                    tree, part = found
                    await self._post(LayerPart(tree=tree, part=part))
            except (OSError, TreeRefused) as error:
                problem = str(error)
        await self._post(LayersSent(agent_id=agent_id, problem=problem))

    async def _sync(self) -> None:
        """Send all layers now and then, so that little is lost if this machine is."""
        while True:
            await trio.sleep(_SYNC_S)
            for agent_id in tuple(self._agents.values()):
                await self._send_layers(agent_id)

    async def _end(self, grace_s: float) -> None:
        await self._processes.close(grace_s=grace_s)
        with trio.move_on_after(_LAST_WORDS_S):
            while self._children:
                await self._one_left.wait()
            await self._post(NodeLeft())
            await self._mailbox.flush()
        self.ended.set()

    async def _beat(self) -> None:
        while True:
            self._mailbox.send_transient(encode_node_event(self._measure()))
            await trio.sleep(_BEAT_S)

    def _measure(self) -> NodeBeat:
        machine = read_machine_state()
        return NodeBeat(
            load=machine.load or 0.0,
            free_memory_bytes=_whole_memory()
            if (left := machine.available_bytes) is None
            else left,
            free_disk_bytes=shutil.disk_usage(self._paths.folder).free,
            unix_s=time.time(),
            agents=len(self._agents),
        )

    async def _post(self, event: AnyNodeEvent) -> None:
        await self._mailbox.post(encode_node_event(event))


async def serve_node(
    order: NodeOrder, places: UserPaths, paths: NodePaths, early: EarlyProcesses
) -> None:
    """Serve one run on this machine until it is over. Writes the card to standard output."""
    paths.make()  # its lock is held until this process ends
    await trio.to_thread.run_sync(paths.sweep)
    keys = new_link_keys()
    async with AsyncExitStack() as stack:
        short_tmp = stack.enter_context(open_short_tmp(places.state, short_id(paths.sockets.name)))
        await trio.to_thread.run_sync(short_tmp.remove_stale)
        paths = msgspec.structs.replace(paths, short_tmp=short_tmp)
        processes = await stack.enter_async_context(
            open_process_manager(early, grace_s=_END_GRACE_S)
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        link, port = await stack.enter_async_context(
            listen_link(order.address, keys, order.driver_key)
        )
        relay, ends = FarRelay(link.send), NodeLink(link, epoch=order.epoch)
        for door, endpoint in (
            (SUPERVISOR, paths.supervisor_door), (GATEWAY, paths.gateway_door),
        ):  # fmt: skip
            await stack.enter_async_context(relay.open_door(door, endpoint))
        card = await trio.to_thread.run_sync(partial(_make_card, port, keys.public, paths))
        if card.copies:
            paths = paths.without_overlays()
        _say(card)
        ends.start(nursery, relay, partial(_answer_echo, link))
        shell = _login_shell(dict(os.environ))
        nursery.start_soon(shell.get)  # the first agent may wait for it, its base does not
        service = NodeService(
            paths, processes, ends.mailbox, nursery, shell=shell, hidden=identities(paths, places)
        )
        nursery.start_soon(_watch_silence, link, order.silence_s, service.ended)
        nursery.start_soon(service.run)
        await service.ended.wait()
        nursery.cancel_scope.cancel()


def _answer_echo(link: Link, message: list[bytes]) -> None:
    """Without what is behind its first part: a probe measures the way here with that."""
    link.send(*message[:2])


async def _watch_silence(link: Link, limit_s: float, ended: trio.Event) -> None:
    """The driver sends something every second; a machine that hears nothing is on its own."""
    while (left_s := link.last_heard + limit_s - time.monotonic()) > 0:  # noqa: ASYNC110 - grows
        await trio.sleep(left_s)
    ended.set()


async def _watch_input(ended: trio.Event) -> None:
    stream = trio.lowlevel.FdStream(os.dup(0))
    with suppress(OSError):
        while await stream.receive_some(4096):
            pass
    ended.set()


def _login_shell(environment: dict[str, str]) -> ShellSnapshot:
    """Its environment, without keys and what is Ray's."""
    withheld = {name for name in environment if name.endswith(("_API_KEY", "_TOKEN", "_SECRET"))}
    withheld |= {name for name in environment if name.startswith("RAY_")}
    return ShellSnapshot(environment, withheld=withheld)


def _make_card(port: int, public_key: bytes, paths: NodePaths) -> NodeCard:
    system = os.uname()
    try:
        report = probe_sandbox(paths.folder)
        sandbox, copies = report.stack, report.copies or ""
    except SandboxProbeFailed as error:
        sandbox, copies = "none", str(error)
    return NodeCard(
        port=port,
        public_key=public_key,
        pid=os.getpid(),
        version=VERSION,
        python=".".join(map(str, sys.version_info[:3])),
        system=f"{system.sysname} {system.release} {system.machine}",
        sandbox=sandbox,
        copies=copies,
        processors=float(len(os.sched_getaffinity(0))),
        memory_bytes=_whole_memory(),
        free_disk_bytes=shutil.disk_usage(paths.folder).free,
        tools=tuple(name for name in _TOOLS if shutil.which(name)),
        unix_s=time.time(),
    )


def _whole_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def _say(card: NodeCard) -> None:
    sys.stdout.write(b64encode(encode_node_value(card)).decode() + "\n")
    sys.stdout.flush()


def main() -> NoReturn:
    """Run one node."""
    line = sys.stdin.buffer.readline(_MAX_ORDER_BYTES)
    order = decode_node_order(b64decode(line))
    setproctitle(f"swarm: node {short_id(order.run_id)}")
    places = find_user_paths(dict(os.environ))
    paths = NodePaths.of(places, order.run_id, order.name, epoch=order.epoch)
    os.umask(order.umask)  # what is started makes files for the person, here as there
    early = start_early()
    try:
        trio.run(_run_with_input, partial(serve_node, order, places, paths, early))
    except SwarmError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    finally:
        early.close()
        paths.remove()
    sys.exit(0)


async def _run_with_input(serve: Callable[[], Awaitable[None]]) -> None:
    """Serve until that is over, or until standard input closes."""
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_input, gone)

        async def stop() -> None:
            await gone.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(stop)
        await serve()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    main()
