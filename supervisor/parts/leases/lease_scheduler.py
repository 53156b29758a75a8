"""Decides which heavy commands may run now, for all runs of one person on this machine. Pure.

The first in the queue is never overtaken: a command that needs much memory gets it once others
have ended. While no lease is held the first one always gets one, whatever the machine looks like,
so some command always runs.
"""

from collections.abc import Iterable

from swarm.mailbox.parts.leases.lease_messages import HeavyKind
from swarm.mailbox.protocol.values.base import Value

from ...processes.machine_facts import MachineState

STARVED_AFTER_S = 600.0  # who waited so long goes first, in the order of asking
_MEMORY_PRESSURE, _IO_PRESSURE, _CPU_PRESSURE = 10.0, 50.0, 80.0  # % of the last 10 s
_LOAD_PER_PROCESSOR = 2.0  # where the kernel tells no pressure
_TOLERANCE = 0.05  # of a processor


class Ticket(Value):
    """One heavy command that waits, or that holds a lease. Times are of the machine's clock."""

    run: str
    number: int  # unique in the run
    agent: str
    kind: HeavyKind
    command: str
    asked_s: float
    memory_bytes: int  # what it is expected to need
    cpus: float  # processors that it is expected to use
    expected_s: float | None = None  # how long it took before; None: nobody knows
    interactive: bool = False  # a person waits for this run
    served: int = 0  # leases that its agent got before
    pid: int = 0  # of the agent's process, below which the command runs
    given_s: float | None = None  # when it got its lease; None: it waits
    used_bytes: int = 0  # of a running one; found by whoever decides

    @property
    def holds_lease(self) -> bool:
        return self.given_s is not None


class LeaseLimits(Value):
    """What one run's configuration says."""

    most: int = 0  # 0: as many as there are processors
    reserve_bytes: int = 0


class Decision(Value):
    """Who gets a lease now, who goes on waiting (in order), and what the first one waits for."""

    given: tuple[Ticket, ...] = ()
    queue: tuple[Ticket, ...] = ()
    why: str = ""


def decide_leases(
    tickets: Iterable[Ticket], machine: MachineState, limits: LeaseLimits, *, now: float
) -> Decision:
    """Decide for all tickets of all runs."""
    everyone = list(tickets)
    held = [one for one in everyone if one.holds_lease]
    queue = [one for one in everyone if not one.holds_lease]
    given: list[Ticket] = []
    why = ""
    while queue:
        queue.sort(key=lambda one: _place(one, held, now))
        why = find_obstacle(queue[0], held, machine, limits)
        if why:
            break
        first = queue.pop(0)
        given.append(first)
        held.append(first)
    return Decision(given=tuple(given), queue=tuple(queue), why=why)


def _place(one: Ticket, held: Iterable[Ticket], now: float) -> tuple[float, ...]:
    """The order of the queue: starved ones, then interactive ones, then fair between agents."""
    last = (one.asked_s, _run_order(one.run), one.number)
    if now - one.asked_s >= STARVED_AFTER_S:
        return (0, 0, 0, *last)
    of_agent = sum(other.run == one.run and other.agent == one.agent for other in held)
    return (1 if one.interactive else 2, of_agent, one.served, *last)


def _run_order(run: str) -> float:
    """A number for a run's id, the same in every process."""
    return float(int.from_bytes(run.encode()[-6:], "big"))


def find_obstacle(
    one: Ticket, held: list[Ticket], machine: MachineState, limits: LeaseLimits
) -> str:
    """What keeps this one from its lease, in words; "" if nothing does."""
    if not held:
        return ""
    most = limits.most or machine.processors
    if len(held) >= most:
        return f"{len(held)} run, and {most} may at once"
    wanted, taken = cpus_of(one, machine), sum(cpus_of(other, machine) for other in held)
    if taken + wanted > machine.processors + _TOLERANCE:
        free = max(0.0, machine.processors - taken)
        return f"it may use {wanted:.1f} processors, and {free:.1f} are free"
    return _find_memory_obstacle(one, held, machine, limits) or _find_pressure(machine)


def _find_memory_obstacle(
    one: Ticket, held: list[Ticket], machine: MachineState, limits: LeaseLimits
) -> str:
    if machine.available_bytes is None:
        return ""
    to_come = sum(max(0, other.memory_bytes - other.used_bytes) for other in held)
    free = machine.available_bytes - limits.reserve_bytes - to_come
    if free >= one.memory_bytes:
        return ""
    return f"it may need {_mebibytes(one.memory_bytes)} of memory, and {_mebibytes(free)} are free"


def _find_pressure(machine: MachineState) -> str:
    for name, share, bound in (
        ("memory", machine.memory_pressure, _MEMORY_PRESSURE),
        ("disk", machine.io_pressure, _IO_PRESSURE),
        ("processor", machine.cpu_pressure, _CPU_PRESSURE),
    ):
        if share is not None and share >= bound:
            return f"the machine is under {name} pressure ({share:.0f} %)"
    if machine.cpu_pressure is None and machine.load is not None:
        bound = _LOAD_PER_PROCESSOR * machine.processors
        if machine.load >= bound:
            return f"the machine's load is {machine.load:.1f}"
    return ""


def cpus_of(one: Ticket, machine: MachineState) -> float:
    """Processors of this machine that it is expected to use."""
    return min(max(one.cpus, 0.0), float(machine.processors))


def _mebibytes(size: int) -> str:
    return f"{max(0, size) / 2**20:,.0f} MiB"
