"""A person's wish to take an agent's last turns back: its history is as it was before them.

Rule guarded: only at rest, and by whoever holds the history: the agent's process, or the journal
where there is none. Files are not touched; `swarm undo` is for them.
"""

import msgspec
import trio

from swarm.mailbox.errors import MessageTooLarge, PeerGone
from swarm.mailbox.protocol.control import AnyControlReply, Done, Refused, RollBack
from swarm.mailbox.protocol.items import encode_item
from swarm.mailbox.protocol.ops import TakeBack
from swarm.mailbox.protocol.records import ContextRecorded

from .agency.member import Member
from .journal.reading import read_records
from .journal.rewind import Rewound, fold_turns, rewind
from .running import Running


async def roll_back(running: Running, member: Member, wish: RollBack) -> AnyControlReply:
    """Do it, or say why not."""
    if wish.turns < 1:
        return Refused(message="at least one turn must be taken back", exit_code=2)
    await running.journal.settle()
    file = member.plan.agent_id

    def look() -> Rewound:
        return rewind(fold_turns(read_records(running.places, file=file)), wish.turns)

    found = await trio.to_thread.run_sync(look)
    if not found.turns:
        return Refused(message=f"{member.path} has had no turn that could be taken back")
    if member.is_active or member.beginning:
        return Refused(
            message=f"{member.path} is at work; `swarm interrupt` it first, or wait for its end"
        )
    life = member.life
    if life is None or life.gone.is_set():
        body = ContextRecorded(turn_id="", items=found.items, rolled_back=found.turns)
        await running.commit(body, agent=member.path, file=file)
    else:
        items = tuple(msgspec.Raw(encode_item(item)) for item in found.items)
        try:
            await running.send(life, TakeBack(turns=found.turns, items=items))
        except PeerGone:
            return Refused(message=f"{member.path} is just ending; try again")
        except MessageTooLarge as error:
            why = f"what would stay of {member.path}'s history is too large to be sent: {error}"
            return Refused(message=f"{why}; take back more turns, or compact it first")
    return Done(message=words_of(member.path, found))


def words_of(path: str, found: Rewound) -> str:
    """What was done."""
    count = f"the last {found.turns} turns" if found.turns != 1 else "the last turn"
    return f"{path} forgets {count}; {len(found.items)} items of its history stay"
