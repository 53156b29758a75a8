"""Leases for heavy commands: those of this machine, and of each other one on which agents work."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from hashlib import sha256

import trio

from swarm.mailbox.protocol.leases import HeavyCommandEnded, TakeLease

from ..agents.agent_record import Agent
from ..hosts.known_nodes import Node
from ..run_context import RunContext
from .lease_service import LEASES_FOLDER, LeaseService
from .machine_state import TreeUsage


class NodeLeases:
    """One per run. Runs of one person on this machine share what they know of the other ones."""

    def __init__(self, running: RunContext, nursery: trio.Nursery) -> None:
        self._run, self._nursery = running, nursery
        self._here = LeaseService(running, nursery)
        self._there: dict[str, LeaseService] = {}  # by node
        running.hosts.use_leases(self.hold_on)

    def serve(self, agent: Agent, request_id: int, request: TakeLease) -> None:
        """Begin to serve a request with what is left of the agent's machine. Never waits."""
        self._of(agent).serve(agent, request_id, request)

    def end(self, agent: Agent, ended: HeavyCommandEnded) -> None:
        """A command has ended, or is not to run any more: its lease is free."""
        self._of(agent).end(agent, ended)

    def hold_on(
        self, node: Node, agent: str, request: TakeLease
    ) -> AbstractAsyncContextManager[None]:
        """Implements `HoldLease` for commands that get a machine ready."""
        return self._of_node(node).hold(agent, request)

    def _of(self, agent: Agent) -> LeaseService:
        node = self._run.hosts.node_of(agent.plan.agent_id) if agent.plan.host else None
        return self._here if node is None else self._of_node(node)

    def _of_node(self, node: Node) -> LeaseService:
        name = node.facts.name
        if name not in self._there:
            self._there[name] = self._make(node)
        return self._there[name]

    def _make(self, node: Node) -> LeaseService:
        name = node.facts.name
        mark = sha256(name.encode()).hexdigest()[:12]
        return LeaseService(
            self._run,
            self._nursery,
            read_machine=lambda: (self._run.hosts.nodes.get(name) or node).machine,
            measure=_measure_nothing,
            pool=f"{LEASES_FOLDER}-{mark}",
        )


async def _measure_nothing(_pids: Collection[int]) -> dict[int, TreeUsage]:
    """The processes of another machine cannot be looked at from here."""
    return {}
