"""A person's requests about an agent's history: compact it, undo that, roll turns back.

The holder of the history does it: the agent's process, or the journal if there is none (a rollback,
only at rest). What the agent had before comes from the journal, which is flushed first. Files are
not touched; `swarm undo` restores files.
"""

import msgspec
import trio

from swarm.mailbox.base.errors import MessageTooLarge, PeerGone
from swarm.mailbox.protocol.control import AnyControlReply, CompactAgent, Done, Refused, RollBack
from swarm.mailbox.protocol.items import encode_item
from swarm.mailbox.protocol.ops import AnyOp, Compact, RollBackTurns, UndoCompaction
from swarm.mailbox.protocol.records import ContextRecorded

from ..agents.agent_record import Agent
from ..context.run_context import RunContext
from ..journal.journal_reader import read_records
from ..journal.replay import find_compaction_undo
from ..journal.turns import RolledBackHistory, drop_last_turns, fold_turns


async def compact_agent(
    running: RunContext, agent: Agent, request: CompactAgent
) -> AnyControlReply:
    """Send the request to the agent's present process."""
    if not agent.is_live:
        why = "has no process now; its history is compacted by itself when it must be"
        return Refused(message=f"{agent.path} {why}")
    op: AnyOp = Compact()
    done = f"{agent.path} compacts its history before its next request"
    if request.undo:
        found = await _find_undo(running, agent.plan.agent_id)
        if found is None:
            return Refused(message=f"{agent.path} has no compaction that could be taken back")
        op = found
        done = f"{agent.path} takes compaction {found.compaction_id} back before its next request"
    try:
        await running.send(agent, op)
    except PeerGone:
        return Refused(message=f"{agent.path} has ended")
    except MessageTooLarge as error:
        return Refused(message=f"what {agent.path} had forgotten is too large to be sent: {error}")
    return Done(message=done)


async def _find_undo(running: RunContext, file: str) -> UndoCompaction | None:
    await running.journal.flush()
    return await trio.to_thread.run_sync(
        lambda: find_compaction_undo(read_records(running.paths, file=file))
    )


async def roll_back(running: RunContext, agent: Agent, request: RollBack) -> AnyControlReply:
    """Roll back, or say why not."""
    if request.turns < 1:
        return Refused(message="at least one turn must be taken back", exit_code=2)
    await running.journal.flush()
    file = agent.plan.agent_id

    def look() -> RolledBackHistory:
        return drop_last_turns(fold_turns(read_records(running.paths, file=file)), request.turns)

    found = await trio.to_thread.run_sync(look)
    if not found.turns:
        return Refused(message=f"{agent.path} has had no turn that could be taken back")
    if agent.is_active or agent.is_starting:
        return Refused(
            message=f"{agent.path} is at work; `swarm interrupt` it first, or wait for its end"
        )
    if not agent.is_live:
        body = ContextRecorded(turn_id="", items=found.items, rolled_back=found.turns)
        await running.commit(body, agent=agent.path, file=file)
    else:
        items = tuple(msgspec.Raw(encode_item(item)) for item in found.items)
        try:
            await running.send(agent, RollBackTurns(turns=found.turns, items=items))
        except PeerGone:
            return Refused(message=f"{agent.path} is just ending; try again")
        except MessageTooLarge as error:
            why = f"what would stay of {agent.path}'s history is too large to be sent: {error}"
            return Refused(message=f"{why}; take back more turns, or compact it first")
    return Done(message=describe_rollback(agent.path, found))


def describe_rollback(path: str, found: RolledBackHistory) -> str:
    """What was done, in words."""
    count = f"the last {found.turns} turns" if found.turns != 1 else "the last turn"
    return f"{path} forgets {count}; {len(found.items)} items of its history stay"
