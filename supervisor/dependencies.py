"""What a run stands on: its sockets, its processes, chance and the clock. Real unless told else.

Rule guarded: nothing of a run opens one of these by itself, so that a whole tree can be rehearsed
in one process, in virtual time, twice with the same journal (`scripts/simulate`).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from swarm.mailbox.control_channel import ControlServer, open_control_server
from swarm.mailbox.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.feed import Feed, open_feed
from swarm.mailbox.interfaces import MailboxServer
from swarm.mailbox.router import open_router

from .processes.early_start import EarlyProcesses
from .processes.process_manager import open_process_manager
from .processes.process_types import ProcessStarter


class RunDependencies(NamedTuple):
    """Each `open_…` is given an endpoint; what it opens lasts for the run."""

    open_mailbox: Callable[[str], AbstractAsyncContextManager[MailboxServer]] = open_router
    open_feed: Callable[[str], AbstractAsyncContextManager[Feed]] = open_feed
    open_control: Callable[[str], AbstractAsyncContextManager[ControlServer]] = open_control_server
    open_processes: Callable[[EarlyProcesses], AbstractAsyncContextManager[ProcessStarter]] = (
        open_process_manager
    )
    entropy: EntropySources = SYSTEM_ENTROPY


REAL_DEPENDENCIES = RunDependencies()
