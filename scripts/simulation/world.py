"""The world of a simulated run: processes are tasks, sockets are in memory, chance is a seed.

What is replaced is what `supervisor.surroundings` and the gateway's `Doors` name, and no more: the
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

import trio

from swarm.mailbox.chances import Chances
from swarm.mailbox.control import ControlCall
from swarm.mailbox.doorway import Accept, Doorway
from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.pair import PairOffice, Passage, open_pair_office
from swarm.mailbox.protocol.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.control import decode_control_reply, encode_control
from swarm.mailbox.protocol.events import Hello, encode_event
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec, GatewaySpec
from swarm.supervisor.spawner.base import Ended, SpawnError, StartLost, signal_name
from swarm.supervisor.surroundings import Surroundings
from swarm.worker.gateway.service import Doors, Process
from swarm.worker.life import live
from swarm.worker.rehearsal import Props
from swarm.worker.tools.belt import team_tools

BEGAN_UNIX_S = 1_800_000_000.0
_MOST_BIRTHS = 16


class World:
    """Everything outside of the code that is tried. One a seed; it outlives its supervisors."""

    def __init__(self, seed: str, nursery: trio.Nursery) -> None:
        self.seed, self.nursery = seed, nursery
        ids, noise, entropy = self.dice("ids"), self.dice("noise"), self.dice("entropy")
        self.chances = Chances(
            new_id=lambda: new_uuid7(unix_ms=int(self.unix_s() * 1000), entropy=ids.randbytes(10)),
            noise=noise.random,
            unix_s=self.unix_s,
            entropy=entropy.randbytes,
            pid=lambda: 1,
            dice=self.dice("names"),
        )
        self.births = self.dice("births")
        self.pids = count(1000)
        self.children: dict[str, list[MemoryChild]] = {}  # path, or `gateway` → its lives
        self.offices: dict[str, _LateOffice] = {}  # of gateways, by endpoint
        self.post: PairOffice | None = None
        self.control = MemoryControl()
        self.bugs: list[str] = []  # what no agent may ever do: raise
        self.frames = Counter[str]()  # path → frames that its lives gave to the wire
        self.on_frame: Callable[[str, int], None] = lambda path, number: None
        self.wire: Callable[[Passage], tuple[float, ...]] = lambda passage: (0.0,)
        self.start_fault: Callable[[str], str] = lambda path: ""  # `lost`, `refused`, `mute`
        self.hands: Callable[[AgentSpec], tuple[object, ...]] = lambda spec: ()
        self.open_house: Callable[..., object] | None = None
        self.muted: set[bytes] = set()
        self.keeps_ended = True
        self._names: dict[bytes, str] = {}  # identity of a living process → path, or `gateway`

    def dice(self, name: str) -> random.Random:
        """Chance for one purpose: what one part draws does not move what another gets."""
        return random.Random(f"{self.seed}:{name}")

    def unix_s(self) -> float:
        return BEGAN_UNIX_S + trio.current_time()

    @property
    def alive(self) -> list["MemoryChild"]:
        """Agents' processes that live, the reviewer's too."""
        lives = (life for path, lives in self.children.items() for life in lives)
        return [life for life in lives if life.is_alive and life.is_agent]

    # --- what a supervisor is given -------------------------------------------------------------

    def surroundings(self) -> Surroundings:
        """For one life of a supervisor."""
        return Surroundings(
            self.open_post, self.open_feed, self.open_control, self.open_home, self.chances
        )

    @asynccontextmanager
    async def open_post(self, _endpoint: str) -> AsyncIterator[PairOffice]:
        async with open_pair_office(faults=self._carry) as self.post:
            yield self.post

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
    async def open_home(self, _ignition: object) -> AsyncIterator["MemoryHome"]:
        async with trio.open_nursery() as nursery:
            home = MemoryHome(self, nursery)
            try:
                yield home
            finally:
                await home.close(grace_s=0.0)
                nursery.cancel_scope.cancel()

    def _carry(self, passage: Passage) -> tuple[float, ...]:
        """Every frame between the supervisor and its children passes here."""
        if passage.peer in self.muted:
            return ()
        name = self.name_of(passage.peer)
        if passage.inward:
            self.frames[name] += 1
            self.on_frame(name, self.frames[name])
            if passage.peer in self.muted:
                return ()
        return self.wire(passage)

    def name_of(self, peer: bytes) -> str:
        """The path of the agent with this identity, or `gateway`."""
        return self._names.get(peer, "")

    def enter(self, name: str, child: "MemoryChild") -> None:
        """A process has come to be."""
        self.children.setdefault(name, []).append(child)
        self._names[child.spec.identity] = name

    def leave(self, name: str, child: "MemoryChild") -> None:
        """It has ended. Of the thousands of a crowd nothing is kept."""
        self._names.pop(child.spec.identity, None)
        if self.keeps_ended:
            return
        self.muted.discard(child.spec.identity)
        self.children.pop(name, None)
        self.frames.pop(name, None)

    def gateway_office(self, endpoint: str) -> "_LateOffice":
        """There as soon as anybody knows its name, as a socket's address is."""
        if endpoint not in self.offices:
            self.offices[endpoint] = office = _LateOffice(self.nursery, self._carry_sample)
            for tend in (office.tend_wire, office.tend_acknowledgements, office.tend_silence):
                self.nursery.start_soon(office.tend, tend)
        return self.offices[endpoint]

    def _carry_sample(self, passage: Passage) -> tuple[float, ...]:
        return () if passage.peer in self.muted else self.wire(passage)


