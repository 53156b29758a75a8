"""The error in an exception group that a person can act on."""

from typing import cast

from swarm.mailbox.base.errors import SwarmError


def first_error(
    error: BaseException, kinds: tuple[type[BaseException], ...] = (SwarmError,)
) -> BaseException | None:
    """The first error in a group, depth first, if all of them are of these kinds; else None.

    A bug beside it must stay visible: then the caller raises the whole group.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, kinds) else None
    group = cast("BaseExceptionGroup[BaseException]", error)
    if group.split(kinds)[1] is not None:
        return None
    return first_error(group.exceptions[0], kinds)
