"""Messages between supervisor and fork server: one per packet, descriptors attached (SCM_RIGHTS).

The server reports a started child with its pidfd *before* it may reap the child, so a pid that the
supervisor receives never belongs to another process.
"""

import msgspec

from .values.base import Tagged


class StartProcess(Tagged):
    """Fork once. Attached: the spec's memfd, the stderr pipe's end and, if any, the keys' pipe."""

    request: int
    title: str
    run: str = ""  # short id, for the server's own process title
    has_keys: bool = False
    is_service: bool = False  # it runs no commands, so it needs no launcher
    may_follow: bool = False  # more will follow: the server prepares the next process
    in_copy: bool = False  # it mounts its copy of the project before its launcher is forked


class GuardProcess(Tagged):
    """Also kill this process and all below it when the lifeline closes. Attached: its pidfd."""

    pid: int


class ChangeVariable(Tagged):
    """An environment variable differs from when the server started. Sent before the first start.

    Without a value the variable is a key: the server removes it and overwrites every copy of its
    value.
    """

    name: str
    value: str | None = None


class WatchSupervisor(Tagged):
    """End the supervisor if its loop stands still once it was asked to end.

    Attached: its pidfd, and the pipe that its stop signals write to. `deadline_s`: when the run
    must be over, in seconds from now.
    """

    pid: int
    deadline_s: float | None = None


class LoopAnswered(Tagged):
    """The supervisor's loop runs: the answer to `LoopAsked`."""


AnyForkOrder = StartProcess | GuardProcess | ChangeVariable | WatchSupervisor | LoopAnswered


class ServerReady(Tagged):
    """Everything is imported. Orders sent before were kept."""

    preload_s: float


class ProcessStarted(Tagged):
    """Attached: the pidfd."""

    request: int
    pid: int


class StartFailed(Tagged):
    request: int
    reason: str


class ProcessExited(Tagged):
    """`status` as from waitpid(2)."""

    pid: int
    status: int


class LoopAsked(Tagged):
    """Answer with `LoopAnswered`: the run was asked to end, or its deadline has passed."""


AnyForkReport = ServerReady | ProcessStarted | StartFailed | ProcessExited | LoopAsked

encode_fork = msgspec.msgpack.Encoder().encode
decode_fork_order = msgspec.msgpack.Decoder(AnyForkOrder).decode
decode_fork_report = msgspec.msgpack.Decoder(AnyForkReport).decode
