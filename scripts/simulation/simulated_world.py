"""The world of a simulated run: processes are tasks, sockets are in memory, chance is a seed.

What is replaced is what `supervisor.dependencies` and the gateway's `GatewayFactories` name, and no
more: the
supervisor, the agents, the gateway and the journal are the real ones. A process ends as a real one
does: nothing comes from it any more at once, and whoever waits for it learns it a moment later.
"""

import os
import random
import signal
import traceback
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import trio

from swarm.mailbox.base.entropy import EntropySources
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.delivery.control_channel import ControlRequest
from swarm.mailbox.delivery.pair import FrameInTransit, PairServer, open_pair_server
from swarm.mailbox.delivery.router import Accept, Admission
from swarm.mailbox.protocol.control import decode_control_reply, encode_control
from swarm.mailbox.protocol.events import Hello, encode_event
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec, GatewaySpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION
from swarm.supervisor.processes.process_types import (
    ProcessEnd,
    SpawnError,
    StartInterrupted,
    signal_name,
)
from swarm.supervisor.run_start.dependencies import RunDependencies
from swarm.worker.agent.agent_lifecycle import run_agent_lifecycle
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.gateway.gateway_process import GatewayFactories, GatewayProcess
from swarm.worker.testing.agent_harness import FakeToolHost
from swarm.worker.tools.toolset import team_tools

BEGAN_UNIX_S = 1_800_000_000.0
_MOST_STARTS = 16


class SimulatedWorld:
    """Everything outside of the code that is tried. One a seed; it outlives its supervisors."""

    def __init__(self, seed: str, nursery: trio.Nursery) -> None:
        self.seed, self.nursery = seed, nursery
        ids, noise, entropy = self.rng_for("ids"), self.rng_for("noise"), self.rng_for("entropy")
        self.entropy = EntropySources(
            new_id=lambda: new_uuid7(unix_ms=int(self.unix_s() * 1000), entropy=ids.randbytes(10)),
            noise=noise.random,
            unix_s=self.unix_s,
            random_bytes=entropy.randbytes,
            pid=lambda: 1,
            rng=self.rng_for("names"),
        )
        self.start_delays = self.rng_for("births")
        self.pids = count(1000)
        self.children: dict[str, list[MemoryChild]] = {}  # path, or `gateway` → its lives
        self.gateway_servers: dict[str, _LateGatewayServer] = {}  # of gateways, by endpoint
        self.mailbox: PairServer | None = None
        self.control = MemoryControl()
        self.agent_errors: list[str] = []  # what no agent may ever do: raise
        self.frames = Counter[str]()  # path → frames that its lives gave to the wire
        self.on_frame: Callable[[str, int], None] = lambda path, number: None
        self.network_faults: Callable[[FrameInTransit], tuple[float, ...]] = lambda passage: (0.0,)
        self.start_fault: Callable[[str], str] = lambda path: ""  # `lost`, `refused`, `mute`
        self.make_tools: Callable[[AgentSpec], tuple[object, ...]] = lambda spec: ()
        self.open_gateway_app: Callable[..., object] | None = None
        self.muted: set[bytes] = set()
        self.keeps_ended = True
        self._names: dict[bytes, str] = {}  # identity of a living process → path, or `gateway`

    def rng_for(self, name: str) -> random.Random:
        """Chance for one purpose: what one part draws does not move what another gets."""
        return random.Random(f"{self.seed}:{name}")

    def unix_s(self) -> float:
        return BEGAN_UNIX_S + trio.current_time()

    @property
    def alive(self) -> list["MemoryChild"]:
        """Agents' processes that live, the reviewer's too."""
        lives = (life for lives in self.children.values() for life in lives)
        return [life for life in lives if life.is_alive and life.is_agent]

    # --- what a supervisor is given -------------------------------------------------------------

    def dependencies(self) -> RunDependencies:
        """For one life of a supervisor."""
        return RunDependencies(
            self.open_mailbox,
            self.open_feed,
            self.open_control,
            self.open_processes,
            self.entropy,
        )

    @asynccontextmanager
    async def open_mailbox(self, _endpoint: str) -> AsyncIterator[PairServer]:
        async with open_pair_server(faults=self._carry) as self.mailbox:
            yield self.mailbox

    @asynccontextmanager
    async def open_feed(self, _endpoint: str) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(watchers=0, publish=lambda body: None)

    @asynccontextmanager
    async def open_control(self, _endpoint: str) -> AsyncIterator["MemoryControl"]:
        self.control.is_open = True
        try:
            yield self.control
        finally:
            self.control.close()

    @asynccontextmanager
    async def open_processes(self, _early: object) -> AsyncIterator["MemoryProcessManager"]:
        async with trio.open_nursery() as nursery:
            home = MemoryProcessManager(self, nursery)
            try:
                yield home
            finally:
                await home.close(grace_s=0.0)
                nursery.cancel_scope.cancel()

    def _carry(self, passage: FrameInTransit) -> tuple[float, ...]:
        """Every frame between the supervisor and its children passes here."""
        if passage.peer in self.muted:
            return ()
        name = self.name_of(passage.peer)
        if passage.to_server:
            self.frames[name] += 1
            self.on_frame(name, self.frames[name])
            if passage.peer in self.muted:
                return ()
        return self.network_faults(passage)

    def name_of(self, peer: bytes) -> str:
        """The path of the agent with this identity, or `gateway`."""
        return self._names.get(peer, "")

    def add_child(self, name: str, child: "MemoryChild") -> None:
        """A process has come to be."""
        self.children.setdefault(name, []).append(child)
        self._names[child.spec.identity] = name

    def remove_child(self, name: str, child: "MemoryChild") -> None:
        """It has ended. Of the thousands of a crowd nothing is kept."""
        self._names.pop(child.spec.identity, None)
        if self.keeps_ended:
            return
        self.muted.discard(child.spec.identity)
        self.children.pop(name, None)
        self.frames.pop(name, None)

    def gateway_server(self, endpoint: str) -> "_LateGatewayServer":
        """There as soon as anybody knows its name, as a socket's address is."""
        if endpoint not in self.gateway_servers:
            self.gateway_servers[endpoint] = server = _LateGatewayServer(
                self.nursery, self._carry_sample
            )
            for tend in (server.run_wire, server.run_acks, server.run_probes):
                self.nursery.start_soon(server.tend, tend)
        return self.gateway_servers[endpoint]

    def _carry_sample(self, passage: FrameInTransit) -> tuple[float, ...]:
        return () if passage.peer in self.muted else self.network_faults(passage)


