"""What a run stands on: its sockets, its processes, chance and the clock. Real unless told else.

Rule guarded: nothing of a run opens one of these by itself, so that a whole tree can be rehearsed
in one process, in virtual time, twice with the same journal (`scripts/simulate`).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from swarm.mailbox.chances import REAL, Chances
from swarm.mailbox.control import ControlServer, open_control_server
from swarm.mailbox.feed import Feed, open_feed
from swarm.mailbox.post import PostOffice
from swarm.mailbox.router import open_router

from .ignition import Ignition
from .spawner.base import Home
from .spawner.household import open_household


class Surroundings(NamedTuple):
    """Each `open_…` is given an endpoint; what it opens lasts for the run."""

    open_post: Callable[[str], AbstractAsyncContextManager[PostOffice]] = open_router
    open_feed: Callable[[str], AbstractAsyncContextManager[Feed]] = open_feed
    open_control: Callable[[str], AbstractAsyncContextManager[ControlServer]] = open_control_server
    open_home: Callable[[Ignition], AbstractAsyncContextManager[Home]] = open_household
    chances: Chances = REAL


OUTSIDE = Surroundings()
