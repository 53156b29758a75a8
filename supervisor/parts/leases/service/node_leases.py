"""Leases for heavy commands: those of this machine, and of each other one on which agents work."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from hashlib import sha256

import trio

from swarm.mailbox.parts.leases.lease_messages import (
    MAX_LEASE_TEXT,
    HeavyCommandEnded,
    TakeLease,
)

from ....agents.agent_record import Agent
from ....part_access.part_host import PartHost
from ....processes.machine_facts import MachineState
from ....processes.machine_state import TreeUsage
from ....processes.machine_turns import MachineWork
from ..lease_ledger import LeaseLedger
from .lease_service import LEASES_FOLDER, LeaseService


class NodeLeases:
    """One per run. Runs of one person on this machine share what they know of the other ones."""

    def __init__(self, host: PartHost, ledger: LeaseLedger, nursery: trio.Nursery) -> None:
        self._host, self._ledger, self._nursery = host, ledger, nursery
        self._here = LeaseService(host, ledger, nursery)
        self._there: dict[str, LeaseService] = {}  # by machine
        host.hosts.use_turns(self.hold_on)

    def serve(self, agent: Agent, request_id: int, request: TakeLease) -> None:
        """Begin to serve a request with what is left of the agent's machine. Never waits."""
        self._of(agent).serve(agent, request_id, request)

    def end(self, agent: Agent, ended: HeavyCommandEnded) -> None:
        """A command has ended, or is not to run any more: its lease is free."""
        self._of(agent).end(agent, ended)

    def hold_on(self, work: MachineWork) -> AbstractAsyncContextManager[None]:
        """Implements `HoldTurn` for commands that get a machine ready."""
        request = TakeLease(
            number=0,
            kind="install",
            command=work.command[:MAX_LEASE_TEXT],
            head=work.head,
            cwd=work.cwd,
        )
        service = self._of_machine(work.machine) if work.machine else self._here
        return service.hold(work.agent, request)

    def _of(self, agent: Agent) -> LeaseService:
        machine = self._host.hosts.machine_of(agent.plan.agent_id) if agent.plan.host else ""
        return self._of_machine(machine) if machine else self._here

    def _of_machine(self, machine: str) -> LeaseService:
        if machine not in self._there:
            mark = sha256(machine.encode()).hexdigest()[:12]
            self._there[machine] = LeaseService(
                self._host,
                self._ledger,
                self._nursery,
                read_machine=self._reader_of(machine),
                measure=_measure_nothing,
                pool=f"{LEASES_FOLDER}-{mark}",
            )
        return self._there[machine]

    def _reader_of(self, machine: str) -> Callable[[], MachineState]:
        """Reads what is left of another machine; of one that is gone, what was told last."""
        last = MachineState(processors=1)

        def read() -> MachineState:
            nonlocal last
            last = self._host.hosts.state_of(machine) or last
            return last

        return read


async def _measure_nothing(_pids: Collection[int]) -> dict[int, TreeUsage]:
    """The processes of another machine cannot be looked at from here."""
    return {}
