"""Failures of the machine during a start become failures of that start, and of nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.foreign_failures import explain_failure

from .process_types import SpawnError


@contextmanager
def start_faults(what: str) -> Iterator[None]:
    """`what` is being started. Raises SpawnError for whatever the machine lacks.

    A folder that vanished, a full disk, no descriptor and no thread left: the caller's state is as
    before, and the run goes on. Any other error of a library is a bug and passes.
    """
    try:
        yield
    except SwarmError as error:
        if type(error) is not SwarmError:
            raise  # it says more than that something failed
        raise SpawnError(f"{what} could not be started: {error}") from error
    except Exception as error:
        words = explain_failure(error)
        if words is None and isinstance(error, OSError):
            words = str(error)
        if words is None:
            raise
        raise SpawnError(f"{what} could not be started: {words}") from error
