"""Out of a tangle of exception groups, the one error that a person can act upon."""

from collections.abc import Iterator
from typing import cast

from swarm.mailbox.errors import SwarmError


def flatten_group(error: BaseException) -> Iterator[BaseException]:
    """All errors that are no groups, depth first."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for member in group.exceptions:
            yield from flatten_group(member)
    else:
        yield error


def first_swarm_error(error: BaseException) -> SwarmError | None:
    """The first error that was raised on purpose, if there is nothing but such; else None.

    A bug beside it must stay visible as what it is: then the whole group goes up.
    """
    leaves = list(flatten_group(error))
    if leaves and all(isinstance(leaf, SwarmError) for leaf in leaves):
        first = leaves[0]
        assert isinstance(first, SwarmError)
        return first
    return None
