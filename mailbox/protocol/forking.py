"""supervisor ⇄ fork-server: one message a packet, descriptors beside it (SCM_RIGHTS).

The server answers a start with the child's pidfd *before* it may reap it, so a pid that the
supervisor learns is never somebody else's.
"""

import msgspec

from .base import Tagged


class StartProcess(Tagged):
    """Fork once. Beside it: the spec's memfd, the stderr pipe's end and, if any, the keys' pipe."""

    request: int
    title: str
    run: str = ""  # short id, for the server's own title
    has_keys: bool = False
    is_service: bool = False  # it runs no commands, so it needs no launcher
    may_follow: bool = False  # others like it: the server has the next one's process ready


class GuardProcess(Tagged):
    """End this process too, with all below it, when the life-line ends. Beside it: its pidfd."""

    pid: int


class ChangeVariable(Tagged):
    """The environment is another than at the server's birth. Comes before the first start.

    Without a value the variable is a key: it goes, and so does every copy of what it held.
    """

    name: str
    value: str | None = None


AnyForkOrder = StartProcess | GuardProcess | ChangeVariable


class ServerReady(Tagged):
    """Everything is imported; orders sent before were kept."""

    preload_s: float


class ProcessStarted(Tagged):
    """Beside it: the pidfd."""

    request: int
    pid: int


class StartFailed(Tagged):
    request: int
    reason: str


class ProcessExited(Tagged):
    """`status` as of waitpid(2)."""

    pid: int
    status: int


AnyForkReport = ServerReady | ProcessStarted | StartFailed | ProcessExited

encode_fork = msgspec.msgpack.Encoder().encode
decode_fork_order = msgspec.msgpack.Decoder(AnyForkOrder).decode
decode_fork_report = msgspec.msgpack.Decoder(AnyForkReport).decode
