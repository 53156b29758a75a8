"""Who had finished, and was at work or spoken to again before the cut: a resume wakes them.

Rule guarded: the run's own records tell only of an end. What came after it, a further turn of the
same process or words to one that had gone, stands in the agent's own file, behind that end.
"""

from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import TurnStarted

from ..journal.reading import read_records, records_behind
from ..journal.replay import AgentPast, fold_agent
from ..places import RunPlaces


def is_reopened(places: RunPlaces, agent: AgentPast) -> bool:
    """True if a turn began after its end (whose own end was not told), or if words or a letter
    that would wake it were not read.

    Only the end of its file is read, unless there is something behind.
    """
    file = agent.spawned.agent_id
    if agent.ended is None:
        return False
    behind = records_behind(places, file, agent.ended_seq)
    if any(isinstance(one.body, TurnStarted) for one in behind):
        return True
    if all(isinstance(one.body, TurnDiff) for one in behind):
        return False  # what its last turn changed is told when its work has ended
    memory = fold_agent(read_records(places, file=file))
    return bool(memory.inputs) or any(mail.trigger_turn for mail in memory.mails.values())
