"""Whether a locked role's own process is really locked on this machine.

Guards: an agent of a read-only role whose process could not be confined is never taken for a locked
one: it says so with its first letter, and `--require-sandbox fs` lets no run begin here.
"""

from swarm.mailbox.protocol.events import LockGap

from .landlock import landlock_abi

_TRUNCATE_SINCE_ABI = 3


def lock_gap(abi: int | None = None) -> LockGap:
    """What lacks: all of it, truncation of files that it may read, or nothing ("")."""
    found = landlock_abi() if abi is None else abi
    if not found:
        return "all"
    return "truncation" if found < _TRUNCATE_SINCE_ABI else ""
