"""Who had finished, and was spoken to before the cut: a resume wakes them.

Rule guarded: what is said to an agent without a process stands in its own file, behind the end of
its work; nothing else tells of it.
"""

from ..journal.reading import last_seq_of, read_records
from ..journal.replay import AgentPast, fold_agent
from ..places import RunPlaces


def has_unheard(places: RunPlaces, agent: AgentPast) -> bool:
    """True if words or a letter that would have woken it came after its end, and were not read.

    Only the end of its file is read, unless there is something behind.
    """
    file = agent.spawned.agent_id
    if agent.ended is None or last_seq_of(places, file) <= agent.ended_seq:
        return False
    memory = fold_agent(read_records(places, file=file))
    return bool(memory.inputs) or any(mail.trigger_turn for mail in memory.mails.values())
