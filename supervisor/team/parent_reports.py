"""A child's end told to its parent, also when the run was killed between the end and its letter.

Rule guarded: a parent is told of every end of its child's, also when the word of it was lost with
the supervisor. An end and its letter are written in one step, so only the last of a journal count.
"""

import msgspec

from swarm.mailbox.protocol.records import AgentEnded, MailPosted

from ..agents.team_agent import TeamAgent
from ..journal.journal_reader import read_records
from ..journal.replay import AgentPast, RunPast
from ..run_context import RunContext
from ..runs.paths import RunPaths
from .mail_delivery import MailDelivery, make_report
from .team_members import TeamMembers

_LAST_RECORDS = 256  # records: what one step writes, with room


def report_to_parent(
    running: RunContext, team: TeamMembers, post: MailDelivery, end: tuple[TeamAgent, AgentEnded]
) -> None:
    """Journal the letter that says how a member's work ended, and have it carried."""
    report = make_report(*end, running.entropy)
    parent = team.members.get(end[0].plan.parent or "")
    if end[1].cut_off:
        return  # it goes on with a resume
    if report is not None and not running.request.wake_parents:
        report = msgspec.structs.replace(report, trigger_turn=False)
    if report is not None and parent is not None and not parent.closed:
        post.send(parent, report)


def unreported_ends(places: RunPaths, past: RunPast) -> list[str]:
    """Paths of agents that ended just before the cut, and of which no letter told their parent."""
    return [
        path
        for path, agent in past.agents.items()
        if agent.ended is not None
        and not agent.is_unfinished
        and agent.ended_seq + _LAST_RECORDS >= past.last_seq
        and not _was_reported(places, past, agent)
    ]


def _was_reported(places: RunPaths, past: RunPast, agent: AgentPast) -> bool:
    parent = past.agents.get(agent.spawned.parent or "")
    if parent is None:
        return True  # nobody is there to be told
    return any(
        isinstance(record.body, MailPosted)
        and record.seq > agent.ended_seq
        and record.body.mail.kind == "final_answer"
        and record.body.mail.author == agent.spawned.path
        for record in read_records(places, file=parent.spawned.agent_id)
    )
