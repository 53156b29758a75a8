"""Who had finished, and was at work or spoken to again before the cut: a resume wakes them.

Rule guarded: the run's own records tell only of an end. What came after it, a further turn of the
same process or words to one that had gone, stands in the agent's own file, behind that end.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.records import Record

from ..journal.reading import last_seq_of, read_records
from ..journal.replay import AgentPast, fold_agent
from ..places import RunPlaces


def is_reopened(places: RunPlaces, agent: AgentPast) -> bool:
    """True if a turn began after its end (whose own end was not told), or if words or a letter
    that would wake it were not read.

    Only the end of its file is read, unless there is something behind.
    """
    file = agent.spawned.agent_id
    if agent.ended is None or last_seq_of(places, file) <= agent.ended_seq:
        return False
    records = list(read_records(places, file=file))
    memory = fold_agent(records)
    has_unread = bool(memory.inputs) or any(mail.trigger_turn for mail in memory.mails.values())
    return has_unread or _has_turned(records, agent.ended_seq)


def _has_turned(records: Iterable[Record], ended_seq: int) -> bool:
    return any(one.seq > ended_seq and isinstance(one.body, TurnStarted) for one in records)
