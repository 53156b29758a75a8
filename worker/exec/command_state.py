"""What an agent knows of a command that its launcher was told to start, and how it can fail.

Each error says what happened and what may be left of the command.
"""

import os

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.short_quotes import quote_head
from swarm.mailbox.protocol.values.base import Value

from .launcher_protocol import CommandLaunched, CommandUsage, NotLaunched, Overrun
from .orphan_usage import add_usage

TREE_KILL_LIMIT_S = 10.0  # time for killed processes to end: one that waits in the kernel may stay


class LauncherGone(SwarmError):
    """The launcher has died, and every command with it; this agent can run no more commands."""


class ProcessTreeStuck(SwarmError):
    """A process of a command survives SIGKILL because it waits in the kernel, mostly for a disk."""

    def __init__(self) -> None:
        super().__init__(
            f"a process of the command was still there {TREE_KILL_LIMIT_S:g} s after it "
            "was killed; "
            "the kernel holds it, mostly for a disk or a network file system"
        )


class CommandNotStarted(SwarmError):
    """The program never ran. `step` says what failed: exec, cwd, sandbox, limits, setup, fork."""

    def __init__(self, *, program: str, number: int, step: str, cwd: str = "") -> None:
        cause = os.strerror(number) if number else "unknown cause"
        if step == "cwd":
            cause = f"the working folder {quote_head(cwd)!r} cannot be entered: {cause}"
        super().__init__(f"cannot start {quote_head(program)!r}: {cause} ({step})")
        self.program, self.number, self.step = program, number, step


class ExitStatus(Value):
    """How a command's first process ended; either `exit_code` or `signal` is set."""

    exit_code: int | None = None
    signal: int | None = None
    leftovers: bool = False  # processes it left behind may still live: kill_tree
    overrun: Overrun | None = None  # the limit for which the launcher killed it
    usage: CommandUsage = CommandUsage()


class CommandState:
    """What is known of one launch token."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.ended = trio.Event()
        self.gone = trio.Event()
        self.is_dying = False
        self.is_forgotten = False
        self.launch: CommandLaunched | NotLaunched | None = None
        self.status: ExitStatus | None = None

    def add_usage(self, usage: CommandUsage) -> None:
        """Processes that it left behind used this in addition."""
        if self.status is not None:
            both = add_usage(self.status.usage, usage)
            self.status = msgspec.structs.replace(self.status, usage=both)
