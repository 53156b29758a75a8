"""Starts the processes of a run before the command line is parsed, to start the run sooner.

The code that takes the early processes closes them; if nobody takes them, they are closed when the
command ends.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

_RUN_COMMANDS = frozenset({"run", "resume", "review", "fork", "exec"})
_FLAGS_WITHOUT_RUN = frozenset({"-h", "--help", "--detach"})  # nothing runs, or not in this process


class Closable(Protocol):
    """The `EarlyProcesses`: their module is imported only for a run, because that takes 50 ms."""

    def close(self) -> None: ...


class _EarlyStart:
    processes: Closable | None = None


def needs_processes(arguments: Sequence[str]) -> bool:
    """True if this command line looks like a run in this process. A wrong guess costs only time."""
    return (
        bool(arguments)
        and arguments[0] in _RUN_COMMANDS
        and _FLAGS_WITHOUT_RUN.isdisjoint(arguments)
    )


@contextmanager
def start_early_for_command(arguments: Sequence[str]) -> Iterator[None]:
    """Start processes for `take_early_processes` while a command runs, if it needs them."""
    if sys.platform == "linux" and needs_processes(arguments):
        gc.disable()  # imported modules stay; `run_in_process` enables it again
        from swarm.mailbox.base.after_fork import skip_library_search

        with skip_library_search():
            from ....processes.early_start import start_early

        with suppress(OSError, ImportError):  # the run itself tries again and reports the error
            _EarlyStart.processes = start_early()
    try:
        yield
    finally:
        close_early_processes()


def take_early_processes() -> Closable | None:
    """Return the early processes once; None if there are none."""
    processes, _EarlyStart.processes = _EarlyStart.processes, None
    return processes


def close_early_processes() -> None:
    """Close the early processes if nobody took them."""
    if (processes := take_early_processes()) is not None:
        processes.close()
