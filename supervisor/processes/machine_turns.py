"""Heavy commands that the supervisor itself has machines run, and the turn each waits for."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple


class MachineWork(NamedTuple):
    """What is to be run, as it is told to others who wait for their turn."""

    machine: str  # "": this one
    agent: str  # path of the agent for which it is done
    command: str
    head: str  # its first words
    cwd: str


# Holds the machine's turn while the block runs.
HoldTurn = Callable[[MachineWork], AbstractAsyncContextManager[None]]


def hold_no_turn(_work: MachineWork) -> AbstractAsyncContextManager[None]:
    """Implements `HoldTurn` where nothing is counted."""
    return nullcontext()
