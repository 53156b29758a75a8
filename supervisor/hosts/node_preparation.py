"""Has the commands of a table's `prepare` run once on each node, before an agent starts there."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from swarm.mailbox.protocol.hosts import PrepareRemote, RemotePrepared
from swarm.mailbox.protocol.leases import MAX_LEASE_TEXT, TakeLease
from swarm.mailbox.protocol.nodes import CopiedPlace, PrepareCopies

from ..isolation.copy_folder import AgentCopy
from .known_nodes import Node

LIMIT_S = 1800.0  # for all commands of a node
ANSWER_LIMIT_S = LIMIT_S + 30.0

# Holds a lease of the node's machine for an agent, by its path.
HoldLease = Callable[[Node, str, TakeLease], AbstractAsyncContextManager[None]]
AskNode = Callable[[PrepareRemote], Awaitable[RemotePrepared | None]]


def no_lease(_node: Node, _agent: str, _request: TakeLease) -> AbstractAsyncContextManager[None]:
    """Implements `HoldLease` where nothing is counted."""
    return nullcontext()


async def prepare_node(
    node: Node,
    copy: AgentCopy,
    commands: tuple[str, ...],
    *,
    number: int,
    ask: AskNode,
    hold_lease: HoldLease,
) -> RemotePrepared | None:
    """Have the commands run on the node, under a lease of its machine.

    Returns its answer, None if it is prepared already. Others that start there wait meanwhile.
    """
    async with node.preparing:
        if node.is_prepared or node.why_drained:
            return None
        wanted = TakeLease(
            number=0, kind="install", command="; ".join(commands)[:MAX_LEASE_TEXT],
            head="prepare", cwd=copy.cwd,
        )  # fmt: skip
        order = PrepareCopies(
            request=number,
            commands=commands,
            base=copy.base,
            places=tuple(
                CopiedPlace(path=root.path, live=tuple(name for name, _ in root.live))
                for root in copy.roots
            ),
            cwd=copy.cwd,
            limit_s=LIMIT_S,
        )
        async with hold_lease(node, copy.path, wanted):
            reply = await ask(PrepareRemote(node=node.facts.name, order=order))
        reply = reply or RemotePrepared(
            request=number, node=node.facts.name, problem="no answer came", is_lost=True
        )
        if not reply.problem:
            node.note_prepared()
        return reply
