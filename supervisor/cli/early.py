"""Processes that a command will need, begun before its words are read: a run starts sooner so.

Rule: whoever takes the ignition closes it; one that nobody took is closed when the command ends.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..ignition import Ignition

_RUNNING = frozenset({"run", "resume", "review", "fork"})
_NOT_HERE = frozenset({"-h", "--help", "--detach"})  # nothing runs, or not in this process


class _Begun:
    ignition: "ClassVar[Ignition | None]" = None


def needs_processes(arguments: Sequence[str]) -> bool:
    """True if this command line looks like a run in this very process. Wrong costs time only."""
    return bool(arguments) and arguments[0] in _RUNNING and _NOT_HERE.isdisjoint(arguments)


@contextmanager
def begun_early(arguments: Sequence[str]) -> Iterator[None]:
    """Have an ignition ready for `take_early` while a command runs, if it needs one."""
    if sys.platform == "linux" and needs_processes(arguments):
        gc.disable()  # what is imported stays; `run_here` enables it for the run
        from swarm.mailbox.forked import no_library_search

        with no_library_search():
            from ..ignition import ignite

        with suppress(OSError, ImportError):  # the run itself tries again, and says why
            _Begun.ignition = ignite()
    try:
        yield
    finally:
        drop_early()


def take_early() -> "Ignition | None":
    """The ignition that was begun, once; None: there is none."""
    ignition, _Begun.ignition = _Begun.ignition, None
    return ignition


def drop_early() -> None:
    """Close the ignition that was begun, if nobody took it."""
    if (ignition := take_early()) is not None:
        ignition.close()
