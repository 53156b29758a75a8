"""Sockets of other programs that a command could connect to through the read-only root.

Guards: a read-only mount does not stop connect(2), and a key agent or a container daemon behind a
socket would do what the sandbox forbids. Those in /run and /tmp are covered anyway; these are the
others. Only listening ones that exist; at most 64, oldest first.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .plan import is_below

_LISTENS = 0x10000
_MOST = 64


def listening_sockets(*, spare: Sequence[str]) -> tuple[str, ...]:
    """Paths of listening Unix sockets of this machine that are not below one of `spare`."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in lines:
        # Num RefCount Protocol Flags Type St Inode Path; an abstract name begins with @
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/") and int(fields[3], 16) & _LISTENS:
            found[fields[7]] = None
    outside = (path for path in found if not any(is_below(path, tree) for tree in spare))
    return tuple(path for path in outside if _is_socket(path))[:_MOST]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
