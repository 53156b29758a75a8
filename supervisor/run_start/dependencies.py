"""What a run depends on: sockets, processes, clock, randomness. Real unless replaced.

No part of a run opens any of these by itself. So a whole tree can be simulated in one process, in
virtual time, and two simulations write the same journal (`scripts/simulate`).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.delivery.control_channel import ControlServer, open_control_server
from swarm.mailbox.delivery.feed import Feed, open_feed
from swarm.mailbox.delivery.interfaces import MailboxServer
from swarm.mailbox.delivery.router import open_router

from ..processes.early_start import EarlyProcesses
from ..processes.process_manager import open_process_manager
from ..processes.process_types import ProcessStarter


class RunDependencies(NamedTuple):
    """Each `open_…` gets an endpoint; what it opens lasts as long as the run."""

    open_mailbox: Callable[[str], AbstractAsyncContextManager[MailboxServer]] = open_router
    open_feed: Callable[[str], AbstractAsyncContextManager[Feed]] = open_feed
    open_control: Callable[[str], AbstractAsyncContextManager[ControlServer]] = open_control_server
    open_processes: Callable[[EarlyProcesses], AbstractAsyncContextManager[ProcessStarter]] = (
        open_process_manager
    )
    entropy: EntropySources = SYSTEM_ENTROPY


REAL_DEPENDENCIES = RunDependencies()
