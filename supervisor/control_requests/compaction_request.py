"""A person's request to compact an agent's history, or to undo its last compaction.

The agent does it itself, between two model requests. What it needs for an undo comes from the
journal, which is flushed first.
"""

import trio

from swarm.mailbox.errors import MessageTooLarge, PeerGone
from swarm.mailbox.protocol.control import AnyControlReply, CompactAgent, Done, Refused
from swarm.mailbox.protocol.ops import AnyOp, Compact, UndoCompaction

from ..agents.agent_record import Agent
from ..journal.compactions import find_compaction_undo
from ..journal.journal_reader import read_records
from ..run_context import RunContext


async def compact_agent(running: RunContext, member: Agent, wish: CompactAgent) -> AnyControlReply:
    """Send the request to the agent's present process."""
    if not member.phase.has_process:
        words = "has no process now; its history is compacted by itself when it must be"
        return Refused(message=f"{member.path} {words}")
    op: AnyOp = Compact()
    done = f"{member.path} compacts its history before its next request"
    if wish.undo:
        found = await _find_undo(running, member.plan.agent_id)
        if found is None:
            return Refused(message=f"{member.path} has no compaction that could be taken back")
        op = found
        done = f"{member.path} takes compaction {found.compaction_id} back before its next request"
    try:
        await running.send(member, op)
    except PeerGone:
        return Refused(message=f"{member.path} has ended")
    except MessageTooLarge as error:
        return Refused(message=f"what {member.path} had forgotten is too large to be sent: {error}")
    return Done(message=done)


async def _find_undo(running: RunContext, file: str) -> UndoCompaction | None:
    await running.journal.flush()
    return await trio.to_thread.run_sync(
        lambda: find_compaction_undo(read_records(running.paths, file=file))
    )
