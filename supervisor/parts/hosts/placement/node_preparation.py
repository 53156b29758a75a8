"""What the commands of a table's `prepare` are run with, once on each node, in its turn."""

from swarm.mailbox.protocol.nodes import CopiedPlace, HostTable, PrepareCopies

from ....processes.machine_turns import MachineWork
from ...copies.copy_folder import AgentCopy

LIMIT_S = 1800.0  # for all commands of a node
ANSWER_LIMIT_S = LIMIT_S + 30.0


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


def prepare_work(order: PrepareCopies, *, machine: str, agent: str) -> MachineWork:
    """What is told of them to who waits for the machine."""
    command = "; ".join(order.commands)
    return MachineWork(machine, agent, command=command, head="prepare", cwd=order.cwd)
