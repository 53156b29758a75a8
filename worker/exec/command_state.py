"""What an agent knows of a command that its launcher was told to start, and what can go wrong.

Guards: each failure says what happened and what of the command may be left.
"""

import os

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Value

from .launcher_protocol import CommandLaunched, NotLaunched, Overrun

TREE_KILL_LIMIT_S = 10.0  # for what was killed to be gone: a process in the kernel's hands may stay


class LauncherGone(SwarmError):
    """The launcher has died, and every command with it; this agent can run no more of them."""


class ProcessTreeStuck(SwarmError):
    """Something of a command does not die of SIGKILL: the kernel holds it, mostly for a disk."""

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
            cause = f"the working folder {cwd!r} cannot be entered: {cause}"
        super().__init__(f"cannot start {program!r}: {cause} ({step})")
        self.program, self.number, self.step = program, number, step


class ExitStatus(Value):
    """How a command's first process ended; one of the two is set."""

    exit_code: int | None = None
    signal: int | None = None
    leftovers: bool = False  # processes it left behind may still live: kill_tree
    overrun: Overrun | None = None  # the launcher killed it for that


class CommandState:
    """What is known of one token."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.ended = trio.Event()
        self.gone = trio.Event()
        self.is_dying = False
        self.is_forgotten = False
        self.launch: CommandLaunched | NotLaunched | None = None
        self.status: ExitStatus | None = None
