"""Tells whether the process of a locked role can really be locked on this machine.

An agent of a read-only role whose process could not be confined never counts as locked: its first
message reports the gap, and `--require-sandbox fs` refuses to start a run here.
"""

from swarm.mailbox.protocol.events import LockGap

from .landlock import landlock_abi

_TRUNCATE_SINCE_ABI = 3


def lock_gap(abi: int | None = None) -> LockGap:
    """What cannot be locked: everything, truncation of files that it may read, or nothing ("")."""
    found = landlock_abi() if abi is None else abi
    if not found:
        return "all"
    return "truncation" if found < _TRUNCATE_SINCE_ABI else ""
