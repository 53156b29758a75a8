"""Agents of a directory whose phases are changed by events, without processes."""

from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.records import AgentEnded
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.agent_phases import AgentEvent, Phase
from swarm.supervisor.agents.agent_record import Agent, AgentPlan
from swarm.supervisor.agents.process_record import AgentProcess


def plan_of(path: str, *, agent_id: str = "", **more) -> AgentPlan:
    parent = path.rpartition("/")[0] or None
    return AgentPlan(
        path=path, agent_id=agent_id or f"id {path}", role=RoleBrief(), limits=Limits(), cwd="/",
        parent=parent, depth=path.count("/") - 1, nickname=f"nick {path}", **more,
    )  # fmt: skip


def add_working(agents: AgentDirectory, path: str, **more) -> Agent:
    """An agent at work, with its first process."""
    agent = agents.add(Agent(plan_of(path, **more), phase=Phase.RUNNING))
    agent.process, agent.has_started = AgentProcess(1), True
    return agent


def end_work(agents: AgentDirectory, agent: Agent, state="completed", message="done") -> None:
    """Its work and its process end; its parent was told nothing yet."""
    agent.end_work(AgentEnded(agent_id=agent.plan.agent_id, state=state, message=message))
    agent.last_turn_end = TurnCompleted(turn_id="t", last_message=message)
    agent.end_count += 1
    agents.apply(agent, AgentEvent.WORK_ENDED)
    agents.apply(agent, AgentEvent.PROCESS_GONE)
