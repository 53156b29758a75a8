"""Sockets of other programs that a rule opens for commands.

Guards: a key agent or a container daemon behind a socket would do what the sandbox forbids, so
`connect.py` lets a command reach none but its own and these. Where a rule opens all of the machine,
only ones that exist and listen or take datagrams; at most 64, oldest first.
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
    """Paths of the Unix sockets of this machine that somebody listens at. By their names: what was
    renamed since, or has a line break in its path, is not among them.
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
    """Those that exist, are sockets and are what the rules name; a link in the place of one opens
    nothing. With `every` at most 64, as above.
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
    """It listens, or takes datagrams, for which nobody has to."""
    return bool(int(fields[3], 16) & _LISTENS) or fields[4] == _DATAGRAM


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
