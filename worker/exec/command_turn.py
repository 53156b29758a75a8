"""What a command's session tells about its end to whoever counts it: its turn, if it has one."""

from typing import Protocol

from .command_state import ExitStatus


class CommandTurn(Protocol):
    """Holds until `end`."""

    @property
    def memory_bytes(self) -> int | None:
        """A limit on the command's memory beside those of `[limits]`; None: no other."""
        ...

    @property
    def notice(self) -> str:
        """What the model is told about its wait; "" if it did not wait."""
        ...

    def end(self, status: ExitStatus | None) -> None:
        """The command's processes are dead; None: it never ran. Further calls change nothing."""
        ...