class _LateGatewayServer(PairServer):
    """A gateway's server; what comes before it is bound waits, what comes after its end is lost."""

    def __init__(self, nursery: trio.Nursery, faults: Callable[..., tuple[float, ...]]) -> None:
        super().__init__(nursery, epoch=1, faults=faults)
        self._early = deque[tuple[bytes, bytes]]()
        self._is_bound = False
        self._tending: list[trio.CancelScope] = []

    def bind(self, epoch: int, accept: Accept) -> None:
        self._epoch, self._is_bound = epoch, True
        self._admission = Admission(accept)
        while self._early:
            self.receive_frame(*self._early.popleft())

    def receive_frame(self, peer: bytes, frame: bytes) -> None:
        if self._is_bound:
            super().receive_frame(peer, frame)
        else:
            self._early.append((peer, frame))

    async def tend(self, work: Callable[[], object]) -> None:
        with trio.CancelScope() as scope:
            self._tending.append(scope)
            await work()

    def shut(self) -> None:
        """Its process has ended."""
        for scope in self._tending:
            scope.cancel()


class MemoryProcessManager:
    """A process manager whose processes are tasks."""

    def __init__(self, world: SimulatedWorld, nursery: trio.Nursery) -> None:
        self._world, self._nursery = world, nursery
        self.start_limiter = trio.CapacityLimiter(_MOST_STARTS)
        self._children: list[MemoryChild] = []

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> "MemoryChild":
        name = spec.path if isinstance(spec, AgentSpec) else "gateway"
        await trio.sleep(self._world.start_delays.uniform(0.001, 0.02))
        fault = self._world.start_fault(name)
        if fault == "lost":
            raise StartInterrupted(f"{title}: the fork-server was lost")
        if fault == "refused":
            raise SpawnError(f"{title}: no process could be started")
        child = MemoryChild(self._world, spec, is_mute=fault == "mute")
        self._children.append(child)
        self._world.add_child(name, child)
        self._nursery.start_soon(self._live, name, child)
        return child

    async def _live(self, name: str, child: "MemoryChild") -> None:
        await child.live()
        self._children.remove(child)
        self._world.remove_child(name, child)

    async def close(self, *, grace_s: float) -> None:
        children = tuple(self._children)
        for child in children:
            child.kill_group()
        with trio.CancelScope(shield=True):
            for child in children:
                await child.wait_ended()


