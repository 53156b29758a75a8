"""Rollback: removes the last turns from the history while no turn runs.

The history stays complete (each call has its output). The context already told is read again from
the remaining items, so that the next turn repeats what was removed.
"""

from typing import TYPE_CHECKING

from swarm.mailbox.errors import MessageTooLarge
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import decode_item
from swarm.mailbox.protocol.ops import RollBackTurns

from ..context.history_repair import repair_history
from ..context.prompt_context import find_told_context
from ..context.token_meter import measure_item

if TYPE_CHECKING:
    from ..agent_session import AgentSession


def roll_back_turns(session: "AgentSession", op: RollBackTurns) -> None:
    """Restore the items before these turns, or emit a warning why not. Never waits."""
    if session.turn is not None or session.compactor.is_running:
        session.reporter.emit(
            Warned(message="no turn was taken back: one has begun since; interrupt it, then again")
        )
        return
    items = repair_history(tuple(decode_item(bytes(raw)) for raw in op.items)).items
    try:
        session.replace_history("", items, rolled_back=op.turns)
    except MessageTooLarge as error:
        session.reporter.emit(Warned(message=f"no turn was taken back: {error}"))
        return
    session.told_context = find_told_context(items, cwd=session.spec.cwd)
    session.meter.start_over(sum(map(measure_item, items)))
