"""What is known of a machine at one moment. Values only."""

from swarm.mailbox.protocol.values.base import Value


class MachineState(Value):
    """What is left of this machine. None: the kernel does not tell."""

    processors: int
    available_bytes: int | None = None
    cpu_pressure: float | None = None  # % of the last 10 s in which some task waited
    memory_pressure: float | None = None
    io_pressure: float | None = None  # % in which all tasks waited
    load: float | None = None  # tasks that run or want to, mean of a minute
