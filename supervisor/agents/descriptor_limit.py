"""How many agents this process's file descriptors suffice for. Reads one rlimit, no other I/O.

So a spawn waits, or is refused with the number, before descriptors run out: then the journal could
not be opened and libzmq would abort. Per agent this process holds a pidfd, the reading end of its
stderr and its mailbox connection. A start in progress holds two more for a moment.
"""

import resource

from ..journal.journal_files import max_open_files
from ..processes.process_manager import MAX_STARTING

DESCRIPTORS_PER_AGENT = 3
_DESCRIPTORS_PER_START = 2
_OWN_DESCRIPTORS = 96  # sockets, pipes, the gateway, the guardian, watching terminals


def max_agents_for(limit: int) -> int:
    """The number for this descriptor limit; at least 1."""
    return max(1, (limit - _descriptors_beside_agents(limit)) // DESCRIPTORS_PER_AGENT)


def _descriptors_beside_agents(limit: int) -> int:
    return _OWN_DESCRIPTORS + _DESCRIPTORS_PER_START * MAX_STARTING + max_open_files(limit)


def limit_by_descriptors(wanted: int) -> tuple[int, str]:
    """How many agents may live at once, at most `wanted`; and why fewer, else ""."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or (fit := max_agents_for(limit)) >= wanted:
        return wanted, ""
    needed = _descriptors_beside_agents(resource.RLIM_INFINITY) + DESCRIPTORS_PER_AGENT * wanted
    return fit, (
        f"this run may have {limit} files open, which is enough for {fit} agents at once, not for "
        f"{wanted}: raise the hard limit to {needed} or more with `ulimit -Hn` before it starts "
        "(LimitNOFILE= of a service)"
    )
