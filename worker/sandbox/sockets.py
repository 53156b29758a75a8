"""Sockets of other programs that a command could connect to through the read-only root.

Guards: a read-only mount does not stop connect(2), and a key agent or a container daemon behind a
socket would do what the sandbox forbids. Those in /run and /tmp are covered anyway; these are the
others. Only ones that exist and listen or take datagrams; at most 64, oldest first. What a rule
opens is spared, and nothing else is.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.path_rules import OWN_TREES, is_within
from swarm.mailbox.protocol.limits import UnixSockets

_LISTENS = 0x10000
_DATAGRAM = "0002"
_MOST = 64


def listening_sockets(
    *, spare: Sequence[str], covered: Sequence[str] = (), shown: Sequence[str] = ()
) -> tuple[str, ...]:
    """Paths of listening Unix sockets of this machine that a command would otherwise reach.

    Args:
        spare: What lies below these is the command's own.
        covered: Trees that are replaced: their sockets are not there anyway …
        shown: … but below these, which show through.
    """
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in lines:
        # Num RefCount Protocol Flags Type St Inode Path; an abstract name begins with @
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/") and _takes_mail(fields):
            found[fields[7]] = None

    def is_reached(path: str) -> bool:
        if any(is_within(path, tree) for tree in spare):
            return False
        seen = not any(is_within(path, tree) for tree in covered)
        return seen or any(is_within(path, tree) for tree in shown)

    outside = (path for path in found if is_reached(path))
    return tuple(path for path in outside if _is_socket(path))[:_MOST]


def allowed_sockets(rules: UnixSockets) -> tuple[str, ...]:
    """Those that exist, are sockets and are what the rules name; a link in the place of one opens
    nothing. With `every` at most 64, as above.
    """
    found = dict.fromkeys(rules.allow)
    if rules.every:
        found |= dict.fromkeys(listening_sockets(spare=OWN_TREES))
    return tuple(
        path
        for path in found
        if rules.permits(path) and os.path.realpath(path) == path and _is_socket(path)
    )


def _takes_mail(fields: list[str]) -> bool:
    """It listens, or takes datagrams, for which nobody has to."""
    return bool(int(fields[3], 16) & _LISTENS) or fields[4] == _DATAGRAM


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
