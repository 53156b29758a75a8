"""Finds the Unix sockets of other programs that a rule opens for commands.

A key agent or a container daemon behind a socket could do what the sandbox forbids, so
`connect_broker.py` lets a command reach only its own sockets and these. Where a rule opens all
sockets of the machine, only existing ones that listen or take datagrams count; at most 64, oldest
first.
"""

import os
import stat
from pathlib import Path

from swarm.mailbox.path_rules import SANDBOX_TREES, is_within
from swarm.mailbox.protocol.limits import UnixSockets

_LISTENS = 0x10000
_DATAGRAM = "0002"
_MOST = 64


def _listening_sockets() -> tuple[str, ...]:
    """Paths of the Unix sockets on this machine that a program listens at.

    By their bound names: sockets that were renamed since, or have a line break in their path, are
    missing.
    """
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in lines:
        # Num RefCount Protocol Flags Type St Inode Path; an abstract name begins with @
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/") and _accepts_messages(fields):
            found[fields[7]] = None
    outside = (path for path in found if not any(is_within(path, tree) for tree in SANDBOX_TREES))
    return tuple(path for path in outside if _is_socket(path))[:_MOST]


def allowed_sockets(rules: UnixSockets) -> tuple[str, ...]:
    """The existing sockets that the rules name; a symlink in a socket's place opens nothing.

    With `every`, at most 64 listening sockets are added.
    """
    found = dict.fromkeys(rules.allow)
    if rules.every:
        found |= dict.fromkeys(_listening_sockets())
    return tuple(
        path
        for path in found
        if rules.permits(path) and os.path.realpath(path) == path and _is_socket(path)
    )


def _accepts_messages(fields: list[str]) -> bool:
    """True if the socket listens, or takes datagrams, which needs no listener."""
    return bool(int(fields[3], 16) & _LISTENS) or fields[4] == _DATAGRAM


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
