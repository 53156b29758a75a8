"""Nodes as the supervisor knows them: slots, resources, health, and the processes on them."""

from collections.abc import Callable
from typing import Protocol

import trio

from swarm.mailbox.protocol.hosts import (
    AnyHostsOp,
    NodeFacts,
    NodeUsage,
    RemoteStarted,
    SignalRemote,
)
from swarm.mailbox.protocol.spec import AgentSpec

from ....processes.machine_facts import MachineState
from ....processes.process_types import Child, ProcessEnd

_HEALTHY_FREE_BYTES = 256 << 20  # of memory and of disk
_SLOW_ROUND_TRIP_MS = 2_000.0
_HEARD_S = 6.0  # a node tells how it does every two seconds
_SICK_BEATS = 4  # in a row, two seconds apart


class NodeOrders(Protocol):
    """Starts processes on nodes and carries signals to them."""

    def order(self, op: AnyHostsOp) -> None: ...

    async def start_on(self, node: "Node", spec: AgentSpec, title: str) -> "RemoteChild": ...


class RemoteChild:
    """Implements `Child` for a process on a node."""

    def __init__(self, orders: NodeOrders, node: str, started: RemoteStarted) -> None:
        self._orders, self._node, self._pid = orders, node, started.pid
        self._warm = started.warm
        self._end: ProcessEnd | None = None
        self._ended = trio.Event()
        self._at_end: Callable[[], None] | None = None

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def warm(self) -> bool:
        return self._warm

    async def wait_ended(self) -> ProcessEnd:
        await self._ended.wait()
        assert self._end is not None
        return self._end

    def signal_group(self, number: int) -> None:
        if self._end is None:
            self._orders.order(SignalRemote(node=self._node, pid=self._pid, number=number))

    def kill_group(self) -> None:
        self.signal_group(0)

    def end(self, end: ProcessEnd) -> None:
        """It has ended, or its node is lost and has ended it."""
        if self._end is None:
            self._end = end
            self._ended.set()
            if self._at_end is not None:
                self._at_end()

    def call_at_end(self, action: Callable[[], None]) -> None:
        """Call it once the process has ended, also if it has already."""
        self._at_end = action
        if self._end is not None:
            action()


class Node:
    """One node. Nothing here waits."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.usage: NodeUsage | None = None
        self.taken = 0  # slots
        self.children: dict[int, RemoteChild] = {}
        self.why_drained = ""  # "": new agents may be started
        self.is_prepared = False  # the table's `prepare` has run there
        self.preparing = trio.Lock()
        self._heard_at = trio.current_time()
        self._taken: dict[str, float] = {}  # resources
        self._sick_beats = 0

    def fits(self, wanted: dict[str, float]) -> bool:
        """True if an agent that takes so much may be started there now."""
        return (
            not self.why_drained
            and self.is_heard
            and self.taken < self.facts.slots
            and all(self._free(name) >= amount for name, amount in wanted.items())
        )

    @property
    def is_heard(self) -> bool:
        """False while it says nothing: nothing new is begun there."""
        return trio.current_time() - self._heard_at < _HEARD_S

    def could_fit(self, wanted: dict[str, float]) -> bool:
        """True if this would fit while no agent is there."""
        has = self.facts.resources
        return all(has.get(name, 0.0) >= amount for name, amount in wanted.items())

    def _free(self, name: str) -> float:
        return self.facts.resources.get(name, 0.0) - self._taken.get(name, 0.0)

    @property
    def share(self) -> float:
        """How full its slots are; the emptiest one is taken."""
        return self.taken / max(1, self.facts.slots)

    @property
    def free_memory_bytes(self) -> int:
        """As it said last; of those that are equally full, the one with the most is taken."""
        return 0 if self.usage is None else self.usage.free_memory_bytes

    def take(self, wanted: dict[str, float]) -> None:
        """One more agent is there."""
        self.taken += 1
        for name, amount in wanted.items():
            self._taken[name] = self._taken.get(name, 0.0) + amount

    def give_back(self, wanted: dict[str, float]) -> None:
        """It is there no longer."""
        self.taken -= 1
        for name, amount in wanted.items():
            self._taken[name] -= amount

    def note_usage(self, usage: NodeUsage) -> str:
        """Take in how it does. Returns why no agents are started there from now on; else ""."""
        self.usage, self._heard_at = usage, trio.current_time()
        why = _find_trouble(usage)
        self._sick_beats = self._sick_beats + 1 if why else 0
        return why if self._sick_beats >= _SICK_BEATS and self.drain(why) else ""

    def note_prepared(self) -> None:
        self.is_prepared = True

    def drain(self, why: str) -> bool:
        """No agents are started there from now on. False: so it was already."""
        if self.why_drained:
            return False
        self.why_drained = why
        return True

    @property
    def machine(self) -> MachineState:
        """What is left of it, for heavy commands."""
        usage = self.usage
        return MachineState(
            processors=max(1, int(self.facts.card.processors)),
            available_bytes=None if usage is None else usage.free_memory_bytes,
            cpu_pressure=None,
            memory_pressure=None,
            io_pressure=None,
            load=None if usage is None else usage.load,
        )


def _find_trouble(usage: NodeUsage) -> str:
    for what, free in (("memory", usage.free_memory_bytes), ("disk", usage.free_disk_bytes)):
        if free < _HEALTHY_FREE_BYTES:
            return f"only {free >> 20} MiB of {what} are left there"
    if usage.round_trip_ms > _SLOW_ROUND_TRIP_MS:
        return f"it answers only after {usage.round_trip_ms / 1000:.1f} s"
    return ""


class NodePlace:
    """A slot on a node, for one process: starts it there."""

    def __init__(self, orders: NodeOrders, node: Node) -> None:
        self._orders, self._node = orders, node
        self.child: RemoteChild | None = None

    @property
    def node(self) -> str:
        return self._node.facts.name

    async def start(self, spec: AgentSpec, *, title: str) -> Child:
        """Raises SpawnError."""
        self.child = await self._orders.start_on(self._node, spec, title)
        return self.child