class _LateOffice(PairOffice):
    """A gateway's office; what comes before it is bound waits, what comes after its end is lost."""

    def __init__(self, nursery: trio.Nursery, faults: Callable[..., tuple[float, ...]]) -> None:
        super().__init__(nursery, epoch=1, faults=faults)
        self._early = deque[tuple[bytes, bytes]]()
        self._is_bound = False
        self._tending: list[trio.CancelScope] = []

    def bind(self, epoch: int, accept: Accept) -> None:
        self._epoch, self._is_bound = epoch, True
        self._doorway = Doorway(accept)
        while self._early:
            self.arrive(*self._early.popleft())

    def arrive(self, peer: bytes, frame: bytes) -> None:
        if self._is_bound:
            super().arrive(peer, frame)
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


class MemoryHome:
    """A household whose processes are tasks."""

    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self._world, self._nursery = world, nursery
        self.births = trio.CapacityLimiter(_MOST_BIRTHS)
        self._children: list[MemoryChild] = []

    async def start(
        self, spec: AnySpec, *, title: str, keys: Mapping[str, str] | None = None
    ) -> "MemoryChild":
        name = spec.path if isinstance(spec, AgentSpec) else "gateway"
        await trio.sleep(self._world.births.uniform(0.001, 0.02))
        fault = self._world.start_fault(name)
        if fault == "lost":
            raise StartLost(f"{title}: the fork-server was lost")
        if fault == "refused":
            raise SpawnError(f"{title}: no process could be started")
        child = MemoryChild(self._world, spec, is_mute=fault == "mute")
        self._children.append(child)
        self._world.enter(name, child)
        self._nursery.start_soon(self._live, name, child)
        return child

    async def _live(self, name: str, child: "MemoryChild") -> None:
        await child.live()
        self._children.remove(child)
        self._world.leave(name, child)

    async def first_gateway(self, spec: AnySpec, keys: Mapping[str, str]) -> "MemoryChild":
        return await self.start(spec, title="gateway", keys=keys)

    async def close(self, *, grace_s: float) -> None:
        children = tuple(self._children)
        for child in children:
            child.kill_group()
        with trio.CancelScope(shield=True):
            for child in children:
                await child.wait_ended()


