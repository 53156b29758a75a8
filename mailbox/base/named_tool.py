"""What is known of a tool by its name, before any process has it."""

from ..protocol.values.base import Value


class NamedTool(Value):
    """A tool that roles and configurations can choose."""

    name: str
    runs: bool = False  # a call of it may start a command
    reads: bool = False  # it either only reads, or runs in the read-only sandbox
    kept: bool = False  # nobody takes it away
