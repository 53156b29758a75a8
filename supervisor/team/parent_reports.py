"""Reports a child's end to its parent by mail, also if the run was killed between end and report.

A parent is told of every end of a child, also if the report was lost with the supervisor. An end
and its report are journaled in one step, so a resume checks only the last records of the journal.
"""

import msgspec

from swarm.mailbox.protocol.records import AgentEnded, MailPosted

from ..agents.agent_record import Agent
from ..journal.journal_reader import read_records
from ..journal.replay import AgentPast, RunPast
from ..run_context import RunContext
from ..runs.paths import RunPaths
from .mail_delivery import MailDelivery, make_report

_LAST_RECORDS = 256  # more than one step writes


def report_to_parent(
    running: RunContext, post: MailDelivery, agent: Agent, outcome: AgentEnded
) -> None:
    """Journal and deliver the mail that reports how an agent's work ended."""
    report = make_report(agent, outcome, running.entropy)
    parent = running.agents.members.get(agent.plan.parent or "")
    if outcome.cut_off:
        return  # a resume continues it
    if report is not None and not running.request.wake_parents:
        report = msgspec.structs.replace(report, trigger_turn=False)
    if report is not None and parent is not None and not parent.closed:
        post.send(parent, report)


def unreported_ends(places: RunPaths, past: RunPast) -> list[str]:
    """Paths of agents that ended just before the cut and whose parent got no report."""
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
        return True  # there is no parent to tell
    return any(
        isinstance(record.body, MailPosted)
        and record.seq > agent.ended_seq
        and record.body.mail.kind == "final_answer"
        and record.body.mail.author == agent.spawned.path
        for record in read_records(places, file=parent.spawned.agent_id)
    )
