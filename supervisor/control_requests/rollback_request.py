"""A person's request to roll back an agent's last turns: its history is as before them.

Only at rest, and done by the holder of the history: the agent's process, or the journal if there is
none. Files are not touched; `swarm undo` restores files.
"""

import msgspec
import trio

from swarm.mailbox.errors import MessageTooLarge, PeerGone
from swarm.mailbox.protocol.control import AnyControlReply, Done, Refused, RollBack
from swarm.mailbox.protocol.items import encode_item
from swarm.mailbox.protocol.ops import RollBackTurns
from swarm.mailbox.protocol.records import ContextRecorded

from ..agents.agent_record import Agent
from ..journal.journal_reader import read_records
from ..journal.turn_boundaries import RolledBackHistory, drop_last_turns, fold_turns
from ..run_context import RunContext


async def roll_back(running: RunContext, member: Agent, wish: RollBack) -> AnyControlReply:
    """Roll back, or say why not."""
    if wish.turns < 1:
        return Refused(message="at least one turn must be taken back", exit_code=2)
    await running.journal.flush()
    file = member.plan.agent_id

    def look() -> RolledBackHistory:
        return drop_last_turns(fold_turns(read_records(running.paths, file=file)), wish.turns)

    found = await trio.to_thread.run_sync(look)
    if not found.turns:
        return Refused(message=f"{member.path} has had no turn that could be taken back")
    if member.is_active or member.is_starting:
        return Refused(
            message=f"{member.path} is at work; `swarm interrupt` it first, or wait for its end"
        )
    if not member.phase.has_process:
        body = ContextRecorded(turn_id="", items=found.items, rolled_back=found.turns)
        await running.commit(body, agent=member.path, file=file)
    else:
        items = tuple(msgspec.Raw(encode_item(item)) for item in found.items)
        try:
            await running.send(member, RollBackTurns(turns=found.turns, items=items))
        except PeerGone:
            return Refused(message=f"{member.path} is just ending; try again")
        except MessageTooLarge as error:
            why = f"what would stay of {member.path}'s history is too large to be sent: {error}"
            return Refused(message=f"{why}; take back more turns, or compact it first")
    return Done(message=describe_rollback(member.path, found))


def describe_rollback(path: str, found: RolledBackHistory) -> str:
    """What was done, in words."""
    count = f"the last {found.turns} turns" if found.turns != 1 else "the last turn"
    return f"{path} forgets {count}; {len(found.items)} items of its history stay"
