"""Sends an agent's process the list of skills when it has changed since the process began."""

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.ops import ListSkills

from ..agents.agent_record import Agent
from .run_context import RunContext

_SEND_TIMEOUT_S = 5.0  # a slow agent gets it with the next change or process


def skills_for(running: RunContext, agent: Agent) -> tuple[str, ...]:
    """The lines that a new process of this agent starts with."""
    agent.process.know_skills(running.skills.version)
    return running.skills.lines_for(agent.plan)


async def send_skills(running: RunContext, agent: Agent) -> None:
    """Send the newest list, unless this process has it. Receiving it twice changes nothing."""
    process = agent.process
    while process.skills_sent < (version := running.skills.version) and not agent.plan.slotless:
        with trio.move_on_after(_SEND_TIMEOUT_S) as limit:
            try:
                await running.send(agent, ListSkills(lines=running.skills.lines_for(agent.plan)))
            except PeerGone:
                return  # the agent's next process starts with it
        if limit.cancelled_caught or agent.process is not process:
            return
        process.know_skills(version)