class MemoryChild:
    """A process that is a task: a real agent, or the real gateway."""

    warm = True

    def __init__(self, world: SimulatedWorld, spec: AnySpec, *, is_mute: bool) -> None:
        self._world, self.spec, self._is_mute = world, spec, is_mute
        self.pid = next(world.pids)
        self._scope = trio.CancelScope()
        self._ended, self._end = (
            trio.Event(),
            ProcessEnd(exit_code=0, reason="left with exit code 0"),
        )
        self._mailbox = None

    @property
    def is_agent(self) -> bool:
        return isinstance(self.spec, AgentSpec)

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    async def wait_ended(self) -> ProcessEnd:
        await self._ended.wait()
        return self._end

    def signal_group(self, number: int) -> None:
        if self.is_alive and not self._scope.cancel_called:
            self._end = ProcessEnd(signal=number, reason=f"killed by {signal_name(number)}")
            self._world.muted.add(self.spec.identity)
            self._scope.cancel()

    def kill_group(self) -> None:
        self.signal_group(signal.SIGKILL)

    def silence(self) -> None:
        """As by SIGSTOP: it lives, and nothing comes from it or reaches it."""
        self._world.muted.add(self.spec.identity)

    async def say_hello_again(self) -> None:
        """What no honest agent does."""
        if self._mailbox is not None and isinstance(self.spec, AgentSpec):
            hello = Hello(secret=self.spec.secret, pid=self.pid, protocol_version=PROTOCOL_VERSION)
            await self._mailbox.post(encode_event(hello))

    async def live(self) -> None:
        post = self._world.mailbox
        try:
            with self._scope:
                if self._is_mute:
                    await trio.sleep_forever()
                self._mailbox = post.connect(self.spec.identity, epoch=self.spec.epoch)
                if isinstance(self.spec, GatewaySpec):
                    await self._run_gateway(self.spec)
                else:
                    await self._run_agent(self.spec)
        except Exception:
            self._world.agent_errors.append(traceback.format_exc())
            self._end = ProcessEnd(exit_code=1, reason="left with exit code 1")
        finally:
            if self._mailbox is not None:
                post.disconnect_child(self.spec.identity)
            self._world.muted.add(self.spec.identity)
            self._ended.set()

    async def _run_agent(self, spec: AgentSpec) -> None:
        hands = FakeToolHost(self._world.make_tools(spec), partial(team_tools, None))
        entropy = self._world.entropy._replace(pid=lambda: self.pid)
        await run_agent_lifecycle(
            CurrentSpec(spec),
            self._mailbox,
            partial(self._open_gateway_mailbox, spec),
            hands,
            entropy,
        )

    @asynccontextmanager
    async def _open_gateway_mailbox(self, spec: AgentSpec, endpoint: str) -> AsyncIterator[object]:
        server = self._world.gateway_server(endpoint)
        mailbox = server.connect(spec.identity, epoch=spec.epoch)
        try:
            yield mailbox
        finally:
            server.disconnect_child(spec.identity)

    async def _run_gateway(self, spec: GatewaySpec) -> None:
        server = self._world.gateway_server(spec.bind)

        @asynccontextmanager
        async def open_server(spec: GatewaySpec, accept: Accept) -> AsyncIterator[PairServer]:
            server.bind(spec.epoch, accept)
            yield server

        doors = GatewayFactories(
            open_app=self._world.open_gateway_app,
            open_server=open_server,
            entropy=self._world.entropy._replace(pid=lambda: self.pid),
        )
        try:
            await GatewayProcess(spec, {}, self._mailbox, doors).run()
        finally:
            server.shut()


class MemoryControl:
    """The control socket, and the one who calls."""

    malformed = 0

    def __init__(self) -> None:
        self._calls = deque[ControlRequest]()
        self._arrival = trio.lowlevel.ParkingLot()
        self.is_open = False

    async def receive(self) -> ControlRequest:
        while not self._calls:
            await self._arrival.park()
        return self._calls.popleft()

    def reply(self, call: ControlRequest, body: bytes) -> None:
        sender: Any = call.sender  # the person's, who waits for both
        sender.reply = decode_control_reply(body)
        sender.answered.set()

    def close(self) -> None:
        self.is_open = False
        for call in self._calls:
            sender: Any = call.sender
            sender.answered.set()
        self._calls.clear()

    async def ask(self, request: object) -> object | None:
        """A person's request from another terminal; None: nobody answered within a minute."""
        if not self.is_open:
            return None
        caller = SimpleNamespace(reply=None, answered=trio.Event())
        # the person sits at this very terminal
        self._calls.append(ControlRequest(os.getpid(), encode_control(request), caller))
        self._arrival.unpark()
        with trio.move_on_after(60):
            await caller.answered.wait()
        return caller.reply