class MemoryChild:
    """A process that is a task: a real agent, or the real gateway."""

    pidfd, warm, said = -1, True, ""

    def __init__(self, world: World, spec: AnySpec, *, is_mute: bool) -> None:
        self._world, self.spec, self._is_mute = world, spec, is_mute
        self.pid = next(world.pids)
        self._scope = trio.CancelScope()
        self._ended, self._end = trio.Event(), Ended(exit_code=0, reason="left with exit code 0")
        self._mailbox = None

    @property
    def is_agent(self) -> bool:
        return isinstance(self.spec, AgentSpec)

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    async def wait_ended(self) -> Ended:
        await self._ended.wait()
        return self._end

    def signal_group(self, number: int) -> None:
        if self.is_alive and not self._scope.cancel_called:
            self._end = Ended(signal=number, reason=f"killed by {signal_name(number)}")
            self._world.muted.add(self.spec.identity)
            self._scope.cancel()

    def kill_group(self) -> None:
        self.signal_group(signal.SIGKILL)

    def fall_silent(self) -> None:
        """As by SIGSTOP: it lives, and nothing comes from it or reaches it."""
        self._world.muted.add(self.spec.identity)

    async def say_hello_again(self) -> None:
        """What no honest agent does."""
        if self._mailbox is not None and isinstance(self.spec, AgentSpec):
            hello = Hello(secret=self.spec.secret, pid=self.pid, protocol_version=PROTOCOL_VERSION)
            await self._mailbox.post(encode_event(hello))

    async def live(self) -> None:
        post = self._world.post
        try:
            with self._scope:
                if self._is_mute:
                    await trio.sleep_forever()
                self._mailbox = post.connect(self.spec.identity, epoch=self.spec.epoch)
                if isinstance(self.spec, GatewaySpec):
                    await self._be_gateway(self.spec)
                else:
                    await self._be_agent(self.spec)
        except Exception:
            self._world.bugs.append(traceback.format_exc())
            self._end = Ended(exit_code=1, reason="left with exit code 1")
        finally:
            if self._mailbox is not None:
                post.sever(self.spec.identity)
            self._world.muted.add(self.spec.identity)
            self._ended.set()

    async def _be_agent(self, spec: AgentSpec) -> None:
        hands = Props(self._world.hands(spec), partial(team_tools, None))
        chances = self._world.chances._replace(pid=lambda: self.pid)
        await live(spec, self._mailbox, partial(self._dial, spec), hands, chances)

    @asynccontextmanager
    async def _dial(self, spec: AgentSpec, endpoint: str) -> AsyncIterator[object]:
        office = self._world.gateway_office(endpoint)
        mailbox = office.connect(spec.identity, epoch=spec.epoch)
        try:
            yield mailbox
        finally:
            office.sever(spec.identity)

    async def _be_gateway(self, spec: GatewaySpec) -> None:
        office = self._world.gateway_office(spec.bind)

        @asynccontextmanager
        async def open_office(spec: GatewaySpec, accept: Accept) -> AsyncIterator[PairOffice]:
            office.bind(spec.epoch, accept)
            yield office

        doors = Doors(
            open_house=self._world.open_house,
            open_office=open_office,
            chances=self._world.chances._replace(pid=lambda: self.pid),
        )
        try:
            await Process(spec, {}, self._mailbox, doors).run()
        finally:
            office.shut()


class MemoryControl:
    """The control socket, and the one who calls."""

    malformed = 0

    def __init__(self) -> None:
        self._calls = deque[ControlCall]()
        self._arrival = trio.lowlevel.ParkingLot()
        self.is_open = False

    async def receive(self) -> ControlCall:
        while not self._calls:
            await self._arrival.park()
        return self._calls.popleft()

    def reply(self, call: ControlCall, body: bytes) -> None:
        call.caller.reply = decode_control_reply(body)
        call.caller.came.set()

    def close(self) -> None:
        self.is_open = False
        for call in self._calls:
            call.caller.came.set()
        self._calls.clear()

    async def ask(self, wish: object) -> object | None:
        """A person's wish from another terminal; None: nobody answered within a minute."""
        if not self.is_open:
            return None
        caller = SimpleNamespace(reply=None, came=trio.Event())
        # the person sits at this very terminal
        self._calls.append(ControlCall(os.getpid(), encode_control(wish), caller))
        self._arrival.unpark()
        with trio.move_on_after(60):
            await caller.came.wait()
        return caller.reply
