"""Exception groups: flatten them and find the error that a person can act on."""

from collections.abc import Iterator
from typing import cast

from swarm.mailbox.errors import SwarmError


def flatten_group(error: BaseException) -> Iterator[BaseException]:
    """All errors in the group that are not groups themselves, depth first."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for member in group.exceptions:
            yield from flatten_group(member)
    else:
        yield error


def first_swarm_error(error: BaseException) -> SwarmError | None:
    """The first SwarmError, if the group contains only SwarmErrors; else None.

    A bug beside it must stay visible: then the caller raises the whole group.
    """
    leaves = list(flatten_group(error))
    if leaves and all(isinstance(leaf, SwarmError) for leaf in leaves):
        first = leaves[0]
        assert isinstance(first, SwarmError)
        return first
    return None
