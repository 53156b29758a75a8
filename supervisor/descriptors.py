"""How many agents the file descriptors of this process are enough for. Pure, but for one look.

Guards: a spawn waits, or is refused in words that say the number, before descriptors run out: at
the end of them the journal could not be opened and libzmq would abort.

Of one agent this process holds a pidfd, the reading end of its stderr and its mailbox connection.
A birth on its way holds two more for a moment.
"""

import resource

from .journal.files import most_open_files
from .spawner.household import MOST_BIRTHS

AN_AGENT = 3
_A_BIRTH = 2
_OWN = 96  # sockets, pipes, the gateway, the guardian, terminals that look on


def agents_that_fit(limit: int) -> int:
    """With so many descriptors; at least one."""
    return max(1, (limit - _beside_agents(limit)) // AN_AGENT)


def _beside_agents(limit: int) -> int:
    return _OWN + _A_BIRTH * MOST_BIRTHS + most_open_files(limit)


def bound_by_descriptors(wanted: int) -> tuple[int, str]:
    """How many agents may live at once, at most `wanted`, and why they are fewer, if they are."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or (fit := agents_that_fit(limit)) >= wanted:
        return wanted, ""
    needed = _beside_agents(resource.RLIM_INFINITY) + AN_AGENT * wanted
    return fit, (
        f"this run may have {limit} files open, which is enough for {fit} agents at once, not for "
        f"{wanted}: raise the hard limit to {needed} or more with `ulimit -Hn` before it starts "
        "(LimitNOFILE= of a service)"
    )
