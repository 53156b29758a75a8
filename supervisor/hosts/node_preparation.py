"""What the commands of a table's `prepare` are run with, once on each node, under a lease."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from swarm.mailbox.protocol.leases import MAX_LEASE_TEXT, TakeLease
from swarm.mailbox.protocol.nodes import CopiedPlace, HostTable, PrepareCopies

from ..isolation.copy_folder import AgentCopy
from .known_nodes import Node

LIMIT_S = 1800.0  # for all commands of a node
ANSWER_LIMIT_S = LIMIT_S + 30.0

# Holds a lease of the node's machine for an agent, by its path.
HoldLease = Callable[[Node, str, TakeLease], AbstractAsyncContextManager[None]]


def no_lease(_node: Node, _agent: str, _request: TakeLease) -> AbstractAsyncContextManager[None]:
    """Implements `HoldLease` where nothing is counted."""
    return nullcontext()


def prepare_order(request: int, copy: AgentCopy, table: HostTable) -> PrepareCopies:
    """The table's commands in what the agent's copy is made of."""
    return PrepareCopies(
        request=request,
        commands=table.prepare,
        base=copy.base,
        places=tuple(
            CopiedPlace(path=root.path, live=tuple(name for name, _ in root.live))
            for root in copy.roots
        ),
        cwd=copy.cwd,
        limit_s=LIMIT_S,
        environment=table.environment.set,
    )


def prepare_lease(order: PrepareCopies) -> TakeLease:
    """What is told of them to who waits for a lease."""
    command = "; ".join(order.commands)[:MAX_LEASE_TEXT]
    return TakeLease(number=0, kind="install", command=command, head="prepare", cwd=order.cwd)
